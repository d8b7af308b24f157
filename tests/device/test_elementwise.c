/* ctest: unit cuda */
#include "device/check.h"

/* Both sides keep their dtype, so that ref's element-wise conversion is the oracle to the bit. */
static void check_same_bytes(haul_check *check, haul_op op, const void *tested, const void *ref,
                             const haul_tensor *got, const haul_tensor *want) {
    haul_pair_launch(&check->pair, op, tested, ref);
    assert_memory_equal(got->data, want->data, (size_t)haul_tensor_bytes(got));
}

static void check_fill(haul_check *check) {
    static const double values[] = {0.0, -0.0, 1.5, -3.0};
    for (int dtype = 0; dtype < HAUL_DTYPES; dtype++) {
        for (int i = 0; i < 4; i++) {
            haul_twin y = haul_twin_output((haul_dtype)dtype, check->rows, check->columns);
            haul_twin other = haul_twin_output((haul_dtype)dtype, check->rows, check->columns);
            bool is_unsigned = dtype == HAUL_U8 || dtype == HAUL_U16;
            double value = is_unsigned ? fabs(values[i]) : values[i];
            haul_fill_args tested = {y.tested, value}, ref = {other.tested, value};
            check_same_bytes(check, HAUL_OP_FILL, &tested, &ref, &y.tested, &other.tested);
            haul_twin_free(&y);
            haul_twin_free(&other);
        }
    }
}

static void check_copy(haul_check *check) {
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_BF16, HAUL_F64, HAUL_F16};
    int64_t wide = check->columns + 3;
    for (int to = 0; to < 4; to++) {
        for (int strided = 0; strided < 2; strided++) {
            int64_t stride = strided ? wide : check->columns;
            haul_twin x = haul_twin_random(check->dtype, check->rows, wide, 100.0, 1);
            haul_twin y = haul_twin_output(dtypes[to], check->rows, wide);
            haul_twin other = haul_twin_output(dtypes[to], check->rows, wide);
            haul_tensor from = x.tested, got = y.tested, want = other.tested;
            from.shape[1] = got.shape[1] = want.shape[1] = check->columns;
            haul_copy_args tested = {from, got, wide, stride}, ref = {from, want, wide, stride};
            check_same_bytes(check, HAUL_OP_COPY, &tested, &ref, &y.tested, &other.tested);
            haul_twin_free(&x);
            haul_twin_free(&y);
            haul_twin_free(&other);
        }
    }
}

static void check_add(haul_check *check) {
    haul_twin a = haul_check_random(check, 1), b = haul_check_random(check, 2);
    haul_twin y = haul_check_output(check);
    haul_add_args tested = {a.tested, b.tested, y.tested}, ref = {a.ref, b.ref, y.ref};
    haul_pair_launch(&check->pair, HAUL_OP_ADD, &tested, &ref);
    haul_check_finish(check, &y, HAUL_U * haul_check_largest(&y), "y");
    tested.y = a.tested; /* in place */
    ref.y = a.ref;
    haul_pair_launch(&check->pair, HAUL_OP_ADD, &tested, &ref);
    haul_check_finish(check, &a, HAUL_U * haul_check_largest(&a), "y in place");
    haul_twin_free(&b);
}

static void check_dropout_with(haul_check *check, double probability) {
    haul_twin x = haul_check_random(check, 1), y = haul_check_output(check);
    haul_dropout dropout = {.probability = probability,
                            .seed = 0x123456789abcdef0,
                            .step = 77,
                            .stream = 5,
                            .first_sample = 0xffffffff};
    haul_dropout_args tested = {x.tested, y.tested, check->sequence, dropout};
    haul_dropout_args ref = {x.ref, y.ref, check->sequence, dropout};
    haul_pair_launch(&check->pair, HAUL_OP_DROPOUT, &tested, &ref);
    for (int64_t i = 0; i < haul_tensor_count(&y.tested); i++) {
        double got = haul_element_get(y.tested.data, y.tested.dtype, i);
        double want = haul_element_get(y.ref.data, y.ref.dtype, i);
        assert_true((got == 0.0) == (want == 0.0));
    }
    haul_check_finish(check, &y, 2.0 * HAUL_U * haul_check_largest(&y), "y");
    haul_twin_free(&x);
}

