#include "base/memory.h"

#include "base/fault.h"

#include <stdlib.h>
#include <string.h>

void *haul_calloc(int64_t count, size_t size) {
    int64_t bytes;
    void *memory = NULL;
    if (haul_size_multiply(count, (int64_t)size, &bytes) && !haul_fault_hit(HAUL_FAULT_ALLOC)) {
        memory = calloc(count > 0 ? (size_t)count : 1, size);
    }
    if (memory == NULL) {
        haul_fail(HAUL_ERROR_MEMORY, "out of memory: %lld objects of %zu bytes", (long long)count,
                  size);
    }
    return memory;
}

haul_status haul_grow(void *items, int64_t *capacity, int64_t needed, size_t size) {
    void *old;
    if (needed <= *capacity) {
        return HAUL_OK;
    }
    int64_t wanted = haul_max(haul_max(needed, 2 * *capacity), 16);
    void *grown = haul_calloc(wanted, size);
    if (grown == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    memcpy(&old, items, sizeof old);
    if (old != NULL) {
        memcpy(grown, old, (size_t)*capacity * size);
        free(old);
    }
    memcpy(items, &grown, sizeof grown);
    *capacity = wanted;
    return HAUL_OK;
}

char *haul_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = haul_calloc((int64_t)bytes, 1);
    if (copy != NULL) {
        memcpy(copy, text, bytes);
    }
    return copy;
}

bool haul_size_multiply(int64_t a, int64_t b, int64_t *result) {
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, result);
}

bool haul_size_add(int64_t a, int64_t b, int64_t *result) {
    return a >= 0 && b >= 0 && !__builtin_add_overflow(a, b, result);
}
