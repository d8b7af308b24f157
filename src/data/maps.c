#include "data/maps.h"

#include "base/hash.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

struct haul_pair_slot {
    uint64_t key;
    int64_t value_plus_one; /* 0 marks a free slot */
};

void haul_pair_map_deinit(haul_pair_map *map) {
    free(map->slots);
    *map = (haul_pair_map){0};
}

/* The slot of `key`, or the free one where it belongs. The map has free slots. */
static struct haul_pair_slot *find_pair(const haul_pair_map *map, uint64_t key) {
    uint64_t mixed = key * 0x9E3779B97F4A7C15u;
    uint64_t mask = (uint64_t)map->capacity - 1;
    for (uint64_t i = (mixed ^ mixed >> 32) & mask;; i = (i + 1) & mask) {
        struct haul_pair_slot *slot = &map->slots[i];
        if (slot->value_plus_one == 0 || slot->key == key) {
            return slot;
        }
    }
}

int64_t haul_pair_map_get(const haul_pair_map *map, uint64_t key) {
    return map->capacity == 0 ? -1 : find_pair(map, key)->value_plus_one - 1;
}

static haul_status grow_pairs(haul_pair_map *map) {
    haul_pair_map grown = {.capacity = map->capacity == 0 ? 64 : 2 * map->capacity,
                           .count = map->count};
    grown.slots = haul_calloc(grown.capacity, sizeof *grown.slots);
    if (grown.slots == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].value_plus_one != 0) {
            *find_pair(&grown, map->slots[i].key) = map->slots[i];
        }
    }
    free(map->slots);
    *map = grown;
    return HAUL_OK;
}

haul_status haul_pair_map_put(haul_pair_map *map, uint64_t key, int64_t value) {
    if (2 * map->count >= map->capacity) {
        HAUL_TRY(grow_pairs(map));
    }
    struct haul_pair_slot *slot = find_pair(map, key);
    map->count += slot->value_plus_one == 0;
    *slot = (struct haul_pair_slot){key, value + 1};
    return HAUL_OK;
}

void haul_byte_map_deinit(haul_byte_map *map) {
    haul_string_deinit(&map->text);
    free(map->begins);
    free(map->slots);
    *map = (haul_byte_map){0};
}

const char *haul_byte_map_key(const haul_byte_map *map, int64_t number, int64_t *bytes) {
    *bytes = map->begins[number + 1] - map->begins[number];
    return map->text.data + map->begins[number];
}

static int64_t *find_bytes(const haul_byte_map *map, const void *key, int64_t bytes) {
    uint64_t mask = (uint64_t)map->capacity - 1;
    for (uint64_t i = haul_hash_64(key, bytes) & mask;; i = (i + 1) & mask) {
        int64_t length;
        if (map->slots[i] == 0) {
            return &map->slots[i];
        }
        const char *held = haul_byte_map_key(map, map->slots[i] - 1, &length);
        if (length == bytes && memcmp(held, key, (size_t)bytes) == 0) {
            return &map->slots[i];
        }
    }
}

int64_t haul_byte_map_get(const haul_byte_map *map, const void *key, int64_t bytes) {
    return map->capacity == 0 ? -1 : *find_bytes(map, key, bytes) - 1;
}

static haul_status grow_slots(haul_byte_map *map) {
    int64_t capacity = map->capacity == 0 ? 64 : 2 * map->capacity;
    int64_t *slots = haul_calloc(capacity, sizeof *slots);
    if (slots == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    free(map->slots);
    map->slots = slots;
    map->capacity = capacity;
    for (int64_t i = 0; i < map->count; i++) {
        int64_t bytes;
        const char *key = haul_byte_map_key(map, i, &bytes);
        *find_bytes(map, key, bytes) = i + 1;
    }
    return HAUL_OK;
}

haul_status haul_byte_map_add(haul_byte_map *map, const void *key, int64_t bytes, int64_t *number) {
    if (2 * map->count >= map->capacity) {
        HAUL_TRY(grow_slots(map));
    }
    int64_t *slot = find_bytes(map, key, bytes);
    if (*slot == 0) {
        HAUL_TRY(
            haul_grow(&map->begins, &map->begins_capacity, map->count + 2, sizeof *map->begins));
        haul_string_append(&map->text, key, bytes);
        HAUL_TRY(haul_string_status(&map->text));
        map->begins[map->count + 1] = map->text.length;
        *slot = ++map->count;
    }
    *number = *slot - 1;
    return HAUL_OK;
}
