/* A product of a training step: haul's op against each method alone. */
#ifndef HAUL_BENCH_CONTEST_H
#define HAUL_BENCH_CONTEST_H

#include "device/cpu/matmul_plan.h"

enum { BENCH_OP, BENCH_CONTESTANTS = 1 + HAUL_METHODS }; /* haul's op, then the methods */

typedef enum bench_product_kind { BENCH_FORWARD, BENCH_DGRAD, BENCH_WGRAD } bench_product_kind;

/* One of the three products of a linear layer with weight [n, k]. */
typedef struct bench_product {
    bench_product_kind kind;
    int64_t rows, n, k;
    haul_dtype dtype;
    bool bias;       /* added by the forward product */
    bool accumulate; /* wgrad adds to the gradient */
} bench_product;

const char *bench_product_kind_name(bench_product_kind kind);

/* One block for all operands of a product, as in a run: in blocks of their own they would all start
 * at the same place of the caches. */
typedef struct bench_arena {
    haul_device *device;
    char *base;
    int64_t used;
} bench_arena;

void bench_arena_init(bench_arena *arena, haul_device *device);
void bench_arena_deinit(bench_arena *arena);

/* Seconds of one product by each contestant, medians of rounds that alternate between them; 0: the
 * method cannot. Ends the program on a failure. */
void bench_contest(haul_device *device, bench_arena *arena, const bench_product *product,
                   double seconds[BENCH_CONTESTANTS]);

void bench_die_on_failure(haul_status status);

#endif
