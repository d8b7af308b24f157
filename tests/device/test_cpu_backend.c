/* ctest: unit */
#include "base/fault.h"
#include "base/parallel.h"
#include "device/compare.h"
#include "device/cpu/simd/isa.h"
#include "device/cpu/simd/simd.h"

#include <stdio.h>

static haul_device open_cpu(int threads) {
    haul_device device;
    assert_ok(haul_device_init(&device, "cpu", threads, HAUL_PRODUCT_F32));
    return device;
}

/* A new op in HAUL_OPS without a kernel fails here, on every instruction set. */
static void every_op_has_an_entry(void **state) {
    (void)state;
    haul_device device = open_cpu(1);
    for (int i = 0; haul_cpu_isa_at(i) != NULL; i++) {
        haul_cpu_use_isa(&device, haul_cpu_isa_at(i));
        for (int op = 0; op < HAUL_OPS; op++) {
            if (device.backend->entry(&device, (haul_op)op)->launch == NULL) {
                fail_msg("cpu %s has no op %s", haul_cpu_isa_at(i)->name,
                         haul_op_name((haul_op)op));
            }
        }
    }
    haul_device_deinit(&device);
}

static void portable_is_the_last_isa(void **state) {
    (void)state;
    int count = 0;
    while (haul_cpu_isa_at(count) != NULL) {
        count++;
    }
    assert_true(count >= 1);
    assert_string_equal(haul_cpu_isa_at(count - 1)->name, "portable");
}

static void device_describes_itself(void **state) {
    (void)state;
    char text[256], start[64];
    haul_device device = open_cpu(2);
    device.backend->describe(&device, text, sizeof text);
    snprintf(start, sizeof start, "cpu %s, 2 threads, ", haul_cpu_isa_at(0)->name);
    assert_int_equal(strncmp(text, start, strlen(start)), 0);
    assert_true(strlen(text) > strlen(start));
    device.backend->describe(&device, text, 8);
    assert_int_equal(strlen(text), 7);
    haul_device_deinit(&device);
}

static void threads_0_are_all_cores(void **state) {
    (void)state;
    haul_device device = open_cpu(0);
    assert_int_equal(device.threads, haul_parallel_cores());
    haul_device_deinit(&device);
}

static void memory_is_aligned_zeroed_and_released(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 4097, (2 << 20) - 1, 2 << 20, (5 << 20) + 12345};
    haul_device device = open_cpu(3);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *memory = NULL;
        assert_ok(device.backend->allocate(&device, sizes[i], &memory));
        assert_int_equal((uintptr_t)memory % 64, 0);
        if (sizes[i] >= 2 << 20) {
            assert_int_equal((uintptr_t)memory % (2 << 20), 0);
        }
        const char *bytes = memory;
        for (int64_t b = 0; b < sizes[i]; b++) {
            assert_true(bytes[b] == 0);
        }
        memset(memory, 1, (size_t)sizes[i]);
        device.backend->release(&device, memory, sizes[i]);
    }
    device.backend->release(&device, NULL, 5);
    haul_device_deinit(&device);
}

static void memory_runs_out_with_a_message(void **state) {
    (void)state;
    void *memory = NULL;
    haul_device device = open_cpu(1);
    haul_test_assert_fails(device.backend->allocate(&device, INT64_C(1) << 60, &memory),
                           HAUL_ERROR_MEMORY, "out of memory");
    haul_fault_arm(HAUL_FAULT_ALLOC, 1, false);
    haul_test_assert_fails(device.backend->allocate(&device, 100, &memory), HAUL_ERROR_MEMORY,
                           "100 B for tensors");
    haul_device_deinit(&device);
    haul_fault_arm(HAUL_FAULT_ALLOC, 1, false);
    haul_test_assert_fails(haul_device_init(&device, "cpu", 1, HAUL_PRODUCT_F32), HAUL_ERROR_MEMORY,
                           "out of memory");
    assert_null(device.backend);
}

static void assert_launch_fails(haul_device *device, haul_op op, const void *args,
                                haul_status expected, const char *text) {
    haul_stream stream = {.device = device};
    haul_launch(&stream, op, args);
    haul_test_assert_fails(haul_stream_status(&stream), expected, text);
}

