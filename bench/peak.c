#include "peak.h"

#include "base/clock.h"
#include "base/parallel.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { ROUNDS = 5, PEAK_LOOPS = 2000000 };

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

double bench_peak_gflops(int threads) {
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
double bench_peak_gflops(int threads) {
    (void)threads;
    return 0.0;
}
#endif
