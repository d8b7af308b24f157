/* One register of floats, for products that must stay in registers: where the compiler's own
 * vectoriser would move an accumulator through memory. */
#ifndef HAUL_DEVICE_CPU_SIMD_VECTOR_H
#define HAUL_DEVICE_CPU_SIMD_VECTOR_H

#include "device/cpu/simd/isa.h"

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vector __attribute__((vector_size(LANES * 4), may_alias));

/* From and to addresses that are a multiple of the register. */
HAUL_INLINE vector vector_load(const float *x) {
    return *(const vector *)(const void *)__builtin_assume_aligned(x, LANES * 4);
}

HAUL_INLINE void vector_store(float *y, vector x) {
    *(vector *)__builtin_assume_aligned(y, LANES * 4) = x;
}

HAUL_INLINE vector vector_of(float x) {
    return x - (vector){0};
}

/* a * b + c, lane by lane as madd(). */
HAUL_INLINE vector vector_madd(vector a, vector b, vector c) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

/* The larger of the two; b where either is NaN. */
HAUL_INLINE vector vector_max(vector a, vector b) {
#if defined(__AVX512F__)
    return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
    return _mm256_max_ps(a, b);
#else
    for (int i = 0; i < LANES; i++) {
        a[i] = a[i] > b[i] ? a[i] : b[i];
    }
    return a;
#endif
}

#endif