static void wrong_dtypes_are_refused(void **state) {
    (void)state;
    double wide[4] = {0};
    float floats[4] = {0};
    uint16_t halves[4] = {0};
    haul_tensor f64 = haul_tensor_2d(wide, HAUL_F64, 1, 4);
    haul_tensor f32 = haul_tensor_2d(floats, HAUL_F32, 1, 4);
    haul_tensor bf16 = haul_tensor_2d(halves, HAUL_BF16, 1, 4);
    haul_device device = open_cpu(1);
    haul_add_args add = {f64, f64, f64};
    assert_launch_fails(&device, HAUL_OP_ADD, &add, HAUL_ERROR_UNAVAILABLE,
                        "add on the cpu: dtype is f64, must be f32 or bf16");
    add = (haul_add_args){f32, bf16, f32};
    assert_launch_fails(&device, HAUL_OP_ADD, &add, HAUL_ERROR_UNAVAILABLE,
                        "tensors are f32 and bf16");
    haul_bias_backward_args bias = {bf16, haul_tensor_1d(halves, HAUL_BF16, 4), false};
    assert_launch_fails(&device, HAUL_OP_BIAS_BACKWARD, &bias, HAUL_ERROR_UNAVAILABLE,
                        "is bf16, must be f32");
    haul_step_scalars scalars = {0};
    haul_sgd_args sgd = {
        .parameter = bf16, .gradient = f32, .momentum_buffer = f32, .scalars = &scalars};
    assert_launch_fails(&device, HAUL_OP_SGD, &sgd, HAUL_ERROR_INTERNAL,
                        "low bits are absent, must be u16");
    haul_device_deinit(&device);
}

static void tokens_out_of_range_are_refused(void **state) {
    (void)state;
    int32_t tokens[3] = {0, 3, 4};
    float table[8] = {0}, y[6] = {0}, weights[3] = {0}, losses[3] = {0};
    haul_device device = open_cpu(1);
    haul_embed_args embed = {.tokens = haul_tensor_1d(tokens, HAUL_I32, 3),
                             .table = haul_tensor_2d(table, HAUL_F32, 4, 2),
                             .y = haul_tensor_2d(y, HAUL_F32, 3, 2),
                             .sequence_length = 3};
    const char *text = "row 2 is 4, must be at least 0 and below 4";
    assert_launch_fails(&device, HAUL_OP_EMBED, &embed, HAUL_ERROR_DATA, text);
    haul_embed_backward_args backward = {
        .tokens = embed.tokens, .dy = embed.y, .d_table = embed.table, .sequence_length = 3};
    assert_launch_fails(&device, HAUL_OP_EMBED_BACKWARD, &backward, HAUL_ERROR_DATA, text);
    tokens[2] = -1;
    haul_loss_args loss = {.logits = embed.y,
                           .targets = embed.tokens,
                           .weights = haul_tensor_1d(weights, HAUL_F32, 3),
                           .losses = haul_tensor_1d(losses, HAUL_F32, 3),
                           .vocabulary = 4};
    assert_launch_fails(&device, HAUL_OP_LOSS, &loss, HAUL_ERROR_DATA, "row 2 is -1");
    haul_device_deinit(&device);
}

/* Units in the last place of `want` between the two. */
static double ulps(float got, double want) {
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1.0, exponent - 24);
}

static void exp_is_within_two_ulp(void **state) {
    (void)state;
    for (float x = -86.98f; x < 88.0f; x += 0x1.3p-12f) {
        if (ulps(exp_f32(x), exp((double)x)) > 2.0) {
            fail_msg("exp(%a) is %a, must be %a", (double)x, (double)exp_f32(x), exp((double)x));
        }
    }
    assert_true(exp_f32(0.0f) == 1.0f);
    assert_true(exp_f32(-87.1f) == 0.0f);
    assert_true(exp_f32(-1e30f) == 0.0f);
    assert_true(exp_f32(-INFINITY) == 0.0f);
    assert_true(isnan(exp_f32(NAN)));
    assert_true(isnan(exp_f32(-NAN)));
    assert_true(isnan(exp_f32(float_from_bits(0x7fffffff))));
}

/* Of the NaNs, the quiet ones whose payload is not among the largest. */
static bool arithmetic_makes(uint32_t bits) {
    uint32_t magnitude = bits & 0x7fffffffu;
    return magnitude >= 0x7fc00000u && magnitude < 0x7fff8000u;
}

static void bf16_bits_round_as_the_conversion_does(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 1ull << 32; i += 509) {
        uint32_t bits[] = {(uint32_t)i, ((uint32_t)i & 0xffff0000u) | 0x8000u}; /* and a tie */
        for (int k = 0; k < 2; k++) {
            float value = float_from_bits(bits[k]);
            if (isnan(value)) {
                assert_true(!arithmetic_makes(bits[k]) ||
                            isnan(haul_bf16_to_f32(bf16_bits(value))));
            } else {
                assert_int_equal(bf16_bits(value), haul_f32_to_bf16(value));
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_an_entry),
        cmocka_unit_test(portable_is_the_last_isa),
        cmocka_unit_test(device_describes_itself),
        cmocka_unit_test(threads_0_are_all_cores),
        cmocka_unit_test(memory_is_aligned_zeroed_and_released),
        cmocka_unit_test(memory_runs_out_with_a_message),
        cmocka_unit_test(wrong_dtypes_are_refused),
        cmocka_unit_test(tokens_out_of_range_are_refused),
        cmocka_unit_test(exp_is_within_two_ulp),
        cmocka_unit_test(bf16_bits_round_as_the_conversion_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
