/* ctest: unit */
#include "fixture.h"

#include "layers/layers.h"

#include <math.h>

/* Places of a store: aligned, apart, and together as many bytes as the table says. */
static void test_places(void **state) {
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        fixture f;
        fixture_open(&f, (fixture_options){.device = "cpu", .bf16 = bf16, .micro_batches = 1});
        const char *end = f.store.memory;
        int64_t sum = 0;
        for (int64_t b = 0; b < f.chunk.buffer_count; b++) {
            const haul_store_buffer *buffer = &f.store.buffers[b];
            const haul_tensor *forms[] = {&buffer->value,       &buffer->low,
                                          &buffer->gradient,    &buffer->moments[0],
                                          &buffer->moments[1],  &buffer->packed_forward,
                                          &buffer->packed_dgrad};
            assert_int_equal(haul_tensor_present(&buffer->low), bf16);
            for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
                if (haul_tensor_present(forms[i])) {
                    const char *data = forms[i]->data;
                    assert_int_equal((data - f.store.memory) % 64, 0);
                    assert_true(data >= end);
                    end = data + haul_tensor_bytes(forms[i]);
                }
            }
        }
        for (int64_t i = 0; i < f.store.table.count; i++) {
            sum += f.store.table.lines[i].bytes;
        }
        assert_int_equal(sum, f.store.bytes);
        assert_true(end <= f.store.memory + f.store.bytes);
        fixture_close(&f);
    }
}

static void test_inference_keeps_values_alone(void **state) {
    (void)state;
    fixture f;
    haul_store store;
    fixture_open(&f, (fixture_options){.device = "cpu", .bf16 = true, .micro_batches = 1});
    haul_store_options options = {.training = false, .moments = 2};
    assert_ok(haul_store_plan(&f.chunk, &f.device, options, &store));
    int64_t scalars = 0;
    for (int64_t i = 0; i < store.table.count; i++) {
        const haul_memory_line *line = &store.table.lines[i];
        bool scalar = strcmp(line->category, "step scalars") == 0;
        assert_true(scalar || strcmp(line->category, "parameters") == 0);
        scalars += scalar;
    }
    assert_int_equal(store.table.count, f.chunk.buffer_count + scalars);
    haul_store_deinit(&store);
    fixture_close(&f);
}

/* Element i of a parameter starts as std times normal number i of the stream of its name, in
 * whatever matrix it is fused. */
static void test_initial_values_follow_names(void **state) {
    (void)state;
    for (int gpt2 = 0; gpt2 < 2; gpt2++) {
        fixture f;
        int fused = 0;
        fixture_open(&f, (fixture_options){.device = "ref", .gpt2 = gpt2, .micro_batches = 1});
        for (int64_t b = 0; b < f.chunk.buffer_count; b++) {
            const haul_buffer_plan *plan = &f.chunk.buffers[b];
            fused += plan->view_count > 1;
            for (int v = 0; v < plan->view_count; v++) {
                haul_tensor view = haul_store_view(&f.store, b, v, &f.store.buffers[b].value);
                uint64_t stream = haul_hash_name(plan->views[v].name);
                assert_int_equal(haul_tensor_rows(&view), view.ndim == 2 ? plan->views[v].rows : 1);
                for (int64_t i = 0; i < haul_tensor_count(&view); i++) {
                    double expected = plan->init == HAUL_INIT_ONE;
                    if (plan->init == HAUL_INIT_NORMAL) {
                        expected = plan->init_std * haul_normal(1234, stream, i);
                    }
                    assert_true(((const double *)view.data)[i] == expected);
                }
            }
        }
        assert_int_equal(fused, gpt2 ? 0 : 4); /* qkv and gate-up of two layers */
        fixture_close(&f);
    }
}

