/* ctest: unit cuda */
#include "device/check.h"

static const haul_step_scalars step = {.learning_rate = 3e-2,
                                       .gradient_scale = 0.7,
                                       .bias_correction1 = 0.19,
                                       .bias_correction2 = 0.0975};
static const haul_step_scalars skipped = {
    .bias_correction1 = 1.0, .bias_correction2 = 1.0, .skip = 1};

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
        assert_true(fabsf(value[i] - rounded) <= 0x1p-8f * fabsf(value[i]));
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

static adam_run adam_launch(haul_check *check, bool split, const haul_step_scalars *scalars) {
    int64_t count = check->rows * check->columns;
    adam_run run = {.parameter = master_create(count, split),
                    .gradient = haul_twin_random(HAUL_F32, count, 0, 0.1, 2),
                    .first = haul_twin_random(HAUL_F32, count, 0, 0.1, 3),
                    .second = haul_twin_random(HAUL_F32, count, 0, 0.1, 4)};
    for (int64_t i = 0; i < count; i++) {
        haul_twin_set(&run.second, i, fabs(((double *)run.second.ref.data)[i]));
    }
    haul_step_scalars *lent = lend(scalars);
    haul_adam_args tested = {.parameter = run.parameter.parameter,
                             .low = run.parameter.low,
                             .gradient = run.gradient.tested,
                             .first_moment = run.first.tested,
                             .second_moment = run.second.tested,
                             .beta1 = 0.9,
                             .beta2 = 0.95,
                             .epsilon = 1e-8,
                             .weight_decay = 0.1,
                             .scalars = lent};
    haul_adam_args ref = tested;
    ref.parameter = run.parameter.value.ref;
    ref.low = (haul_tensor){0};
    ref.gradient = run.gradient.ref;
    ref.first_moment = run.first.ref;
    ref.second_moment = run.second.ref;
    haul_pair_launch(&check->pair, HAUL_OP_ADAM, &tested, &ref);
    haul_test_release(lent);
    master_join(&run.parameter);
    return run;
}

/* Moments: betas are rounded to f32, four roundings. The direction m / sqrt(v) is at most
 * 1 / sqrt(c2 (1 - beta2)) times a few for the moments above, and its error a few U of it. */
static void adam_finish(haul_check *check, adam_run *run) {
    double update = 0.0;
    haul_twin before = haul_twin_random(HAUL_F32, haul_tensor_count(&run->gradient.ref), 0, 1.0, 1);
    for (int64_t i = 0; i < haul_tensor_count(&before.ref); i++) {
        double moved =
            ((double *)run->parameter.value.ref.data)[i] - ((double *)before.ref.data)[i];
        update = fmax(update, fabs(moved));
    }
    haul_check_finish(check, &run->parameter.value, 16.0 * HAUL_U * update, "parameter");
    haul_check_finish(check, &run->first, 4.0 * HAUL_U * haul_check_largest(&run->first), "first");
    haul_check_finish(check, &run->second, 5.0 * HAUL_U * haul_check_largest(&run->second),
                      "second");
    haul_twin_free(&run->gradient);
    haul_twin_free(&before);
}

static void check_adam(haul_check *check) {
    adam_run whole = adam_launch(check, false, &step), split = adam_launch(check, true, &step);
    assert_memory_equal(whole.parameter.value.tested.data, split.parameter.value.tested.data,
                        (size_t)haul_tensor_bytes(&whole.parameter.value.tested));
    adam_finish(check, &whole);
    adam_finish(check, &split);
    for (int is_split = 0; is_split < 2; is_split++) {
        adam_run none = adam_launch(check, is_split, &skipped);
        adam_finish(check, &none); /* the bound is 0: nothing moved */
    }
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
        {"sgd", run, NULL, NULL, (void *)check_sgd},
        cmocka_unit_test(split_master_joins_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
