#include "step/update.h"

#include <math.h>

int haul_update_moments(haul_update_kind kind) {
    return kind == HAUL_UPDATE_ADAM ? 2 : 1;
}

static void launch_norms(haul_store *store, haul_stream *stream) {
    for (int64_t i = 0; i < store->chunk->buffer_count; i++) {
        haul_squared_norm_args args = {.x = store->buffers[i].gradient,
                                       .result = haul_tensor_slice(&store->squared_norms, i, 1)};
        haul_launch(stream, HAUL_OP_SQUARED_NORM, &args);
    }
}

void haul_update_verdict(haul_store *store, const haul_update_options *options,
                         double learning_rate, int64_t update, haul_stream *stream,
                         haul_verdict *out) {
    launch_norms(store, stream);
    const double *squares = store->squared_norms.data;
    double sum = 0;
    *out = (haul_verdict){.first_not_finite = -1};
    for (int64_t i = 0; i < store->chunk->buffer_count; i++) {
        sum += squares[i];
        if (!isfinite(squares[i]) && out->first_not_finite < 0) {
            out->first_not_finite = i;
        }
    }
    out->gradient_norm = sqrt(sum);
    out->finite = isfinite(sum);
    double scale = options->clip > 0 ? options->clip / (out->gradient_norm + 1e-6) : 1;
    haul_step_scalars *scalars = store->scalars.data;
    *scalars = (haul_step_scalars){.learning_rate = learning_rate,
                                   .gradient_scale = scale < 1 ? scale : 1,
                                   .bias_correction1 = 1 - pow(options->beta1, (double)update),
                                   .bias_correction2 = 1 - pow(options->beta2, (double)update),
                                   .skip = !out->finite || stream->status != HAUL_OK};
}

static void launch_adam(const haul_store *store, const haul_store_buffer *buffer, bool decay,
                        const haul_update_options *options, haul_stream *stream) {
    haul_adam_args args = {.parameter = buffer->value,
                           .low = buffer->low,
                           .gradient = buffer->gradient,
                           .first_moment = buffer->moments[0],
                           .second_moment = buffer->moments[1],
                           .beta1 = options->beta1,
                           .beta2 = options->beta2,
                           .epsilon = options->epsilon,
                           .weight_decay = decay ? options->weight_decay : 0,
                           .scalars = store->scalars.data};
    haul_launch(stream, HAUL_OP_ADAM, &args);
}

static void launch_sgd(const haul_store *store, const haul_store_buffer *buffer, bool decay,
                       const haul_update_options *options, haul_stream *stream) {
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
        const haul_store_buffer *buffer = &store->buffers[i];
        bool decay = store->chunk->buffers[i].decay;
        if (options->kind == HAUL_UPDATE_ADAM) {
            launch_adam(store, buffer, decay, options, stream);
        } else {
            launch_sgd(store, buffer, decay, options, stream);
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
