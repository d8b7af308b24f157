/* ctest: golden cuda */
/* Twenty steps in bf16 of a model of four layers: on cpu beside f32, and on the device that is the
 * first argument beside cpu. Rounding moves each curve in bf16 off that of f32 by about as much:
 * the largest such distance of cpu, d, is measured here, and is itself below ten roundings of the
 * loss. Two curves that are each within d of the third are within 2 d of each other; the largest of
 * twenty draws of one law may well be 1.5 times that of twenty others, hence 3 d. */
#include "device/compare.h"

#include "config/validate.h"
#include "train/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 4, LENGTH = 64, VOCABULARY = 61, STEPS = 20 };

static const char *backend;

static void set(haul_config *config, const char *flag, const char *value) {
    assert_ok(haul_config_set(config, flag, &value, 1, HAUL_SOURCE_COMMAND_LINE));
}

static void configure(haul_config *config, const char *device, bool bf16) {
    static const char *const flags[][2] = {
        {"num-layers", "4"},          {"hidden-size", "64"},
        {"ffn-hidden-size", "160"},   {"num-attention-heads", "4"},
        {"seq-length", "64"},         {"max-position-embeddings", "64"},
        {"vocab-size", "61"},         {"position-embedding-type", "rope"},
        {"normalization", "RMSNorm"}, {"swiglu", "true"},
        {"hidden-dropout", "0"},      {"attention-dropout", "0"},
        {"micro-batch-size", "4"},    {"global-batch-size", "4"},
        {"train-iters", "20"},        {"lr", "0.003"},
        {"mock-data", "true"},        {"threads", "2"}};
    assert_ok(haul_config_init(config));
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        set(config, flags[i][0], flags[i][1]);
    }
    set(config, "device", device);
    if (bf16) {
        set(config, "bf16", "true");
    }
    assert_ok(haul_config_finalize(config));
}

/* A walk over the vocabulary that a model can learn: mostly the next multiple of 7, at times any.
 */
static int32_t token_at(int64_t sample, int64_t position) {
    uint64_t at = (uint64_t)(sample * (LENGTH + 1) + position);
    uint64_t noise = at * 0x9e3779b97f4a7c15u >> 40;
    int64_t value = noise % 5 == 0 ? (int64_t)(noise / 5) : sample * 11 + position * 7;
    return (int32_t)(value % VOCABULARY);
}

static haul_status fill(void *context, int micro_batch, const char *value, haul_tensor tensor) {
    const int *step = context;
    (void)micro_batch;
    for (int64_t r = 0; r < BATCH * LENGTH; r++) {
        int64_t sample = *step * BATCH + r / LENGTH;
        if (strcmp(value, "weights") == 0) {
            haul_element_set(tensor.data, tensor.dtype, r, 1.0 / (BATCH * LENGTH));
        } else {
            ((int32_t *)tensor.data)[r] =
                token_at(sample, r % LENGTH + (strcmp(value, "targets") == 0));
        }
    }
    return HAUL_OK;
}

static void run(const char *device, bool bf16, double losses[STEPS]) {
    haul_config config;
    haul_session session;
    configure(&config, device, bf16);
    assert_ok(haul_session_plan(&session, &config, true));
    assert_ok(haul_session_allocate(&session));
    assert_ok(haul_store_initialize(&session.store, (uint64_t)config.seed));
    assert_ok(haul_executor_pack(&session.trainer));
    for (int step = 0; step < STEPS; step++) {
        haul_verdict verdict;
        haul_step_request request = {.info = {.step = (uint32_t)step, .training = true},
                                     .samples = BATCH,
                                     .fill = fill,
                                     .fill_context = &step,
                                     .learning_rate = 0.003};
        assert_ok(haul_executor_run(&session.trainer, &request, &verdict));
        haul_tensor values = haul_executor_output(&session.trainer, session.values.losses, 0);
        losses[step] = 0;
        for (int64_t r = 0; r < BATCH * LENGTH; r++) {
            losses[step] += haul_element_get(values.data, values.dtype, r) / (BATCH * LENGTH);
        }
    }
    haul_session_deinit(&session);
    haul_config_deinit(&config);
}

static double largest_distance(const double a[STEPS], const double b[STEPS]) {
    double largest = 0;
    for (int i = 0; i < STEPS; i++) {
        largest = fmax(largest, fabs(a[i] - b[i]));
    }
    return largest;
}

static void test_curve(void **state) {
    double exact[STEPS], cpu[STEPS], other[STEPS];
    (void)state;
    run("cpu", false, exact);
    run("cpu", true, cpu);
    double d = largest_distance(cpu, exact);
    print_message("loss %.4f to %.4f; cpu: bf16 is within %.2e of f32\n", cpu[0], cpu[STEPS - 1],
                  d);
    assert_true(cpu[STEPS - 1] < cpu[0] - 0.5); /* it learns: the curves are no flat lines */
    assert_true(d > 0 && d <= 10 * ldexp(1, -9) * cpu[0]);
    if (strcmp(backend, "cpu") != 0) {
        run(backend, true, other);
        double apart = largest_distance(other, cpu);
        print_message("%s: bf16 is within %.2e of cpu\n", backend, apart);
        assert_true(apart <= 3 * d);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_curve)};
    backend = haul_test_backend(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
