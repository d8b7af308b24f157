/* ctest: unit cuda */
/* The three products of a linear layer against ref, at degenerate, odd and larger shapes. */
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
     * for the bias and what was there. */
    haul_twin_assert_close(&c, haul_test_sum_bound(length + 2, 2.0 * (double)length + 20.0), "c");
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

int main(int argc, char **argv) {
    backend = haul_test_backend(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
