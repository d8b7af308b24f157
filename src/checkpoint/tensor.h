/* A named tensor in memory, as checkpoints and model files see it. */
#ifndef HAUL_CHECKPOINT_TENSOR_H
#define HAUL_CHECKPOINT_TENSOR_H

#include "base/dtype.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { HAUL_CHECKPOINT_DIMENSIONS = 4, HAUL_SHAPE_TEXT = 256 };

/* Memory that the host reaches by copies only. */
typedef struct haul_checkpoint_memory {
    haul_status (*copy)(void *context, void *to, const void *from, int64_t bytes);
    void *context;
} haul_checkpoint_memory;

/* A view: name and data belong to the caller. Contiguous, row-major; ndim 0 is one element. */
typedef struct haul_checkpoint_tensor {
    const char *name;
    haul_dtype dtype;
    int ndim;
    int64_t shape[HAUL_CHECKPOINT_DIMENSIONS];
    void *data;
    const haul_checkpoint_memory *memory; /* of data; NULL: the host's own */
} haul_checkpoint_tensor;

/* The bytes of ndim extents of one dtype; false when they are negative or overflow. */
bool haul_shape_bytes(int ndim, const int64_t *shape, int64_t element_bytes, int64_t *bytes);

/* "f32 [128, 64]" for messages and tables. */
void haul_shape_print(haul_dtype dtype, int ndim, const int64_t *shape, char out[HAUL_SHAPE_TEXT]);

bool haul_shape_equal(int ndim_a, const int64_t *a, int ndim_b, const int64_t *b);

#endif