static void check_dropout(haul_check *check) {
    static const double probabilities[] = {0.0, 0.1, 0.5, 0.9999};
    for (int i = 0; i < 4; i++) {
        check_dropout_with(check, probabilities[i]);
    }
}

enum { VOCABULARY = 37 };

static void check_embed(haul_check *check) {
    haul_twin tokens = haul_twin_indices(check->rows, VOCABULARY, 1);
    haul_twin table = haul_twin_random(check->dtype, VOCABULARY, check->columns, 1.0, 2);
    haul_twin positions =
        haul_twin_random(check->dtype, check->sequence + 3, check->columns, 1.0, 3);
    for (int with = 0; with < 2; with++) {
        haul_twin y = haul_check_output(check);
        haul_embed_args tested = {.tokens = tokens.tested,
                                  .table = table.tested,
                                  .y = y.tested,
                                  .sequence_length = check->sequence,
                                  .position_offset = 2};
        haul_embed_args ref = tested;
        ref.tokens = tokens.ref;
        ref.table = table.ref;
        ref.y = y.ref;
        if (with) {
            tested.positions = positions.tested;
            ref.positions = positions.ref;
        }
        haul_pair_launch(&check->pair, HAUL_OP_EMBED, &tested, &ref);
        haul_check_finish(check, &y, with ? HAUL_U * haul_check_largest(&y) : 0.0, "y");
    }
    haul_twin_free(&tokens);
    haul_twin_free(&table);
    haul_twin_free(&positions);
}

static void check_embed_backward(haul_check *check) {
    haul_twin tokens = haul_twin_indices(check->rows, VOCABULARY, 1);
    haul_twin dy = haul_check_random(check, 2);
    double bound =
        haul_test_sum_bound(check->rows + 1, (double)(check->rows + 1) * haul_check_largest(&dy));
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        for (int with = 0; with < 2; with++) {
            haul_twin d_table = haul_twin_random(HAUL_F32, VOCABULARY, check->columns, 1.0, 3);
            haul_twin d_positions =
                haul_twin_random(HAUL_F32, check->sequence + 2, check->columns, 1.0, 4);
            haul_embed_backward_args tested = {.tokens = tokens.tested,
                                               .dy = dy.tested,
                                               .d_table = d_table.tested,
                                               .sequence_length = check->sequence,
                                               .accumulate_table = accumulate,
                                               .accumulate_positions = !accumulate};
            haul_embed_backward_args ref = tested;
            ref.tokens = tokens.ref;
            ref.dy = dy.ref;
            ref.d_table = d_table.ref;
            if (with) {
                tested.d_positions = d_positions.tested;
                ref.d_positions = d_positions.ref;
            }
            haul_pair_launch(&check->pair, HAUL_OP_EMBED_BACKWARD, &tested, &ref);
            haul_check_finish(check, &d_table, bound, "d_table");
            haul_check_finish(check, &d_positions, bound, "d_positions");
        }
    }
    haul_twin_free(&tokens);
    haul_twin_free(&dy);
}

static void check_rope_with(haul_check *check, int64_t head_size, int64_t rotary_size,
                            bool inverse) {
    int64_t positions = check->sequence + 3;
    haul_twin x = haul_check_random(check, 1);
    haul_twin table = haul_twin_random(HAUL_F32, positions, rotary_size, 1.0, 2);
    haul_rope_args tested = {.x = x.tested,
                             .table = table.tested,
                             .heads = check->columns / head_size,
                             .head_size = head_size,
                             .rotary_size = rotary_size,
                             .sequence_length = check->sequence,
                             .position_offset = 3,
                             .inverse = inverse};
    haul_rope_args ref = tested;
    ref.x = x.ref;
    ref.table = table.ref;
    double magnitude = haul_check_largest(&x) * haul_check_largest(&table);
    haul_pair_launch(&check->pair, HAUL_OP_ROPE, &tested, &ref);
    haul_check_finish(check, &x, haul_test_sum_bound(2, 2.0 * magnitude), "x");
    haul_twin_free(&table);
}

static void check_rope(haul_check *check) {
    static const int64_t sizes[][2] = {{6, 6}, {7, 4}, {64, 32}, {258, 258}};
    for (int i = 0; i < 4; i++) {
        if (sizes[i][0] <= check->columns) {
            check_rope_with(check, sizes[i][0], sizes[i][1], false);
            check_rope_with(check, sizes[i][0], sizes[i][1], true);
        }
    }
}

