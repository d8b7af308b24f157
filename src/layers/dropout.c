#include "layers/layers.h"

static haul_status plan_dropout(const void *config, const haul_numerics *numerics,
                                haul_node_plan *plan) {
    (void)config;
    (void)numerics;
    plan->outputs[0] = plan->inputs[0];
    plan->output_names[0] = "out";
    plan->output_count = 1;
    return HAUL_OK;
}

/* The gradient goes through the very mask of the forward pass, which the counter remakes. */
static void launch(const haul_node_call *call, haul_tensor x, haul_tensor y) {
    const haul_dropout_config *config = call->config;
    haul_dropout_args args = {
        .x = x,
        .y = y,
        .sequence_length = config->sequence_length,
        .dropout = {.probability = call->step->training ? config->probability : 0,
                    .seed = call->step->seed,
                    .step = call->step->step,
                    .stream = call->node,
                    .first_sample = call->step->first_sample}};
    haul_launch(call->stream, HAUL_OP_DROPOUT, &args);
}

static void forward(const haul_node_call *call) {
    launch(call, call->inputs[0], call->outputs[0]);
}

static void backward_input(const haul_node_call *call) {
    launch(call, call->output_gradients[0], call->input_gradients[0]);
}

const haul_node_kind haul_node_dropout = {.name = "dropout",
                                          .config_bytes = sizeof(haul_dropout_config),
                                          .plan = plan_dropout,
                                          .forward = forward,
                                          .backward_input = backward_input};
