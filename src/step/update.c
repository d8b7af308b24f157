#include "step/update.h"

#include "base/philox.h"

#include <math.h>

int haul_update_moments(haul_update_kind kind) {
    return kind == HAUL_UPDATE_ADAM ? 2 : 1;
}

static void launch_norms(haul_store *store, haul_stream *stream) {
    for (int64_t i = 0; i < store->chunk->buffer_count; i++) {
        haul_squared_norm_args args = {.x = store->buffers[i].gradient,
                                       .result = haul_tensor_slice(&store->norms, i, 1)};
        haul_launch(stream, HAUL_OP_SQUARED_NORM, &args);
    }
}

void haul_update_verdict(haul_store *store, const haul_update_options *options,
                         double learning_rate, haul_stream *stream) {
    int64_t count = store->chunk->buffer_count;
    haul_verdict_args args = {.squares = haul_tensor_slice(&store->norms, 0, count),
                              .norm = haul_tensor_slice(&store->norms, count, 1),
                              .scalars = store->scalars.data,
                              .clip = options->clip,
                              .learning_rate = learning_rate,
                              .beta1 = options->beta1,
                              .beta2 = options->beta2};
    launch_norms(store, stream);
    haul_launch(stream, HAUL_OP_VERDICT, &args);
}

haul_verdict haul_update_read_verdict(const haul_store *store, const double *norms) {
    int64_t count = store->chunk->buffer_count, first = 0;
    while (first < count && isfinite(norms[first])) {
        first++;
    }
    return (haul_verdict){.gradient_norm = norms[count],
                          .finite = isfinite(norms[count]),
                          .first_not_finite = first < count ? first : -1};
}

static void launch_adam(const haul_store *store, int64_t index, const haul_update_options *options,
                        haul_stream *stream) {
    const haul_store_buffer *buffer = &store->buffers[index];
    const haul_buffer_plan *plan = &store->chunk->buffers[index];
    haul_adam_args args = {.parameter = buffer->value,
                           .low = buffer->low,
                           .gradient = buffer->gradient,
                           .first_moment = buffer->moments[0],
                           .second_moment = buffer->moments[1],
                           .beta1 = options->beta1,
                           .beta2 = options->beta2,
                           .epsilon = options->epsilon,
                           .weight_decay = plan->decay ? options->weight_decay : 0,
                           .seed = options->seed,
                           .stream = (uint32_t)haul_hash_name(plan->views[0].name),
                           .scalars = store->scalars.data};
    haul_launch(stream, HAUL_OP_ADAM, &args);
}

static void launch_sgd(const haul_store *store, int64_t index, const haul_update_options *options,
                       haul_stream *stream) {
    const haul_store_buffer *buffer = &store->buffers[index];
    bool decay = store->chunk->buffers[index].decay;
    haul_sgd_args args = {.parameter = buffer->value,
                          .low = buffer->low,
                          .gradient = buffer->gradient,
                          .momentum_buffer = buffer->moments[0],
                          .momentum = options->momentum,
                          .weight_decay = decay ? options->weight_decay : 0,
                          .scalars = store->scalars.data};
    haul_launch(stream, HAUL_OP_SGD, &args);
}

void haul_update_commit(haul_store *store, const haul_update_options *options,
                        haul_stream *stream) {
    for (int64_t i = 0; i < store->chunk->buffer_count; i++) {
        if (options->kind == HAUL_UPDATE_ADAM) {
            launch_adam(store, i, options, stream);
        } else {
            launch_sgd(store, i, options, stream);
        }
    }
    haul_store_pack(store, stream);
}

haul_status haul_update_workspace(haul_store *store, const haul_update_options *options,
                                  int64_t *bytes) {
    haul_recording recording = {0};
    haul_stream stream = {.device = store->device, .recording = &recording};
    launch_norms(store, &stream);
    haul_update_commit(store, options, &stream);
    HAUL_TRY(haul_stream_status(&stream));
    *bytes = recording.workspace;
    return HAUL_OK;
}
