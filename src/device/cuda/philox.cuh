/* base/philox.h on the card, and the dropout of device/op.h. */
#ifndef HAUL_DEVICE_CUDA_PHILOX_CUH
#define HAUL_DEVICE_CUDA_PHILOX_CUH

#include "device/cuda/cuda.h"

#include <math.h>

/* A dropout as kernels take it. */
struct dropout_rule {
    uint32_t key0, key1, stream, step, first_sample;
    uint64_t threshold; /* words below it drop; 0: off */
    float factor;       /* of what is kept */
};

static inline dropout_rule make_dropout(const haul_dropout *dropout) {
    dropout_rule rule = {};
    if (dropout->probability > 0) {
        rule.key0 = (uint32_t)dropout->seed;
        rule.key1 = (uint32_t)(dropout->seed >> 32);
        rule.stream = dropout->stream;
        rule.step = dropout->step;
        rule.first_sample = (uint32_t)dropout->first_sample;
        rule.threshold = (uint64_t)ceil(dropout->probability * 0x1p32);
    }
    rule.factor = (float)(1 / (1 - dropout->probability));
    return rule;
}

static __device__ __forceinline__ uint4 philox_4x32(uint32_t k0, uint32_t k1, uint32_t c0,
                                                    uint32_t c1, uint32_t c2, uint32_t c3) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t low0 = c0 * 0xD2511F53u, high0 = __umulhi(c0, 0xD2511F53u);
        uint32_t low1 = c2 * 0xCD9E8D57u, high1 = __umulhi(c2, 0xCD9E8D57u);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
}

/* The factors of elements 4 quad .. 4 quad + 3 of a sample of the batch: 0 or rule.factor. */
static __device__ __forceinline__ float4 dropout_factors(const dropout_rule &rule, int64_t sample,
                                                         int64_t quad) {
    uint4 word = philox_4x32(rule.key0, rule.key1, (uint32_t)quad, rule.stream,
                             rule.first_sample + (uint32_t)sample, rule.step);
    return make_float4(
        word.x < rule.threshold ? 0.0f : rule.factor, word.y < rule.threshold ? 0.0f : rule.factor,
        word.z < rule.threshold ? 0.0f : rule.factor, word.w < rule.threshold ? 0.0f : rule.factor);
}

#endif
