#include "step/store.h"

#include "base/memory.h"
#include "base/philox.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

/* Reserves a place: the tensor's data holds the offset until the memory is there. */
static haul_status reserve(haul_store *store, haul_tensor *tensor, haul_tensor shape,
                           const char *name, const char *category) {
    int64_t offset, before = store->bytes;
    *tensor = shape;
    HAUL_TRY(haul_arena_place(&store->bytes, haul_tensor_bytes(&shape), ALIGNMENT, &offset));
    store->bytes = haul_round_up(store->bytes, ALIGNMENT);
    return haul_memory_table_add(&store->table, name, category, store->bytes - before);
}

static haul_status reserve_packed(haul_store *store, const haul_buffer_plan *plan,
                                  haul_pack_kind kind, haul_tensor *tensor) {
    static const char *const categories[] = {"packed for forward", "packed for dgrad"};
    haul_pack_args args = {.weight = plan->shape,
                           .kind = kind,
                           .rows = plan->product_rows,
                           .dtype = store->chunk->numerics.activation,
                           .bias = plan->product_bias};
    int64_t bytes = store->device->backend->packed_bytes(store->device, &args);
    if (bytes == 0) {
        return HAUL_OK;
    }
    return reserve(store, tensor, haul_tensor_1d(NULL, HAUL_U8, bytes), plan->views[0].name,
                   categories[kind]);
}

static haul_status plan_buffer(haul_store *store, int64_t index, haul_store_options options) {
    const haul_buffer_plan *plan = &store->chunk->buffers[index];
    haul_store_buffer *buffer = &store->buffers[index];
    const char *name = plan->views[0].name;
    haul_tensor wide = plan->shape, low = plan->shape;
    wide.dtype = store->chunk->numerics.accumulator;
    low.dtype = HAUL_U16;
    HAUL_TRY(reserve(store, &buffer->value, plan->shape, name, "parameters"));
    if (options.training && plan->shape.dtype == HAUL_BF16) {
        HAUL_TRY(reserve(store, &buffer->low, low, name, "master, low half"));
    }
    if (options.training) {
        HAUL_TRY(reserve(store, &buffer->gradient, wide, name, "main gradients"));
    }
    for (int m = 0; m < options.moments && options.training; m++) {
        static const char *const categories[] = {"first moments", "second moments"};
        HAUL_TRY(reserve(store, &buffer->moments[m], wide, name, categories[m]));
    }
    if (options.training && plan->product_rows > 0) {
        HAUL_TRY(reserve_packed(store, plan, HAUL_PACK_FORWARD, &buffer->packed_forward));
        HAUL_TRY(reserve_packed(store, plan, HAUL_PACK_DGRAD, &buffer->packed_dgrad));
    }
    return HAUL_OK;
}

static haul_status plan(haul_store *store, haul_store_options options) {
    int64_t count = store->chunk->buffer_count;
    store->buffers = haul_calloc(count, sizeof *store->buffers);
    if (store->buffers == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < count; i++) {
        HAUL_TRY(plan_buffer(store, i, options));
    }
    HAUL_TRY(reserve(store, &store->squared_norms, haul_tensor_1d(NULL, HAUL_F64, count),
                     "gradient norms", "step scalars"));
    return reserve(store, &store->scalars,
                   haul_tensor_1d(NULL, HAUL_U8, (int64_t)sizeof(haul_step_scalars)),
                   "learning rate, clip, skip", "step scalars");
}

haul_status haul_store_plan(const haul_chunk *chunk, haul_device *device,
                            haul_store_options options, haul_store *out) {
    haul_store store = {.chunk = chunk, .device = device};
    haul_status status = plan(&store, options);
    if (status != HAUL_OK) {
        haul_store_deinit(&store);
        return status;
    }
    *out = store;
    return HAUL_OK;
}

/* Gives places in the order of the plan. */
static void give(haul_store *store, haul_tensor *tensor, int64_t *end) {
    if (haul_tensor_present(tensor)) {
        tensor->data = store->memory + *end;
        *end += haul_round_up(haul_tensor_bytes(tensor), ALIGNMENT);
    }
}

