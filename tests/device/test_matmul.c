/* ctest: unit cuda */
/* The three products of a linear layer against ref, at degenerate, odd and larger shapes, and
 * products of FP8 codes. */
#include "device/compare.h"

typedef enum product_kind { FORWARD, DGRAD, WGRAD, KINDS } product_kind;

typedef struct product_case {
    product_kind kind;
    int64_t rows, n, k; /* weight [n, k] */
    haul_dtype dtype;
    bool bias, accumulate;
} product_case;

static haul_twin make_output(const product_case *test) {
    bool wgrad = test->kind == WGRAD;
    return haul_twin_random(wgrad ? HAUL_F32 : test->dtype, wgrad ? test->n : test->rows,
                            test->kind == FORWARD ? test->n : test->k, 1.0, 3);
}

static haul_twin element_of(const haul_twin *twin, int64_t index) {
    haul_twin one = {haul_tensor_1d(haul_tensor_at(&twin->tested, index), twin->tested.dtype, 1),
                     haul_tensor_1d(haul_tensor_at(&twin->ref, index), twin->ref.dtype, 1)};
    return one;
}

static void check_product(haul_pair *pair, const product_case *test) {
    bool wgrad = test->kind == WGRAD;
    haul_twin a = haul_twin_random(test->dtype, test->rows,
                                   test->kind == FORWARD ? test->k : test->n, 1.0, 1);
    haul_twin b = haul_twin_random(test->dtype, wgrad ? test->rows : test->n, test->k, 1.0, 2);
    haul_twin bias = haul_twin_random(test->dtype, test->n, 0, 1.0, 4);
    haul_twin c = make_output(test);
    haul_matmul_args tested = {.a = a.tested,
                               .b = b.tested,
                               .c = c.tested,
                               .transpose_a = wgrad,
                               .transpose_b = test->kind == FORWARD,
                               .accumulate = test->accumulate};
    haul_matmul_args ref = tested;
    ref.a = a.ref;
    ref.b = b.ref;
    ref.c = c.ref;
    if (test->bias) {
        tested.bias = bias.tested;
        ref.bias = bias.ref;
    }
    int64_t length = wgrad ? test->rows : test->kind == FORWARD ? test->k : test->n;
    haul_pair_launch(pair, HAUL_OP_MATMUL, &tested, &ref);
    /* Products of two normal numbers: their magnitudes add up to less than 2 a term, and 20 more
     * for the bias and what was there. The product may be rounded before a bias, below 6, comes. */
    double bound = haul_test_sum_bound(length + 2, 2.0 * (double)length + 20.0);
    for (int64_t row = 0; row < haul_tensor_rows(&c.ref) && test->bias; row++) {
        for (int64_t j = 0; j < test->n; j++) {
            haul_twin one = element_of(&c, row * test->n + j);
            double product = fabs(*(double *)one.ref.data) + 6;
            haul_twin_assert_close(&one, bound + haul_test_roundoff(test->dtype) * product, "c");
        }
    }
    if (!test->bias) {
        haul_twin_assert_close(&c, bound, "c");
    }
    haul_twin_free(&a);
    haul_twin_free(&b);
    haul_twin_free(&bias);
    haul_twin_free(&c);
}

static const char *backend; /* under test */

static void check_dtype(haul_dtype dtype) {
    static const int64_t shapes[][3] = {
        {1, 1, 1},     {3, 7, 17},    {7, 1, 130},    {17, 130, 96},  {130, 96, 3},
        {96, 33, 300}, {5, 600, 260}, {120, 20, 530}, {256, 384, 64}, {64, 256, 1024}};
    haul_pair pair;
    haul_pair_open(&pair, backend, 2);
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (int kind = 0; kind < KINDS; kind++) {
            for (int option = 0; option < 2; option++) {
                product_case test = {.kind = (product_kind)kind,
                                     .rows = shapes[s][0],
                                     .n = shapes[s][1],
                                     .k = shapes[s][2],
                                     .dtype = dtype,
                                     .bias = kind == FORWARD && option == 1,
                                     .accumulate = kind == WGRAD && option == 1};
                check_product(&pair, &test);
            }
        }
    }
    haul_pair_close(&pair);
}

static void test_f32(void **state) {
    (void)state;
    check_dtype(HAUL_F32);
}

static void test_bf16(void **state) {
    (void)state;
    check_dtype(HAUL_BF16);
}

/* --- FP8 ------------------------------------------------------------------------------------ */

