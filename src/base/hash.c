#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t haul_hash_64(const void *data, int64_t bytes) {
    return XXH3_64bits(data, (size_t)bytes);
}

haul_hash haul_hash_128(const void *data, int64_t bytes) {
    XXH128_hash_t hash = XXH3_128bits(data, (size_t)bytes);
    return (haul_hash){.high = hash.high64, .low = hash.low64};
}

void haul_hash_text(haul_hash hash, char text[33]) {
    snprintf(text, 33, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
}
