#include "layers/layers.h"

#include <math.h>

/* Angle frequencies of rotary positions (Su et al., "RoFormer", 2021, section 3.2.2): base^(-2i/d),
 * with Llama 3.1's rescaling of wave lengths beyond the original context. */
static double frequency(const haul_attention_config *config, int64_t i) {
    double plain = pow(config->rotary_base, -2.0 * (double)i / (double)config->rotary_size);
    if (config->scaling_factor <= 1) {
        return plain;
    }
    double wave = 2 * 3.14159265358979323846 / plain;
    double context = (double)config->original_positions;
    double low_wave = context / config->low_frequency_factor;
    double high_wave = context / config->high_frequency_factor;
    if (wave < high_wave) {
        return plain;
    }
    if (wave > low_wave) {
        return plain / config->scaling_factor;
    }
    double smooth = (context / wave - config->low_frequency_factor) /
                    (config->high_frequency_factor - config->low_frequency_factor);
    return (1 - smooth) * plain / config->scaling_factor + smooth * plain;
}

static void fill_rotary_table(const void *config_pointer, double *values, int64_t count) {
    const haul_attention_config *config = config_pointer;
    int64_t half = config->rotary_size / 2;
    for (int64_t k = 0; k < count / 2; k++) {
        double angle = (double)(k / half) * frequency(config, k % half);
        values[2 * k] = cos(angle);
        values[2 * k + 1] = sin(angle);
    }
}

static void plan_rotary(const haul_attention_config *config, const haul_numerics *numerics,
                        haul_node_plan *plan) {
    if (config->rotary_size > 0) {
        haul_tensor table = {
            NULL, numerics->accumulator, 3, {config->positions, config->rotary_size / 2, 2}};
        plan->constants[0] = (haul_constant_plan){.shape = table, .fill = fill_rotary_table};
        plan->constant_count = 1;
        plan->inputs_overwritten = 1;
    }
}

static haul_status plan_attention(const void *config_pointer, const haul_numerics *numerics,
                                  haul_node_plan *plan) {
    const haul_attention_config *config = config_pointer;
    int64_t rows = haul_tensor_rows(&plan->inputs[0]);
    int64_t batch = rows / config->sequence_length;
    int64_t width = (config->heads + 2 * config->groups) * config->head_size;
    if (haul_tensor_columns(&plan->inputs[0]) != width) {
        return haul_fail(HAUL_ERROR_INTERNAL, "attention takes %lld columns and is given %lld",
                         (long long)width, (long long)haul_tensor_columns(&plan->inputs[0]));
    }
    plan->outputs[0] =
        haul_tensor_2d(NULL, numerics->activation, rows, config->heads * config->head_size);
    plan->output_names[0] = "out";
    plan->output_count = 1;
    plan_rotary(config, numerics, plan);
    plan->saved[0] = (haul_tensor){
        NULL, numerics->accumulator, 3, {batch, config->heads, config->sequence_length}};
    plan->saved_names[0] = "log_sum_exp";
    plan->saved_count = 1;
    plan->inputs_for_backward = 1;
    plan->outputs_for_backward = 1;
    return HAUL_OK;
}

static void rotate(const haul_node_call *call, haul_tensor qkv, bool inverse) {
    const haul_attention_config *config = call->config;
    if (config->rotary_size == 0) {
        return;
    }
    haul_rope_args args = {.x = qkv,
                           .table = call->constants[0],
                           .heads = config->heads + config->groups,
                           .head_size = config->head_size,
                           .rotary_size = config->rotary_size,
                           .sequence_length = config->sequence_length,
                           .position_offset = call->step->position_offset,
                           .inverse = inverse};
    haul_launch(call->stream, HAUL_OP_ROPE, &args);
}

/* The columns of one part of a fused qkv tensor; `first` and `count` are in heads. */
static haul_tensor heads_of(const haul_node_call *call, const haul_tensor *qkv, int64_t first,
                            int64_t count) {
    const haul_attention_config *config = call->config;
    return haul_tensor_2d(haul_tensor_at(qkv, first * config->head_size), qkv->dtype,
                          haul_tensor_rows(qkv), count * config->head_size);
}

