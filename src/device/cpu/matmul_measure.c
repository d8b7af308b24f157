#include "device/cpu/matmul_measure.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    ALIGNMENT = 64,
    HUGE_PAGE = 2 << 20,
    LARGEST_WORK = 1 << 29, /* multiply-adds */
    LARGEST_WIDTH = 768,
    ALIASING_WIDTH = 1024,
    LEAST_ROUNDS = 4,
    ROUNDS = 20 /* at most */
};

/* A race ends after this time, but not before its least rounds. */
static const double ENOUGH_SECONDS = 10e-3;

/* A different method must need less than this part of the time. */
static const double CLEARLY_FASTER = 0.95;

/* Rows whose distance is a multiple of 4 KiB compete for the same places in the caches, which is
 * worth keeping. */
static int64_t proxy_width(int64_t width) {
    bool aliasing = width % ALIASING_WIDTH == 0;
    return haul_min(width, aliasing ? ALIASING_WIDTH : LARGEST_WIDTH);
}

/* The next power of two, unless that is too much work for rows of `row_work` multiply-adds. */
static int64_t proxy_rows(int64_t rows, int64_t row_work) {
    int64_t power = 1;
    while (power < rows && 2 * power * row_work <= LARGEST_WORK) {
        power *= 2;
    }
    return power;
}

