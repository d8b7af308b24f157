/* Helpers of the data tests: golden files, scratch paths, small data sets. */
#ifndef HAUL_TESTS_DATA_TESTING_H
#define HAUL_TESTS_DATA_TESTING_H

#include "testing.h"

#include "base/file.h"
#include "data/indexed.h"

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
