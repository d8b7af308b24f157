/* ctest: unit cuda */
#include "device/check.h"

/* Makes ref's side hold what the tested side computed. */
static void copy_to_ref(haul_twin *twin) {
    for (int64_t i = 0; i < haul_tensor_count(&twin->tested); i++) {
        double value = haul_element_get(twin->tested.data, twin->tested.dtype, i);
        haul_element_set(twin->ref.data, twin->ref.dtype, i, value);
    }
}

typedef struct norm_tensors {
    haul_twin x, addend, sum, weight, bias, y, statistics;
} norm_tensors;

static void check_norm_outputs(haul_check *check, norm_tensors *t) {
    /* Relative errors: a sum of H terms in the mean, half of such a sum and a few roundings in
     * rstd; both act on s, which is at most `s` above its mean. */
    double terms = (double)check->columns + 8.0;
    double s = haul_check_largest(&t->x) + haul_check_largest(&t->addend);
    double rstd = haul_check_largest(&t->statistics);
    double bound = 2.0 * terms * HAUL_U * s * rstd * haul_check_largest(&t->weight);
    haul_check_finish(check, &t->y, bound + HAUL_U * haul_check_largest(&t->bias), "y");
    haul_check_finish(check, &t->statistics, terms * HAUL_U * fmax(s, rstd), "statistics");
}

static void check_norm_with(haul_check *check, haul_norm_kind kind, bool addend, bool bias) {
    norm_tensors t = {
        .x = haul_twin_random(check->dtype, check->rows, check->columns, 3.0, 1),
        .addend = haul_check_random(check, 2),
        .sum = haul_check_output(check),
        .weight = haul_twin_random(check->dtype, check->columns, 0, 1.0, 3),
        .bias = haul_twin_random(check->dtype, check->columns, 0, 1.0, 4),
        .y = haul_check_output(check),
        .statistics = haul_twin_output(HAUL_F32, check->rows, 2),
    };
    haul_norm_args tested = {.kind = kind,
                             .epsilon = 1e-5,
                             .x = t.x.tested,
                             .weight = t.weight.tested,
                             .y = t.y.tested,
                             .statistics = t.statistics.tested};
    haul_norm_args ref = tested;
    ref.x = t.x.ref;
    ref.weight = t.weight.ref;
    ref.y = t.y.ref;
    ref.statistics = t.statistics.ref;
    if (bias) {
        tested.bias = t.bias.tested;
        ref.bias = t.bias.ref;
    }
    if (addend) {
        tested.addend = t.addend.tested;
        tested.sum = t.sum.tested;
    }
    haul_test_launch(&check->pair.tested, HAUL_OP_NORM, &tested);
    if (addend) { /* ref normalises the rounded sum, as op.h has it */
        haul_add_args add = {t.x.ref, t.addend.ref, t.sum.ref};
        haul_test_launch(&check->pair.ref, HAUL_OP_ADD, &add);
        haul_twin_assert_close(&t.sum, HAUL_U * haul_check_largest(&t.sum), "sum");
        copy_to_ref(&t.sum);
        ref.x = t.sum.ref;
    }
    haul_test_launch(&check->pair.ref, HAUL_OP_NORM, &ref);
    check_norm_outputs(check, &t);
    haul_twin_free(&t.x);
    haul_twin_free(&t.addend);
    haul_twin_free(&t.sum);
    haul_twin_free(&t.weight);
    haul_twin_free(&t.bias);
}

/* Rows that the threads of a GPU's block take in 2, 3 and 4 turns; once for a dtype. */
static void check_wide(haul_check *check, haul_check_function *function) {
    static const int64_t row_bytes[] = {16384, 25004, 32768};
    if (check->columns != 7) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        check->columns = row_bytes[i] / haul_dtype_size(check->dtype);
        function(check);
    }
    check->columns = 7;
}

static void check_wide_norm(haul_check *check) {
    check_norm_with(check, HAUL_NORM_RMS, true, false);
    check_norm_with(check, HAUL_NORM_LAYER, false, true);
}

static void check_norm(haul_check *check) {
    check_wide(check, check_wide_norm);
    for (int i = 0; i < 8; i++) {
        check_norm_with(check, i % 2 ? HAUL_NORM_LAYER : HAUL_NORM_RMS, i / 2 % 2, i / 4);
    }
}

