/* XXH3, the hash of file contents: fast, stable across machines, not for secrets. */
#ifndef HAUL_BASE_HASH_H
#define HAUL_BASE_HASH_H

#include <stdint.h>

typedef struct haul_hash {
    uint64_t high, low;
} haul_hash;

/* XXH3 of `bytes` bytes, 64 and 128 bits wide, with seed 0. */
uint64_t haul_hash_64(const void *data, int64_t bytes);
haul_hash haul_hash_128(const void *data, int64_t bytes);

/* 32 lower-case hexadecimal digits and a NUL, as `xxhsum -H2` prints them. */
void haul_hash_text(haul_hash hash, char text[33]);

#endif
