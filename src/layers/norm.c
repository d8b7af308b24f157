#include "layers/layers.h"

#include <stdio.h>

static void plan_vector(haul_buffer_plan *buffer, const char *name, const char *suffix,
                        haul_dtype dtype, int64_t hidden, haul_init_kind init) {
    *buffer = (haul_buffer_plan){
        .shape = haul_tensor_1d(NULL, dtype, hidden), .init = init, .view_count = 1};
    buffer->views[0].rows = hidden;
    snprintf(buffer->views[0].name, HAUL_NAME_BYTES, "%.80s.%s", name, suffix);
}

/* With an addend, output 0 is the sum and is what gets normalised; else that is input 0. */
static haul_status plan_norm(const void *config_pointer, const haul_numerics *numerics,
                             haul_node_plan *plan) {
    const haul_norm_config *config = config_pointer;
    bool addend = plan->input_count > 1;
    int64_t rows = haul_tensor_rows(&plan->inputs[0]);
    int64_t hidden = haul_tensor_columns(&plan->inputs[0]);
    plan->output_count = addend ? 2 : 1;
    plan->output_names[0] = addend ? "sum" : "y";
    plan->output_names[1] = "y";
    plan->outputs[0] = plan->outputs[1] = plan->inputs[0];
    plan_vector(&plan->buffers[0], config->name, "weight", numerics->activation, hidden,
                HAUL_INIT_ONE);
    plan_vector(&plan->buffers[1], config->name, "bias", numerics->activation, hidden,
                HAUL_INIT_ZERO);
    plan->buffer_count = config->bias ? 2 : 1;
    plan->saved[0] = haul_tensor_2d(NULL, numerics->accumulator, rows, 2);
    plan->saved_names[0] = "statistics";
    plan->saved_count = 1;
    plan->inputs_for_backward = addend ? 0 : 1;
    plan->outputs_for_backward = addend ? 1 : 0;
    plan->gradients_shared = addend ? 2 : 0;
    plan->outputs_rebuilt = addend ? 2 : 1;
    plan->weight_in_backward = true;
    return HAUL_OK;
}

static bool has_addend(const haul_node_call *call) {
    return haul_tensor_present(&call->inputs[1]);
}

static void launch_norm(const haul_node_call *call, haul_tensor x, haul_tensor addend,
                        haul_tensor sum) {
    const haul_norm_config *config = call->config;
    haul_norm_args args = {.kind = config->kind,
                           .epsilon = config->epsilon,
                           .x = x,
                           .addend = addend,
                           .sum = sum,
                           .weight = call->parameters[0].value,
                           .bias = call->parameters[1].value,
                           .y = call->outputs[has_addend(call)],
                           .statistics = call->saved[0]};
    haul_launch(call->stream, HAUL_OP_NORM, &args);
}

static void forward(const haul_node_call *call) {
    haul_tensor none = {0};
    launch_norm(call, call->inputs[0], call->inputs[1], has_addend(call) ? call->outputs[0] : none);
}

/* The sum was kept: only y and the statistics are made again. */
static void rebuild(const haul_node_call *call) {
    haul_tensor none = {0};
    launch_norm(call, has_addend(call) ? call->outputs[0] : call->inputs[0], none, none);
}

static void backward_input(const haul_node_call *call) {
    const haul_norm_config *config = call->config;
    bool addend = has_addend(call);
    haul_tensor none = {0};
    haul_norm_backward_args args = {.kind = config->kind,
                                    .dy = call->output_gradients[addend],
                                    .s = addend ? call->outputs[0] : call->inputs[0],
                                    .weight = call->parameters[0].value,
                                    .statistics = call->saved[0],
                                    .residual = addend ? call->output_gradients[0] : none,
                                    .dx = call->input_gradients[0],
                                    .d_weight = call->parameters[0].gradient,
                                    .d_bias = call->parameters[1].gradient,
                                    .accumulate = call->parameters[0].accumulate};
    haul_launch(call->stream, HAUL_OP_NORM_BACKWARD, &args);
    if (addend && haul_tensor_present(&call->input_gradients[1])) {
        haul_copy_args copy = {.x = call->input_gradients[0],
                               .y = call->input_gradients[1],
                               .x_stride = haul_tensor_columns(&call->input_gradients[0]),
                               .y_stride = haul_tensor_columns(&call->input_gradients[1])};
        haul_launch(call->stream, HAUL_OP_COPY, &copy);
    }
}

const haul_node_kind haul_node_norm = {.name = "norm",
                                       .config_bytes = sizeof(haul_norm_config),
                                       .plan = plan_norm,
                                       .forward = forward,
                                       .backward_input = backward_input,
                                       .rebuild = rebuild};
