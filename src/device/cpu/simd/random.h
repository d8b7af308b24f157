/* Dropout masks, many counters at a time. */
#ifndef HAUL_DEVICE_CPU_SIMD_RANDOM_H
#define HAUL_DEVICE_CPU_SIMD_RANDOM_H

#include "device/cpu/simd/isa.h"
#include "device/op.h"

enum { HAUL_DROPOUT_BLOCK = 256 }; /* elements of a mask; a multiple of 4 */

/* The rule of haul_dropout with what does not change from element to element made ready. */
typedef struct dropout_rule {
    uint32_t key[2];
    uint32_t stream, first_sample, step;
    uint32_t last_dropped; /* words up to this one drop */
    float scale;           /* of what is kept, 1 / (1 - probability) */
} dropout_rule;

/* `dropout->probability` must be in (0, 1). */
HAUL_INLINE dropout_rule dropout_prepare(const haul_dropout *dropout) {
    return (dropout_rule){
        .key = {(uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32)},
        .stream = dropout->stream,
        .first_sample = (uint32_t)dropout->first_sample,
        .step = dropout->step,
        .last_dropped = (uint32_t)(ceil(dropout->probability * 0x1p32) - 1.0),
        .scale = (float)(1.0 / (1.0 - dropout->probability)),
    };
}

/* What elements [first, first + count) of a sample (counted in the batch) are multiplied by, 0 or
 * `scale`, into `factor`; `first` is a multiple of 4, and count is rounded up to one. This is
 * haul_philox_4x32, written without arrays so that the loop becomes vector code. */
HAUL_INLINE void dropout_factors_of(const dropout_rule *rule, int64_t sample, int64_t first,
                                    int64_t count, float *factor) {
    uint32_t counter = (uint32_t)(first / 4), place = rule->first_sample + (uint32_t)sample;
    uint32_t stream = rule->stream, step = rule->step, last = rule->last_dropped;
    uint32_t key0 = rule->key[0], key1 = rule->key[1];
    float scale = rule->scale;
    uint32_t fours = (uint32_t)((count + 3) / 4);
#pragma omp simd
    for (uint32_t i = 0; i < fours; i++) {
        uint32_t c0 = counter + i, c1 = stream, c2 = place, c3 = step;
#pragma GCC unroll 10
        for (uint32_t round = 0; round < 10; round++) {
            uint64_t a = (uint64_t)c0 * 0xD2511F53u;
            uint64_t b = (uint64_t)c2 * 0xCD9E8D57u;
            c0 = (uint32_t)(b >> 32) ^ c1 ^ (key0 + round * 0x9E3779B9u);
            c2 = (uint32_t)(a >> 32) ^ c3 ^ (key1 + round * 0xBB67AE85u);
            c1 = (uint32_t)b;
            c3 = (uint32_t)a;
        }
        factor[4 * i] = c0 > last ? scale : 0.0f;
        factor[4 * i + 1] = c1 > last ? scale : 0.0f;
        factor[4 * i + 2] = c2 > last ? scale : 0.0f;
        factor[4 * i + 3] = c3 > last ? scale : 0.0f;
    }
}

/* The same for HAUL_DROPOUT_BLOCK elements. */
HAUL_INLINE void dropout_factors(const dropout_rule *rule, int64_t sample, int64_t first,
                                 float factor[HAUL_DROPOUT_BLOCK]) {
    dropout_factors_of(rule, sample, first, HAUL_DROPOUT_BLOCK, factor);
}

#endif
