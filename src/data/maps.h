/* Two hash maps for tokenizers: pairs of ids, and byte strings, to numbers of at least 0. */
#ifndef HAUL_DATA_MAPS_H
#define HAUL_DATA_MAPS_H

#include "base/status.h"
#include "base/string.h"

#include <stdint.h>

typedef struct haul_pair_map {
    struct haul_pair_slot *slots;
    int64_t capacity; /* a power of two, or 0 */
    int64_t count;
} haul_pair_map;

static inline uint64_t haul_pair_key(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* A zeroed map is empty. Get returns -1 for an absent key; put inserts or replaces. */
void haul_pair_map_deinit(haul_pair_map *map);
int64_t haul_pair_map_get(const haul_pair_map *map, uint64_t key);
haul_status haul_pair_map_put(haul_pair_map *map, uint64_t key, int64_t value);

/* Byte strings numbered 0, 1, ... in the order of their first coming. */
typedef struct haul_byte_map {
    haul_string text; /* all keys, one after another */
    int64_t *begins;  /* [count + 1]: where key i begins in text */
    int64_t begins_capacity;
    int64_t *slots; /* [capacity]: number + 1, 0 for free */
    int64_t capacity;
    int64_t count;
} haul_byte_map;

void haul_byte_map_deinit(haul_byte_map *map);
int64_t haul_byte_map_get(const haul_byte_map *map, const void *key, int64_t bytes);

/* Sets *number to that of the key, adding it when it is new. */
haul_status haul_byte_map_add(haul_byte_map *map, const void *key, int64_t bytes, int64_t *number);

/* Key 0 <= number < count, and its length. Valid until the next add. */
const char *haul_byte_map_key(const haul_byte_map *map, int64_t number, int64_t *bytes);

#endif