/* The same for three linears as for one with three parts. */
static void test_initial_values_do_not_depend_on_fusion(void **state) {
    (void)state;
    static const char *const names[] = {"q", "k", "v"};
    static const int64_t rows[] = {4, 2, 3};
    haul_device device;
    haul_chunk chunks[2];
    haul_store stores[2];
    assert_ok(haul_device_init(&device, "ref", 1, HAUL_PRODUCT_F32));
    for (int fused = 0; fused < 2; fused++) {
        int input, output;
        haul_chunk *chunk = &chunks[fused];
        haul_linear_config config = {.input_size = 5, .init_std = 0.3};
        haul_chunk_init(chunk, (haul_numerics){HAUL_F64, HAUL_F64});
        assert_ok(haul_chunk_add_input(chunk, "x", haul_tensor_2d(NULL, HAUL_F64, 2, 5), &input));
        for (int i = 0; i < 3; i++) {
            haul_linear_part *part = &config.parts[fused ? i : 0];
            snprintf(part->name, sizeof part->name, "%s", names[i]);
            part->rows = rows[i];
            config.part_count = fused ? i + 1 : 1;
            if (!fused || i == 2) {
                assert_ok(haul_chunk_add_node(chunk, &haul_node_linear, names[i], -1, &config,
                                              &input, 1, &output));
            }
        }
        assert_ok(haul_store_plan(chunk, &device, (haul_store_options){0}, &stores[fused]));
        assert_ok(haul_store_allocate(&stores[fused]));
        assert_ok(haul_store_initialize(&stores[fused], 99));
    }
    for (int i = 0; i < 3; i++) {
        haul_tensor alone = stores[0].buffers[i].value;
        haul_tensor part = haul_store_view(&stores[1], 0, i, &stores[1].buffers[0].value);
        assert_int_equal(haul_tensor_bytes(&alone), haul_tensor_bytes(&part));
        assert_memory_equal(alone.data, part.data, (size_t)haul_tensor_bytes(&alone));
    }
    for (int fused = 0; fused < 2; fused++) {
        haul_store_deinit(&stores[fused]);
        haul_chunk_deinit(&chunks[fused]);
    }
    haul_device_deinit(&device);
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void assert_master(haul_store *store, float value) {
    const haul_store_buffer *buffer = &store->buffers[0];
    double wide = (double)value;
    assert_ok(haul_store_write(store, 0, 3, 1, &wide));
    uint16_t parameter = ((const uint16_t *)buffer->value.data)[3];
    float joined = haul_master_join(parameter, ((const uint16_t *)buffer->low.data)[3]);
    if (isnan(value)) {
        assert_true(isnan(joined) && isnan(haul_bf16_to_f32(parameter)));
        return;
    }
    assert_int_equal(bits_of(joined), bits_of(value));
    if (isinf(value)) {
        assert_true(haul_bf16_to_f32(parameter) == value);
    } else if (fabsf(value) < 3e38f && fabsf(value) > 1e-30f) {
        /* bf16 has 8 significant bits: rounding to nearest errs by at most 2^-9 of the power of
         * two above */
        assert_true(fabsf(haul_bf16_to_f32(parameter) - value) <= 0x1p-8f * fabsf(value));
    }
}

/* A bf16 parameter and its low half are the f32 master to the bit. */
static void test_bf16_masters(void **state) {
    (void)state;
    static const float special[] = {0.0f,         -0.0f,     1.0f,      -1.0f,
                                    0x1.01p0f,    0x1.03p0f, 1e-45f,    0x1.8p-127f,
                                    3.402823e38f, INFINITY,  -INFINITY, NAN};
    fixture f;
    fixture_open(&f, (fixture_options){.device = "cpu", .bf16 = true, .micro_batches = 1});
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        assert_master(&f.store, special[i]);
    }
    for (int64_t i = 0; i < 10000; i++) {
        assert_master(&f.store, (float)haul_normal(1, 2, i));
    }
    fixture_close(&f);
}

/* Masters start as those of a training in f32. */
static void test_bf16_starts_like_f32(void **state) {
    (void)state;
    fixture wide, narrow;
    fixture_open(&wide, (fixture_options){.device = "cpu", .micro_batches = 1});
    fixture_open(&narrow, (fixture_options){.device = "cpu", .bf16 = true, .micro_batches = 1});
    for (int64_t b = 0; b < wide.chunk.buffer_count; b++) {
        const haul_store_buffer *x = &wide.store.buffers[b], *y = &narrow.store.buffers[b];
        for (int64_t i = 0; i < haul_tensor_count(&x->value); i++) {
            float master = haul_master_join(((const uint16_t *)y->value.data)[i],
                                            ((const uint16_t *)y->low.data)[i]);
            assert_true(master == ((const float *)x->value.data)[i]);
        }
    }
    fixture_close(&wide);
    fixture_close(&narrow);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_inference_keeps_values_alone),
        cmocka_unit_test(test_initial_values_follow_names),
        cmocka_unit_test(test_initial_values_do_not_depend_on_fusion),
        cmocka_unit_test(test_bf16_masters),
        cmocka_unit_test(test_bf16_starts_like_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
