/* Helpers of the data tests: golden files, scratch paths, small data sets. */
#ifndef HAUL_TESTS_DATA_TESTING_H
#define HAUL_TESTS_DATA_TESTING_H

#include "testing.h"

#include "base/file.h"
#include "data/indexed.h"
#include "data/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

static inline json_t *load_golden(const char *name) {
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, "%s/data/%s", HAUL_TEST_DIR, name);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (root == NULL) {
        print_error("%s: %s\n", path, error.text);
    }
    assert_non_null(root);
    return root;
}

static inline json_t *golden_get(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    assert_non_null(value);
    return value;
}

static inline int64_t golden_integer(json_t *object, const char *key) {
    return json_integer_value(golden_get(object, key));
}

static inline int64_t golden_item(json_t *array, size_t index) {
    return json_integer_value(json_array_get(array, index));
}

static inline int64_t checksum(const void *data, int64_t bytes) {
    return (int64_t)crc32(0, data, (unsigned)bytes);
}

/* The path of a scratch file; one static buffer per slot 0 .. 3. */
static inline const char *scratch(int slot, const char *name) {
    static char paths[4][512];
    snprintf(paths[slot], sizeof paths[slot], "%s/%s", haul_test_directory(), name);
    return paths[slot];
}

/* The text of ids begin .. end must be `text`. */
static inline void check_decode(const haul_tokenizer *tokenizer, const haul_token_list *list,
                                int64_t begin, const char *text, int64_t bytes) {
    haul_string decoded = {0};
    for (int64_t i = begin; i < list->count; i++) {
        assert_ok(haul_tokenizer_decode(tokenizer, list->ids[i], &decoded));
    }
    assert_int_equal(decoded.length, bytes);
    if (bytes > 0) {
        assert_memory_equal(decoded.data, text, (size_t)bytes);
    }
    haul_string_deinit(&decoded);
}

/* The texts of tokenizer_ids.json have the ids that it lists under `key`, and come back from them;
 * a tokenizer puts `prefix` ids of its own before a text. */
static inline void check_golden_ids(const haul_tokenizer *tokenizer, const char *key,
                                    int64_t prefix) {
    json_t *root = load_golden("tokenizer_ids.json"), *expected;
    haul_token_list list = {0};
    size_t i;
    json_array_foreach(golden_get(root, key), i, expected) {
        json_t *text = golden_get(expected, "text"), *ids = golden_get(expected, "ids");
        list.count = 0;
        assert_ok(haul_tokenizer_encode(tokenizer, json_string_value(text),
                                        (int64_t)json_string_length(text), &list));
        for (size_t j = 0; j < json_array_size(ids) && j < (size_t)list.count; j++) {
            if (list.ids[j] != golden_item(ids, j)) {
                print_error("text %zu \"%s\", id %zu\n", i, json_string_value(text), j);
            }
            assert_int_equal(list.ids[j], golden_item(ids, j));
        }
        assert_int_equal(list.count, json_array_size(ids));
        check_decode(tokenizer, &list, prefix, json_string_value(text),
                     (int64_t)json_string_length(text));
    }
    haul_token_list_deinit(&list);
    json_decref(root);
}

/* The data set of data_sample_order.py: 40 sequences of (37 i mod 53) tokens. A zero-length
 * sequence cannot come from the writer, so these files are made by hand. */
enum { SMALL_SEQUENCES = 40 };

static inline int64_t small_length(const void *context, int64_t sequence) {
    (void)context;
    return sequence * 37 % 53;
}

static inline void write_small_dataset(const char *prefix) {
    haul_string index = {0}, tokens = {0};
    int64_t version = 1, sequences = SMALL_SEQUENCES, bounds = SMALL_SEQUENCES + 1, at = 0;
    uint8_t code = 8;
    char path[600];
    haul_string_append(&index, "MMIDIDX\0", 9);
    haul_string_append(&index, &version, 8);
    haul_string_append(&index, &code, 1);
    haul_string_append(&index, &sequences, 8);
    haul_string_append(&index, &bounds, 8);
    for (int64_t i = 0; i < SMALL_SEQUENCES; i++) {
        int32_t length = (int32_t)small_length(NULL, i);
        haul_string_append(&index, &length, 4);
        for (int32_t j = 0; j < length; j++) {
            uint16_t token = (uint16_t)((i * 1000 + j) % 60000);
            haul_string_append(&tokens, &token, 2);
        }
    }
    for (int64_t i = 0; i < SMALL_SEQUENCES; i++) {
        haul_string_append(&index, &at, 8);
        at += 2 * small_length(NULL, i);
    }
    for (int64_t i = 0; i <= SMALL_SEQUENCES; i++) {
        haul_string_append(&index, &i, 8);
    }
    snprintf(path, sizeof path, "%s.idx", prefix);
    assert_ok(haul_file_replace(path, index.data, index.length));
    snprintf(path, sizeof path, "%s.bin", prefix);
    assert_ok(haul_file_replace(path, tokens.data, tokens.length));
    haul_string_deinit(&index);
    haul_string_deinit(&tokens);
}

#endif
