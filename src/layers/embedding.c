#include "layers/layers.h"

#include "base/string.h"

static void plan_table(haul_buffer_plan *buffer, const char *name, haul_dtype dtype, int64_t rows,
                       int64_t hidden, double std) {
    *buffer = (haul_buffer_plan){.shape = haul_tensor_2d(NULL, dtype, rows, hidden),
                                 .init = HAUL_INIT_NORMAL,
                                 .init_std = std,
                                 .decay = true,
                                 .view_count = 1};
    buffer->views[0].rows = rows;
    haul_text_copy(buffer->views[0].name, HAUL_NAME_BYTES, name);
}

static haul_status plan_embedding(const void *config_pointer, const haul_numerics *numerics,
                                  haul_node_plan *plan) {
    const haul_embedding_config *config = config_pointer;
    int64_t rows = haul_tensor_count(&plan->inputs[0]);
    plan->outputs[0] = haul_tensor_2d(NULL, numerics->activation, rows, config->hidden);
    plan->output_names[0] = "out";
    plan->output_count = 1;
    plan_table(&plan->buffers[0], config->table_name, numerics->activation, config->vocabulary,
               config->hidden, config->init_std);
    plan->buffers[0].vocabulary = true;
    plan->buffer_count = 1;
    if (config->positions_name[0] != '\0') {
        plan_table(&plan->buffers[1], config->positions_name, numerics->activation,
                   config->positions, config->hidden, config->init_std);
        plan->buffer_count = 2;
    }
    plan->inputs_for_weight = 1;
    return HAUL_OK;
}

static void forward(const haul_node_call *call) {
    const haul_embedding_config *config = call->config;
    haul_embed_args args = {.tokens = call->inputs[0],
                            .table = call->parameters[0].value,
                            .positions = call->parameters[1].value,
                            .y = call->outputs[0],
                            .sequence_length = config->sequence_length,
                            .position_offset = call->step->position_offset};
    haul_launch(call->stream, HAUL_OP_EMBED, &args);
}

static void backward_weight(const haul_node_call *call) {
    const haul_embedding_config *config = call->config;
    haul_embed_backward_args args = {.tokens = call->inputs[0],
                                     .dy = call->output_gradients[0],
                                     .d_table = call->parameters[0].gradient,
                                     .d_positions = call->parameters[1].gradient,
                                     .sequence_length = config->sequence_length,
                                     .accumulate_table = call->parameters[0].accumulate,
                                     .accumulate_positions = call->parameters[1].accumulate};
    haul_launch(call->stream, HAUL_OP_EMBED_BACKWARD, &args);
}

const haul_node_kind haul_node_embedding = {.name = "embedding",
                                            .config_bytes = sizeof(haul_embedding_config),
                                            .plan = plan_embedding,
                                            .forward = forward,
                                            .backward_weight = backward_weight};
