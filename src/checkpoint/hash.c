#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checkpoint/hash.h"

#include <stdlib.h>
#include <string.h>

/* The state wants more alignment than calloc gives. */
enum { STATE_ALIGNMENT = 64 };

struct haul_hasher {
    XXH3_state_t state;
};

static haul_hash128 canonical(XXH128_hash_t hash) {
    XXH128_canonical_t ordered;
    XXH128_canonicalFromHash(&ordered, hash);
    haul_hash128 result;
    memcpy(result.bytes, ordered.digest, sizeof result.bytes);
    return result;
}

haul_hash128 haul_hash128_of(const void *data, int64_t bytes) {
    return canonical(XXH3_128bits(data, (size_t)bytes));
}

bool haul_hash128_equal(const haul_hash128 *a, const haul_hash128 *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

void haul_hash128_print(const haul_hash128 *hash, char out[HAUL_HASH_TEXT]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        out[2 * i] = digits[hash->bytes[i] >> 4];
        out[2 * i + 1] = digits[hash->bytes[i] & 15];
    }
    out[HAUL_HASH_TEXT - 1] = '\0';
}

static int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

bool haul_hash128_parse(const char *text, haul_hash128 *out) {
    if (text == NULL || strlen(text) != HAUL_HASH_TEXT - 1) {
        return false;
    }
    for (int i = 0; i < 16; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        out->bytes[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

haul_hasher *haul_hasher_create(void) {
    haul_hasher *hasher = aligned_alloc(STATE_ALIGNMENT, sizeof *hasher);
    if (hasher == NULL) {
        haul_fail(HAUL_ERROR_MEMORY, "out of memory: the state of a hash");
        return NULL;
    }
    XXH3_128bits_reset(&hasher->state);
    return hasher;
}

void haul_hasher_update(haul_hasher *hasher, const void *data, int64_t bytes) {
    XXH3_128bits_update(&hasher->state, data, (size_t)bytes);
}

haul_hash128 haul_hasher_digest(const haul_hasher *hasher) {
    return canonical(XXH3_128bits_digest(&hasher->state));
}

void haul_hasher_destroy(haul_hasher *hasher) {
    free(hasher);
}
