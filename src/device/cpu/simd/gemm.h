/* haul's own product of matrices, in f32, blocked for the caches and tiled for the registers: the
 * fallback without oneDNN, and for small shapes often the faster one. Each element is one sum in
 * ascending k, cut into blocks that depend on K alone, so a result does not depend on the number of
 * threads, nor on whether b was packed beforehand.
 *
 * Layout follows Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM
 * TOMS 2008): b in panels of a tile's width, a in slivers of a tile's height. */
#ifndef HAUL_DEVICE_CPU_SIMD_GEMM_H
#define HAUL_DEVICE_CPU_SIMD_GEMM_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* c = op(a) op(b) + bias (+ c), as haul_matmul_args has it. Matrices are row-major, contiguous and
 * f32 or bf16, each as it likes. */
typedef struct haul_gemm {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    bool accumulate;
    haul_dtype a_dtype, b_dtype, c_dtype, bias_dtype;
    const void *a;
    const void *b;
    const float *packed; /* b by pack(), then b itself is not read; or NULL */
    const void *bias;    /* or NULL */
    void *c;
    int threads;
    float *workspace; /* 64-byte aligned, of workspace() bytes */
} haul_gemm;

typedef struct haul_gemm_kernels {
    const char *isa;
    /* Bytes of multiply()'s workspace; `packed` says whether b will be packed. */
    int64_t (*workspace)(const haul_gemm *gemm, bool packed);
    /* Bytes of a whole packed [K, N] operand, and the packing of gemm->b. */
    int64_t (*packed_bytes)(int64_t n, int64_t k);
    void (*pack)(const haul_gemm *gemm, float *packed);
    void (*multiply)(const haul_gemm *gemm);
    /* y = x, and y = bf16 of x, added to y's own value with `accumulate`. */
    void (*widen)(int threads, int64_t count, const uint16_t *x, float *y);
    void (*narrow)(int threads, int64_t count, const float *x, uint16_t *y, bool accumulate);
} haul_gemm_kernels;

extern const haul_gemm_kernels haul_gemm_portable;
extern const haul_gemm_kernels haul_gemm_avx2;
extern const haul_gemm_kernels haul_gemm_avx512;

#endif