typedef struct norm_backward_tensors {
    haul_twin dy, s, weight, statistics, residual, dx, d_weight, d_bias;
} norm_backward_tensors;

static norm_backward_tensors norm_backward_inputs(haul_check *check, haul_norm_kind kind) {
    norm_backward_tensors t = {
        .dy = haul_check_random(check, 1),
        .s = haul_twin_random(check->dtype, check->rows, check->columns, 2.0, 2),
        .weight = haul_twin_random(check->dtype, check->columns, 0, 1.0, 3),
        .statistics = haul_twin_output(HAUL_F32, check->rows, 2),
        .residual = haul_check_random(check, 4),
        .dx = haul_check_output(check),
        .d_weight = haul_twin_random(HAUL_F32, check->columns, 0, 1.0, 5),
        .d_bias = haul_twin_random(HAUL_F32, check->columns, 0, 1.0, 6),
    };
    haul_norm_args forward = {.kind = kind,
                              .epsilon = 1e-2,
                              .x = t.s.ref,
                              .weight = t.weight.ref,
                              .y = t.dx.ref,
                              .statistics = t.statistics.ref};
    haul_test_launch(&check->pair.ref, HAUL_OP_NORM, &forward);
    for (int64_t i = 0; i < 2 * check->rows; i++) { /* both sides see the rounded statistics */
        haul_twin_set(&t.statistics, i, ((double *)t.statistics.ref.data)[i]);
    }
    return t;
}

static void check_norm_backward_with(haul_check *check, haul_norm_kind kind, bool residual,
                                     bool bias) {
    norm_backward_tensors t = norm_backward_inputs(check, kind);
    haul_norm_backward_args tested = {.kind = kind,
                                      .dy = t.dy.tested,
                                      .s = t.s.tested,
                                      .weight = t.weight.tested,
                                      .statistics = t.statistics.tested,
                                      .dx = t.dx.tested,
                                      .d_weight = t.d_weight.tested,
                                      .accumulate = residual};
    haul_norm_backward_args ref = {.kind = kind,
                                   .dy = t.dy.ref,
                                   .s = t.s.ref,
                                   .weight = t.weight.ref,
                                   .statistics = t.statistics.ref,
                                   .dx = t.dx.ref,
                                   .d_weight = t.d_weight.ref,
                                   .accumulate = residual};
    if (residual) {
        tested.residual = t.residual.tested;
        ref.residual = t.residual.ref;
    }
    if (bias) {
        tested.d_bias = t.d_bias.tested;
        ref.d_bias = t.d_bias.ref;
    }
    double dy = haul_check_largest(&t.dy), g = dy * haul_check_largest(&t.weight);
    double rstd = haul_check_largest(&t.statistics);
    double n = 2.0 * haul_check_largest(&t.s) * rstd; /* at least the largest normalised value */
    double terms = (double)check->columns + 8.0, rows = (double)check->rows + 1.0;
    haul_pair_launch(&check->pair, HAUL_OP_NORM_BACKWARD, &tested, &ref);
    haul_check_finish(check, &t.dx, HAUL_U * (terms * rstd * g * (1.0 + n * n) + 4.0), "dx");
    haul_check_finish(check, &t.d_weight, haul_test_sum_bound(check->rows + 4, rows * dy * n),
                      "d_weight");
    haul_check_finish(check, &t.d_bias, haul_test_sum_bound(check->rows + 1, rows * dy), "d_bias");
    haul_twin_free(&t.dy);
    haul_twin_free(&t.s);
    haul_twin_free(&t.weight);
    haul_twin_free(&t.statistics);
    haul_twin_free(&t.residual);
}

static void check_wide_norm_backward(haul_check *check) {
    check_norm_backward_with(check, HAUL_NORM_RMS, false, true);
    check_norm_backward_with(check, HAUL_NORM_LAYER, true, false);
}

static void check_norm_backward(haul_check *check) {
    check_wide(check, check_wide_norm_backward);
    for (int i = 0; i < 8; i++) {
        check_norm_backward_with(check, i % 2 ? HAUL_NORM_LAYER : HAUL_NORM_RMS, i / 2 % 2, i / 4);
    }
}

