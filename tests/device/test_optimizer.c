/* ctest: unit cuda */
#include "device/check.h"

static const haul_step_scalars step = {.learning_rate = 3e-2,
                                       .gradient_scale = 0.7,
                                       .bias_correction1 = 0.19,
                                       .bias_correction2 = 0.0975,
                                       .update = 7};
static const haul_step_scalars skipped = {
    .bias_correction1 = 1.0, .bias_correction2 = 1.0, .skip = 1};
static const uint64_t seed = 0x123456789abcdefu;
static const uint32_t stream = 0x98765432u;

/* A master weight held as f32, or split into `parameter` and `low`. The twin has its value. */
typedef struct master {
    haul_twin value;
    haul_tensor parameter, low; /* for the args */
} master;

static master master_create(int64_t count, bool split) {
    master m = {.value = haul_twin_random(HAUL_F32, count, 0, 1.0, 1)};
    m.parameter = m.value.tested;
    if (split) {
        m.parameter = haul_tensor_1d(haul_test_allocate(2 * count), HAUL_BF16, count);
        m.low = haul_tensor_1d(haul_test_allocate(2 * count), HAUL_U16, count);
        for (int64_t i = 0; i < count; i++) {
            haul_master_split(((float *)m.value.tested.data)[i], (uint16_t *)m.parameter.data + i,
                              (uint16_t *)m.low.data + i);
        }
    }
    return m;
}

/* Puts the value of a split master into its twin and frees the parts. The bf16 parameter must be
 * the nearest to the value. */
static void master_join(master *m) {
    if (m->low.data == NULL) {
        return;
    }
    float *value = m->value.tested.data;
    const uint16_t *parameter = m->parameter.data, *low = m->low.data;
    for (int64_t i = 0; i < haul_tensor_count(&m->parameter); i++) {
        value[i] = haul_master_join(parameter[i], low[i]);
        float rounded = haul_bf16_to_f32(parameter[i]);
        assert_true(isnan(value[i]) || fabsf(value[i] - rounded) <= 0x1p-8f * fabsf(value[i]));
    }
    haul_test_release(m->parameter.data);
    haul_test_release(m->low.data);
}

/* Where the device under test can read them. */
static haul_step_scalars *lend(const haul_step_scalars *scalars) {
    haul_step_scalars *lent = haul_test_allocate((int64_t)sizeof *lent);
    *lent = *scalars;
    return lent;
}

typedef struct adam_run {
    master parameter;
    haul_twin gradient, first, second;
} adam_run;

/* Which moments are bf16. */
enum { F32_MOMENTS = 0, BF16_FIRST = 1, BF16_SECOND = 2, MOMENT_KINDS = 4 };

static haul_dtype moment_dtype(int kind, int moment) {
    return kind & moment ? HAUL_BF16 : HAUL_F32;
}

/* Start values are the same for all kinds of moments. `special`: gradients are not finite, on and
 * off. */
static adam_run adam_create(int64_t count, bool split, int kind, bool special) {
    adam_run run = {.parameter = master_create(count, split),
                    .gradient = haul_twin_random(HAUL_F32, count, 0, 0.1, 2),
                    .first = haul_twin_output(moment_dtype(kind, BF16_FIRST), count, 0),
                    .second = haul_twin_output(moment_dtype(kind, BF16_SECOND), count, 0)};
    haul_twin first = haul_twin_random(HAUL_BF16, count, 0, 0.1, 3);
    haul_twin second = haul_twin_random(HAUL_BF16, count, 0, 0.1, 4);
    static const double specials[] = {(double)INFINITY, 0.5, (double)NAN, -(double)INFINITY, -0.5};
    for (int64_t i = 0; i < count; i++) {
        haul_twin_set(&run.first, i, ((double *)first.ref.data)[i]);
        haul_twin_set(&run.second, i, fabs(((double *)second.ref.data)[i]));
        if (special) {
            haul_twin_set(&run.gradient, i, specials[i % 5]);
        }
    }
    haul_twin_free(&first);
    haul_twin_free(&second);
    return run;
}

/* On the device under test; on_ref turns them into those for ref. */
static haul_adam_args adam_args(const adam_run *run, const haul_step_scalars *scalars) {
    return (haul_adam_args){.parameter = run->parameter.parameter,
                            .low = run->parameter.low,
                            .gradient = run->gradient.tested,
                            .first_moment = run->first.tested,
                            .second_moment = run->second.tested,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .epsilon = 1e-8,
                            .weight_decay = 0.1,
                            .seed = seed,
                            .stream = stream,
                            .scalars = scalars};
}

