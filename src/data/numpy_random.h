/* The two numpy generators that decide Megatron-LM's sample order, bit for bit. */
#ifndef HAUL_DATA_NUMPY_RANDOM_H
#define HAUL_DATA_NUMPY_RANDOM_H

#include <stdint.h>

/* numpy.random.RandomState(seed): MT19937 (Matsumoto, Nishimura 1998). */
typedef struct haul_mt19937 {
    uint32_t state[624];
    int next;
} haul_mt19937;

void haul_mt19937_seed(haul_mt19937 *generator, uint32_t seed);
uint32_t haul_mt19937_next(haul_mt19937 *generator);

/* RandomState.shuffle of an array of 32-bit items, 0 <= count < 2^32. */
void haul_mt19937_shuffle(haul_mt19937 *generator, uint32_t *items, int64_t count);

/* numpy.random.default_rng(seed): PCG64 (O'Neill 2014) seeded through SeedSequence. */
typedef struct haul_pcg64 {
    unsigned __int128 state, increment;
    uint32_t half; /* the unused upper half of the last 64 bits */
    int has_half;
} haul_pcg64;

void haul_pcg64_seed(haul_pcg64 *generator, uint32_t seed);

/* Generator.integers(low, high, dtype=int32): out[count] in [low, high). */
void haul_pcg64_integers(haul_pcg64 *generator, int32_t low, int32_t high, int32_t *out,
                         int64_t count);

#endif
