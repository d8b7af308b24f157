/* ctest: golden */
#include "fixture.h"

#include "base/memory.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shards.h"

#include <stdlib.h>

/* The rule of tools/reference/checkpoint_golden.py. */
static double expected_value(const haul_safetensors_entry *entry, int64_t index) {
    int64_t length = 0;
    for (const char *at = entry->name; *at != '\0'; at++) {
        length += (*at & 0xc0) != 0x80;
    }
    double value = (double)((7 * index + 3 * length) % 61);
    switch (entry->dtype) {
    case HAUL_U8:
    case HAUL_U16:
        return value;
    case HAUL_I8:
    case HAUL_I16:
    case HAUL_I32:
    case HAUL_I64:
        return value - 30;
    default:
        return (value - 30) / 8;
    }
}

static void check_entry(const haul_safetensors_entry *entry) {
    int64_t size = haul_dtype_size(entry->dtype);
    for (int64_t i = 0; i < entry->bytes / size; i++) {
        uint64_t aligned = 0;
        memcpy(&aligned, entry->data + i * size, (size_t)size);
        assert_true(haul_element_get(&aligned, entry->dtype, 0) == expected_value(entry, i));
    }
}

static void test_reads_what_python_wrote(void **state) {
    (void)state;
    haul_safetensors *file = NULL;
    assert_ok(haul_safetensors_open(HAUL_TEST_DIR "/checkpoint/golden/types.safetensors", &file));
    assert_int_equal(haul_safetensors_count(file), 16);
    int64_t checked = 0;
    for (int64_t i = 0; i < haul_safetensors_count(file); i++) {
        const haul_safetensors_entry *entry = haul_safetensors_at(file, i);
        assert_ptr_equal(haul_safetensors_find(file, entry->name), entry);
        if (entry->dtype < HAUL_DTYPES) {
            check_entry(entry);
            checked++;
        }
    }
    assert_int_equal(checked, 14);
    const haul_safetensors_entry *f16 = haul_safetensors_find(file, "f16");
    assert_true(haul_shape_equal(f16->ndim, f16->shape, 4, (const int64_t[]){2, 2, 2, 3}));
    assert_int_equal(haul_safetensors_find(file, "scalar")->ndim, 0);
    assert_int_equal(haul_safetensors_find(file, "empty")->bytes, 0);
    assert_int_equal(haul_safetensors_find(file, "five")->ndim, 5);
    assert_int_equal(haul_safetensors_find(file, "bool")->dtype, HAUL_DTYPES);
    assert_non_null(haul_safetensors_find(file, "name with \"quotes\" and \u00fc"));
    assert_null(haul_safetensors_find(file, "f3"));
    assert_string_equal(haul_safetensors_metadata(file, "note"), "zw\u00f6lf \"words\"");
    assert_null(haul_safetensors_metadata(file, "absent"));
    haul_safetensors_close(file);
}

static haul_status write_all(const char *path, const haul_checkpoint_tensor *tensors, int64_t count,
                             haul_hash128 *hash) {
    const haul_safetensors_pair metadata[] = {{"format", "pt"}, {"note", "a \"b\"\n"}};
    haul_shards_progress progress = {0};
    haul_shards shards;
    int64_t bytes = 0;
    HAUL_TRY(haul_shards_plan(tensors, count, 1 << 30, &shards));
    haul_status status = haul_shards_write(&shards, 0, path, metadata, 2, &progress, hash, &bytes);
    haul_shards_deinit(&shards);
    return status;
}

static void test_writes_what_it_reads(void **state) {
    (void)state;
    char path[FIXTURE_PATH];
    fixture run;
    fixture_init(&run, 3);
    haul_hash128 hash;
    fixture_directory(path, "own.safetensors");
    assert_ok(write_all(path, run.tensors, FIXTURE_TENSORS, &hash));
    haul_file_map map;
    assert_ok(haul_file_map_open(path, &map));
    haul_hash128 expected = haul_hash128_of(map.data, map.bytes);
    assert_true(haul_hash128_equal(&hash, &expected));
    haul_file_map_close(&map);
    haul_safetensors *file = NULL;
    assert_ok(haul_safetensors_open(path, &file));
    assert_int_equal(haul_safetensors_count(file), FIXTURE_TENSORS);
    assert_string_equal(haul_safetensors_metadata(file, "note"), "a \"b\"\n");
    for (int t = 0; t < FIXTURE_TENSORS; t++) {
        const haul_checkpoint_tensor *tensor = &run.tensors[t];
        const haul_safetensors_entry *entry = haul_safetensors_find(file, tensor->name);
        assert_non_null(entry);
        assert_int_equal(entry->dtype, tensor->dtype);
        assert_true(haul_shape_equal(entry->ndim, entry->shape, tensor->ndim, tensor->shape));
        assert_memory_equal(entry->data, tensor->data, (size_t)entry->bytes);
        assert_int_equal((uintptr_t)entry->data % (uintptr_t)haul_dtype_size(entry->dtype), 0);
    }
    assert_int_equal((uintptr_t)haul_safetensors_at(file, 0)->data % 64, 0);
    haul_safetensors_close(file);
}

