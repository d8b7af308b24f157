#include "contest.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5 };

static const int64_t arena_bytes = INT64_C(3) << 30;

typedef struct contest {
    haul_device *device;
    bench_arena *arena;
    const haul_engines *engines;
    haul_matmul_args args;
    haul_stream stream;
    haul_plan plans[HAUL_METHODS];
    void *weights[HAUL_METHODS]; /* as each method has b */
    void *workspace;
    bool enters[BENCH_CONTESTANTS];
    double seconds[BENCH_CONTESTANTS][ROUNDS];
} contest;

void bench_die_on_failure(haul_status status) {
    if (status != HAUL_OK) {
        fprintf(stderr, "bench: error: %s\n", haul_error_message());
        exit((int)status);
    }
}

const char *bench_product_kind_name(bench_product_kind kind) {
    static const char *const names[] = {"forward", "dgrad", "wgrad"};
    return names[kind];
}

void bench_arena_init(bench_arena *arena, haul_device *device) {
    void *memory = NULL;
    bench_die_on_failure(device->backend->allocate(device, arena_bytes, &memory));
    *arena = (bench_arena){.device = device, .base = memory};
}

void bench_arena_deinit(bench_arena *arena) {
    arena->device->backend->release(arena->device, arena->base, arena_bytes);
}

static void *allocate(bench_arena *arena, int64_t bytes) {
    void *memory = arena->base + arena->used;
    arena->used += haul_round_up(bytes, 64);
    if (arena->used > arena_bytes) {
        fprintf(stderr, "bench: error: the product needs more than 3 GiB\n");
        exit(1);
    }
    memset(memory, 0x3f, (size_t)bytes);
    return memory;
}

static haul_tensor matrix(bench_arena *arena, haul_dtype dtype, int64_t rows, int64_t columns) {
    void *data = allocate(arena, rows * columns * haul_dtype_size(dtype));
    return haul_tensor_2d(data, dtype, rows, columns);
}

static haul_matmul_args make_args(bench_arena *arena, const bench_product *p) {
    haul_matmul_args args = {0};
    args.a = matrix(arena, p->dtype, p->rows, p->kind == BENCH_FORWARD ? p->k : p->n);
    switch (p->kind) {
    case BENCH_FORWARD:
        args.b = matrix(arena, p->dtype, p->n, p->k);
        args.c = matrix(arena, p->dtype, p->rows, p->n);
        args.transpose_b = true;
        if (p->bias) {
            int64_t bytes = p->n * haul_dtype_size(p->dtype);
            args.bias = haul_tensor_1d(allocate(arena, bytes), p->dtype, p->n);
        }
        break;
    case BENCH_DGRAD:
        args.b = matrix(arena, p->dtype, p->n, p->k);
        args.c = matrix(arena, p->dtype, p->rows, p->k);
        break;
    default:
        args.b = matrix(arena, p->dtype, p->rows, p->k);
        args.c = matrix(arena, HAUL_F32, p->n, p->k);
        args.transpose_a = true;
        args.accumulate = p->accumulate;
    }
    return args;
}

/* Packs as the step does, through the op. */
static void pack_weight(contest *c, const bench_product *product) {
    haul_pack_args pack = {
        .weight = c->args.b,
        .kind = product->kind == BENCH_FORWARD ? HAUL_PACK_FORWARD : HAUL_PACK_DGRAD,
        .rows = product->rows,
        .dtype = product->dtype,
        .bias = product->bias,
    };
    int64_t bytes = c->device->backend->packed_bytes(c->device, &pack);
    if (bytes == 0) {
        return;
    }
    c->args.packed = haul_tensor_1d(allocate(c->arena, bytes), HAUL_U8, bytes);
    pack.packed = c->args.packed;
    int64_t workspace = haul_cpu_pack_workspace(c->device, &pack);
    c->stream.scratch = allocate(c->arena, workspace);
    c->stream.scratch_bytes = workspace;
    haul_launch(&c->stream, HAUL_OP_PACK, &pack);
}

