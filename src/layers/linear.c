#include "layers/linear.h"

#include <stdio.h>

static void plan_buffer(const haul_linear_config *config, haul_buffer_plan *buffer,
                        const char *suffix) {
    buffer->view_count = config->part_count;
    for (int i = 0; i < config->part_count; i++) {
        buffer->views[i].rows = config->parts[i].rows;
        snprintf(buffer->views[i].name, HAUL_NAME_BYTES, "%.80s.%s", config->parts[i].name, suffix);
    }
}

haul_status haul_linear_plan(const void *config_pointer, const haul_numerics *numerics,
                             haul_node_plan *plan) {
    const haul_linear_config *config = config_pointer;
    int64_t rows = haul_tensor_rows(&plan->inputs[0]);
    int64_t output_size = 0;
    for (int i = 0; i < config->part_count; i++) {
        output_size += config->parts[i].rows;
    }
    if (haul_tensor_columns(&plan->inputs[0]) != config->input_size) {
        return haul_fail(HAUL_ERROR_INTERNAL, "%s takes %lld columns and is given %lld",
                         config->parts[0].name, (long long)config->input_size,
                         (long long)haul_tensor_columns(&plan->inputs[0]));
    }
    plan->outputs[0] = haul_tensor_2d(NULL, numerics->activation, rows, output_size);
    plan->output_names[0] = "out";
    plan->output_count = 1;
    plan->buffers[0] = (haul_buffer_plan){
        .shape = haul_tensor_2d(NULL, numerics->activation, output_size, config->input_size),
        .init = HAUL_INIT_NORMAL,
        .init_std = config->init_std,
        .decay = true,
        .product_rows = rows,
        .product_bias = config->bias,
        .transposed = config->transposed};
    plan->buffers[1] = (haul_buffer_plan){
        .shape = haul_tensor_1d(NULL, numerics->activation, output_size), .init = HAUL_INIT_ZERO};
    plan_buffer(config, &plan->buffers[0], "weight");
    plan_buffer(config, &plan->buffers[1], "bias");
    plan->buffer_count = config->bias ? 2 : 1;
    plan->inputs_for_weight = 1;
    return HAUL_OK;
}

static void forward(const haul_node_call *call) {
    haul_matmul_args args = {.a = call->inputs[0],
                             .b = call->parameters[0].value,
                             .c = call->outputs[0],
                             .bias = call->parameters[1].value,
                             .packed = call->parameters[0].packed_forward,
                             .transpose_b = true};
    haul_launch(call->stream, HAUL_OP_MATMUL, &args);
}

static void backward_input(const haul_node_call *call) {
    haul_matmul_args args = {.a = call->output_gradients[0],
                             .b = call->parameters[0].value,
                             .c = call->input_gradients[0],
                             .packed = call->parameters[0].packed_dgrad};
    haul_launch(call->stream, HAUL_OP_MATMUL, &args);
}

void haul_linear_bias_backward(const haul_node_call *call) {
    const haul_node_parameter *bias = &call->parameters[1];
    haul_bias_backward_args args = {
        .dy = call->output_gradients[0], .d_bias = bias->gradient, .accumulate = bias->accumulate};
    if (haul_tensor_present(&bias->gradient)) {
        haul_launch(call->stream, HAUL_OP_BIAS_BACKWARD, &args);
    }
}

static void backward_weight(const haul_node_call *call) {
    haul_matmul_args args = {.a = call->output_gradients[0],
                             .b = call->inputs[0],
                             .c = call->parameters[0].gradient,
                             .transpose_a = true,
                             .accumulate = call->parameters[0].accumulate};
    haul_launch(call->stream, HAUL_OP_MATMUL, &args);
    haul_linear_bias_backward(call);
}

const haul_node_kind haul_node_linear = {.name = "linear",
                                         .config_bytes = sizeof(haul_linear_config),
                                         .plan = haul_linear_plan,
                                         .forward = forward,
                                         .backward_input = backward_input,
                                         .backward_weight = backward_weight};
