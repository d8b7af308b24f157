/* tokenizer.json. A vocabulary needs a token for each of the 256 bytes, which would be most of an
 * input and what most edits hit; so "*":0 in an input stands for all of them, ids 0 to 255. */
#include "base/string.h"
#include "data/byte_alphabet.h"
#include "data/tokenizer.h"
#include "fuzzing.h"

#include <string.h>

static void append_byte_tokens(haul_string *out) {
    for (int byte = 0; byte < 256; byte++) {
        const uint8_t content = (uint8_t)byte;
        const char *escape = byte == '"' || byte == '\\' ? "\\" : "";
        haul_string_append_format(out, "%s\"%s", byte > 0 ? "," : "", escape);
        haul_byte_alphabet_spell(out, &content, 1);
        haul_string_append_format(out, "\":%d", byte);
    }
}

static void expand(const uint8_t *data, size_t size, haul_string *out) {
    static const char mark[] = "\"*\":0";
    const uint8_t *at = memmem(data, size, mark, sizeof mark - 1);
    size_t before = at != NULL ? (size_t)(at - data) : size;
    haul_string_append(out, data, (int64_t)before);
    if (at != NULL) {
        append_byte_tokens(out);
        haul_string_append(out, at + sizeof mark - 1, (int64_t)(size - before - sizeof mark + 1));
    }
    fuzz_require_ok(haul_string_status(out));
}

/* Encodes and decodes; false when the tokenizer's own pattern gives up on the text. */
static bool there_and_back(const haul_tokenizer *tokenizer, const char *text, int64_t bytes,
                           haul_string *out) {
    haul_token_list list = {0};
    bool encoded = fuzz_accepted(haul_tokenizer_encode(tokenizer, text, bytes, &list));
    for (int64_t i = 0; encoded && i < list.count; i++) {
        fuzz_require(list.ids[i] >= 0 && list.ids[i] < haul_tokenizer_vocab_size(tokenizer),
                     "an id is below the size of the vocabulary");
        fuzz_require_ok(haul_tokenizer_decode(tokenizer, list.ids[i], out));
    }
    haul_token_list_deinit(&list);
    return encoded;
}

/* Whether `whole` is `around` (what a template puts before and behind a text) with text in it. */
static bool holds(const haul_string *whole, const haul_string *around, const char *text,
                  int64_t bytes) {
    if (whole->length != around->length + bytes) {
        return false;
    }
    for (int64_t at = 0; at <= around->length; at++) {
        if (memcmp(whole->data, around->data, (size_t)at) == 0 &&
            memcmp(whole->data + at, text, (size_t)bytes) == 0 &&
            memcmp(whole->data + at + bytes, around->data + at, (size_t)(around->length - at)) ==
                0) {
            return true;
        }
    }
    return false;
}

static void check_text(const haul_tokenizer *tokenizer, const char *text, int64_t bytes) {
    haul_string around = {0}, whole = {0};
    haul_string_append(&around, "", 0); /* so that its data is no NULL */
    if (there_and_back(tokenizer, "", 0, &around) &&
        there_and_back(tokenizer, text, bytes, &whole)) {
        fuzz_require(holds(&whole, &around, text, bytes), "decode(encode(text)) is text");
    }
    haul_string_deinit(&around);
    haul_string_deinit(&whole);
}

static void check_tokenizer(const haul_tokenizer *tokenizer, const uint8_t *data, size_t size) {
    static const char text[] =
        "It's <|endoftext|> a  test\n\xf0\x9f\x99\x82 \xff\x00\xe9\xe9 123abcab";
    haul_string decoded = {0};
    check_text(tokenizer, text, sizeof text - 1);
    check_text(tokenizer, (const char *)data, (int64_t)(size < 512 ? size : 512));
    fuzz_require(haul_tokenizer_eod(tokenizer) < haul_tokenizer_vocab_size(tokenizer),
                 "the end of a document is a token");
    fuzz_require(haul_tokenizer_decode(tokenizer, (int32_t)haul_tokenizer_vocab_size(tokenizer),
                                       &decoded) == HAUL_ERROR_DATA,
                 "ids end where the vocabulary does");
    haul_string_deinit(&decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[FUZZ_PATH_BYTES];
    haul_string json = {0};
    haul_tokenizer *tokenizer;
    expand(data, size, &json);
    fuzz_put("tokenizer.json", json.data, (size_t)json.length, path);
    haul_string_deinit(&json);
    if (fuzz_accepted(haul_tokenizer_open("HuggingFaceTokenizer", path, 0, &tokenizer))) {
        check_tokenizer(tokenizer, data, size);
        haul_tokenizer_close(tokenizer);
    }
    return 0;
}
