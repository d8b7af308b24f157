/* ctest: unit */
/* VERDICT and COMMIT on made-up gradients, against the formulas of op.h in float64. */
#include "fixture.h"

#include <math.h>

static const double RATE = 0.125;

static double *values_of(const fixture *f, int64_t buffer) {
    return f->store.buffers[buffer].value.data;
}

static void fill_gradients(fixture *f, double value) {
    for (int64_t b = 0; b < f->chunk.buffer_count; b++) {
        const haul_tensor *gradient = &f->store.buffers[b].gradient;
        for (int64_t i = 0; i < haul_tensor_count(gradient); i++) {
            ((double *)gradient->data)[i] = value;
        }
    }
}

static haul_verdict judge(fixture *f, const haul_update_options *options, int64_t update) {
    assert_ok(haul_store_set_updates(&f->store, update - 1));
    haul_update_verdict(&f->store, options, RATE, &f->executor.stream);
    return haul_update_read_verdict(&f->store, f->store.norms.data);
}

static const haul_step_scalars *scalars_of(const fixture *f) {
    return f->store.scalars.data;
}

static void open(fixture *f) {
    fixture_open(f, (fixture_options){.device = "ref", .gpt2 = true, .micro_batches = 1});
}

/* Scale clip / (norm + 1e-6) where that is below 1. */
static void test_clipping(void **state) {
    (void)state;
    fixture f;
    open(&f);
    double norm = sqrt((double)haul_chunk_parameter_count(&f.chunk)) * 0.25;
    static const double clips[] = {1e-3, 1, 1e3, 0};
    fill_gradients(&f, -0.25);
    for (size_t i = 0; i < sizeof clips / sizeof clips[0]; i++) {
        haul_update_options options = {.beta1 = 0.5, .beta2 = 0.75, .clip = clips[i]};
        haul_verdict verdict = judge(&f, &options, 3);
        double scale = clips[i] > 0 ? fmin(1, clips[i] / (norm + 1e-6)) : 1;
        assert_true(verdict.finite);
        assert_int_equal(verdict.first_not_finite, -1);
        assert_true(fabs(verdict.gradient_norm - norm) < 1e-12 * norm);
        assert_true(fabs(scalars_of(&f)->gradient_scale - scale) < 1e-12);
        assert_true(scalars_of(&f)->learning_rate == RATE);
        assert_true(scalars_of(&f)->bias_correction1 == 1 - 0.125);
        assert_true(scalars_of(&f)->bias_correction2 == 1 - 0.421875);
        assert_int_equal(scalars_of(&f)->skip, 0);
    }
    fixture_close(&f);
}

static void assert_skips(fixture *f, const haul_update_options *options) {
    char *before = haul_calloc(f->store.bytes, 1);
    assert_non_null(before);
    memcpy(before, f->store.memory, (size_t)f->store.bytes);
    haul_update_commit(&f->store, options, &f->executor.stream);
    assert_memory_equal(before, f->store.memory, (size_t)f->store.bytes);
    free(before);
}

/* The first buffer with a NaN or an infinity is named, and nothing changes. */
static void test_not_finite(void **state) {
    (void)state;
    static const double poisons[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < 3; i++) {
            fixture f;
            haul_update_options options = {
                .kind = (haul_update_kind)kind, .beta1 = 0.5, .beta2 = 0.5, .clip = 1};
            open(&f);
            fill_gradients(&f, 0.5);
            ((double *)f.store.buffers[7].gradient.data)[1] = poisons[i];
            ((double *)f.store.buffers[4].gradient.data)[2] = poisons[i];
            haul_verdict verdict = judge(&f, &options, 1);
            assert_false(verdict.finite);
            assert_int_equal(verdict.first_not_finite, 4);
            assert_true(scalars_of(&f)->skip != 0);
            assert_skips(&f, &options);
            fixture_close(&f);
        }
    }
}

/* A stream that failed has left gradients that mean nothing. */
static void test_failed_stream_skips(void **state) {
    (void)state;
    fixture f;
    haul_update_options options = {.beta1 = 0.5, .beta2 = 0.5};
    open(&f);
    fill_gradients(&f, 0.5);
    haul_stream_fail(&f.executor.stream, HAUL_ERROR_INTERNAL, "planted");
    judge(&f, &options, 1);
    assert_skips(&f, &options);
    fixture_close(&f);
}

typedef struct element {
    double parameter, moments[2];
} element;

/* Two updates of one element with gradient g, by the formula. */
static element adam(double parameter, double g, double decay, const haul_update_options *o) {
    element e = {.parameter = parameter};
    for (int t = 1; t <= 2; t++) {
        e.moments[0] = o->beta1 * e.moments[0] + (1 - o->beta1) * g;
        e.moments[1] = o->beta2 * e.moments[1] + (1 - o->beta2) * g * g;
        double m = e.moments[0] / (1 - pow(o->beta1, t));
        double v = e.moments[1] / (1 - pow(o->beta2, t));
        e.parameter -= RATE * (m / (sqrt(v) + o->epsilon) + decay * e.parameter);
    }
    return e;
}