haul_status haul_store_allocate(haul_store *store) {
    void *memory;
    HAUL_TRY(store->device->backend->allocate(store->device, store->bytes, &memory));
    store->memory = memory;
    int64_t end = 0;
    for (int64_t i = 0; i < store->chunk->buffer_count; i++) {
        haul_store_buffer *buffer = &store->buffers[i];
        haul_tensor *forms[] = {&buffer->value,       &buffer->low,        &buffer->gradient,
                                &buffer->moments[0],  &buffer->moments[1], &buffer->packed_forward,
                                &buffer->packed_dgrad};
        for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
            give(store, forms[f], &end);
        }
    }
    give(store, &store->squared_norms, &end);
    give(store, &store->scalars, &end);
    return end == store->bytes ? HAUL_OK
                               : haul_fail(HAUL_ERROR_INTERNAL, "the store's plan does not add up");
}

void haul_store_deinit(haul_store *store) {
    if (store->memory != NULL) {
        store->device->backend->release(store->device, store->memory, store->bytes);
    }
    haul_memory_table_deinit(&store->table);
    free(store->buffers);
    *store = (haul_store){0};
}

void haul_store_set(haul_store_buffer *buffer, int64_t index, double value) {
    if (!haul_tensor_present(&buffer->low)) {
        haul_element_set(buffer->value.data, buffer->value.dtype, index, value);
        return;
    }
    haul_master_split((float)value, &((uint16_t *)buffer->value.data)[index],
                      &((uint16_t *)buffer->low.data)[index]);
}

static void initialize_view(haul_store_buffer *buffer, const haul_buffer_plan *plan, int view,
                            int64_t first, int64_t count, uint64_t seed) {
    uint64_t stream = haul_hash_name(plan->views[view].name);
    for (int64_t i = 0; i < count; i++) {
        double value = plan->init == HAUL_INIT_ONE ? 1 : 0;
        if (plan->init == HAUL_INIT_NORMAL) {
            value = plan->init_std * haul_normal(seed, stream, i);
        }
        haul_store_set(buffer, first + i, value);
    }
}

void haul_store_initialize(haul_store *store, uint64_t seed) {
    for (int64_t b = 0; b < store->chunk->buffer_count; b++) {
        const haul_buffer_plan *plan_of = &store->chunk->buffers[b];
        int64_t row = haul_tensor_count(&plan_of->shape) / plan_of->shape.shape[0];
        int64_t first = 0;
        for (int v = 0; v < plan_of->view_count; v++) {
            int64_t count = plan_of->views[v].rows * row;
            initialize_view(&store->buffers[b], plan_of, v, first, count, seed);
            first += count;
        }
    }
}

static void pack(const haul_store *store, int64_t index, haul_pack_kind kind, haul_tensor packed,
                 haul_stream *stream) {
    const haul_buffer_plan *plan_of = &store->chunk->buffers[index];
    haul_pack_args args = {.weight = store->buffers[index].value,
                           .packed = packed,
                           .kind = kind,
                           .rows = plan_of->product_rows,
                           .dtype = store->chunk->numerics.activation,
                           .bias = plan_of->product_bias};
    if (haul_tensor_present(&packed)) {
        haul_launch(stream, HAUL_OP_PACK, &args);
    }
}

void haul_store_pack(haul_store *store, haul_stream *stream) {
    for (int64_t i = 0; i < store->chunk->buffer_count; i++) {
        pack(store, i, HAUL_PACK_FORWARD, store->buffers[i].packed_forward, stream);
        pack(store, i, HAUL_PACK_DGRAD, store->buffers[i].packed_dgrad, stream);
    }
}

haul_tensor haul_store_view(const haul_store *store, int64_t buffer, int view,
                            const haul_tensor *tensor) {
    const haul_buffer_plan *plan_of = &store->chunk->buffers[buffer];
    int64_t first = 0;
    for (int v = 0; v < view; v++) {
        first += plan_of->views[v].rows;
    }
    return haul_tensor_slice(tensor, first, plan_of->views[view].rows);
}
