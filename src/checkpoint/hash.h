/* XXH3-128, what tells a good file from a damaged one. Not a defence against forgery. */
#ifndef HAUL_CHECKPOINT_HASH_H
#define HAUL_CHECKPOINT_HASH_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* In the canonical (big-endian) order that xxhsum prints. */
typedef struct haul_hash128 {
    unsigned char bytes[16];
} haul_hash128;

enum { HAUL_HASH_TEXT = 33 };

haul_hash128 haul_hash128_of(const void *data, int64_t bytes);
bool haul_hash128_equal(const haul_hash128 *a, const haul_hash128 *b);

/* 32 lower-case hex digits; parse returns false for anything else (NULL included). */
void haul_hash128_print(const haul_hash128 *hash, char out[HAUL_HASH_TEXT]);
bool haul_hash128_parse(const char *text, haul_hash128 *out);

/* The same over a stream. Create returns NULL, with the message set, when memory is out. */
typedef struct haul_hasher haul_hasher;
haul_hasher *haul_hasher_create(void);
void haul_hasher_update(haul_hasher *hasher, const void *data, int64_t bytes);
haul_hash128 haul_hasher_digest(const haul_hasher *hasher);
void haul_hasher_destroy(haul_hasher *hasher);

#endif
