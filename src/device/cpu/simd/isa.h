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

/* haul_f32_to_bf16, said so that it becomes few vector instructions. */
HAUL_INLINE uint16_t bf16_bits(float value) {
    uint32_t bits = float_bits(value);
    uint32_t high = bits >> 16;
    uint32_t nearest = (bits + 0x7fffu + (high & 1u)) >> 16;
    return (uint16_t)(value == value ? nearest : high | 0x40u);
}

/* Element `index` of a bf16 or f32 array as float, and back, rounded to nearest even. */
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

/* `value` as a bf16 or f32 array would hold it. */
HAUL_INLINE float rounded(float value, bool bf16) {
    return bf16 ? haul_bf16_to_f32(bf16_bits(value)) : value;
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

HAUL_INLINE void store_row(void *data, int64_t count, bool bf16, const float *row) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        store(data, i, bf16, row[i]);
    }
}

/* e^x within 2 ulp; 0 below -87 (where the results would come near the subnormal numbers, which are
 * slow), inf above the largest float, NaN for NaN. With n = round(x / ln 2) and r = x - n ln 2,
 * e^x = 2^(n - 1) 2e^r. The polynomial is 2e^r on |r| <= ln 2 / 2, fitted for the least relative
 * error. Adding `magic` leaves n + 126, the exponent field of 2^(n - 1), in the low bits; at the
 * lower clamp it is 0, and so then is the scale. */
HAUL_INLINE float exp_f32(float x) {
    const float magic = 0x1.8p23f + 126.0f, low = -87.3f, high = 89.0f;
    x = low > x ? low : x; /* both keep NaN */
    x = high < x ? high : x;
    float shifted = madd(x, 0x1.715476p+0f, magic);
    float n = shifted - magic;
    float r = madd(n, -0x1.62e4p-1f, x); /* ln 2 in two parts, n * first is exact */
    r = madd(n, -0x1.7f7d1cp-20f, r);
    float e = madd(r, 0x1.6ae6e0p-9f, 0x1.1267d8p-6f);
    e = madd(e, r, 0x1.555824p-4f);
    e = madd(e, r, 0x1.555418p-2f);
    e = madd(e, r, 0x1.fffffcp-1f);
    e = madd(e, r, 2.0f);
    e = madd(e, r, 2.0f);
    return e * float_from_bits(float_bits(shifted) << 23);
}

/* 1 / (1 + e^-x) */
HAUL_INLINE float sigmoid_f32(float x) {
    return 1.0f / (1.0f + exp_f32(-x));
}

#endif
