/* A linear layer whose products read FP8 codes. A product in FP8 sums along the innermost dimension
 * of both operands, so each matrix is quantised twice where two products read it: x for y and for
 * dw, dy for dx and for dw, the weight (by the store) for y and for dx. */
#include "layers/linear.h"

enum { X, X_SCALES, DY, DY_SCALES, DY_TRANSPOSED, DY_TRANSPOSED_SCALES, SCRATCHES };
enum { X_TRANSPOSED, X_TRANSPOSED_SCALES, SAVED };

static haul_tensor transposed_shape(haul_dtype dtype, int64_t rows, int64_t columns) {
    return haul_tensor_2d(NULL, dtype, columns, haul_padded(rows, HAUL_CODES_PAD));
}

static haul_status plan_fp8(const void *config_pointer, const haul_numerics *numerics,
                            haul_node_plan *plan) {
    const haul_linear_config *config = config_pointer;
    const haul_fp8 *fp8 = &config->fp8;
    HAUL_TRY(haul_linear_plan(config_pointer, numerics, plan));
    int64_t rows = haul_tensor_rows(&plan->inputs[0]);
    int64_t k = config->input_size, n = haul_tensor_columns(&plan->outputs[0]);
    if (k % HAUL_CODES_PAD != 0 || n % HAUL_CODES_PAD != 0) {
        return haul_fail(HAUL_ERROR_CONFIG, "%s is %lld x %lld; FP8 needs multiples of %d",
                         config->parts[0].name, (long long)n, (long long)k, HAUL_CODES_PAD);
    }
    plan->buffers[0].product_rows = 0; /* codes take the place of packed forms */
    plan->buffers[0].fp8 = *fp8;
    plan->scratch[X] = haul_tensor_2d(NULL, fp8->forward, rows, k);
    plan->scratch[X_SCALES] = haul_scales_shape(fp8->activations, rows, k);
    plan->scratch[DY] = haul_tensor_2d(NULL, fp8->backward, rows, n);
    plan->scratch[DY_SCALES] = haul_scales_shape(fp8->activations, rows, n);
    plan->scratch[DY_TRANSPOSED] = transposed_shape(fp8->backward, rows, n);
    plan->scratch[DY_TRANSPOSED_SCALES] = haul_scales_shape(fp8->activations, n, rows);
    plan->scratch_count = SCRATCHES;
    plan->saved[X_TRANSPOSED] = transposed_shape(fp8->forward, rows, k);
    plan->saved[X_TRANSPOSED_SCALES] = haul_scales_shape(fp8->activations, k, rows);
    plan->saved_names[X_TRANSPOSED] = "codes";
    plan->saved_names[X_TRANSPOSED_SCALES] = "scales";
    plan->saved_count = SAVED;
    plan->inputs_for_weight = 0;
    plan->weight_in_backward = true;
    return HAUL_OK;
}

static void quantize(const haul_node_call *call, haul_tensor x, const haul_quantized *out) {
    const haul_linear_config *config = call->config;
    haul_quantize_args args = {.scaling = config->fp8.activations,
                               .x = x,
                               .codes = out->codes,
                               .scales = out->scales,
                               .transposed = out->transposed,
                               .transposed_scales = out->transposed_scales};
    haul_launch(call->stream, HAUL_OP_QUANTIZE, &args);
}

/* c = a b^T of activations and weights. */
static void multiply(const haul_node_call *call, haul_tensor a, haul_tensor a_scales, haul_tensor b,
                     haul_tensor b_scales, haul_tensor c, haul_tensor bias) {
    const haul_fp8 *fp8 = &((const haul_linear_config *)call->config)->fp8;
    haul_matmul_args args = {.a = a,
                             .b = b,
                             .c = c,
                             .bias = bias,
                             .transpose_b = true,
                             .a_scaling = fp8->activations,
                             .b_scaling = fp8->weights,
                             .a_scales = a_scales,
                             .b_scales = b_scales,
                             .fast = fp8->activations == HAUL_SCALING_TENSOR};
    haul_launch(call->stream, HAUL_OP_MATMUL, &args);
}

static void forward(const haul_node_call *call) {
    const haul_node_parameter *weight = &call->parameters[0];
    haul_quantized x = {.codes = call->scratch[X],
                        .scales = call->scratch[X_SCALES],
                        .transposed = call->saved[X_TRANSPOSED],
                        .transposed_scales = call->saved[X_TRANSPOSED_SCALES]};
    quantize(call, call->inputs[0], &x);
    multiply(call, x.codes, x.scales, weight->codes.codes, weight->codes.scales, call->outputs[0],
             call->parameters[1].value);
}

static void multiply_weight_gradient(const haul_node_call *call, const haul_quantized *dy) {
    const haul_fp8 *fp8 = &((const haul_linear_config *)call->config)->fp8;
    const haul_node_parameter *weight = &call->parameters[0];
    haul_matmul_args args = {.a = dy->transposed,
                             .b = call->saved[X_TRANSPOSED],
                             .c = weight->gradient,
                             .transpose_b = true,
                             .accumulate = weight->accumulate,
                             .a_scaling = fp8->activations,
                             .b_scaling = fp8->activations,
                             .a_scales = dy->transposed_scales,
                             .b_scales = call->saved[X_TRANSPOSED_SCALES],
                             .fast = fp8->activations == HAUL_SCALING_TENSOR};
    haul_launch(call->stream, HAUL_OP_MATMUL, &args);
}

static void backward(const haul_node_call *call) {
    const haul_quantized *weight = &call->parameters[0].codes;
    const haul_tensor none = {0};
    haul_quantized dy = {.codes = call->scratch[DY],
                         .scales = call->scratch[DY_SCALES],
                         .transposed = call->scratch[DY_TRANSPOSED],
                         .transposed_scales = call->scratch[DY_TRANSPOSED_SCALES]};
    quantize(call, call->output_gradients[0], &dy);
    if (haul_tensor_present(&call->input_gradients[0])) {
        multiply(call, dy.codes, dy.scales, weight->transposed, weight->transposed_scales,
                 call->input_gradients[0], none);
    }
    multiply_weight_gradient(call, &dy);
    haul_linear_bias_backward(call);
}

const haul_node_kind haul_node_linear_fp8 = {.name = "linear_fp8",
                                             .config_bytes = sizeof(haul_linear_config),
                                             .plan = plan_fp8,
                                             .forward = forward,
                                             .backward_input = backward};
