/* A tensor is a view: where, of what type, in which shape. Row-major, contiguous, never owning.
 * While a step is planned, views have a shape and no data. */
#ifndef HAUL_DEVICE_TENSOR_H
#define HAUL_DEVICE_TENSOR_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { HAUL_TENSOR_DIMENSIONS = 4 };

typedef struct haul_tensor {
    void *data;
    haul_dtype dtype;
    int ndim; /* 0: an optional tensor that is absent */
    int64_t shape[HAUL_TENSOR_DIMENSIONS];
} haul_tensor;

static inline haul_tensor haul_tensor_1d(void *data, haul_dtype dtype, int64_t n) {
    return (haul_tensor){data, dtype, 1, {n}};
}

static inline haul_tensor haul_tensor_2d(void *data, haul_dtype dtype, int64_t rows,
                                         int64_t columns) {
    return (haul_tensor){data, dtype, 2, {rows, columns}};
}

static inline bool haul_tensor_present(const haul_tensor *tensor) {
    return tensor->ndim > 0;
}

/* The product of all dimensions; 0 for an absent tensor. */
static inline int64_t haul_tensor_count(const haul_tensor *tensor) {
    int64_t count = tensor->ndim > 0;
    for (int i = 0; i < tensor->ndim; i++) {
        count *= tensor->shape[i];
    }
    return count;
}

static inline int64_t haul_tensor_bytes(const haul_tensor *tensor) {
    return haul_tensor_count(tensor) * haul_dtype_size(tensor->dtype);
}

/* The last dimension, and the product of those before it. */
static inline int64_t haul_tensor_columns(const haul_tensor *tensor) {
    return tensor->ndim > 0 ? tensor->shape[tensor->ndim - 1] : 0;
}

static inline int64_t haul_tensor_rows(const haul_tensor *tensor) {
    int64_t rows = tensor->ndim > 0;
    for (int i = 0; i + 1 < tensor->ndim; i++) {
        rows *= tensor->shape[i];
    }
    return rows;
}

/* The address of element `index`; NULL while the tensor has no data. */
static inline void *haul_tensor_at(const haul_tensor *tensor, int64_t index) {
    return tensor->data == NULL ? NULL
                                : (char *)tensor->data + index * haul_dtype_size(tensor->dtype);
}

/* Rows [begin, begin + count) of a tensor, as [count, columns]. */
static inline haul_tensor haul_tensor_slice(const haul_tensor *tensor, int64_t begin,
                                            int64_t count) {
    int64_t columns = tensor->ndim > 1 ? haul_tensor_columns(tensor) : 1;
    haul_tensor slice = *tensor;
    slice.data = haul_tensor_at(tensor, begin * columns);
    slice.ndim = tensor->ndim > 1 ? 2 : 1;
    slice.shape[0] = count;
    slice.shape[1] = tensor->ndim > 1 ? columns : 0;
    return slice;
}

#endif