static haul_adam_args on_ref(haul_adam_args args, const adam_run *run) {
    args.parameter = run->parameter.value.ref;
    args.low = (haul_tensor){0};
    args.gradient = run->gradient.ref;
    args.first_moment = run->first.ref;
    args.second_moment = run->second.ref;
    return args;
}

static void adam_launch(haul_check *check, adam_run *run, const haul_step_scalars *scalars) {
    haul_step_scalars *lent = lend(scalars);
    haul_adam_args tested = adam_args(run, lent), ref = on_ref(tested, run);
    haul_pair_launch(&check->pair, HAUL_OP_ADAM, &tested, &ref);
    haul_test_release(lent);
    master_join(&run->parameter);
}

static adam_run adam_updated(haul_check *check, bool split, int kind, bool special) {
    adam_run run = adam_create(check->rows * check->columns, split, kind, special);
    adam_launch(check, &run, &step);
    return run;
}

/* Betas are rounded to f32, four roundings; the moment itself may go to either neighbour. */
static double moment_bound(const haul_twin *moment) {
    double roundoff = moment->tested.dtype == HAUL_BF16 ? 0x1p-7 : 0.0;
    return (roundoff + 5.0 * HAUL_U) * haul_check_largest(moment);
}

/* The direction m / sqrt(v) is at most 1 / sqrt(c2 (1 - beta2)) times a few for the moments above,
 * and its error a few U of it. */
static void adam_finish(haul_check *check, adam_run *run) {
    double update = 0.0;
    haul_twin before = haul_twin_random(HAUL_F32, haul_tensor_count(&run->gradient.ref), 0, 1.0, 1);
    for (int64_t i = 0; i < haul_tensor_count(&before.ref); i++) {
        double moved =
            ((double *)run->parameter.value.ref.data)[i] - ((double *)before.ref.data)[i];
        update = fmax(update, fabs(moved));
    }
    haul_check_finish(check, &run->parameter.value, 16.0 * HAUL_U * update, "parameter");
    haul_check_finish(check, &run->first, moment_bound(&run->first), "first");
    haul_check_finish(check, &run->second, moment_bound(&run->second), "second");
    haul_twin_free(&run->gradient);
    haul_twin_free(&before);
}

static void adam_free(adam_run *run) {
    haul_twin_free(&run->parameter.value);
    haul_twin_free(&run->gradient);
    haul_twin_free(&run->first);
    haul_twin_free(&run->second);
}

static void check_adam(haul_check *check) {
    adam_run whole = adam_updated(check, false, F32_MOMENTS, false);
    adam_run split = adam_updated(check, true, F32_MOMENTS, false);
    assert_memory_equal(whole.parameter.value.tested.data, split.parameter.value.tested.data,
                        (size_t)haul_tensor_bytes(&whole.parameter.value.tested));
    adam_finish(check, &whole);
    adam_finish(check, &split);
}

/* Every element has the value that it started with, which is its twin's. */
static void assert_unchanged(const haul_twin *twin) {
    for (int64_t i = 0; i < haul_tensor_count(&twin->tested); i++) {
        double got = haul_element_get(twin->tested.data, twin->tested.dtype, i);
        assert_true(got == ((double *)twin->ref.data)[i]);
    }
}

static void check_skipped_adam(haul_check *check) {
    for (int point = 0; point < 2 * MOMENT_KINDS; point++) {
        adam_run run = adam_create(check->rows * check->columns, point % 2, point / 2, true);
        adam_launch(check, &run, &skipped);
        assert_unchanged(&run.parameter.value);
        assert_unchanged(&run.first);
        assert_unchanged(&run.second);
        adam_free(&run);
    }
}

/* op.h's random bits of element i: 16 from bit `shift` on. */
static uint32_t random_bits(int64_t i, int shift) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)(i / 4), 0, stream, step.update};
    return haul_philox_4x32(key, counter).word[i % 4] >> shift & 0xffffu;
}

/* bf16 moments must be the f32 or f64 ones, rounded by the random bits. */
static void assert_rounded(const haul_tensor *rounded, const haul_tensor *exact, int shift) {
    const uint16_t *got = rounded->data;
    for (int64_t i = 0; i < haul_tensor_count(rounded); i++) {
        float value = (float)haul_element_get(exact->data, exact->dtype, i);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (isnan(value)) {
            assert_true(isnan(haul_bf16_to_f32(got[i])));
        } else if (isinf(value)) {
            assert_true(haul_bf16_to_f32(got[i]) == value);
        } else {
            assert_int_equal(got[i], (bits + random_bits(i, shift)) >> 16);
        }
    }
}