static element sgd(double parameter, double g, double decay, const haul_update_options *o) {
    element e = {.parameter = parameter};
    for (int t = 1; t <= 2; t++) {
        e.moments[0] = o->momentum * e.moments[0] + g + decay * e.parameter;
        e.parameter -= RATE * e.moments[0];
    }
    return e;
}

static void assert_near(double a, double b) {
    assert_true(fabs(a - b) <= 1e-13 * (1 + fabs(b)));
}

/* Matrices and embeddings decay, biases and norms do not. */
static void test_commit(void **state) {
    (void)state;
    static element (*const formulas[])(double, double, double, const haul_update_options *) = {adam,
                                                                                               sgd};
    for (int kind = 0; kind < 2; kind++) {
        fixture f;
        haul_update_options options = {.kind = (haul_update_kind)kind,
                                       .beta1 = 0.9,
                                       .beta2 = 0.95,
                                       .epsilon = 1e-3,
                                       .momentum = 0.75,
                                       .weight_decay = 0.25,
                                       .clip = 1};
        open(&f);
        double *before = haul_calloc(f.store.bytes, 1);
        assert_non_null(before);
        memcpy(before, f.store.memory, (size_t)f.store.bytes);
        fill_gradients(&f, -0.5);
        for (int t = 1; t <= 2; t++) {
            judge(&f, &options, t);
            haul_update_commit(&f.store, &options, &f.executor.stream);
        }
        assert_ok(haul_stream_status(&f.executor.stream));
        double g = -0.5 * scalars_of(&f)->gradient_scale;
        for (int64_t b = 0; b < f.chunk.buffer_count; b++) {
            const haul_store_buffer *buffer = &f.store.buffers[b];
            assert_int_equal(f.chunk.buffers[b].decay, buffer->value.ndim == 2);
            double decay = f.chunk.buffers[b].decay ? 0.25 : 0;
            double *old = before + (values_of(&f, b) - (double *)(void *)f.store.memory);
            for (int64_t i = 0; i < haul_tensor_count(&buffer->value); i++) {
                element expected = formulas[kind](old[i], g, decay, &options);
                assert_near(values_of(&f, b)[i], expected.parameter);
                assert_near(((double *)buffer->moments[0].data)[i], expected.moments[0]);
                assert_near(((double *)buffer->moments[1].data)[i], expected.moments[1]);
            }
        }
        free(before);
        fixture_close(&f);
    }
}

/* A store with bf16 moments after one update from 0 with equal gradients. */
static void update_bf16_moments(fixture *f, uint64_t seed, haul_store *store) {
    haul_store_options options = {.training = true, .moments = 2, .bf16_moments = {true, true}};
    haul_update_options update = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .seed = seed};
    haul_stream stream = {.device = &f->device};
    assert_ok(haul_store_plan(&f->chunk, &f->device, options, store));
    assert_ok(haul_store_allocate(store));
    for (int64_t b = 0; b < f->chunk.buffer_count; b++) {
        haul_fill_args fill = {.y = store->buffers[b].gradient, .value = 0.7};
        haul_launch(&stream, HAUL_OP_FILL, &fill);
        assert_int_equal(store->buffers[b].moments[0].dtype, HAUL_BF16);
        assert_int_equal(store->buffers[b].moments[1].dtype, HAUL_BF16);
    }
    haul_update_verdict(store, &update, RATE, &stream);
    haul_update_commit(store, &update, &stream);
    assert_ok(haul_stream_wait(&stream));
}

/* Whether the first moments of two buffers of one shape have the same bits. */
static bool same_moments(const haul_store *a, int64_t i, const haul_store *b, int64_t j) {
    const haul_tensor *x = &a->buffers[i].moments[0], *y = &b->buffers[j].moments[0];
    return memcmp(x->data, y->data, (size_t)haul_tensor_bytes(x)) == 0;
}

/* Moments are rounded by the seed and the name of the parameter. */
static void test_rounding_of_moments(void **state) {
    (void)state;
    fixture f;
    haul_store first, again, other;
    open(&f);
    update_bf16_moments(&f, 7, &first);
    update_bf16_moments(&f, 7, &again);
    update_bf16_moments(&f, UINT64_C(7) << 32, &other);
    int pairs = 0;
    for (int64_t i = 0; i < f.chunk.buffer_count; i++) {
        const haul_tensor *x = &first.buffers[i].value;
        assert_true(same_moments(&first, i, &again, i));
        for (int64_t j = i + 1; j < f.chunk.buffer_count && x->ndim == 2; j++) {
            const haul_tensor *y = &first.buffers[j].value;
            if (haul_tensor_count(x) == haul_tensor_count(y)) {
                assert_false(same_moments(&first, i, &first, j));
                pairs++;
            }
        }
        assert_true(x->ndim < 2 || !same_moments(&first, i, &other, i));
    }
    assert_true(pairs > 0);
    haul_store_deinit(&first);
    haul_store_deinit(&again);
    haul_store_deinit(&other);
    fixture_close(&f);
}

static void test_moments(void **state) {
    (void)state;
    assert_int_equal(haul_update_moments(HAUL_UPDATE_ADAM), 2);
    assert_int_equal(haul_update_moments(HAUL_UPDATE_SGD), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_failed_stream_skips),
        cmocka_unit_test(test_commit),
        cmocka_unit_test(test_rounding_of_moments),
        cmocka_unit_test(test_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
