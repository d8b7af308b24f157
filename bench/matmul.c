/* GFLOP/s of the products of a training step: what haul reaches through its op, each method alone,
 * and the rate of multiply-adds that the processor can reach at most. Medians of runs that
 * alternate between the contestants.
 *
 *     matmul [threads [rows of GPT-2's products [f32 | bf16]]]
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "device/cpu/matmul_plan.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTESTANTS = 1 + HAUL_METHODS, ROUNDS = 5, PEAK_LOOPS = 2000000 };

typedef enum product_kind { FORWARD, DGRAD, WGRAD, KINDS } product_kind;
static const char *const kind_names[KINDS] = {"forward", "dgrad", "wgrad"};

/* A linear layer with weight [N, K]. */
typedef struct linear {
    const char *name;
    int64_t n, k;
} linear;

static const linear quickstart[] = {
    {"qkv", 288, 96}, {"out", 96, 96}, {"gate-up", 512, 96}, {"down", 96, 256}, {"head", 257, 96},
};
static const linear gpt2[] = {
    {"qkv", 2304, 768},
    {"out", 768, 768},
    {"fc1", 3072, 768},
    {"fc2", 768, 3072},
};
static const linear gpt2_head[] = {{"head", 50304, 768}};

static void die_on_failure(haul_status status) {
    if (status != HAUL_OK) {
        fprintf(stderr, "matmul: error: %s\n", haul_error_message());
        exit((int)status);
    }
}

/* One block for all operands of a product, as in a run: in blocks of their own they would all start
 * at the same place of the caches. */
typedef struct bench_arena {
    char *base;
    int64_t used;
} bench_arena;

static const int64_t arena_bytes = INT64_C(1) << 30;

static void *allocate(bench_arena *arena, int64_t bytes) {
    void *memory = arena->base + arena->used;
    arena->used += haul_round_up(bytes, 64);
    if (arena->used > arena_bytes) {
        fprintf(stderr, "matmul: error: the products need more than 1 GiB\n");
        exit(1);
    }
    memset(memory, 0x3f, (size_t)bytes);
    return memory;
}

/* --- the peak ------------------------------------------------------------------------------- */

#ifdef __x86_64__
__attribute__((target("avx512f"))) static double peak_avx512(void) {
    __m512 sums[24], x = _mm512_set1_ps(0.5f);
    for (int i = 0; i < 24; i++) {
        sums[i] = _mm512_set1_ps((float)i);
    }
    for (int loop = 0; loop < PEAK_LOOPS; loop++) {
#pragma GCC unroll 24
        for (int i = 0; i < 24; i++) {
            sums[i] = _mm512_fmadd_ps(sums[i], x, x);
        }
    }
    for (int i = 1; i < 24; i++) {
        sums[0] = _mm512_add_ps(sums[0], sums[i]);
    }
    return (double)_mm512_reduce_add_ps(sums[0]);
}

__attribute__((target("avx2,fma"))) static double peak_avx2(void) {
    __m256 sums[12], x = _mm256_set1_ps(0.5f);
    for (int i = 0; i < 12; i++) {
        sums[i] = _mm256_set1_ps((float)i);
    }
    for (int loop = 0; loop < PEAK_LOOPS; loop++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) {
            sums[i] = _mm256_fmadd_ps(sums[i], x, x);
        }
    }
    for (int i = 1; i < 12; i++) {
        sums[0] = _mm256_add_ps(sums[0], sums[i]);
    }
    return (double)_mm256_cvtss_f32(sums[0]);
}

typedef struct peak_loop {
    double (*run)(void);
    double flops;
    double sums[256]; /* read by nobody; keeps the loops alive */
} peak_loop;

static void run_peak(void *context, int64_t begin, int64_t end, int thread) {
    peak_loop *loop = context;
    for (int64_t i = begin; i < end; i++) {
        loop->sums[thread % 256] = loop->run();
    }
}

static double peak_gflops(int threads) {
    peak_loop loop = {0};
    if (__builtin_cpu_supports("avx512f")) {
        loop.run = peak_avx512;
        loop.flops = 24.0 * 16 * 2 * PEAK_LOOPS;
    } else if (__builtin_cpu_supports("fma")) {
        loop.run = peak_avx2;
        loop.flops = 12.0 * 8 * 2 * PEAK_LOOPS;
    } else {
        return 0.0;
    }
    double best = 0.0;
    for (int round = 0; round < ROUNDS; round++) {
        double start = haul_clock_seconds();
        haul_parallel_for(threads, threads, 1, run_peak, &loop);
        double rate = loop.flops * threads / (haul_clock_seconds() - start) * 1e-9;
        best = rate > best ? rate : best;
    }
    return best;
}
#else
static double peak_gflops(int threads) {
    (void)threads;
    return 0.0;
}
#endif

