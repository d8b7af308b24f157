/* ctest: golden */
#include "fixture.h"

#include "base/memory.h"
#include "checkpoint/huggingface.h"

#include <stdlib.h>

/* The rule of tools/reference/checkpoint_golden.py, exact in every dtype. */
static double expected_value(const char *name, int64_t index) {
    return ((double)((7 * index + 3 * (int64_t)strlen(name)) % 61) - 30) / 8;
}

/* Reads one tensor as `dtype`, as it lies or transposed, and compares every element. */
static void check_tensor(const haul_huggingface *model, const haul_safetensors_entry *entry,
                         haul_dtype dtype, bool transposed) {
    haul_checkpoint_tensor target = {.name = entry->name, .dtype = dtype, .ndim = entry->ndim};
    int64_t count = 1;
    for (int i = 0; i < entry->ndim; i++) {
        target.shape[i] = entry->shape[transposed ? 1 - i : i];
        count *= entry->shape[i];
    }
    target.data = haul_calloc(count, sizeof(double));
    assert_ok(haul_huggingface_read(model, transposed, &target));
    int64_t columns = entry->shape[entry->ndim - 1];
    for (int64_t i = 0; i < count; i++) {
        int64_t place = transposed ? i % columns * target.shape[1] + i / columns : i;
        assert_true(haul_element_get(target.data, dtype, place) == expected_value(entry->name, i));
    }
    free(target.data);
}

static void check_model(const char *directory, int64_t tensors) {
    haul_huggingface *model = NULL;
    assert_ok(haul_huggingface_open(directory, &model));
    assert_int_equal(haul_huggingface_count(model), tensors);
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_BF16, HAUL_F64};
    for (int64_t i = 0; i < tensors; i++) {
        const haul_safetensors_entry *entry = haul_huggingface_at(model, i);
        assert_ptr_equal(haul_huggingface_find(model, entry->name), entry);
        for (int d = 0; d < 3; d++) {
            check_tensor(model, entry, dtypes[d], false);
            if (entry->ndim == 2) {
                check_tensor(model, entry, dtypes[d], true);
            }
        }
    }
    haul_huggingface_close(model);
}

static void test_sharded_bf16_of_transformers(void **state) {
    (void)state;
    check_model(HAUL_TEST_DIR "/checkpoint/golden/llama", 12);
}

static void test_single_f16_of_transformers(void **state) {
    (void)state;
    check_model(HAUL_TEST_DIR "/checkpoint/golden/gpt2", 16);
}

static void test_transposes_more_than_a_tile(void **state) {
    (void)state;
    enum { ROWS = 131, COLUMNS = 67 };
    char directory[FIXTURE_PATH];
    static float values[ROWS * COLUMNS], turned[ROWS * COLUMNS];
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        values[i] = (float)i;
    }
    haul_checkpoint_tensor tensor = {"w", HAUL_F32, 2, {ROWS, COLUMNS}, values, NULL};
    fixture_directory(directory, "tile");
    assert_ok(haul_huggingface_write(directory, &tensor, 1, 0, "{}"));
    haul_huggingface *model = NULL;
    assert_ok(haul_huggingface_open(directory, &model));
    haul_checkpoint_tensor target = {"w", HAUL_F32, 2, {COLUMNS, ROWS}, turned, NULL};
    assert_ok(haul_huggingface_read(model, true, &target));
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        assert_true(turned[i % COLUMNS * ROWS + i / COLUMNS] == values[i]);
    }
    haul_huggingface_close(model);
}

static void test_writes_one_file_or_shards(void **state) {
    (void)state;
    static const int64_t limits[] = {0, 200, 1};
    static const int64_t shards[] = {1, 2, 5};
    for (int i = 0; i < 3; i++) {
        char directory[FIXTURE_PATH], name[64], path[FIXTURE_PATH];
        fixture run;
        fixture_init(&run, 8);
        snprintf(name, sizeof name, "export%d", i);
        fixture_directory(directory, name);
        assert_ok(haul_huggingface_write(directory, run.tensors, FIXTURE_TENSORS, limits[i],
                                         "{\"model_type\": \"llama\"}"));
        bool index = fixture_exists(directory, "model.safetensors.index.json");
        assert_int_equal(index, shards[i] > 1);
        snprintf(name, sizeof name, "model-00001-of-%05lld.safetensors", (long long)shards[i]);
        assert_true(
            haul_file_exists(fixture_path(path, directory, index ? name : "model.safetensors")));
        haul_huggingface *model = NULL;
        assert_ok(haul_huggingface_open(directory, &model));
        assert_int_equal(haul_huggingface_count(model), FIXTURE_TENSORS);
        const haul_safetensors_entry *entry =
            haul_huggingface_find(model, "layers.0.norm.weight/exp_avg");
        assert_memory_equal(entry->data, run.data[2], (size_t)entry->bytes);
        haul_huggingface_close(model);
        haul_test_assert_fails(
            haul_huggingface_write(directory, run.tensors, FIXTURE_TENSORS, 0, "{}"),
            HAUL_ERROR_CREATE, "already holds a model");
    }
}

