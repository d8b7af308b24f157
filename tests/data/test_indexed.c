#include "data_testing.h"

#include "base/fault.h"
#include "base/memory.h"

#include <stdlib.h>
#include <unistd.h>

/* Documents of 0, 1, 5000 and 2 tokens. */
static void write_documents(const char *prefix, haul_dtype dtype, int32_t top) {
    static const int64_t lengths[] = {0, 1, 5000, 2};
    haul_indexed_writer *writer;
    assert_ok(haul_indexed_writer_create(prefix, dtype, &writer));
    for (int d = 0; d < 4; d++) {
        for (int64_t i = 0; i < lengths[d]; i++) {
            int32_t token = top - d * 10 - (int32_t)i;
            assert_ok(haul_indexed_writer_add(writer, &token, 1));
        }
        if (d < 3) { /* finish ends the last one */
            assert_ok(haul_indexed_writer_end_document(writer));
        }
    }
    assert_ok(haul_indexed_writer_finish(writer));
    assert_int_equal(haul_indexed_writer_tokens(writer), 5003);
    haul_indexed_writer_destroy(writer);
}

static void what_was_written_is_read(void **state) {
    (void)state;
    static const haul_dtype dtypes[] = {HAUL_U16, HAUL_I32};
    static const int32_t tops[] = {65535, INT32_MAX};
    for (int k = 0; k < 2; k++) {
        const char *prefix = scratch(0, "written");
        int32_t tokens[5000];
        int64_t begin, end;
        haul_indexed *indexed;
        write_documents(prefix, dtypes[k], tops[k]);
        assert_ok(haul_indexed_open(prefix, &indexed));
        assert_int_equal(haul_indexed_dtype(indexed), dtypes[k]);
        assert_int_equal(haul_indexed_documents(indexed), 4);
        assert_int_equal(haul_indexed_sequences(indexed), 3);
        assert_int_equal(haul_indexed_tokens(indexed), 5003);
        assert_int_equal(haul_indexed_length(indexed, 1), 5000);
        haul_indexed_document(indexed, 0, &begin, &end);
        assert_int_equal(begin, end);
        haul_indexed_document(indexed, 2, &begin, &end);
        assert_int_equal(begin, 1);
        assert_int_equal(end, 2);
        assert_ok(haul_indexed_get(indexed, 1, 17, 4983, tokens));
        assert_int_equal(tokens[0], tops[k] - 20 - 17);
        assert_int_equal(tokens[4982], tops[k] - 20 - 4999);
        assert_ok(haul_indexed_get(indexed, 2, 0, 2, tokens));
        assert_int_equal(tokens[1], tops[k] - 31);
        haul_test_assert_fails(haul_indexed_get(indexed, 1, 1, 5000, tokens), HAUL_ERROR_INTERNAL,
                               "outside");
        haul_test_assert_fails(haul_indexed_get(indexed, 3, 0, 0, tokens), HAUL_ERROR_INTERNAL,
                               "outside");
        haul_indexed_close(indexed);
    }
}

/* The bytes that the format asks for, written out by hand. */
static void bytes_follow_the_format(void **state) {
    (void)state;
    static const uint8_t expected[] =
        "MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"
        "\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"
        "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0";
    const char *prefix = scratch(0, "bytes");
    haul_indexed_writer *writer;
    haul_string bytes = {0};
    const uint16_t packed[] = {258, 1, 65535, 7};
    assert_ok(haul_indexed_writer_create(prefix, HAUL_U16, &writer));
    assert_ok(haul_indexed_writer_append(writer, packed, (const int64_t[]){3, 1}, 2, true));
    assert_ok(haul_indexed_writer_finish(writer));
    haul_indexed_writer_destroy(writer);
    assert_ok(haul_file_read(scratch(1, "bytes.idx"), &bytes));
    assert_int_equal(bytes.length, sizeof expected);
    assert_memory_equal(bytes.data, expected, sizeof expected);
    haul_string_clear(&bytes);
    assert_ok(haul_file_read(scratch(1, "bytes.bin"), &bytes));
    assert_memory_equal(bytes.data, "\2\1\1\0\377\377\7\0", 8);
    haul_string_deinit(&bytes);
}

static void tokens_that_do_not_fit_are_refused(void **state) {
    (void)state;
    haul_indexed_writer *writer;
    int32_t token = 65536;
    assert_int_equal(haul_indexed_best_dtype(65499), HAUL_U16);
    assert_int_equal(haul_indexed_best_dtype(65500), HAUL_I32);
    assert_ok(haul_indexed_writer_create(scratch(0, "wide"), HAUL_U16, &writer));
    haul_test_assert_fails(haul_indexed_writer_add(writer, &token, 1), HAUL_ERROR_DATA,
                           "token 65536 does not fit");
    haul_indexed_writer_destroy(writer);
    assert_false(haul_file_exists(scratch(0, "wide.bin")));
}

static haul_status count_name(void *context, const char *name) {
    (void)name;
    ++*(int *)context;
    return HAUL_OK;
}

