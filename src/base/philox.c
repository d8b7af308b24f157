#include "base/philox.h"

#include <math.h>

double haul_normal(uint64_t seed, uint64_t stream, int64_t index) {
    uint64_t pair = (uint64_t)index / 2;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)pair, (uint32_t)(pair >> 32), (uint32_t)stream,
                           (uint32_t)(stream >> 32)};
    haul_philox random = haul_philox_4x32(key, counter);
    double radius = sqrt(-2 * log(haul_uniform(random.word[0])));
    double angle = 2 * 3.14159265358979323846 * haul_uniform(random.word[1]);
    return radius * (index % 2 == 0 ? cos(angle) : sin(angle));
}

uint64_t haul_hash_name(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    }
    return hash;
}
