/* Algorithms chosen by measurement, kept in a text file. One line a choice, fields set apart by
 * tabs: card, version of cuBLASLt, product, algorithm (64 bytes, hexadecimal), microseconds, and
 * XXH3 of the line before that last field. */
#ifndef HAUL_DEVICE_CUDA_MATMUL_CHOICES_H
#define HAUL_DEVICE_CUDA_MATMUL_CHOICES_H

#include "base/status.h"
#include "device/cuda/vendors/cuda.h"

#include <stdbool.h>
#include <stdint.h>

enum { HAUL_CUDA_PRODUCT_TEXT = 192, HAUL_CUDA_LIBRARY_TEXT = 160 };

typedef struct haul_cuda_choice {
    char product[HAUL_CUDA_PRODUCT_TEXT];
    cublasLtMatmulAlgo_t algorithm;
    double microseconds;
} haul_cuda_choice;

typedef struct haul_cuda_choices {
    char library[HAUL_CUDA_LIBRARY_TEXT]; /* card, a tab, version; of all items */
    haul_cuda_choice *items;
    int64_t count, capacity;
    bool changed; /* since they were loaded or saved */
} haul_cuda_choices;

void haul_cuda_choices_deinit(haul_cuda_choices *choices);

/* NULL: there is none. Valid until the next add or load. */
const haul_cuda_choice *haul_cuda_choices_find(const haul_cuda_choices *choices,
                                               const char *product);

haul_status haul_cuda_choices_add(haul_cuda_choices *choices, const haul_cuda_choice *choice);

/* Adds the lines of this library, save those of products that are there already. An absent file
 * is an empty one; damaged lines are passed over. */
haul_status haul_cuda_choices_load(haul_cuda_choices *choices, const char *path);

/* Writes the file anew, in one piece: its sound lines that say nothing of these products, and
 * these choices. */
haul_status haul_cuda_choices_save(haul_cuda_choices *choices, const char *path);

#endif