static void check_bias_backward(haul_check *check) {
    haul_twin dy = haul_check_random(check, 1);
    double magnitude = (double)(check->rows + 1) * haul_check_largest(&dy);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        haul_twin d_bias = haul_twin_random(HAUL_F32, check->columns, 0, 1.0, 2);
        haul_bias_backward_args tested = {dy.tested, d_bias.tested, accumulate};
        haul_bias_backward_args ref = {dy.ref, d_bias.ref, accumulate};
        haul_pair_launch(&check->pair, HAUL_OP_BIAS_BACKWARD, &tested, &ref);
        haul_check_finish(check, &d_bias, haul_test_sum_bound(check->rows + 1, magnitude),
                          "d_bias");
    }
    haul_twin_free(&dy);
}

/* Vocabularies below, at and above the kernel's blocks of logits. */
static void check_loss_with(haul_check *check, int64_t vocabulary, int64_t padding, double scale) {
    int64_t columns = vocabulary + padding, rows = haul_min(check->rows, 7);
    haul_twin logits = haul_twin_random(check->dtype, rows, columns, scale, 1);
    haul_twin targets = haul_twin_indices(rows, vocabulary, 2);
    haul_twin weights = haul_twin_random(HAUL_F32, rows, 0, 1.0, 3);
    haul_twin losses = haul_twin_output(HAUL_F32, rows, 0);
    haul_twin_set(&weights, 0, 0.0);
    haul_loss_args tested = {.logits = logits.tested,
                             .targets = targets.tested,
                             .weights = weights.tested,
                             .losses = losses.tested,
                             .vocabulary = vocabulary};
    haul_loss_args ref = {.logits = logits.ref,
                          .targets = targets.ref,
                          .weights = weights.ref,
                          .losses = losses.ref,
                          .vocabulary = vocabulary};
    /* The exponents are rounded once, each exp is within 4 U, a sum has at most 1024 terms. */
    double range = 2.0 * haul_check_largest(&logits);
    double relative = ((double)haul_min(vocabulary, 1024) + 6.0 + range) * HAUL_U;
    haul_pair_launch(&check->pair, HAUL_OP_LOSS, &tested, &ref);
    haul_twin_assert_close(&losses, relative, "losses without gradient");
    tested.gradient = ref.gradient = true;
    haul_pair_launch(&check->pair, HAUL_OP_LOSS, &tested, &ref);
    haul_check_finish(check, &losses, relative, "losses");
    haul_check_finish(check, &logits, relative * haul_check_largest(&weights), "gradient");
    haul_twin_free(&targets);
    haul_twin_free(&weights);
}

static void check_loss(haul_check *check) {
    check_loss_with(check, check->columns, 0, 1.0);
    check_loss_with(check, check->columns, 5, 20.0);
    if (check->columns == 7) { /* once for a dtype is enough for the large ones */
        check_loss_with(check, 1024, 1, 5.0);
        check_loss_with(check, 2051, 13, 5.0);
    }
}

static void check_squared_norm(haul_check *check) {
    haul_twin x = haul_check_random(check, 1);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        haul_twin result = haul_twin_random(HAUL_F64, 1, 0, 1.0, 2);
        haul_squared_norm_args tested = {x.tested, result.tested, accumulate};
        haul_squared_norm_args ref = {x.ref, result.ref, accumulate};
        haul_pair_launch(&check->pair, HAUL_OP_SQUARED_NORM, &tested, &ref);
        double terms = (double)haul_tensor_count(&x.tested) + 1.0;
        haul_check_finish(check, &result, terms * 0x1p-53 * haul_check_largest(&result), "result");
    }
    haul_twin_free(&x);
}

static float poisoned_loss(haul_check *check, haul_twin *logits, int64_t target) {
    haul_twin targets = haul_twin_output(HAUL_I32, check->rows, 0);
    haul_twin weights = haul_twin_random(HAUL_F32, check->rows, 0, 1.0, 3);
    haul_twin losses = haul_twin_output(HAUL_F32, check->rows, 0);
    haul_twin_set(&targets, check->rows - 1, (double)target);
    haul_loss_args loss = {.logits = logits->tested,
                           .targets = targets.tested,
                           .weights = weights.tested,
                           .losses = losses.tested,
                           .vocabulary = check->columns};
    haul_test_launch(&check->pair.tested, HAUL_OP_LOSS, &loss);
    float last = ((float *)losses.tested.data)[check->rows - 1];
    haul_twin_free(&targets);
    haul_twin_free(&weights);
    haul_twin_free(&losses);
    return last;
}