static void test_mismatches_name_the_tensor(void **state) {
    (void)state;
    haul_huggingface *model = NULL;
    float data[4];
    haul_checkpoint_tensor absent = {"model.nothing", HAUL_F32, 1, {3}, data, NULL};
    haul_checkpoint_tensor other = {"model.norm.weight", HAUL_F32, 2, {16, 2}, data, NULL};
    assert_ok(haul_huggingface_open(HAUL_TEST_DIR "/checkpoint/golden/llama", &model));
    haul_test_assert_fails(haul_huggingface_read(model, false, &absent), HAUL_ERROR_DATA,
                           "has no tensor model.nothing (f32 [3])");
    haul_test_assert_fails(haul_huggingface_read(model, false, &other), HAUL_ERROR_DATA,
                           "model.norm.weight is bf16 [16], must have the shape of f32 [16, 2]");
    haul_huggingface_close(model);
    haul_test_assert_fails(haul_huggingface_open(HAUL_TEST_DIR, &model), HAUL_ERROR_NO_INPUT,
                           "holds neither model.safetensors");
}

static void test_integers_are_no_weights(void **state) {
    (void)state;
    char directory[FIXTURE_PATH];
    fixture run;
    double data[3];
    fixture_init(&run, 1);
    fixture_directory(directory, "integers");
    assert_ok(haul_huggingface_write(directory, run.tensors, FIXTURE_TENSORS, 0, "{}"));
    haul_huggingface *model = NULL;
    assert_ok(haul_huggingface_open(directory, &model));
    haul_checkpoint_tensor mask = {"mask", HAUL_F32, 1, {3}, data, NULL};
    haul_test_assert_fails(haul_huggingface_read(model, false, &mask), HAUL_ERROR_DATA,
                           "mask is u8 [3], must be f64, f32, bf16 or f16");
    haul_huggingface_close(model);
}

static void test_index_is_not_trusted(void **state) {
    (void)state;
    static const struct {
        const char *index;
        haul_status status;
        const char *complaint;
    } cases[] = {
        {"{\"weight_map\": {\"a\": \"../model.safetensors\"}}", HAUL_ERROR_DATA, "same directory"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", HAUL_ERROR_DATA, "same directory"},
        {"{\"weight_map\": {\"a\": \"..\"}}", HAUL_ERROR_DATA, "same directory"},
        {"{\"weight_map\": {\"a\": \"\"}}", HAUL_ERROR_DATA, "same directory"},
        {"{\"weight_map\": {\"a\": 3}}", HAUL_ERROR_DATA, "same directory"},
        {"{\"weight_map\": {\"a\": \"absent.safetensors\"}}", HAUL_ERROR_NO_INPUT, "cannot open"},
        {"{\"weight_map\": {\"a\": \"b.safetensors\"}}", HAUL_ERROR_DATA, "but it does not"},
        {"{\"weight_map\": []}", HAUL_ERROR_DATA, "no weight_map"},
        {"{}", HAUL_ERROR_DATA, "no weight_map"},
        {"", HAUL_ERROR_DATA, "index.json"},
        {"{\"weight_map\": {\"a\": \"b\", \"a\": \"c\"}}", HAUL_ERROR_DATA, "duplicate"},
    };
    char directory[FIXTURE_PATH], path[FIXTURE_PATH];
    fixture_directory(directory, "index");
    assert_ok(haul_directory_create(directory));
    fixture_put(fixture_path(path, directory, "b.safetensors"), "\2\0\0\0\0\0\0\0{}", 10);
    fixture_path(path, directory, "model.safetensors.index.json");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        haul_huggingface *model = NULL;
        fixture_put(path, cases[i].index, (int64_t)strlen(cases[i].index));
        haul_test_assert_fails(haul_huggingface_open(directory, &model), cases[i].status,
                               cases[i].complaint);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sharded_bf16_of_transformers),
        cmocka_unit_test(test_single_f16_of_transformers),
        cmocka_unit_test(test_transposes_more_than_a_tile),
        cmocka_unit_test(test_writes_one_file_or_shards),
        cmocka_unit_test(test_mismatches_name_the_tensor),
        cmocka_unit_test(test_integers_are_no_weights),
        cmocka_unit_test(test_index_is_not_trusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
