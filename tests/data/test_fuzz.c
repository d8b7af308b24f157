/* ctest: fuzz */
/* Each parser of the module on a good file, and on thousands of damaged copies of it: whatever
 * comes, it must succeed or fail with a message. The sanitizers of the build see the rest. */
#include "data_testing.h"

#include "base/memory.h"
#include "base/philox.h"
#include "data/text_reader.h"
#include "data/tokenizer.h"

#include <stdlib.h>

enum { ROUNDS = 3000, STREAM_BYTES = 4096 };

/* As LLVMFuzzerTestOneInput: any bytes, no result but the absence of a crash. */
typedef void fuzz_target(const uint8_t *data, size_t size);

static void write_plain(const char *path, const uint8_t *data, size_t size) {
    remove(path); /* some file systems sync a file that is written over */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* A failure has a message of one line. */
static void check_failure(haul_status status) {
    const char *message = haul_error_message();
    assert_int_not_equal(status, HAUL_ERROR_INTERNAL);
    assert_true(message[0] != '\0');
    assert_null(strchr(message, '\n'));
    haul_fail(HAUL_OK, "%s", "");
}

static void fuzz_index(const uint8_t *data, size_t size) {
    haul_indexed *indexed;
    write_plain(scratch(0, "fuzz.idx"), data, size);
    haul_status status = haul_indexed_open(scratch(1, "fuzz"), &indexed);
    if (status != HAUL_OK) {
        check_failure(status);
        return;
    }
    for (int64_t d = 0; d < haul_indexed_documents(indexed); d++) {
        int64_t begin, end;
        haul_indexed_document(indexed, d, &begin, &end);
        for (int64_t s = begin; s < end; s++) {
            int32_t tokens[64];
            int64_t count = haul_min(haul_indexed_length(indexed, s), 64);
            status = haul_indexed_get(indexed, s, haul_indexed_length(indexed, s) - count, count,
                                      tokens);
            if (status != HAUL_OK) {
                check_failure(status);
            }
        }
    }
    haul_indexed_close(indexed);
}

static void fuzz_tokenizer(const uint8_t *data, size_t size) {
    static const char text[] = "It's <|endoftext|> a  test\n\xf0\x9f\x99\x82 \xff 123";
    haul_tokenizer *tokenizer;
    write_plain(scratch(0, "fuzz.json"), data, size);
    haul_status status =
        haul_tokenizer_open("HuggingFaceTokenizer", scratch(0, "fuzz.json"), 0, &tokenizer);
    if (status != HAUL_OK) {
        check_failure(status);
        return;
    }
    haul_token_list list = {0};
    haul_string decoded = {0};
    status = haul_tokenizer_encode(tokenizer, text, sizeof text - 1, &list);
    for (int64_t i = 0; status == HAUL_OK && i < list.count; i++) {
        status = haul_tokenizer_decode(tokenizer, list.ids[i], &decoded);
    }
    if (status != HAUL_OK) {
        check_failure(status);
    }
    haul_string_deinit(&decoded);
    haul_token_list_deinit(&list);
    haul_tokenizer_close(tokenizer);
}

static haul_status count_text(void *context, int64_t key, const char *text, int64_t bytes,
                              bool ends) {
    int64_t *sum = context;
    for (int64_t i = 0; i < bytes; i++) {
        *sum += text[i];
    }
    *sum += key + ends;
    return HAUL_OK;
}

static void fuzz_lines(const uint8_t *data, size_t size) {
    const char *path = scratch(0, "fuzz.jsonl");
    const char *const keys[] = {"text"};
    int64_t sum = 0;
    haul_text_input input = {
        .files = &path, .file_count = 1, .json_keys = keys, .json_key_count = 1};
    write_plain(path, data, size);
    haul_status status = haul_text_each(&input, count_text, &sum);
    if (status != HAUL_OK) {
        check_failure(status);
    }
}

static uint32_t draw(uint32_t seed, uint32_t *counter) {
    return haul_philox_4x32((const uint32_t[]){seed, 7}, (const uint32_t[]){(*counter)++, 0, 0, 0})
        .word[0];
}

/* One damage: a byte, a 64-bit number, a cut, a repeat, or a new end. */
static void damage(haul_string *bytes, uint32_t seed, uint32_t *counter) {
    static const int64_t numbers[] = {0, -1, 1, INT64_MAX, INT64_MIN, INT32_MAX, 1 << 20};
    int64_t length = bytes->length;
    if (length < 16) {
        return;
    }
    int64_t at = draw(seed, counter) % (length - 8);
    int64_t part = 1 + draw(seed, counter) % haul_min(length - at, 40);
    switch (draw(seed, counter) % 6) {
    case 0:
        bytes->data[at] = (char)draw(seed, counter);
        break;
    case 1:
        bytes->data[at] = "\"{}[],:\\0-e \n\xff"[draw(seed, counter) % 14];
        break;
    case 2:
        memcpy(bytes->data + at, &numbers[draw(seed, counter) % 7], 8);
        break;
    case 3:
        memmove(bytes->data + at, bytes->data + at + part, (size_t)(length - at - part));
        bytes->length -= part;
        break;
    case 4:
        memmove(bytes->data + at, bytes->data + (at + part) / 2, (size_t)part);
        break;
    default:
        bytes->length = at;
    }
}

static void run_target(fuzz_target *target, const char *seed_bytes, int64_t length, uint32_t seed) {
    target((const uint8_t *)seed_bytes, (size_t)length);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t counter = round * 64;
        haul_string bytes = {0};
        haul_string_append(&bytes, seed_bytes, length);
        for (uint32_t times = 1 + round % 4; times > 0; times--) {
            damage(&bytes, seed, &counter);
        }
        target((const uint8_t *)bytes.data, (size_t)bytes.length);
        haul_string_deinit(&bytes);
    }
}

static void damaged_indexes(void **state) {
    (void)state;
    haul_string seed = {0};
    write_small_dataset(scratch(1, "fuzz"));
    assert_ok(haul_file_read(scratch(0, "fuzz.idx"), &seed));
    run_target(fuzz_index, seed.data, seed.length, 1);
    haul_string_deinit(&seed);
}

static void damaged_tokenizers(void **state) {
    (void)state;
    static const char *const names[] = {"tokenizer_gpt2.json", "tokenizer_split.json"};
    for (uint32_t i = 0; i < 2; i++) {
        char path[512];
        haul_string seed = {0};
        snprintf(path, sizeof path, "%s/data/%s", HAUL_TEST_DIR, names[i]);
        assert_ok(haul_file_read(path, &seed));
        run_target(fuzz_tokenizer, seed.data, seed.length, 2 + i);
        haul_string_deinit(&seed);
    }
}

static void damaged_lines(void **state) {
    (void)state;
    static const char seed[] =
        "{\"text\": \"one \\u00e9 \\ud83d\\ude42 \\n\", \"meta\": {\"n\": [1, 2.5e-3, null]}}\n"
        "\n{\"text\": \"\", \"id\": 12345678901234567890}\r\n"
        "{\"text\": \"three\"}\n{\"id\": 1, \"text\": \"\xf0\x9f\x99\x82\"}";
    run_target(fuzz_lines, seed, sizeof seed - 1, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_indexes),
        cmocka_unit_test(damaged_tokenizers),
        cmocka_unit_test(damaged_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