/* A value that is not finite, anywhere, shows in what the verdict looks at; -inf is an honest logit
 * of what must not come next, unless it comes. */
static void check_non_finite(haul_check *check) {
    static const double poisons[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (int i = 0; i < 9; i++) {
        haul_twin x = haul_check_random(check, 1);
        int64_t place =
            (check->columns - 1) * (i / 3) / 2; /* first, middle, last of the last row */
        int64_t row = (check->rows - 1) * check->columns;
        haul_twin_set(&x, row + place, poisons[i % 3]);
        double *norm = haul_test_allocate((int64_t)sizeof *norm);
        haul_squared_norm_args squared = {x.tested, haul_tensor_1d(norm, HAUL_F64, 1), false};
        haul_test_launch(&check->pair.tested, HAUL_OP_SQUARED_NORM, &squared);
        assert_true(!isfinite(*norm));
        haul_test_release(norm);
        assert_true(!isfinite(poisoned_loss(check, &x, place)));
        if (check->columns > 1) {
            float other = poisoned_loss(check, &x, (place + 1) % check->columns);
            assert_true((isfinite(other) != 0) == (poisons[i % 3] < 0.0));
        }
        haul_twin_free(&x);
    }
}

/* The bits of what the reductions over a row make of the same numbers at another address. */
static void check_alignment(haul_check *check) {
    haul_hash hashes[2];
    int64_t count = check->rows * check->columns, size = haul_dtype_size(check->dtype);
    haul_twin x = haul_check_random(check, 1);
    haul_twin weight = haul_twin_random(check->dtype, check->columns, 0, 1.0, 2);
    for (int64_t shift = 0; shift < 2; shift++) {
        char *moved = haul_test_allocate((count + 1) * size);
        memcpy(moved + shift * size, x.tested.data, (size_t)(count * size));
        haul_tensor at = x.tested;
        at.data = moved + shift * size;
        double *result = haul_test_allocate((1 + check->rows) * (int64_t)sizeof *result);
        haul_twin y = haul_check_output(check);
        haul_norm_args norm = {.kind = HAUL_NORM_LAYER,
                               .epsilon = 1e-5,
                               .x = at,
                               .weight = weight.tested,
                               .y = y.tested,
                               .statistics = haul_tensor_2d(result + 1, HAUL_F32, check->rows, 2)};
        haul_test_launch(&check->pair.tested, HAUL_OP_NORM, &norm);
        haul_squared_norm_args squared = {at, haul_tensor_1d(result, HAUL_F64, 1), false};
        haul_test_launch(&check->pair.tested, HAUL_OP_SQUARED_NORM, &squared);
        hashes[shift] = haul_hash_128(result, (1 + check->rows) * (int64_t)sizeof *result);
        haul_twin_free(&y);
        haul_test_release(result);
        haul_test_release(moved);
    }
    assert_true(hashes[0].high == hashes[1].high && hashes[0].low == hashes[1].low);
    haul_twin_free(&x);
    haul_twin_free(&weight);
}

static void run(void **state) {
    haul_check_everywhere((haul_check_function *)*state);
}

int main(int argc, char **argv) {
    haul_check_backend = haul_test_backend(argc, argv);
    const struct CMUnitTest tests[] = {
        {"norm", run, NULL, NULL, (void *)check_norm},
        {"norm_backward", run, NULL, NULL, (void *)check_norm_backward},
        {"bias_backward", run, NULL, NULL, (void *)check_bias_backward},
        {"loss", run, NULL, NULL, (void *)check_loss},
        {"squared_norm", run, NULL, NULL, (void *)check_squared_norm},
        {"alignment", run, NULL, NULL, (void *)check_alignment},
        {"non-finite values", run, NULL, NULL, (void *)check_non_finite},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
