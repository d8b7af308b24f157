#include "device/cpu/matmul_measure.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, RUNS = 8 };

/* One method, ready to run, on operands of its own. */
typedef struct trial {
    haul_packing packing;
    haul_plan plan;
    char *a, *b, *c, *workspace; /* one allocation, at a */
} trial;

static void trial_deinit(trial *t) {
    haul_plan_deinit(&t->plan);
    haul_packing_deinit(&t->packing);
    free(t->a);
}

/* The bytes are a number near 0.75 both as f32 and as bf16. */
static haul_status allocate_operands(trial *t) {
    const haul_product *product = &t->plan.product;
    int64_t size = haul_dtype_size(HAUL_F32);
    int64_t a = haul_round_up(product->m * product->k * size, ALIGNMENT);
    int64_t b =
        haul_round_up(haul_max(product->k * product->n * size, t->packing.bytes), ALIGNMENT);
    int64_t c = haul_round_up(product->m * product->n * size, ALIGNMENT);
    size_t total = (size_t)(a + b + c + haul_round_up(t->plan.workspace, ALIGNMENT));
    t->a = aligned_alloc(ALIGNMENT, total);
    if (t->a == NULL) {
        return haul_fail(HAUL_ERROR_MEMORY, "out of memory: %zu bytes to measure a product", total);
    }
    memset(t->a, 0x3f, total);
    t->b = t->a + a;
    t->c = t->b + b;
    t->workspace = t->c + c;
    return HAUL_OK;
}

static int compare_seconds(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static haul_status run(trial *t, const haul_engines *engines, double *out) {
    double seconds[RUNS + 1];
    for (int i = 0; i <= RUNS; i++) {
        double start = haul_clock_seconds();
        HAUL_TRY(haul_plan_run(&t->plan, engines, t->a, t->b, NULL, t->c, t->workspace));
        seconds[i] = haul_clock_seconds() - start;
    }
    qsort(seconds + 1, RUNS, sizeof *seconds, compare_seconds); /* the first run warms up */
    *out = seconds[1 + RUNS / 4];
    return HAUL_OK;
}

haul_status haul_product_seconds(const haul_engines *engines, const haul_product *product,
                                 haul_method method, double *out) {
    trial t = {0};
    haul_status status = HAUL_OK;
    if (product->flags & HAUL_PRODUCT_PACKED) {
        status = haul_packing_init(&t.packing, engines, product, method);
    }
    if (status == HAUL_OK) {
        status = haul_plan_init(&t.plan, engines, product, method, &t.packing);
    }
    if (status == HAUL_OK) {
        status = allocate_operands(&t);
    }
    if (status == HAUL_OK) {
        status = run(&t, engines, out);
    }
    trial_deinit(&t);
    return status;
}