static haul_attention_shape shape_of(const haul_node_call *call) {
    const haul_attention_config *config = call->config;
    int64_t stride = (config->heads + 2 * config->groups) * config->head_size;
    int64_t length = config->sequence_length;
    return (haul_attention_shape){
        .batch = haul_tensor_rows(&call->inputs[0]) / length,
        .queries = length,
        .keys = length,
        .key_capacity = length,
        .heads = config->heads,
        .groups = config->groups,
        .head_size = config->head_size,
        .query_stride = stride,
        .key_stride = stride,
        .scale = 1 / sqrt((double)config->head_size),
        .dropout = {.probability = call->step->training ? config->dropout : 0,
                    .seed = call->step->seed,
                    .step = call->step->step,
                    .stream = call->node,
                    .first_sample = call->step->first_sample}};
}

static void forward(const haul_node_call *call) {
    const haul_attention_config *config = call->config;
    const haul_tensor *qkv = &call->inputs[0];
    rotate(call, *qkv, false);
    haul_attention_args args = {
        .shape = shape_of(call),
        .query = heads_of(call, qkv, 0, config->heads),
        .key = heads_of(call, qkv, config->heads, config->groups),
        .value = heads_of(call, qkv, config->heads + config->groups, config->groups),
        .out = call->outputs[0],
        .log_sum_exp = call->saved[0]};
    haul_launch(call->stream, HAUL_OP_ATTENTION, &args);
}

static void backward_input(const haul_node_call *call) {
    const haul_attention_config *config = call->config;
    const haul_tensor *qkv = &call->inputs[0];
    const haul_tensor *gradient = &call->input_gradients[0];
    int64_t key = config->heads, value = config->heads + config->groups;
    haul_attention_backward_args args = {.shape = shape_of(call),
                                         .query = heads_of(call, qkv, 0, config->heads),
                                         .key = heads_of(call, qkv, key, config->groups),
                                         .value = heads_of(call, qkv, value, config->groups),
                                         .out = call->outputs[0],
                                         .d_out = call->output_gradients[0],
                                         .log_sum_exp = call->saved[0],
                                         .d_query = heads_of(call, gradient, 0, config->heads),
                                         .d_key = heads_of(call, gradient, key, config->groups),
                                         .d_value =
                                             heads_of(call, gradient, value, config->groups)};
    haul_launch(call->stream, HAUL_OP_ATTENTION_BACKWARD, &args);
    rotate(call, *gradient, true);
}

const haul_node_kind haul_node_attention = {.name = "attention",
                                            .config_bytes = sizeof(haul_attention_config),
                                            .plan = plan_attention,
                                            .forward = forward,
                                            .backward_input = backward_input};

static haul_status plan_cached(const void *config_pointer, const haul_numerics *numerics,
                               haul_node_plan *plan) {
    const haul_attention_config *config = config_pointer;
    HAUL_TRY(plan_attention(config_pointer, numerics, plan));
    plan->states[0] = haul_tensor_2d(NULL, numerics->activation, config->cache_capacity,
                                     2 * config->groups * config->head_size);
    plan->state_count = 1;
    return HAUL_OK;
}

static void forward_cached(const haul_node_call *call) {
    const haul_attention_config *config = call->config;
    const haul_tensor *qkv = &call->inputs[0];
    const haul_tensor *cache = &call->states[0];
    int64_t held = call->step->position_offset;
    int64_t width = 2 * config->groups * config->head_size;
    rotate(call, *qkv, false);
    haul_copy_args store = {.x = heads_of(call, qkv, config->heads, 2 * config->groups),
                            .y = haul_tensor_slice(cache, held, config->sequence_length),
                            .x_stride = haul_tensor_columns(qkv),
                            .y_stride = width};
    haul_launch(call->stream, HAUL_OP_COPY, &store);
    haul_attention_args args = {.shape = shape_of(call),
                                .query = heads_of(call, qkv, 0, config->heads),
                                .key = heads_of(call, cache, 0, config->groups),
                                .value = heads_of(call, cache, config->groups, config->groups),
                                .out = call->outputs[0],
                                .log_sum_exp = call->saved[0]};
    args.shape.keys = held + config->sequence_length;
    args.shape.key_capacity = config->cache_capacity;
    args.shape.query_offset = held;
    args.shape.key_stride = width;
    haul_launch(call->stream, HAUL_OP_ATTENTION, &args);
}

const haul_node_kind haul_node_attention_cached = {.name = "attention_cached",
                                                   .config_bytes = sizeof(haul_attention_config),
                                                   .plan = plan_cached,
                                                   .forward = forward_cached};