static haul_product describe(const contest *c) {
    const haul_matmul_args *args = &c->args;
    unsigned flags = args->transpose_a ? HAUL_PRODUCT_TRANSPOSE_A : HAUL_PRODUCT_PACKED;
    flags |= args->transpose_b ? HAUL_PRODUCT_TRANSPOSE_B : 0;
    flags |= args->accumulate ? HAUL_PRODUCT_ACCUMULATE : 0;
    flags |= args->bias.ndim > 0 ? HAUL_PRODUCT_BIAS : 0;
    return (haul_product){
        .m = haul_tensor_rows(&args->c),
        .n = haul_tensor_columns(&args->c),
        .k = args->transpose_a ? haul_tensor_rows(&args->a) : haul_tensor_columns(&args->a),
        .a = (uint8_t)args->a.dtype,
        .b = (uint8_t)args->b.dtype,
        .c = (uint8_t)args->c.dtype,
        .bias = (uint8_t)(args->bias.ndim > 0 ? args->bias.dtype : 0),
        .flags = (uint8_t)flags,
    };
}

static void enter_method(contest *c, haul_method method) {
    haul_product product = describe(c);
    bool wgrad = c->args.transpose_a;
    bool reorders =
        method == HAUL_METHOD_ONEDNN_REORDER_B || method == HAUL_METHOD_ONEDNN_REORDER_AB;
    if ((method != HAUL_METHOD_OWN && c->engines->onednn == NULL) || (reorders && !wgrad)) {
        return;
    }
    c->weights[method] = c->args.b.data;
    haul_packing packing = {0};
    if (!wgrad) {
        haul_product unbiased = product;
        unbiased.flags &= (uint8_t)~HAUL_PRODUCT_BIAS;
        unbiased.bias = 0;
        bench_die_on_failure(haul_packing_init(&packing, c->engines, &unbiased, method));
        if (packing.bytes > 0) {
            c->weights[method] = allocate(c->arena, packing.bytes);
        }
    }
    bench_die_on_failure(haul_plan_init(&c->plans[method], c->engines, &product, method, &packing));
    haul_packing_deinit(&packing);
    c->enters[1 + method] = true;
}

static double run_contestant(contest *c, int number) {
    const haul_matmul_args *args = &c->args;
    double start = haul_clock_seconds();
    if (number == BENCH_OP) {
        haul_launch(&c->stream, HAUL_OP_MATMUL, args);
    } else {
        bench_die_on_failure(haul_plan_run(&c->plans[number - 1], c->engines, args->a.data,
                                           c->weights[number - 1], args->bias.data, args->c.data,
                                           c->workspace));
    }
    return haul_clock_seconds() - start;
}

static int compare_seconds(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A run is at least 20 MFLOP. */
static void run_rounds(contest *c, double flops, double *seconds) {
    int repeats = 1 + (int)(2e7 / flops);
    for (int round = -1; round < ROUNDS; round++) {
        for (int i = 0; i < BENCH_CONTESTANTS; i++) {
            double sum = 0.0;
            for (int repeat = 0; repeat < repeats && c->enters[i]; repeat++) {
                sum += run_contestant(c, i);
            }
            if (round >= 0) {
                c->seconds[i][round] = sum / repeats;
            }
        }
    }
    bench_die_on_failure(haul_stream_status(&c->stream));
    for (int i = 0; i < BENCH_CONTESTANTS; i++) {
        qsort(c->seconds[i], ROUNDS, sizeof(double), compare_seconds);
        seconds[i] = c->enters[i] ? c->seconds[i][ROUNDS / 2] : 0.0;
    }
}

void bench_contest(haul_device *device, bench_arena *arena, const bench_product *product,
                   double seconds[BENCH_CONTESTANTS]) {
    contest c = {.device = device, .arena = arena, .enters = {true}};
    arena->used = 0;
    c.stream.device = device;
    c.engines = haul_cpu_matmul_engines(haul_cpu_matmul_of(device));
    c.args = make_args(arena, product);
    if (product->kind != BENCH_WGRAD) {
        pack_weight(&c, product);
    }
    int64_t workspace = haul_cpu_matmul_workspace(device, &c.args);
    c.stream.scratch_bytes = workspace;
    for (haul_method method = 0; method < HAUL_METHODS; method++) {
        enter_method(&c, method);
        workspace = haul_max(workspace, c.plans[method].workspace);
    }
    c.workspace = allocate(arena, workspace);
    c.stream.scratch = c.workspace;
    run_rounds(&c, 2.0 * (double)product->rows * (double)product->n * (double)product->k, seconds);
    for (haul_method method = 0; method < HAUL_METHODS; method++) {
        haul_plan_deinit(&c.plans[method]);
    }
}