/* A kernel computes the same, whatever the moments are kept in. */
static void assert_same_but_rounded(const adam_run *run, const adam_run *plain, int kind) {
    const haul_tensor *value = &run->parameter.value.tested;
    const haul_tensor *wanted = &plain->parameter.value.tested;
    for (int64_t i = 0; i < haul_tensor_count(value); i++) {
        float a = ((float *)value->data)[i], b = ((float *)wanted->data)[i];
        assert_true(a == b || (isnan(a) && isnan(b)));
    }
    if (kind & BF16_FIRST) {
        assert_rounded(&run->first.tested, &plain->first.tested, 0);
    }
    if (kind & BF16_SECOND) {
        assert_rounded(&run->second.tested, &plain->second.tested, 16);
    }
}

static void check_rounded_moments(haul_check *check) {
    for (int point = 2; point < 2 * MOMENT_KINDS; point++) {
        int kind = point / 2;
        adam_run plain = adam_updated(check, point % 2, F32_MOMENTS, false);
        adam_run run = adam_updated(check, point % 2, kind, false);
        assert_same_but_rounded(&run, &plain, kind);
        adam_finish(check, &run);
        adam_free(&plain);
        plain = adam_updated(check, point % 2, F32_MOMENTS, true);
        run = adam_updated(check, point % 2, kind, true);
        assert_same_but_rounded(&run, &plain, kind);
        adam_free(&plain);
        adam_free(&run);
    }
}

/* One element more or less than whole vectors, at addresses that fit none. */
static void check_odd_address(haul_check *check) {
    adam_run plain = adam_updated(check, true, F32_MOMENTS, false);
    adam_run run = adam_create(check->rows * check->columns, true, BF16_FIRST | BF16_SECOND, false);
    haul_tensor moments[2] = {run.first.tested, run.second.tested};
    for (int m = 0; m < 2; m++) {
        haul_tensor *moment = m == 0 ? &run.first.tested : &run.second.tested;
        int64_t bytes = haul_tensor_bytes(moment);
        moment->data = (char *)haul_test_allocate(bytes + 2) + 2;
        memcpy(moment->data, moments[m].data, (size_t)bytes);
    }
    adam_launch(check, &run, &step);
    assert_same_but_rounded(&run, &plain, BF16_FIRST | BF16_SECOND);
    haul_test_release((char *)run.first.tested.data - 2);
    haul_test_release((char *)run.second.tested.data - 2);
    run.first.tested = moments[0];
    run.second.tested = moments[1];
    adam_free(&run);
    adam_free(&plain);
}

static void ref_rounds_moments_too(void **state) {
    (void)state;
    enum { COUNT = 103 };
    haul_pair pair;
    haul_pair_open(&pair, "ref", 1);
    for (int special = 0; special < 2; special++) {
        adam_run plain = adam_create(COUNT, false, F32_MOMENTS, special);
        adam_run run = adam_create(COUNT, false, BF16_FIRST | BF16_SECOND, special);
        haul_adam_args wanted = on_ref(adam_args(&plain, &step), &plain);
        haul_adam_args rounded = on_ref(adam_args(&run, &step), &run);
        rounded.first_moment = run.first.tested;
        rounded.second_moment = run.second.tested;
        haul_test_launch(&pair.ref, HAUL_OP_ADAM, &wanted);
        haul_test_launch(&pair.ref, HAUL_OP_ADAM, &rounded);
        assert_memory_equal(rounded.parameter.data, wanted.parameter.data, COUNT * sizeof(double));
        assert_rounded(&rounded.first_moment, &wanted.first_moment, 0);
        assert_rounded(&rounded.second_moment, &wanted.second_moment, 16);
        adam_free(&plain);
        adam_free(&run);
    }
    haul_pair_close(&pair);
}

/* Rounded to nearest, a bf16 v that shrinks by a thousandth a step would stay for ever. At random,
 * a step with spacing s <= 2^-7 v between numbers moves v by s with probability p = 0.001 v / s: a
 * relative variance of at most p (s / v)^2 <= 0.001 * 2^-7. After 1000 steps the mean of COUNT
 * elements has a deviation of at most sqrt(2^-7 / COUNT); six of those are allowed. */
