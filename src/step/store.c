#include "step/store.h"

#include "base/memory.h"
#include "base/parallel.h"
#include "base/philox.h"

#include <stdlib.h>

enum { ALIGNMENT = 64, PIECE = 1 << 20 };

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

static haul_status reserve_codes(haul_store *store, const haul_buffer_plan *plan,
                                 haul_quantized *codes) {
    const haul_fp8 *fp8 = &plan->fp8;
    const char *name = plan->views[0].name;
    int64_t n = haul_tensor_rows(&plan->shape), k = haul_tensor_columns(&plan->shape);
    haul_tensor by_rows = haul_tensor_2d(NULL, fp8->forward, n, k);
    haul_tensor by_columns = haul_tensor_2d(NULL, fp8->forward, k, haul_padded(n, HAUL_CODES_PAD));
    HAUL_TRY(reserve(store, &codes->codes, by_rows, name, "FP8 for forward"));
    HAUL_TRY(reserve(store, &codes->scales, haul_scales_shape(fp8->weights, n, k), name,
                     "FP8 for forward"));
    HAUL_TRY(reserve(store, &codes->transposed, by_columns, name, "FP8 for dgrad"));
    return reserve(store, &codes->transposed_scales, haul_scales_shape(fp8->weights, k, n), name,
                   "FP8 for dgrad");
}

static haul_status reserve_moment(haul_store *store, int64_t index, int m, bool bf16) {
    static const char *const categories[][2] = {{"first moments", "first moments, bf16"},
                                                {"second moments", "second moments, bf16"}};
    const haul_buffer_plan *plan = &store->chunk->buffers[index];
    haul_tensor shape = plan->shape;
    shape.dtype = bf16 ? HAUL_BF16 : store->chunk->numerics.accumulator;
    return reserve(store, &store->buffers[index].moments[m], shape, plan->views[0].name,
                   categories[m][bf16]);
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
        HAUL_TRY(reserve_moment(store, index, m, options.bf16_moments[m]));
    }
    if (options.training && plan->product_rows > 0) {
        HAUL_TRY(reserve_packed(store, plan, HAUL_PACK_FORWARD, &buffer->packed_forward));
        HAUL_TRY(reserve_packed(store, plan, HAUL_PACK_DGRAD, &buffer->packed_dgrad));
    }
    if (plan->fp8.weights != HAUL_SCALING_NONE) {
        HAUL_TRY(reserve_codes(store, plan, &buffer->codes));
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
    HAUL_TRY(reserve(store, &store->norms, haul_tensor_1d(NULL, HAUL_F64, count + 1),
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
        haul_tensor *forms[] = {&buffer->value,
                                &buffer->low,
                                &buffer->gradient,
                                &buffer->moments[0],
                                &buffer->moments[1],
                                &buffer->packed_forward,
                                &buffer->packed_dgrad,
                                &buffer->codes.codes,
                                &buffer->codes.scales,
                                &buffer->codes.transposed,
                                &buffer->codes.transposed_scales};
        for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
            give(store, forms[f], &end);
        }
    }
    give(store, &store->norms, &end);
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

/* Values on their way into a buffer, as the device will hold them. */
typedef struct staging {
    haul_store *store;
    void *value, *low; /* in host memory for copies */
} staging;

static haul_status staging_init(staging *stage, haul_store *store, int64_t elements) {
    haul_device *device = store->device;
    *stage = (staging){.store = store};
    HAUL_TRY(haul_device_allocate_host(device, elements * (int64_t)sizeof(double), &stage->value));
    return haul_device_allocate_host(device, elements * (int64_t)sizeof(uint16_t), &stage->low);
}

static void staging_deinit(staging *stage) {
    haul_device_release_host(stage->store->device, stage->value);
    haul_device_release_host(stage->store->device, stage->low);
}

static void copy_piece(haul_stream *stream, const haul_tensor *to, int64_t first, int64_t count,
                       const void *from) {
    haul_stream_copy(stream, haul_tensor_at(to, first), from, count * haul_dtype_size(to->dtype));
}

static haul_status write_piece(const staging *stage, const haul_store_buffer *buffer, int64_t first,
                               int64_t count, const double *values) {
    haul_stream stream = {.device = stage->store->device};
    bool split = haul_tensor_present(&buffer->low);
    for (int64_t i = 0; i < count; i++) {
        if (split) {
            haul_master_split((float)values[i], &((uint16_t *)stage->value)[i],
                              &((uint16_t *)stage->low)[i]);
        } else {
            haul_element_set(stage->value, buffer->value.dtype, i, values[i]);
        }
    }
    copy_piece(&stream, &buffer->value, first, count, stage->value);
    if (split) {
        copy_piece(&stream, &buffer->low, first, count, stage->low);
    }
    return haul_stream_wait(&stream);
}

haul_status haul_store_write(haul_store *store, int64_t buffer, int64_t first, int64_t count,
                             const double *values) {
    staging stage;
    haul_status status = staging_init(&stage, store, haul_min(count, PIECE));
    for (int64_t done = 0; done < count && status == HAUL_OK; done += PIECE) {
        status = write_piece(&stage, &store->buffers[buffer], first + done,
                             haul_min(PIECE, count - done), values + done);
    }
    staging_deinit(&stage);
    return status;
}

haul_status haul_store_set_updates(haul_store *store, int64_t updates) {
    haul_stream stream = {.device = store->device};
    haul_step_scalars *scalars = NULL;
    void *host = NULL;
    HAUL_TRY(haul_device_allocate_host(store->device, (int64_t)sizeof *scalars, &host));
    scalars = host;
    scalars->update = (uint32_t)updates;
    haul_stream_copy(&stream, store->scalars.data, scalars, (int64_t)sizeof *scalars);
    haul_status status = haul_stream_wait(&stream);
    haul_device_release_host(store->device, host);
    return status;
}

/* Initial values [first, ...) of a view. */
typedef struct initial {
    const haul_buffer_plan *plan;
    uint64_t seed, stream;
    int64_t first;
    double *values;
} initial;

static void compute_initial(void *context, int64_t begin, int64_t end, int thread) {
    const initial *from = context;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        double value = from->plan->init == HAUL_INIT_ONE ? 1 : 0;
        if (from->plan->init == HAUL_INIT_NORMAL) {
            value = from->plan->init_std * haul_normal(from->seed, from->stream, from->first + i);
        }
        from->values[i] = value;
    }
}

