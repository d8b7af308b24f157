#include "layers/layers.h"

static haul_status plan_activation(const void *config_pointer, const haul_numerics *numerics,
                                   haul_node_plan *plan) {
    const haul_activation_config *config = config_pointer;
    (void)numerics;
    plan->outputs[0] = plan->inputs[0];
    if (config->kind == HAUL_ACTIVATION_SWIGLU) {
        plan->outputs[0].shape[1] /= 2;
    }
    plan->output_names[0] = "out";
    plan->output_count = 1;
    plan->inputs_for_backward = 1;
    return HAUL_OK;
}

static void forward(const haul_node_call *call) {
    const haul_activation_config *config = call->config;
    if (config->kind == HAUL_ACTIVATION_SWIGLU) {
        haul_swiglu_args args = {.x = call->inputs[0], .y = call->outputs[0]};
        haul_launch(call->stream, HAUL_OP_SWIGLU, &args);
    } else {
        haul_gelu_args args = {.x = call->inputs[0],
                               .y = call->outputs[0],
                               .tanh = config->kind == HAUL_ACTIVATION_GELU_TANH};
        haul_launch(call->stream, HAUL_OP_GELU, &args);
    }
}

static void backward_input(const haul_node_call *call) {
    const haul_activation_config *config = call->config;
    if (config->kind == HAUL_ACTIVATION_SWIGLU) {
        haul_swiglu_backward_args args = {
            .dy = call->output_gradients[0], .x = call->inputs[0], .dx = call->input_gradients[0]};
        haul_launch(call->stream, HAUL_OP_SWIGLU_BACKWARD, &args);
    } else {
        haul_gelu_backward_args args = {.dy = call->output_gradients[0],
                                        .x = call->inputs[0],
                                        .dx = call->input_gradients[0],
                                        .tanh = config->kind == HAUL_ACTIVATION_GELU_TANH};
        haul_launch(call->stream, HAUL_OP_GELU_BACKWARD, &args);
    }
}

const haul_node_kind haul_node_activation = {.name = "activation",
                                             .config_bytes = sizeof(haul_activation_config),
                                             .plan = plan_activation,
                                             .forward = forward,
                                             .backward_input = backward_input};
