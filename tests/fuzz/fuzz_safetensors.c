/* A safetensors file, as it is and with a header length that reaches to its last brace: a random
 * edit seldom keeps the length right, and all else lies behind it. */
#include "base/memory.h"
#include "checkpoint/safetensors.h"
#include "fuzzing.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

/* Reads every byte, so that a sanitizer sees what lies outside. */
static uint32_t sum_bytes(const haul_safetensors_entry *entry) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < entry->bytes; i++) {
        sum += (unsigned char)entry->data[i];
    }
    return sum;
}

static void check_entries(const haul_safetensors *file, size_t size) {
    const char *end = NULL;
    int64_t bytes = 0;
    volatile uint32_t sum = 0;
    for (int64_t i = 0; i < haul_safetensors_count(file); i++) {
        const haul_safetensors_entry *entry = haul_safetensors_at(file, i);
        int64_t elements, product;
        fuzz_require(haul_safetensors_find(file, entry->name) == entry, "a tensor is found");
        fuzz_require(end == NULL || entry->data == end, "tensors touch and do not overlap");
        fuzz_require(entry->bytes >= 0 && entry->ndim <= HAUL_SAFETENSORS_DIMENSIONS,
                     "sizes are in their ranges");
        fuzz_require(haul_shape_bytes(entry->ndim, entry->shape, 1, &elements), "the shape fits");
        fuzz_require(entry->dtype == HAUL_DTYPES ||
                         (haul_size_multiply(elements, haul_dtype_size(entry->dtype), &product) &&
                          product == entry->bytes),
                     "shape and dtype make up the bytes");
        end = entry->data + entry->bytes;
        bytes += entry->bytes;
        sum = sum + sum_bytes(entry);
    }
    fuzz_require(bytes <= (int64_t)size, "the tensors lie in the file");
    haul_safetensors_metadata(file, "format");
}

static void check_file(const void *data, size_t size) {
    char path[FUZZ_PATH_BYTES];
    haul_safetensors *file;
    fuzz_put("x.safetensors", data, size, path);
    if (fuzz_accepted(haul_safetensors_open(path, &file))) {
        check_entries(file, size);
        haul_safetensors_close(file);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_file(data, size);
    const uint8_t *brace =
        size > LENGTH_BYTES ? memrchr(data + LENGTH_BYTES, '}', size - LENGTH_BYTES) : NULL;
    if (brace != NULL) {
        uint8_t *repaired = haul_calloc((int64_t)size, 1);
        fuzz_require(repaired != NULL, "there is memory");
        memcpy(repaired, data, size);
        int64_t length = brace + 1 - (data + LENGTH_BYTES);
        memcpy(repaired, &length, sizeof length);
        check_file(repaired, size);
        free(repaired);
    }
    return 0;
}
