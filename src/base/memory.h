/* Checked allocation of small host objects. Tensors live in arenas (base/arena.h) instead. */
#ifndef HAUL_BASE_MEMORY_H
#define HAUL_BASE_MEMORY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `count` zeroed objects of `size` bytes, freed by free(). Returns NULL, with the message set,
 * when count * size overflows or memory is out; the caller returns HAUL_ERROR_MEMORY. Count 0
 * gives a valid pointer. */
void *haul_calloc(int64_t count, size_t size);

/* Grows an array (objects of `size` bytes, capacity *capacity) to hold at least `needed`, doubling;
 * new objects are zeroed. `items` is the address of the pointer to it, of whatever type. */
haul_status haul_grow(void *items, int64_t *capacity, int64_t needed, size_t size);

/* A copy of text, or NULL as haul_calloc. */
char *haul_strdup(const char *text);

/* a * b and a + b of sizes that come from files and flags: false when they overflow or are
 * negative. */
bool haul_size_multiply(int64_t a, int64_t b, int64_t *result);
bool haul_size_add(int64_t a, int64_t b, int64_t *result);

/* `size` rounded up to a multiple of `alignment`. */
static inline int64_t haul_round_up(int64_t size, int64_t alignment) {
    return (size + alignment - 1) / alignment * alignment;
}

static inline int64_t haul_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t haul_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

#endif