/* --- contestants ---------------------------------------------------------------------------- */

typedef struct product_contest {
    haul_device *device;
    bench_arena *arena;
    const haul_engines *engines;
    haul_matmul_args args;
    haul_stream stream;
    haul_plan plans[HAUL_METHODS];
    void *weights[HAUL_METHODS]; /* as each method has b */
    void *workspace;
    bool enters[CONTESTANTS]; /* haul, then the methods */
    double seconds[CONTESTANTS][ROUNDS];
} product_contest;

static haul_tensor matrix(bench_arena *arena, haul_dtype dtype, int64_t rows, int64_t columns) {
    void *data = allocate(arena, rows * columns * haul_dtype_size(dtype));
    return haul_tensor_2d(data, dtype, rows, columns);
}

static haul_matmul_args make_args(bench_arena *arena, const linear *layer, product_kind kind,
                                  int64_t rows, haul_dtype dtype) {
    haul_matmul_args args = {0};
    haul_tensor wide = matrix(arena, dtype, rows, kind == FORWARD ? layer->k : layer->n);
    switch (kind) {
    case FORWARD:
        args.b = matrix(arena, dtype, layer->n, layer->k);
        args.c = matrix(arena, dtype, rows, layer->n);
        args.transpose_b = true;
        break;
    case DGRAD:
        args.b = matrix(arena, dtype, layer->n, layer->k);
        args.c = matrix(arena, dtype, rows, layer->k);
        break;
    default:
        args.b = matrix(arena, dtype, rows, layer->k);
        args.c = matrix(arena, HAUL_F32, layer->n, layer->k);
        args.transpose_a = true;
        args.accumulate = true;
    }
    args.a = wide;
    return args;
}

/* Packs as the step does, through the op. */
static void pack_weight(product_contest *contest, product_kind kind, int64_t rows) {
    haul_pack_args pack = {
        .weight = contest->args.b,
        .kind = kind == FORWARD ? HAUL_PACK_FORWARD : HAUL_PACK_DGRAD,
        .rows = rows,
        .dtype = contest->args.a.dtype,
    };
    int64_t bytes = contest->device->backend->packed_bytes(contest->device, &pack);
    if (bytes == 0) {
        return;
    }
    contest->args.packed = haul_tensor_1d(allocate(contest->arena, bytes), HAUL_U8, bytes);
    pack.packed = contest->args.packed;
    int64_t workspace = haul_cpu_pack_workspace(contest->device, &pack);
    contest->stream.scratch = allocate(contest->arena, workspace);
    contest->stream.scratch_bytes = workspace;
    haul_launch(&contest->stream, HAUL_OP_PACK, &pack);
}

static void enter_method(product_contest *contest, product_kind kind, haul_method method) {
    const haul_matmul_args *args = &contest->args;
    unsigned flags = args->transpose_a ? HAUL_PRODUCT_TRANSPOSE_A | HAUL_PRODUCT_ACCUMULATE
                                       : HAUL_PRODUCT_PACKED;
    haul_product product = {
        .m = haul_tensor_rows(&args->c),
        .n = haul_tensor_columns(&args->c),
        .k = args->transpose_a ? haul_tensor_rows(&args->a) : haul_tensor_columns(&args->a),
        .a = (uint8_t)args->a.dtype,
        .b = (uint8_t)args->b.dtype,
        .c = (uint8_t)args->c.dtype,
        .flags = (uint8_t)(flags | (args->transpose_b ? HAUL_PRODUCT_TRANSPOSE_B : 0)),
    };
    bool reorders =
        method == HAUL_METHOD_ONEDNN_REORDER_B || method == HAUL_METHOD_ONEDNN_REORDER_AB;
    if ((method != HAUL_METHOD_OWN && contest->engines->onednn == NULL) ||
        (reorders && kind != WGRAD)) {
        return;
    }
    contest->weights[method] = args->b.data;
    haul_packing packing = {0};
    if (kind != WGRAD) {
        die_on_failure(haul_packing_init(&packing, contest->engines, &product, method));
        contest->weights[method] =
            packing.bytes > 0 ? allocate(contest->arena, packing.bytes) : args->b.data;
    }
    die_on_failure(
        haul_plan_init(&contest->plans[method], contest->engines, &product, method, &packing));
    haul_packing_deinit(&packing);
    contest->enters[1 + method] = true;
}

static double run_contestant(product_contest *contest, int number) {
    const haul_matmul_args *args = &contest->args;
    double start = haul_clock_seconds();
    if (number == 0) {
        haul_launch(&contest->stream, HAUL_OP_MATMUL, args);
    } else {
        die_on_failure(haul_plan_run(&contest->plans[number - 1], contest->engines, args->a.data,
                                     contest->weights[number - 1], NULL, args->c.data,
                                     contest->workspace));
    }
    return haul_clock_seconds() - start;
}

