/* Random words, many counters at a time: dropout masks, and the rounding of moments. */
#ifndef HAUL_DEVICE_CPU_SIMD_RANDOM_H
#define HAUL_DEVICE_CPU_SIMD_RANDOM_H

#include "device/cpu/simd/isa.h"
#include "device/op.h"

enum { HAUL_DROPOUT_BLOCK = 256 }; /* elements of a mask; a multiple of 4 */

/* A counter on its way through haul_philox_4x32: without an array, so that a loop over counters
 * becomes vector code. */
typedef struct philox_counter {
    uint32_t c0, c1, c2, c3;
} philox_counter;

HAUL_INLINE philox_counter philox_words(philox_counter c, uint32_t key0, uint32_t key1) {
#pragma GCC unroll 10
    for (uint32_t round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)c.c0 * 0xD2511F53u;
        uint64_t b = (uint64_t)c.c2 * 0xCD9E8D57u;
        c.c0 = (uint32_t)(b >> 32) ^ c.c1 ^ (key0 + round * 0x9E3779B9u);
        c.c2 = (uint32_t)(a >> 32) ^ c.c3 ^ (key1 + round * 0xBB67AE85u);
        c.c1 = (uint32_t)b;
        c.c3 = (uint32_t)a;
    }
    return c;
}

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
 * `scale`, into `factor`; `first` is a multiple of 4, and count is rounded up to one. */
HAUL_INLINE void dropout_factors_of(const dropout_rule *rule, int64_t sample, int64_t first,
                                    int64_t count, float *factor) {
    uint32_t counter = (uint32_t)(first / 4), place = rule->first_sample + (uint32_t)sample;
    uint32_t stream = rule->stream, step = rule->step, last = rule->last_dropped;
    uint32_t key0 = rule->key[0], key1 = rule->key[1];
    float scale = rule->scale;
    uint32_t fours = (uint32_t)((count + 3) / 4);
#pragma omp simd
    for (uint32_t i = 0; i < fours; i++) {
        philox_counter c = {counter + i, stream, place, step};
        philox_counter word = philox_words(c, key0, key1);
        factor[4 * i] = word.c0 > last ? scale : 0.0f;
        factor[4 * i + 1] = word.c1 > last ? scale : 0.0f;
        factor[4 * i + 2] = word.c2 > last ? scale : 0.0f;
        factor[4 * i + 3] = word.c3 > last ? scale : 0.0f;
    }
}

/* The same for HAUL_DROPOUT_BLOCK elements. */
HAUL_INLINE void dropout_factors(const dropout_rule *rule, int64_t sample, int64_t first,
                                 float factor[HAUL_DROPOUT_BLOCK]) {
    dropout_factors_of(rule, sample, first, HAUL_DROPOUT_BLOCK, factor);
}

#endif