haul_product haul_product_proxy(const haul_product *product) {
    haul_product proxy = *product;
    bool transpose_a = product->flags & HAUL_PRODUCT_TRANSPOSE_A;
    proxy.flags = (uint8_t)(product->flags & ~(HAUL_PRODUCT_BIAS | HAUL_PRODUCT_ACCUMULATE));
    proxy.bias = 0;
    proxy.n = proxy_width(product->n);
    if (transpose_a) {
        proxy.m = proxy_width(product->m);
        proxy.k = proxy_rows(product->k, proxy.m * proxy.n);
    } else {
        proxy.k = proxy_width(product->k);
        proxy.m = proxy_rows(product->m, proxy.k * proxy.n);
    }
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

/* One method, ready to run. */
typedef struct method_trial {
    haul_packing packing;
    haul_plan plan;
    double seconds[ROUNDS];
} method_trial;

/* All methods of a product on the same operands, so that the luck of where memory lies in the
 * caches is the same for all. */
typedef struct method_race {
    const haul_engines *engines;
    const haul_product *product;
    method_trial trials[HAUL_METHODS];
    int count;
    char *a, *b, *c, *workspace; /* one allocation, at a */
} method_race;

static void race_deinit(method_race *race) {
    for (int i = 0; i < race->count; i++) {
        haul_plan_deinit(&race->trials[i].plan);
        haul_packing_deinit(&race->trials[i].packing);
    }
    free(race->a);
}

/* HAUL_ERROR_UNAVAILABLE: this method cannot. */
static haul_status enter(method_race *race, haul_method method) {
    method_trial *trial = &race->trials[race->count++];
    *trial = (method_trial){0};
    if (race->product->flags & HAUL_PRODUCT_PACKED) {
        HAUL_TRY(haul_packing_init(&trial->packing, race->engines, race->product, method));
    }
    return haul_plan_init(&trial->plan, race->engines, race->product, method, &trial->packing);
}

static void leave(method_race *race) {
    method_trial *trial = &race->trials[--race->count];
    haul_plan_deinit(&trial->plan);
    haul_packing_deinit(&trial->packing);
}

/* In huge pages, as in a run: their placement decides which rows compete for a place in the caches.
 * The bytes are a number near 0.75 both as f32 and as bf16. */
static haul_status allocate_operands(method_race *race) {
    int64_t m = race->product->m, n = race->product->n, k = race->product->k;
    int64_t size = haul_dtype_size(HAUL_F32), workspace = 0;
    int64_t a = m * k * size, b = k * n * size, c = m * n * size;
    for (int i = 0; i < race->count; i++) {
        b = haul_max(b, race->trials[i].packing.bytes);
        workspace = haul_max(workspace, race->trials[i].plan.workspace);
    }
    a = haul_round_up(a, ALIGNMENT);
    b = haul_round_up(b, ALIGNMENT);
    c = haul_round_up(c, ALIGNMENT);
    size_t total = (size_t)haul_round_up(a + b + c + workspace, HUGE_PAGE);
    race->a = aligned_alloc(HUGE_PAGE, total);
    if (race->a == NULL) {
        return haul_fail(HAUL_ERROR_MEMORY, "out of memory: %zu bytes to measure a product", total);
    }
    madvise(race->a, total, MADV_HUGEPAGE);
    memset(race->a, 0x3f, total);
    race->b = race->a + a;
    race->c = race->b + b;
    race->workspace = race->c + c;
    return HAUL_OK;
}

static haul_status run_each(method_race *race, int round) {
    for (int i = 0; i < race->count; i++) {
        method_trial *trial = &race->trials[i];
        double start = haul_clock_seconds();
        HAUL_TRY(haul_plan_run(&trial->plan, race->engines, race->a, race->b, NULL, race->c,
                               race->workspace));
        trial->seconds[round] = haul_clock_seconds() - start;
    }
    return HAUL_OK;
}

static int compare_seconds(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Rounds in which each method runs once, so that a slow moment of the machine meets all. Leaves the
 * lower quartile in seconds[0]: the median suffers more from other programs, and the least time of
 * a method may be one that it seldom reaches. */
static haul_status run(method_race *race) {
    HAUL_TRY(allocate_operands(race));
    HAUL_TRY(run_each(race, 0)); /* warms code and caches up */
    int rounds = 0;
    double start = haul_clock_seconds();
    do {
        HAUL_TRY(run_each(race, rounds++));
    } while (rounds < LEAST_ROUNDS ||
             (rounds < ROUNDS && haul_clock_seconds() - start < ENOUGH_SECONDS));
    for (int i = 0; i < race->count; i++) {
        double *seconds = race->trials[i].seconds;
        qsort(seconds, (size_t)rounds, sizeof *seconds, compare_seconds);
        seconds[0] = seconds[rounds / 4];
    }
    return HAUL_OK;
}

/* Enters each method that suits and is available, in the order of haul_method. */
static haul_status enter_all(method_race *race) {
    for (haul_method method = 0; method < HAUL_METHODS; method++) {
        if (!haul_method_suits(method, race->engines, race->product)) {
            continue;
        }
        haul_status status = enter(race, method);
        if (status == HAUL_ERROR_UNAVAILABLE) {
            leave(race);
            continue;
        }
        HAUL_TRY(status);
    }
    return HAUL_OK;
}

haul_status haul_product_choose(const haul_engines *engines, const haul_product *proxy,
                                haul_method *out) {
    method_race race = {.engines = engines, .product = proxy};
    int best = 0;
    haul_status status = enter_all(&race);
    if (status == HAUL_OK && race.count > 1) {
        status = run(&race);
    }
    for (int i = 1; i < race.count; i++) {
        double needed = race.trials[best].seconds[0] * (best == 0 ? CLEARLY_FASTER : 1.0);
        best = race.trials[i].seconds[0] < needed ? i : best;
    }
    if (status == HAUL_OK) {
        *out = race.trials[best].plan.method;
    }
    race_deinit(&race);
    return status;
}

haul_status haul_product_seconds(const haul_engines *engines, const haul_product *product,
                                 haul_method method, double *out) {
    method_race race = {.engines = engines, .product = product};
    haul_status status = enter(&race, method);
    if (status == HAUL_OK) {
        status = run(&race);
    }
    if (status == HAUL_OK) {
        *out = race.trials[0].seconds[0];
    }
    race_deinit(&race);
    return status;
}