static void test_writer_refuses_what_no_reader_takes(void **state) {
    (void)state;
    char path[FIXTURE_PATH];
    fixture run;
    haul_hash128 hash;
    haul_safetensors_writer writer;
    fixture_directory(path, "refused.safetensors");
    fixture_init(&run, 3);
    run.tensors[1].name = run.tensors[0].name;
    haul_test_assert_fails(write_all(path, run.tensors, FIXTURE_TENSORS, &hash),
                           HAUL_ERROR_INTERNAL, "have the name embedding.word.weight");
    fixture_init(&run, 3);
    run.tensors[0].shape[0] = INT64_MAX / 2;
    haul_test_assert_fails(write_all(path, run.tensors, FIXTURE_TENSORS, &hash),
                           HAUL_ERROR_INTERNAL, "overflows");
    fixture_init(&run, 3);
    run.tensors[0].shape[1] = 1;
    run.tensors[0].shape[0] = 1;
    haul_test_assert_fails(haul_safetensors_create(path, run.tensors, 2, NULL, 0, &writer),
                           HAUL_ERROR_INTERNAL, "smaller dtype");
    assert_ok(haul_safetensors_create(path, run.tensors, 1, NULL, 0, &writer));
    haul_test_assert_fails(haul_safetensors_finish(&writer, &hash), HAUL_ERROR_INTERNAL,
                           "2 bytes of data are missing");
    haul_test_assert_fails(haul_safetensors_write(&writer, run.data[0], 3), HAUL_ERROR_INTERNAL,
                           "more data");
    haul_safetensors_abandon(&writer);
}

/* Tens of thousands of tensors, each found. */
static void test_many_tensors(void **state) {
    (void)state;
    enum { COUNT = 30000, NAME = 40 };
    char path[FIXTURE_PATH];
    float value = 1.5f;
    haul_hash128 hash;
    haul_checkpoint_tensor *tensors = haul_calloc(COUNT, sizeof *tensors);
    char *names = haul_calloc(COUNT, NAME);
    for (int64_t i = 0; i < COUNT; i++) {
        snprintf(names + i * NAME, NAME, "layers.%lld.weight", (long long)(i * 7919 % COUNT));
        tensors[i] = (haul_checkpoint_tensor){names + i * NAME, HAUL_F32, 1, {1}, &value, NULL};
    }
    fixture_directory(path, "many.safetensors");
    assert_ok(write_all(path, tensors, COUNT, &hash));
    haul_safetensors *file = NULL;
    assert_ok(haul_safetensors_open(path, &file));
    for (int64_t i = 0; i < COUNT; i++) {
        const haul_safetensors_entry *entry = haul_safetensors_find(file, tensors[i].name);
        assert_non_null(entry);
        assert_string_equal(entry->name, tensors[i].name);
    }
    haul_safetensors_close(file);
    free(names);
    free(tensors);
}

/* A header, the bytes of data behind it, and what the reader must say. */
static const struct {
    const char *header;
    int64_t data_bytes;
    const char *complaint;
} malformed[] = {
    {"[1]", 0, "must be a JSON object"},
    {" {}", 0, "must be a JSON object"},
    {"{", 0, "not valid JSON"},
    {"{} x", 0, "not valid JSON"},
    {"{\"a\":{}}", 0, "unknown dtype"},
    {"{\"a\":3}", 0, "unknown dtype"},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "unknown dtype F31"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "the shape of tensor a"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     "at most 8 sizes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "size 0 of tensor a"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "size 0 of tensor a"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,4]}}", 4,
     "overflows"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 4, "within the 4 bytes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "ascending"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "two ascending"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "must be 8"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, "there is a hole"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 2, "must be 1"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     3, "tensors overlap"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, "duplicate"},
    {"{\"\\u001b[2J\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     "control characters"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "strings to strings"},
    {"{\"__metadata__\":[]}", 0, "strings to strings"},
};

static void put_file(const char *path, uint64_t length, const char *header, int64_t data_bytes) {
    unsigned char bytes[1024] = {0};
    size_t text = strlen(header);
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + 8, header, text);
    fixture_put(path, bytes, (int64_t)(8 + text) + data_bytes);
}

static void test_malformed_headers(void **state) {
    (void)state;
    char path[FIXTURE_PATH];
    haul_safetensors *file = NULL;
    fixture_directory(path, "malformed.safetensors");
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        put_file(path, strlen(malformed[i].header), malformed[i].header, malformed[i].data_bytes);
        haul_test_assert_fails(haul_safetensors_open(path, &file), HAUL_ERROR_DATA,
                               malformed[i].complaint);
        assert_null(file);
    }
}

static void test_malformed_lengths(void **state) {
    (void)state;
    char path[FIXTURE_PATH];
    haul_safetensors *file = NULL;
    fixture_directory(path, "length.safetensors");
    const uint64_t lengths[] = {0, 3, 100000001, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        put_file(path, lengths[i], "{}", 0);
        haul_test_assert_fails(haul_safetensors_open(path, &file), HAUL_ERROR_DATA,
                               "not a safetensors file");
    }
    for (int64_t bytes = 0; bytes < 8; bytes++) {
        fixture_put(path, "\2\0\0\0\0\0\0\0", bytes);
        haul_test_assert_fails(haul_safetensors_open(path, &file), HAUL_ERROR_DATA, "too short");
    }
    put_file(path, 2, "{}", 0);
    assert_ok(haul_safetensors_open(path, &file));
    assert_int_equal(haul_safetensors_count(file), 0);
    assert_null(haul_safetensors_find(file, "a"));
    haul_safetensors_close(file);
    haul_test_assert_fails(haul_safetensors_open("/nonexistent", &file), HAUL_ERROR_NO_INPUT,
                           "/nonexistent");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_what_python_wrote),
        cmocka_unit_test(test_writes_what_it_reads),
        cmocka_unit_test(test_writer_refuses_what_no_reader_takes),
        cmocka_unit_test(test_many_tensors),
        cmocka_unit_test(test_malformed_headers),
        cmocka_unit_test(test_malformed_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