typedef struct fp8_case {
    haul_dtype a, b;
    haul_scaling a_scaling, b_scaling;
    haul_dtype c;
    bool accumulate;
} fp8_case;

static uint32_t random_word(uint64_t stream, int64_t i) {
    const uint32_t key[2] = {91, (uint32_t)stream};
    const uint32_t counter[4] = {(uint32_t)i};
    return haul_philox_4x32(key, counter).word[0];
}

/* Codes of magnitudes up to 8, some 0, some subnormal; the memory serves both devices. */
static haul_tensor random_codes(haul_dtype dtype, int64_t rows, int64_t columns, uint64_t stream) {
    haul_tensor codes = haul_tensor_2d(haul_test_allocate(rows * columns), dtype, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        double uniform = (double)random_word(stream, i) / 0x1p31 - 1;
        haul_element_set(codes.data, dtype, i, 8 * uniform * uniform * uniform);
    }
    return codes;
}

static haul_tensor random_scales(haul_scaling scaling, int64_t rows, int64_t columns,
                                 uint64_t stream) {
    haul_tensor scales = haul_scales_shape(scaling, rows, columns);
    scales.data = haul_test_allocate(haul_tensor_bytes(&scales));
    for (int64_t i = 0; i < haul_tensor_count(&scales); i++) {
        ((float *)scales.data)[i] = 0.5f + (float)(random_word(stream, i) % 1024) / 1024.0f;
    }
    return scales;
}

/* Hopper sums 32 products of codes at a time, cut to 13 bits below the largest of them and of the
 * sum so far; each is at most 8 * 8 * 1.5 * 1.5. */
static double fp8_bound(int64_t k) {
    double largest = 144.0 * (double)k;
    return (double)(k / 32 + 2) * 32 * 0x1p-13 * 144.0 + haul_test_sum_bound(k, largest);
}

static void check_fp8(haul_pair *pair, const fp8_case *test, int64_t m, int64_t n, int64_t k) {
    haul_twin c = haul_twin_random(test->c, m, n, 1.0, 3);
    haul_matmul_args tested = {.a = random_codes(test->a, m, k, 1),
                               .b = random_codes(test->b, n, k, 2),
                               .c = c.tested,
                               .transpose_b = true,
                               .accumulate = test->accumulate,
                               .a_scaling = test->a_scaling,
                               .b_scaling = test->b_scaling,
                               .a_scales = random_scales(test->a_scaling, m, k, 4),
                               .b_scales = random_scales(test->b_scaling, n, k, 5),
                               .fast = test->a_scaling == HAUL_SCALING_TENSOR};
    haul_matmul_args ref = tested;
    ref.c = c.ref;
    haul_pair_launch(pair, HAUL_OP_MATMUL, &tested, &ref);
    haul_twin_assert_close(&c, fp8_bound(k), "c");
    haul_test_release(tested.a.data);
    haul_test_release(tested.b.data);
    haul_test_release(tested.a_scales.data);
    haul_test_release(tested.b_scales.data);
    haul_twin_free(&c);
}

static void test_fp8(void **state) {
    static const fp8_case cases[] = {
        {HAUL_E4M3, HAUL_E4M3, HAUL_SCALING_TENSOR, HAUL_SCALING_TENSOR, HAUL_BF16, false},
        {HAUL_E5M2, HAUL_E4M3, HAUL_SCALING_TENSOR, HAUL_SCALING_TENSOR, HAUL_F32, true},
        {HAUL_E4M3, HAUL_E4M3, HAUL_SCALING_ROWS, HAUL_SCALING_BLOCKS, HAUL_BF16, false},
        {HAUL_E4M3, HAUL_E4M3, HAUL_SCALING_ROWS, HAUL_SCALING_ROWS, HAUL_F32, true},
        {HAUL_E5M2, HAUL_E4M3, HAUL_SCALING_ROWS, HAUL_SCALING_BLOCKS, HAUL_F32, false},
    };
    static const int64_t shapes[][3] = {{1, 16, 16},     {5, 48, 144},   {16, 272, 272},
                                        {130, 24, 1040}, {255, 64, 128}, {256, 384, 512},
                                        {6, 17, 33}};
    haul_pair pair;
    (void)state;
    haul_pair_open(&pair, backend, 2);
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            check_fp8(&pair, &cases[i], shapes[s][0], shapes[s][1], shapes[s][2]);
        }
    }
    haul_pair_close(&pair);
}

int main(int argc, char **argv) {
    backend = haul_test_backend(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_fp8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
