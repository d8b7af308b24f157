/* GPT-2's pair of files, vocab.json and merges.txt, is told as the tokenizer.json of the same
 * tokenizer, so that all that comes after knows one form alone. */
#include "data/tokenizer_gpt2.h"

#include "base/file.h"
#include "data/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

const char *const haul_tokenizer_end_of_text = "<|endoftext|>";

void haul_tokenizer_append_head(haul_string *out, int64_t end_of_text) {
    static const char level[] = "\"trim_offsets\":true,\"use_regex\":true}";
    haul_string_append_format(
        out,
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[{\"id\":%lld,"
        "\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
        "\"normalized\":false,\"special\":true}],\"normalizer\":null,"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,%s,"
        "\"post_processor\":null,"
        "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,%s,"
        "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
        "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
        "\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":",
        (long long)end_of_text, haul_tokenizer_end_of_text, level, level);
}

static haul_status check_vocabulary(const char *path, const json_t *vocab) {
    if (json_is_object(json_object_get(vocab, "model"))) {
        haul_fail(HAUL_ERROR_DATA, "%s is a tokenizer.json, must be a vocab.json", path);
        haul_hint("give it as --tokenizer-model, with --tokenizer-type HuggingFaceTokenizer");
        return HAUL_ERROR_DATA;
    }
    if (!json_is_integer(json_object_get(vocab, haul_tokenizer_end_of_text))) {
        return haul_fail(HAUL_ERROR_DATA,
                         "%s has no token %s, must have one with its id to end documents", path,
                         haul_tokenizer_end_of_text);
    }
    return HAUL_OK;
}

static haul_status read_vocabulary(const char *path, json_t **out) {
    haul_file_map file;
    json_error_t error;
    HAUL_TRY(haul_file_map_open(path, &file));
    json_t *vocab = json_loadb(file.data != NULL ? file.data : "", (size_t)file.bytes,
                               JSON_REJECT_DUPLICATES, &error);
    haul_file_map_close(&file);
    if (vocab == NULL) {
        return haul_fail(HAUL_ERROR_DATA, "%s:%d: %s", path, error.line, error.text);
    }
    haul_status status = check_vocabulary(path, vocab);
    if (status != HAUL_OK) {
        json_decref(vocab);
        return status;
    }
    *out = vocab;
    return HAUL_OK;
}

/* Two texts with one blank between them. */
static bool is_pair(const char *line, size_t length) {
    const char *blank = memchr(line, ' ', length), *end = line + length;
    return blank != NULL && blank > line && blank + 1 < end &&
           memchr(blank + 1, ' ', (size_t)(end - blank - 1)) == NULL;
}

/* A merge a line. The first line may begin with #version: no merge does, since the pattern keeps
 * punctuation and letters apart. */
static haul_status append_line(const char *path, int64_t number, const char *line, size_t length,
                               json_t *merges) {
    static const char version[] = "#version";
    if (length > 0 && line[length - 1] == '\r') {
        length--;
    }
    if (length == 0 ||
        (length >= sizeof version - 1 && memcmp(line, version, sizeof version - 1) == 0)) {
        return HAUL_OK;
    }
    if (!is_pair(line, length) || json_array_append_new(merges, json_stringn(line, length)) != 0) {
        return haul_fail(HAUL_ERROR_DATA, "%s:%lld: \"%.*s\" is no pair of tokens", path,
                         (long long)number, (int)(length < 40 ? length : 40), line);
    }
    return HAUL_OK;
}

static haul_status append_lines(const char *path, const char *text, int64_t bytes, json_t *merges) {
    const char *line = text, *end = text + bytes;
    for (int64_t number = 1; line < end; number++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline != NULL ? newline : end;
        HAUL_TRY(append_line(path, number, line, (size_t)(line_end - line), merges));
        line = line_end + 1;
    }
    return json_array_size(merges) > 0
               ? HAUL_OK
               : haul_fail(HAUL_ERROR_DATA, "%s holds no merges of tokens", path);
}

static haul_status read_merges(const char *path, json_t **out) {
    haul_file_map file;
    json_t *merges = json_array();
    if (merges == NULL) {
        return haul_fail(HAUL_ERROR_MEMORY, "out of memory: the merges of %s", path);
    }
    haul_status status = haul_file_map_open(path, &file);
    if (status == HAUL_OK) {
        status = append_lines(path, file.data != NULL ? file.data : "", file.bytes, merges);
        haul_file_map_close(&file);
    }
    if (status != HAUL_OK) {
        json_decref(merges);
        return status;
    }
    *out = merges;
    return HAUL_OK;
}

static haul_status append_dump(haul_string *out, const json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT);
    if (text == NULL) {
        return haul_fail(HAUL_ERROR_MEMORY, "out of memory: a tokenizer.json");
    }
    haul_string_append_text(out, text);
    free(text);
    return HAUL_OK;
}

static haul_status append_json(const json_t *vocab, const json_t *merges, haul_string *out) {
    haul_tokenizer_append_head(
        out, json_integer_value(json_object_get(vocab, haul_tokenizer_end_of_text)));
    HAUL_TRY(append_dump(out, vocab));
    haul_string_append_text(out, ",\"merges\":");
    HAUL_TRY(append_dump(out, merges));
    haul_string_append_text(out, "}}");
    return haul_string_status(out);
}

haul_status haul_tokenizer_gpt2_json(const char *vocab_file, const char *merge_file,
                                     haul_string *out) {
    json_t *vocab = NULL, *merges = NULL;
    haul_status status = read_vocabulary(vocab_file, &vocab);
    if (status == HAUL_OK) {
        status = read_merges(merge_file, &merges);
    }
    if (status == HAUL_OK) {
        status = append_json(vocab, merges, out);
    }
    json_decref(vocab);
    json_decref(merges);
    return status;
}

haul_status haul_tokenizer_open_gpt2(const char *vocab_file, const char *merge_file,
                                     haul_tokenizer **out) {
    if (vocab_file == NULL || merge_file == NULL) {
        haul_fail(HAUL_ERROR_USAGE, "GPT2BPETokenizer needs a vocab.json and a merges.txt");
        haul_hint("give them with --vocab-file and --merge-file");
        return HAUL_ERROR_USAGE;
    }
    haul_tokenizer_loader load = {.class = &haul_tokenizer_gpt2_class, .merges_path = merge_file};
    haul_string json = {0};
    haul_text_copy(load.path, sizeof load.path, vocab_file);
    haul_status status = haul_tokenizer_gpt2_json(vocab_file, merge_file, &json);
    if (status == HAUL_OK) {
        status = haul_tokenizer_load(&load, json.data, json.length, out);
    }
    haul_string_deinit(&json);
    if (status == HAUL_ERROR_DATA && haul_error_hint()[0] == '\0') {
        haul_hint("give the vocab.json and the merges.txt of one tokenizer of GPT-2's kind");
    }
    return status;
}