/* exp: 4 U; 1 + exp, the quotient and two products one U each. */
static void check_swiglu(haul_check *check) {
    haul_twin x = haul_twin_random(check->dtype, check->rows, 2 * check->columns, 8.0, 1);
    haul_twin y = haul_check_output(check);
    haul_swiglu_args tested = {x.tested, y.tested}, ref = {x.ref, y.ref};
    haul_pair_launch(&check->pair, HAUL_OP_SWIGLU, &tested, &ref);
    haul_check_finish(check, &y, 8.0 * HAUL_U * haul_check_largest(&y), "y");
    haul_twin_free(&x);
}

/* As above, and z (1 - s) with the absolute error of s. */
static void check_swiglu_backward(haul_check *check) {
    haul_twin x = haul_twin_random(check->dtype, check->rows, 2 * check->columns, 8.0, 1);
    haul_twin dx = haul_twin_output(check->dtype, check->rows, 2 * check->columns);
    haul_twin dy = haul_check_random(check, 2);
    haul_swiglu_backward_args tested = {dy.tested, x.tested, dx.tested};
    haul_swiglu_backward_args ref = {dy.ref, x.ref, dx.ref};
    double largest = haul_check_largest(&x);
    double bound = 10.0 * HAUL_U * haul_check_largest(&dy) * largest * (1.0 + largest);
    haul_pair_launch(&check->pair, HAUL_OP_SWIGLU_BACKWARD, &tested, &ref);
    haul_check_finish(check, &dx, bound, "dx");
    haul_twin_free(&x);
    haul_twin_free(&dy);
}

static void check_gelu(haul_check *check) {
    for (int tanh = 0; tanh < 2; tanh++) {
        haul_twin x = haul_twin_random(check->dtype, check->rows, check->columns, 2.0, 1);
        haul_twin y = haul_check_output(check);
        haul_gelu_args tested = {x.tested, y.tested, tanh}, ref = {x.ref, y.ref, tanh};
        haul_pair_launch(&check->pair, HAUL_OP_GELU, &tested, &ref);
        haul_check_finish(check, &y, 8.0 * HAUL_U * haul_check_largest(&x), "y");
        haul_twin_free(&x);
    }
}

/* The derivative is s + x s (1 - s) u'(x): the absolute error of s, at most 8 U (relative, so it
 * is small where s is), is multiplied by |x| u'(x). */
static void check_gelu_backward(haul_check *check) {
    for (int tanh = 0; tanh < 2; tanh++) {
        haul_twin x = haul_twin_random(check->dtype, check->rows, check->columns, 2.0, 1);
        haul_twin dy = haul_check_random(check, 2);
        haul_gelu_backward_args tested = {dy.tested, x.tested, dy.tested, tanh};
        haul_gelu_backward_args ref = {dy.ref, x.ref, dy.ref, tanh};
        double largest = haul_check_largest(&x);
        double slope = largest * 1.6 * (1.0 + 0.135 * largest * largest);
        double bound = 8.0 * HAUL_U * haul_check_largest(&dy) * (1.0 + slope);
        haul_pair_launch(&check->pair, HAUL_OP_GELU_BACKWARD, &tested, &ref);
        haul_check_finish(check, &dy, bound, "dx in place");
        haul_twin_free(&x);
    }
}

static void run(void **state) {
    haul_check_everywhere((haul_check_function *)*state);
}

int main(int argc, char **argv) {
    haul_check_backend = haul_test_backend(argc, argv);
    const struct CMUnitTest tests[] = {
        {"fill", run, NULL, NULL, (void *)check_fill},
        {"copy", run, NULL, NULL, (void *)check_copy},
        {"add", run, NULL, NULL, (void *)check_add},
        {"dropout", run, NULL, NULL, (void *)check_dropout},
        {"embed", run, NULL, NULL, (void *)check_embed},
        {"embed_backward", run, NULL, NULL, (void *)check_embed_backward},
        {"rope", run, NULL, NULL, (void *)check_rope},
        {"swiglu", run, NULL, NULL, (void *)check_swiglu},
        {"swiglu_backward", run, NULL, NULL, (void *)check_swiglu_backward},
        {"gelu", run, NULL, NULL, (void *)check_gelu},
        {"gelu_backward", run, NULL, NULL, (void *)check_gelu_backward},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
