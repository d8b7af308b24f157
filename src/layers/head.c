#include "layers/layers.h"

#include "base/memory.h"
#include "base/string.h"

/* The largest divisor of `rows` whose logits fit; all rows when the fitting divisors are small. */
static int64_t chunk_rows(const haul_head_config *config, int64_t rows) {
    int64_t most = haul_max(1, config->chunk_elements / config->padded_vocabulary);
    int64_t least = haul_max(1, most / 4), parts = (rows + most - 1) / most;
    for (; rows / parts >= least; parts++) {
        if (rows % parts == 0) {
            return rows / parts;
        }
    }
    return rows;
}

static void plan_weight(const haul_head_config *config, const haul_numerics *numerics,
                        int64_t product_rows, haul_node_plan *plan) {
    plan->buffers[0] =
        (haul_buffer_plan){.shape = haul_tensor_2d(NULL, numerics->activation,
                                                   config->padded_vocabulary, config->hidden),
                           .init = HAUL_INIT_NORMAL,
                           .init_std = config->init_std,
                           .decay = true,
                           .product_rows = product_rows,
                           .vocabulary = true,
                           .view_count = 1};
    plan->buffers[0].views[0].rows = config->padded_vocabulary;
    haul_text_copy(plan->buffers[0].views[0].name, HAUL_NAME_BYTES, config->name);
    plan->buffer_count = 1;
    plan->output_count = 1;
}

static haul_status plan_head(const void *config_pointer, const haul_numerics *numerics,
                             haul_node_plan *plan) {
    const haul_head_config *config = config_pointer;
    int64_t rows = haul_tensor_rows(&plan->inputs[0]);
    int64_t chunk = chunk_rows(config, rows);
    plan_weight(config, numerics, chunk, plan);
    plan->outputs[0] = haul_tensor_1d(NULL, numerics->accumulator, rows);
    plan->output_names[0] = "losses";
    plan->scratch[0] = haul_tensor_2d(NULL, numerics->activation, chunk, config->padded_vocabulary);
    plan->scratch_count = 1;
    plan->inputs_for_backward = 7;
    plan->weight_in_backward = true;
    return HAUL_OK;
}

static void logits_and_loss(const haul_node_call *call, int64_t begin, int64_t rows,
                            bool gradient) {
    const haul_head_config *config = call->config;
    haul_matmul_args product = {.a = haul_tensor_slice(&call->inputs[0], begin, rows),
                                .b = call->parameters[0].value,
                                .c = call->scratch[0],
                                .packed = call->parameters[0].packed_forward,
                                .transpose_b = true};
    haul_launch(call->stream, HAUL_OP_MATMUL, &product);
    haul_loss_args loss = {.logits = call->scratch[0],
                           .targets = haul_tensor_slice(&call->inputs[1], begin, rows),
                           .weights = haul_tensor_slice(&call->inputs[2], begin, rows),
                           .losses = haul_tensor_slice(&call->outputs[0], begin, rows),
                           .vocabulary = config->vocabulary,
                           .gradient = gradient};
    haul_launch(call->stream, HAUL_OP_LOSS, &loss);
}

static void forward(const haul_node_call *call) {
    if (call->step->training) {
        return;
    }
    int64_t chunk = call->scratch[0].shape[0];
    for (int64_t begin = 0; begin < haul_tensor_rows(&call->inputs[0]); begin += chunk) {
        logits_and_loss(call, begin, chunk, false);
    }
}

static void backward_input(const haul_node_call *call) {
    const haul_node_parameter *weight = &call->parameters[0];
    int64_t chunk = call->scratch[0].shape[0];
    for (int64_t begin = 0; begin < haul_tensor_rows(&call->inputs[0]); begin += chunk) {
        logits_and_loss(call, begin, chunk, true);
        haul_matmul_args dgrad = {.a = call->scratch[0],
                                  .b = weight->value,
                                  .c = haul_tensor_slice(&call->input_gradients[0], begin, chunk),
                                  .packed = weight->packed_dgrad};
        haul_launch(call->stream, HAUL_OP_MATMUL, &dgrad);
        haul_matmul_args wgrad = {.a = call->scratch[0],
                                  .b = haul_tensor_slice(&call->inputs[0], begin, chunk),
                                  .c = weight->gradient,
                                  .transpose_a = true,
                                  .accumulate = weight->accumulate || begin > 0};
        haul_launch(call->stream, HAUL_OP_MATMUL, &wgrad);
    }
}

const haul_node_kind haul_node_head = {.name = "head",
                                       .config_bytes = sizeof(haul_head_config),
                                       .plan = plan_head,
                                       .forward = forward,
                                       .backward_input = backward_input};

static haul_status plan_logits(const void *config_pointer, const haul_numerics *numerics,
                               haul_node_plan *plan) {
    const haul_head_config *config = config_pointer;
    plan_weight(config, numerics, 0, plan);
    plan->outputs[0] = haul_tensor_2d(NULL, numerics->activation, 1, config->padded_vocabulary);
    plan->output_names[0] = "logits";
    return HAUL_OK;
}

static void forward_logits(const haul_node_call *call) {
    int64_t last = haul_tensor_rows(&call->inputs[0]) - 1;
    haul_matmul_args product = {.a = haul_tensor_slice(&call->inputs[0], last, 1),
                                .b = call->parameters[0].value,
                                .c = call->outputs[0],
                                .transpose_b = true};
    haul_launch(call->stream, HAUL_OP_MATMUL, &product);
}

const haul_node_kind haul_node_logits = {.name = "logits",
                                         .config_bytes = sizeof(haul_head_config),
                                         .plan = plan_logits,
                                         .forward = forward_logits};