/* Each write, sync and rename fails once: no file stays behind but a whole old or new pair. */
static void failed_writes_leave_nothing(void **state) {
    (void)state;
    static const haul_fault_kind kinds[] = {HAUL_FAULT_WRITE, HAUL_FAULT_SYNC, HAUL_FAULT_RENAME};
    const char *directory = scratch(0, "faults"), *prefix = scratch(1, "faults/set");
    assert_ok(haul_directory_create(directory));
    for (int k = 0; k < 3; k++) {
        for (long nth = 1;; nth++) {
            haul_indexed_writer *writer;
            int32_t tokens[] = {1, 2, 3};
            int files = 0;
            assert_ok(haul_indexed_writer_create(prefix, HAUL_U16, &writer));
            haul_fault_arm(kinds[k], nth, false);
            haul_status status = haul_indexed_writer_add(writer, tokens, 3);
            if (status == HAUL_OK) {
                status = haul_indexed_writer_finish(writer);
            }
            haul_fault_arm(kinds[k], 0, false);
            haul_indexed_writer_destroy(writer);
            if (status == HAUL_OK) {
                break;
            }
            assert_int_equal(status, HAUL_ERROR_IO);
            assert_false(haul_file_exists(scratch(2, "faults/set.idx")));
            assert_ok(haul_directory_list(directory, count_name, &files));
            assert_true(files <= 1); /* the .bin, when its index could not be renamed */
            assert_ok(haul_indexed_remove(prefix));
        }
        assert_ok(haul_indexed_remove(prefix));
    }
}

/* One field of a good index is replaced; each must be named. */
static void corrupt_files_are_refused(void **state) {
    (void)state;
    static const struct {
        int64_t offset;
        int64_t value;
        int bytes;
        const char *message;
    } cases[] = {
        {0, 'X', 1, "MMIDIDX"},
        {9, 2, 8, "version is 2"},
        {17, 7, 1, "dtype code is 7"},
        {17, 99, 1, "dtype code is 99"},
        {17, 0, 1, "dtype code is 0"},
        {17, 5, 1, "pass the"},
        {18, -1, 8, "sequence count is -1"},
        {18, INT64_MAX, 8, "sequence count"},
        {18, 39, 8, "size in bytes"},
        {26, 0, 8, "count of document bounds is 0"},
        {26, INT64_MIN, 8, "count of document bounds"},
        {26, INT64_MAX, 8, "document count"},
        {26, 40, 8, "size in bytes"},
        {34, -5, 4, "length of sequence 0 is -5"},
        {34, INT32_MAX, 4, "pointer of sequence 0 is 0"},
        {34 + 160, -2, 8, "pointer of sequence 0 is -2"},
        {34 + 160, INT64_MAX, 8, "pass the"},
        {34 + 480, 1, 8, "document bound 0 is 1"},
        {34 + 480 + 80, 3, 8, "document bound 10 is 3"},
        {34 + 480 + 320, 41, 8, "last document bound is 41"},
    };
    const char *prefix = scratch(0, "corrupt"), *index = scratch(1, "corrupt.idx");
    haul_indexed *indexed;
    haul_string good = {0};
    write_small_dataset(prefix);
    assert_ok(haul_file_read(index, &good));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bad = haul_calloc(good.length, 1);
        memcpy(bad, good.data, (size_t)good.length);
        memcpy(bad + cases[i].offset, &cases[i].value, (size_t)cases[i].bytes);
        assert_ok(haul_file_replace(index, bad, good.length));
        haul_test_assert_fails(haul_indexed_open(prefix, &indexed), HAUL_ERROR_DATA,
                               cases[i].message);
        free(bad);
    }
    assert_ok(haul_file_replace(index, good.data, 33));
    haul_test_assert_fails(haul_indexed_open(prefix, &indexed), HAUL_ERROR_DATA, "at least 34");
    assert_ok(haul_file_replace(index, good.data, good.length));
    assert_int_equal(truncate(scratch(2, "corrupt.bin"), 100), 0);
    haul_test_assert_fails(haul_indexed_open(prefix, &indexed), HAUL_ERROR_DATA, "100 bytes");
    haul_string_deinit(&good);
}

static void absent_files_are_named(void **state) {
    (void)state;
    haul_indexed *indexed;
    haul_indexed_writer *writer;
    haul_test_assert_fails(haul_indexed_open(scratch(0, "none"), &indexed), HAUL_ERROR_NO_INPUT,
                           "none.idx");
    haul_test_assert_fails(haul_indexed_writer_create(scratch(0, "no/dir"), HAUL_U16, &writer),
                           HAUL_ERROR_CREATE, "no/dir.bin");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(bytes_follow_the_format),
        cmocka_unit_test(tokens_that_do_not_fit_are_refused),
        cmocka_unit_test(failed_writes_leave_nothing),
        cmocka_unit_test(corrupt_files_are_refused),
        cmocka_unit_test(absent_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
