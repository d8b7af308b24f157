/* merges.txt, beside a vocab.json of all bytes, <|endoftext|> and a few tokens that merges can
 * make. */
#include "base/string.h"
#include "data/byte_alphabet.h"
#include "data/tokenizer.h"
#include "fuzzing.h"

#include <string.h>

static const char *put_vocabulary(char path[FUZZ_PATH_BYTES]) {
    haul_string json = {0};
    for (int byte = 0; byte < 256; byte++) {
        const uint8_t content = (uint8_t)byte;
        haul_string_append_format(&json, "%s\"%s", byte > 0 ? "," : "{",
                                  byte == '"' || byte == '\\' ? "\\" : "");
        haul_byte_alphabet_spell(&json, &content, 1);
        haul_string_append_format(&json, "\":%d", byte);
    }
    haul_string_append_text(&json, ",\"<|endoftext|>\":256,\"ab\":257,\"abc\":258,\"bc\":259}");
    fuzz_require_ok(haul_string_status(&json));
    fuzz_put("vocab.json", json.data, (size_t)json.length, path);
    haul_string_deinit(&json);
    return path;
}

static void check_tokenizer(const haul_tokenizer *tokenizer, const char *text, int64_t bytes) {
    haul_token_list list = {0};
    haul_string decoded = {0};
    fuzz_require_ok(haul_tokenizer_encode(tokenizer, text, bytes, &list));
    for (int64_t i = 0; i < list.count; i++) {
        fuzz_require_ok(haul_tokenizer_decode(tokenizer, list.ids[i], &decoded));
    }
    fuzz_require(decoded.length == bytes &&
                     (bytes == 0 || memcmp(decoded.data, text, (size_t)bytes) == 0),
                 "decode(encode(text)) is text");
    haul_string_deinit(&decoded);
    haul_token_list_deinit(&list);
}

/* The tokenizer.json of an accepted pair is the same tokenizer. */
static void check_json(const haul_tokenizer *pair, const char *vocab, const char *merges) {
    char path[FUZZ_PATH_BYTES];
    haul_string json = {0};
    haul_tokenizer *one;
    fuzz_require_ok(haul_tokenizer_gpt2_json(vocab, merges, &json));
    fuzz_put("tokenizer.json", json.data, (size_t)json.length, path);
    fuzz_require_ok(haul_tokenizer_open("HuggingFaceTokenizer", path, 0, &one));
    fuzz_require(haul_tokenizer_fingerprint(one) == haul_tokenizer_fingerprint(pair),
                 "both say the same");
    haul_tokenizer_close(one);
    haul_string_deinit(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "abc ab<|endoftext|>bcabcab";
    char vocab[FUZZ_PATH_BYTES], merges[FUZZ_PATH_BYTES];
    haul_tokenizer *tokenizer;
    put_vocabulary(vocab);
    fuzz_put("merges.txt", data, size, merges);
    if (fuzz_accepted(haul_tokenizer_open_gpt2(vocab, merges, &tokenizer))) {
        check_tokenizer(tokenizer, text, sizeof text - 1);
        check_tokenizer(tokenizer, (const char *)data, (int64_t)size);
        check_json(tokenizer, vocab, merges);
        haul_tokenizer_close(tokenizer);
    }
    return 0;
}
