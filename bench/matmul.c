/* GFLOP/s of the products of a training step: what haul reaches through its op, each method alone,
 * and the rate of multiply-adds that the processor can reach at most.
 *
 *     matmul [threads [rows of GPT-2's products [f32 | bf16]]]
 */
#include "base/memory.h"
#include "contest.h"
#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A linear layer with weight [n, k]. */
typedef struct linear {
    const char *name;
    int64_t n, k;
} linear;

static const linear quickstart[] = {
    {"qkv", 288, 96}, {"out", 96, 96}, {"gate-up", 512, 96}, {"down", 96, 256}, {"head", 1024, 96},
};
static const linear gpt2[] = {
    {"qkv", 2304, 768},
    {"out", 768, 768},
    {"fc1", 3072, 768},
    {"fc2", 768, 3072},
};
static const linear gpt2_head[] = {{"head", 50304, 768}};

static void print_row(const char *name, const bench_product *product,
                      const double seconds[BENCH_CONTESTANTS]) {
    double gflop = 2e-9 * (double)product->rows * (double)product->n * (double)product->k;
    printf("%-8s %-8s %5lldx%5lldx%5lld", name, bench_product_kind_name(product->kind),
           (long long)product->rows, (long long)product->n, (long long)product->k);
    for (int i = 0; i < BENCH_CONTESTANTS; i++) {
        int width = i == BENCH_OP ? 9 : 17;
        if (seconds[i] > 0.0) {
            printf(" %*.1f", width, gflop / seconds[i]);
        } else {
            printf(" %*s", width, "-");
        }
    }
    printf("\n");
}

static void bench_layers(bench_arena *arena, const linear *layers, size_t count, int64_t rows,
                         haul_dtype dtype) {
    for (size_t i = 0; i < count; i++) {
        for (int kind = BENCH_FORWARD; kind <= BENCH_WGRAD; kind++) {
            bench_product product = {.kind = (bench_product_kind)kind,
                                     .rows = rows,
                                     .n = layers[i].n,
                                     .k = layers[i].k,
                                     .dtype = dtype,
                                     .accumulate = true};
            double seconds[BENCH_CONTESTANTS];
            bench_contest(arena->device, arena, &product, seconds);
            print_row(layers[i].name, &product, seconds);
        }
    }
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    int64_t rows = argc > 2 ? atoll(argv[2]) : 1024;
    haul_device device;
    bench_die_on_failure(haul_device_init(&device, "cpu", threads, HAUL_PRODUCT_AUTO));
    bench_arena arena;
    bench_arena_init(&arena, &device);
    char text[256];
    device.backend->describe(&device, text, sizeof text);
    printf("%s; peak of multiply-adds in f32 %.1f GFLOP/s\n", text,
           bench_peak_gflops(device.threads));
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
        bench_layers(&arena, quickstart, sizeof quickstart / sizeof quickstart[0], 1024, dtypes[i]);
        bench_layers(&arena, gpt2, sizeof gpt2 / sizeof gpt2[0], rows, dtypes[i]);
        bench_layers(&arena, gpt2_head, 1, haul_min(rows, 512), dtypes[i]);
    }
    bench_arena_deinit(&arena);
    haul_device_deinit(&device);
    return 0;
}
