/* The store: all parameters of a chunk in every form that training needs (value, low half of the
 * master, main gradient, moments, packed or quantised for products), in one region of device
 * memory.
 */
#ifndef HAUL_STEP_STORE_H
#define HAUL_STEP_STORE_H

#include "base/arena.h"
#include "layers/chunk.h"

enum { HAUL_STORE_MOMENTS = 2 };

typedef struct haul_store_buffer {
    haul_tensor value;
    haul_tensor low; /* present with bf16 values in training: see haul_adam_args */
    haul_tensor gradient;
    haul_tensor moments[HAUL_STORE_MOMENTS];
    haul_tensor packed_forward;
    haul_tensor packed_dgrad;
    haul_quantized codes;
} haul_store_buffer;

typedef struct haul_store {
    const haul_chunk *chunk; /* packed forms fit its products and no other chunk's */
    haul_device *device;
    haul_store_buffer *buffers; /* one for each of chunk->buffers */
    haul_tensor norms;          /* f64 [buffers + 1]: squares of the gradients', then the root */
    haul_tensor scalars;        /* u8 [sizeof(haul_step_scalars)] */
    haul_memory_table table;    /* its lines sum to `bytes` */
    char *memory;
    int64_t bytes;
} haul_store;

typedef struct haul_store_options {
    bool training;                         /* false: values alone */
    int moments;                           /* of the optimizer: 2 for adam, 1 for sgd */
    bool bf16_moments[HAUL_STORE_MOMENTS]; /* in bf16 instead of the dtype of gradients */
} haul_store_options;

/* Decides shapes and places; no memory yet. The chunk and the device must outlive the store. */
haul_status haul_store_plan(const haul_chunk *chunk, haul_device *device,
                            haul_store_options options, haul_store *out);

/* Takes the memory, zeroed, and gives every tensor its data. */
haul_status haul_store_allocate(haul_store *store);
void haul_store_deinit(haul_store *store);

/* How many updates the values have behind them; 0 after allocation. Each commit adds one. */
haul_status haul_store_set_updates(haul_store *store, int64_t updates);

/* Writes initial values. A normal value depends on the seed, the name of its view and its place in
 * it, on nothing else. */
haul_status haul_store_initialize(haul_store *store, uint64_t seed);

/* Makes the packed forms and the codes from the values: after loading and after each commit. */
void haul_store_pack(haul_store *store, haul_stream *stream);

/* View `view` of a tensor that has the rows of buffer `buffer`. */
haul_tensor haul_store_view(const haul_store *store, int64_t buffer, int view,
                            const haul_tensor *tensor);

/* Writes elements [first, first + count) of a buffer's value: rounded, with the low half as the
 * rest. */
haul_status haul_store_write(haul_store *store, int64_t buffer, int64_t first, int64_t count,
                             const double *values);

#endif
