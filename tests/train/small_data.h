/* A small data set for trainings in tests: forty documents of fifty made-up tokens below 40. */
#ifndef HAUL_TESTS_TRAIN_SMALL_DATA_H
#define HAUL_TESTS_TRAIN_SMALL_DATA_H

#include "testing.h"

#include "base/philox.h"
#include "data/indexed.h"

#include <stdio.h>

/* The prefix for --data-path; written on the first call. */
static inline const char *small_data_prefix(void) {
    static char prefix[512];
    if (prefix[0] == '\0') {
        haul_indexed_writer *writer;
        snprintf(prefix, sizeof prefix, "%s/data", haul_test_directory());
        assert_ok(haul_indexed_writer_create(prefix, HAUL_U16, &writer));
        for (uint32_t document = 0; document < 40; document++) {
            int32_t tokens[50];
            for (uint32_t t = 0; t < 50; t++) {
                uint32_t key[2] = {document, 9}, counter[4] = {t, 0, 0, 0};
                tokens[t] = (int32_t)(haul_philox_4x32(key, counter).word[0] % 40);
            }
            assert_ok(haul_indexed_writer_add(writer, tokens, 50));
            assert_ok(haul_indexed_writer_end_document(writer));
        }
        assert_ok(haul_indexed_writer_finish(writer));
        haul_indexed_writer_destroy(writer);
    }
    return prefix;
}

#endif