static int compare_seconds(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A run is at least 0.2 ms of products. */
static void run_contest(product_contest *contest, double flops, double *gflops) {
    int repeats = 1 + (int)(2e7 / flops);
    for (int round = -1; round < ROUNDS; round++) {
        for (int i = 0; i < CONTESTANTS; i++) {
            double seconds = 0.0;
            for (int repeat = 0; repeat < repeats && contest->enters[i]; repeat++) {
                seconds += run_contestant(contest, i);
            }
            if (round >= 0) {
                contest->seconds[i][round] = seconds / repeats;
            }
        }
    }
    die_on_failure(haul_stream_status(&contest->stream));
    for (int i = 0; i < CONTESTANTS; i++) {
        qsort(contest->seconds[i], ROUNDS, sizeof(double), compare_seconds);
        gflops[i] = contest->enters[i] ? flops / contest->seconds[i][ROUNDS / 2] * 1e-9 : 0.0;
    }
}

/* Prints one row of the table. */
static void bench_product(haul_device *device, bench_arena *arena, const linear *layer,
                          product_kind kind, int64_t rows, haul_dtype dtype) {
    product_contest contest = {.device = device, .arena = arena, .enters = {true}};
    arena->used = 0;
    contest.stream.device = device;
    contest.engines = haul_cpu_matmul_engines(haul_cpu_matmul_of(device));
    contest.args = make_args(arena, layer, kind, rows, dtype);
    if (kind != WGRAD) {
        pack_weight(&contest, kind, rows);
    }
    int64_t workspace = haul_cpu_matmul_workspace(device, &contest.args);
    contest.stream.scratch_bytes = workspace;
    for (haul_method method = 0; method < HAUL_METHODS; method++) {
        enter_method(&contest, kind, method);
        workspace = haul_max(workspace, contest.plans[method].workspace);
    }
    contest.workspace = allocate(arena, workspace);
    contest.stream.scratch = contest.workspace;
    double gflops[CONTESTANTS];
    run_contest(&contest, 2.0 * (double)rows * (double)layer->n * (double)layer->k, gflops);
    printf("%-8s %-8s %5lldx%5lldx%5lld", layer->name, kind_names[kind], (long long)rows,
           (long long)layer->n, (long long)layer->k);
    for (int i = 0; i < CONTESTANTS; i++) {
        int width = i == 0 ? 9 : 17;
        gflops[i] > 0.0 ? printf(" %*.1f", width, gflops[i]) : printf(" %*s", width, "-");
    }
    printf("\n");
    for (haul_method method = 0; method < HAUL_METHODS; method++) {
        haul_plan_deinit(&contest.plans[method]);
    }
}

static void bench_layers(haul_device *device, bench_arena *arena, const linear *layers,
                         size_t count, int64_t rows, haul_dtype dtype) {
    for (size_t i = 0; i < count; i++) {
        for (product_kind kind = 0; kind < KINDS; kind++) {
            bench_product(device, arena, &layers[i], kind, rows, dtype);
        }
    }
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    int64_t rows = argc > 2 ? atoll(argv[2]) : 1024;
    haul_device device;
    die_on_failure(haul_device_init(&device, "cpu", threads, HAUL_PRODUCT_AUTO));
    bench_arena arena = {0};
    void *memory = NULL;
    die_on_failure(device.backend->allocate(&device, arena_bytes, &memory));
    arena.base = memory;
    char text[256];
    device.backend->describe(&device, text, sizeof text);
    printf("%s; peak of multiply-adds in f32 %.1f GFLOP/s\n", text, peak_gflops(device.threads));
    const haul_dtype dtypes[] = {HAUL_F32, HAUL_BF16};
    for (int i = 0; i < 2; i++) {
        if (argc > 3 && strcmp(argv[3], haul_dtype_name(dtypes[i])) != 0) {
            continue;
        }
        printf("\n%s: R x N x K, GFLOP/s\n%-8s %-8s %17s %9s", haul_dtype_name(dtypes[i]), "layer",
               "product", "", "haul");
        for (haul_method method = 0; method < HAUL_METHODS; method++) {
            printf(" %17s", haul_method_name(method));
        }
        printf("\n");
        bench_layers(&device, &arena, quickstart, sizeof quickstart / sizeof quickstart[0], 1024,
                     dtypes[i]);
        bench_layers(&device, &arena, gpt2, sizeof gpt2 / sizeof gpt2[0], rows, dtypes[i]);
        bench_layers(&device, &arena, gpt2_head, 1, haul_min(rows, 256), dtypes[i]);
    }
    device.backend->release(&device, memory, arena_bytes);
    haul_device_deinit(&device);
    return 0;
}
