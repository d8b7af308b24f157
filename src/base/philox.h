/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011): a counter-based generator, so a random number is a pure function of what it is for. */
#ifndef HAUL_BASE_PHILOX_H
#define HAUL_BASE_PHILOX_H

#include <stdint.h>

typedef struct haul_philox {
    uint32_t word[4];
} haul_philox;

static inline haul_philox haul_philox_4x32(const uint32_t key[2], const uint32_t counter[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)c0 * 0xD2511F53u;
        uint64_t b = (uint64_t)c2 * 0xCD9E8D57u;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (haul_philox){{c0, c1, c2, c3}};
}

/* A uniform number in (0, 1) from 32 random bits; never 0, so its logarithm is finite. */
static inline double haul_uniform(uint32_t bits) {
    return ((double)bits + 0.5) * 0x1p-32;
}

/* Element `index` of a stream of independent standard normal numbers (Box-Muller), keyed by
 * `seed` and `stream`. */
double haul_normal(uint64_t seed, uint64_t stream, int64_t index);

/* A 64-bit hash of a name, for the `stream` of a tensor (FNV-1a). */
uint64_t haul_hash_name(const char *name);

#endif
