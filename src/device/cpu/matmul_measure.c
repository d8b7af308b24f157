#include "device/cpu/matmul_measure.h"

#include "base/clock.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, LARGEST_DIMENSION = 1024, LEAST_ROUNDS = 3, MOST_ROUNDS = 20 };

/* Time for the runs of one method, when its runs are short. */
static const double ENOUGH_SECONDS = 1e-3;

/* A different method must need less than this part of the time. */
static const double CLEARLY_FASTER = 0.95;

static int64_t next_power_of_two(int64_t value) {
    int64_t power = 1;
    while (power < value && power < LARGEST_DIMENSION) {
        power *= 2;
    }
    return power;
}

haul_product haul_product_proxy(const haul_product *product) {
    haul_product proxy = *product;
    bool transpose_a = product->flags & HAUL_PRODUCT_TRANSPOSE_A;
    proxy.flags = (uint8_t)(product->flags & ~(HAUL_PRODUCT_BIAS | HAUL_PRODUCT_ACCUMULATE));
    proxy.bias = 0;
    proxy.m = transpose_a ? haul_min(product->m, LARGEST_DIMENSION) : next_power_of_two(product->m);
    proxy.k = transpose_a ? next_power_of_two(product->k) : haul_min(product->k, LARGEST_DIMENSION);
    proxy.n = haul_min(product->n, LARGEST_DIMENSION);
    return proxy;
}

bool haul_method_suits(haul_method method, const haul_engines *engines,
                       const haul_product *product) {
    switch (method) {
    case HAUL_METHOD_ONEDNN:
        return engines->onednn != NULL;
    case HAUL_METHOD_ONEDNN_REORDER_B:
    case HAUL_METHOD_ONEDNN_REORDER_AB:
        /* Worth it for two activations that are transposed on the fly. */
        return engines->onednn != NULL && product->flags & HAUL_PRODUCT_TRANSPOSE_A &&
               !(product->flags & HAUL_PRODUCT_PACKED);
    default:
        return true;
    }
}

/* A product ready to run, with operands of its own. */
typedef struct method_trial {
    haul_packing packing;
    haul_plan plan;
    void *a, *b, *c, *workspace;
    double best; /* seconds */
} method_trial;

static void trial_deinit(method_trial *trial) {
    void *const buffers[] = {trial->a, trial->b, trial->c, trial->workspace};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        free(buffers[i]);
    }
    haul_plan_deinit(&trial->plan);
    haul_packing_deinit(&trial->packing);
}

/* Touched memory; its bytes are a number near 0.75 both as f32 and as bf16. */
static haul_status allocate_filled(int64_t bytes, void **out) {
    size_t size = (size_t)haul_round_up(haul_max(bytes, 1), ALIGNMENT);
    void *memory = aligned_alloc(ALIGNMENT, size);
    if (memory == NULL) {
        return haul_fail(HAUL_ERROR_MEMORY, "out of memory: %zu bytes to measure a product", size);
    }
    memset(memory, 0x3f, size);
    *out = memory;
    return HAUL_OK;
}

static haul_status trial_init(method_trial *trial, const haul_engines *engines,
                              const haul_product *product, haul_method method) {
    *trial = (method_trial){.best = (double)INFINITY};
    if (product->flags & HAUL_PRODUCT_PACKED) {
        HAUL_TRY(haul_packing_init(&trial->packing, engines, product, method));
    }
    HAUL_TRY(haul_plan_init(&trial->plan, engines, product, method, &trial->packing));
    int64_t m = product->m, n = product->n, k = product->k;
    int64_t b_bytes = haul_max(k * n * haul_dtype_size(HAUL_F32), trial->packing.bytes);
    HAUL_TRY(allocate_filled(m * k * haul_dtype_size((haul_dtype)product->a), &trial->a));
    HAUL_TRY(allocate_filled(b_bytes, &trial->b));
    HAUL_TRY(allocate_filled(m * n * haul_dtype_size((haul_dtype)product->c), &trial->c));
    return allocate_filled(trial->plan.workspace, &trial->workspace);
}

static haul_status trial_run(method_trial *trial, const haul_engines *engines) {
    double start = haul_clock_seconds();
    HAUL_TRY(
        haul_plan_run(&trial->plan, engines, trial->a, trial->b, NULL, trial->c, trial->workspace));
    trial->best = fmin(trial->best, haul_clock_seconds() - start);
    return HAUL_OK;
}

/* Alternates between the trials, so that a slow moment of the machine meets all of them. */
static haul_status run_trials(method_trial *trials, int count, const haul_engines *engines) {
    double shortest = (double)INFINITY;
    for (int i = 0; i < count; i++) {
        HAUL_TRY(trial_run(&trials[i], engines)); /* warms code and caches up */
        HAUL_TRY(trial_run(&trials[i], engines));
        shortest = fmin(shortest, trials[i].best);
    }
    int rounds = LEAST_ROUNDS;
    while (rounds < MOST_ROUNDS && rounds * shortest < ENOUGH_SECONDS) {
        rounds++;
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++) {
            HAUL_TRY(trial_run(&trials[i], engines));
        }
    }
    return HAUL_OK;
}

/* Makes a trial of each method that suits and is available, in the order of haul_method. */
static haul_status init_trials(method_trial *trials, int *count, const haul_engines *engines,
                               const haul_product *product) {
    for (haul_method method = 0; method < HAUL_METHODS; method++) {
        if (!haul_method_suits(method, engines, product)) {
            continue;
        }
        haul_status status = trial_init(&trials[*count], engines, product, method);
        if (status == HAUL_ERROR_UNAVAILABLE) {
            trial_deinit(&trials[*count]);
            continue;
        }
        ++*count;
        HAUL_TRY(status);
    }
    return HAUL_OK;
}

haul_status haul_product_choose(const haul_engines *engines, const haul_product *proxy,
                                haul_method *out) {
    method_trial trials[HAUL_METHODS];
    int count = 0, best = 0;
    haul_status status = init_trials(trials, &count, engines, proxy);
    if (status == HAUL_OK && count > 1) {
        status = run_trials(trials, count, engines);
    }
    for (int i = 1; i < count; i++) {
        double needed = trials[best].best * (best == 0 ? CLEARLY_FASTER : 1.0);
        best = trials[i].best < needed ? i : best;
    }
    if (status == HAUL_OK) {
        *out = trials[best].plan.method;
    }
    for (int i = 0; i < count; i++) {
        trial_deinit(&trials[i]);
    }
    return status;
}

haul_status haul_product_seconds(const haul_engines *engines, const haul_product *product,
                                 haul_method method, double *out) {
    method_trial trial;
    haul_status status = trial_init(&trial, engines, product, method);
    if (status == HAUL_OK) {
        status = run_trials(&trial, 1, engines);
    }
    if (status == HAUL_OK) {
        *out = trial.best;
    }
    trial_deinit(&trial);
    return status;
}