static haul_status initialize_view(const staging *stage, const haul_store_buffer *buffer,
                                   initial *from, int64_t offset, int64_t count) {
    for (from->first = 0; from->first < count; from->first += PIECE) {
        int64_t piece = haul_min(PIECE, count - from->first);
        haul_parallel_for(stage->store->device->threads, piece, 4096, compute_initial, from);
        HAUL_TRY(write_piece(stage, buffer, offset + from->first, piece, from->values));
    }
    return HAUL_OK;
}

static haul_status initialize_buffer(const staging *stage, int64_t index, uint64_t seed,
                                     double *values) {
    const haul_buffer_plan *plan_of = &stage->store->chunk->buffers[index];
    int64_t row = haul_tensor_count(&plan_of->shape) / plan_of->shape.shape[0], first = 0;
    for (int v = 0; v < plan_of->view_count; v++) {
        initial from = {.plan = plan_of,
                        .seed = seed,
                        .stream = haul_hash_name(plan_of->views[v].name),
                        .values = values};
        int64_t count = plan_of->views[v].rows * row;
        HAUL_TRY(initialize_view(stage, &stage->store->buffers[index], &from, first, count));
        first += count;
    }
    return HAUL_OK;
}

haul_status haul_store_initialize(haul_store *store, uint64_t seed) {
    staging stage;
    double *values = haul_calloc(PIECE, sizeof(double));
    haul_status status = values != NULL ? staging_init(&stage, store, PIECE) : HAUL_ERROR_MEMORY;
    for (int64_t b = 0; b < store->chunk->buffer_count && status == HAUL_OK; b++) {
        status = initialize_buffer(&stage, b, seed, values);
    }
    if (values != NULL) {
        staging_deinit(&stage);
    }
    free(values);
    return status;
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

static void quantize(const haul_store *store, int64_t index, haul_stream *stream) {
    const haul_store_buffer *buffer = &store->buffers[index];
    haul_quantize_args args = {.scaling = store->chunk->buffers[index].fp8.weights,
                               .x = buffer->value,
                               .codes = buffer->codes.codes,
                               .scales = buffer->codes.scales,
                               .transposed = buffer->codes.transposed,
                               .transposed_scales = buffer->codes.transposed_scales};
    if (haul_tensor_present(&args.codes)) {
        haul_launch(stream, HAUL_OP_QUANTIZE, &args);
    }
}

void haul_store_pack(haul_store *store, haul_stream *stream) {
    for (int64_t i = 0; i < store->chunk->buffer_count; i++) {
        quantize(store, i, stream);
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
