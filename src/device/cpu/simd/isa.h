/* What the kernels in this directory share. Each file is compiled once for each instruction set
 * (HAUL_ISA_SUFFIX: portable, avx2, avx512); what it exports is named by HAUL_ISA. Loops are plain
 * C over 32-bit floats that the compiler turns into vector code; `bf16` arguments are constants
 * once inlined, so that each kernel exists for both dtypes and converts in registers. */
#ifndef HAUL_DEVICE_CPU_SIMD_ISA_H
#define HAUL_DEVICE_CPU_SIMD_ISA_H

#include "device/tensor.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HAUL_ISA_PASTE(name, suffix)  name##_##suffix
#define HAUL_ISA_EXPAND(name, suffix) HAUL_ISA_PASTE(name, suffix)
#define HAUL_ISA(name)                HAUL_ISA_EXPAND(name, HAUL_ISA_SUFFIX)

/* For bodies that must be specialised by their constant arguments. */
#define HAUL_INLINE static inline __attribute__((always_inline))

/* a * b + c, in one rounding where the instruction set has it. */
HAUL_INLINE float madd(float a, float b, float c) {
#ifdef __FP_FAST_FMAF
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

HAUL_INLINE float float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

HAUL_INLINE uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* haul_f32_to_bf16 for what arithmetic makes, in few vector instructions: the NaNs of arithmetic
 * stay NaN without a test (others could overflow into -0 or end as inf). */
HAUL_INLINE uint16_t bf16_bits(float value) {
    uint32_t bits = float_bits(value);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* Element `index` of a bf16 or f32 array as float, and back, rounded to nearest even; `value` must
 * be a result of arithmetic. */
HAUL_INLINE float load(const void *data, int64_t index, bool bf16) {
    return bf16 ? haul_bf16_to_f32(((const uint16_t *)data)[index]) : ((const float *)data)[index];
}

HAUL_INLINE void store(void *data, int64_t index, bool bf16, float value) {
    if (bf16) {
        ((uint16_t *)data)[index] = bf16_bits(value);
    } else {
        ((float *)data)[index] = value;
    }
}

/* The address of element `index` of a bf16 or f32 array. */
HAUL_INLINE void *element(const haul_tensor *tensor, int64_t index, bool bf16) {
    return (char *)tensor->data + index * (bf16 ? 2 : 4);
}

/* `count` elements as floats: an f32 array itself, a bf16 array converted into `buffer`. */
HAUL_INLINE const float *load_row(const void *data, int64_t count, bool bf16, float *buffer) {
    if (!bf16) {
        return data;
    }
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        buffer[i] = load(data, i, true);
    }
    return buffer;
}

/* The way back, for any values. */
HAUL_INLINE void store_row(void *data, int64_t count, bool bf16, const float *row) {
    if (!bf16) {
        memcpy(data, row, (size_t)count * sizeof *row);
        return;
    }
    uint16_t *to = data;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        to[i] = haul_f32_to_bf16(row[i]);
    }
}

/* e^x within 2 ulp for x <= 88, no test of which is made: softmax, sigmoid and Gauss' function need
 * no more. 0 below -87 (near the subnormal numbers, which are slow), NaN for NaN. With
 * n = round(x / ln 2) and r = x - n ln 2, e^x = 2^(n - 1) 2e^r. The polynomial is 2e^r on
 * |r| <= ln 2 / 2, fitted for the least relative error. Adding `magic` leaves n + 126, the exponent
 * field of 2^(n - 1), in the low bits; for `lowest` it is 0, and so then is the scale. */
HAUL_INLINE float exp_f32(float x) {
    const float magic = 0x1.8p23f + 126.0f, lowest = -87.3f;
    x = lowest > x ? lowest : x; /* keeps NaN */
    float shifted = madd(x, 0x1.715476p+0f, magic);
    float n = shifted - magic;
    float r = madd(n, -0x1.62e4p-1f, x); /* ln 2 in two parts, n * first is exact */
    r = madd(n, -0x1.7f7d1cp-20f, r);
    float r2 = r * r; /* in pairs (Estrin), as the loops around wait for this chain */
    float high = madd(r2, 0x1.6ae6e0p-9f, madd(r, 0x1.1267d8p-6f, 0x1.555824p-4f));
    float middle = madd(r, 0x1.555418p-2f, 0x1.fffffcp-1f);
    float e = madd(r2, madd(r2, high, middle), madd(r, 2.0f, 2.0f));
    return e * float_from_bits(float_bits(shifted) << 23);
}

/* 1 / (1 + e^-x), as e^x / (1 + e^x) where x is negative. */
HAUL_INLINE float sigmoid_f32(float x) {
    float e = exp_f32(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

#endif