static void second_moment_decays(void **state) {
    (void)state;
    enum { COUNT = 4096, UPDATES = 1000 };
    haul_pair pair;
    haul_pair_open(&pair, haul_check_backend, 1);
    adam_run run = adam_create(COUNT, false, BF16_FIRST | BF16_SECOND, false);
    haul_step_scalars *lent = lend(&step);
    haul_adam_args args = adam_args(&run, lent);
    args.beta2 = 0.999;
    double sum = 0.0, wanted = pow(args.beta2, UPDATES);
    for (int64_t i = 0; i < COUNT; i++) {
        haul_twin_set(&run.gradient, i, 0.0);
        haul_twin_set(&run.first, i, 0.0);
        haul_twin_set(&run.second, i, 1.0);
    }
    for (uint32_t update = 1; update <= UPDATES; update++) {
        lent->update = update;
        haul_test_launch(&pair.tested, HAUL_OP_ADAM, &args);
    }
    for (int64_t i = 0; i < COUNT; i++) {
        sum += haul_element_get(run.second.tested.data, HAUL_BF16, i);
        assert_true(haul_element_get(run.first.tested.data, HAUL_BF16, i) == 0.0);
    }
    assert_true(fabs(sum / COUNT / wanted - 1.0) < 6.0 * sqrt(0x1p-7 / COUNT));
    haul_test_release(lent);
    adam_free(&run);
    haul_pair_close(&pair);
}

static haul_twin sgd_launch(haul_check *check, bool split, const haul_step_scalars *scalars) {
    int64_t count = check->rows * check->columns;
    master parameter = master_create(count, split);
    haul_twin gradient = haul_twin_random(HAUL_F32, count, 0, 0.1, 2);
    haul_twin buffer = haul_twin_random(HAUL_F32, count, 0, 0.1, 3);
    haul_step_scalars *lent = lend(scalars);
    haul_sgd_args tested = {.parameter = parameter.parameter,
                            .low = parameter.low,
                            .gradient = gradient.tested,
                            .momentum_buffer = buffer.tested,
                            .momentum = 0.9,
                            .weight_decay = 0.1,
                            .scalars = lent};
    haul_sgd_args ref = tested;
    ref.parameter = parameter.value.ref;
    ref.low = (haul_tensor){0};
    ref.gradient = gradient.ref;
    ref.momentum_buffer = buffer.ref;
    haul_pair_launch(&check->pair, HAUL_OP_SGD, &tested, &ref);
    haul_test_release(lent);
    master_join(&parameter);
    double terms = haul_check_largest(&buffer) + haul_check_largest(&parameter.value);
    haul_check_finish(check, &buffer, scalars->skip ? 0.0 : 5.0 * HAUL_U * terms, "buffer");
    haul_twin_free(&gradient);
    return parameter.value;
}

static void check_sgd(haul_check *check) {
    haul_twin whole = sgd_launch(check, false, &step), split = sgd_launch(check, true, &step);
    assert_memory_equal(whole.tested.data, split.tested.data,
                        (size_t)haul_tensor_bytes(&whole.tested));
    double bound = 2.0 * HAUL_U * haul_check_largest(&whole);
    haul_check_finish(check, &whole, bound, "parameter");
    haul_check_finish(check, &split, bound, "split parameter");
    for (int is_split = 0; is_split < 2; is_split++) {
        haul_twin none = sgd_launch(check, is_split, &skipped);
        haul_check_finish(check, &none, 0.0, "parameter of a skipped step");
    }
}

static void split_master_joins_exactly(void **state) {
    (void)state;
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 4093) {
        for (uint32_t low = 0x7ffe; low <= 0x8002; low++) { /* around a tie */
            uint32_t wanted = ((uint32_t)bits & 0xffff0000u) | low, got;
            float value, joined;
            uint16_t parameter, rest;
            memcpy(&value, &wanted, sizeof value);
            haul_master_split(value, &parameter, &rest);
            joined = haul_master_join(parameter, rest);
            memcpy(&got, &joined, sizeof got);
            if (isnan(value)) {
                assert_true(isnan(joined) && isnan(haul_bf16_to_f32(parameter)));
            } else {
                assert_int_equal(got, wanted);
                float error = fabsf(haul_bf16_to_f32(parameter) - value);
                assert_true(!isfinite(error) || error <= fmaxf(0x1p-8f * fabsf(value), 0x1p-134f));
            }
        }
    }
}

static void run(void **state) {
    haul_check_everywhere((haul_check_function *)*state);
}

int main(int argc, char **argv) {
    haul_check_backend = haul_test_backend(argc, argv);
    const struct CMUnitTest tests[] = {
        {"adam", run, NULL, NULL, (void *)check_adam},
        {"skipped adam", run, NULL, NULL, (void *)check_skipped_adam},
        {"rounded moments", run, NULL, NULL, (void *)check_rounded_moments},
        {"moments at odd addresses", run, NULL, NULL, (void *)check_odd_address},
        cmocka_unit_test(ref_rounds_moments_too),
        cmocka_unit_test(second_moment_decays),
        {"sgd", run, NULL, NULL, (void *)check_sgd},
        cmocka_unit_test(split_master_joins_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
