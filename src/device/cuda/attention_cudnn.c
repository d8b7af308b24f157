/* The forward of attention as cuDNN knows it: product, scale, causal mask, softmax and product. */
#include "device/cuda/attention_cudnn.h"

#include "device/cuda/attention_plans.h"

#include <math.h>

/* Tensors of the graph. */
enum {
    QUERY,
    KEY,
    VALUE,
    OUT,
    LOG_SUM_EXP,
    STORED, /* how many are in memory */
    SCALE = STORED,
    MINUS_INFINITY,
    GIVEN, /* how many are not virtual */
    SCORE = GIVEN,
    SCALED,
    ROW,
    COLUMN,
    VISIBLE,
    MASKED,
    MAXIMUM,
    DIFFERENCE,
    POWER,
    SUM,
    LOGARITHM,
    PROBABILITY,
    TENSORS
};

static void add_tensors(haul_cudnn_graph *graph, const haul_attention_shape *shape) {
    int64_t b = shape->batch, n = shape->heads, g = shape->groups, d = shape->head_size;
    int64_t queries = shape->queries, keys = shape->keys;
    int64_t query_stride = shape->query_stride, key_stride = shape->key_stride;
    int64_t key_sample = shape->key_capacity * key_stride;
    typedef haul_cudnn_tensor tensor;
    const cudnnDataType_t narrow = CUDNN_DATA_BFLOAT16, wide = CUDNN_DATA_FLOAT;
    const tensor scalar = {wide, {1, 1, 1, 1}, {1, 1, 1, 1}};
    const tensor row = {wide, {b, n, queries, 1}, {n * queries, queries, 1, 1}};
    const tensor square = {
        wide, {b, n, queries, keys}, {n * queries * keys, queries * keys, keys, 1}};
    const tensor query = {narrow, {b, n, queries, d}, {queries * query_stride, d, query_stride, 1}};
    const tensor key = {narrow, {b, g, d, keys}, {key_sample, d, 1, key_stride}};
    const tensor value = {narrow, {b, g, keys, d}, {key_sample, d, key_stride, 1}};
    const tensor out = {narrow, {b, n, queries, d}, {queries * n * d, d, n * d, 1}};
    tensor index = square, visible = square, probability = square;
    index.dtype = CUDNN_DATA_INT32;
    visible.dtype = CUDNN_DATA_BOOLEAN;
    probability.dtype = narrow;
    const tensor *const tensors[TENSORS] = {
        [QUERY] = &query,
        [KEY] = &key,
        [VALUE] = &value,
        [OUT] = &out,
        [LOG_SUM_EXP] = &row,
        [SCALE] = &scalar,
        [SCORE] = &square,
        [SCALED] = &square,
        [MINUS_INFINITY] = &scalar,
        [ROW] = &index,
        [COLUMN] = &index,
        [VISIBLE] = &visible,
        [MASKED] = &square,
        [MAXIMUM] = &row,
        [DIFFERENCE] = &square,
        [POWER] = &square,
        [SUM] = &row,
        [LOGARITHM] = &row,
        [PROBABILITY] = &probability,
    };
    haul_cudnn_add_tensors(graph, tensors, TENSORS, STORED, GIVEN - STORED);
}

/* The order and form of these operations is what cuDNN recognises. */
static void describe(haul_cudnn_graph *graph, const haul_attention_shape *shape) {
    static const haul_cudnn_pointwise masked[] = {
        {CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, SCORE, SCALE, -1, SCALED, 0},
        {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, SCALED, -1, -1, ROW, 2},
        {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, SCALED, -1, -1, COLUMN, 3},
        {CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, ROW, COLUMN, -1, VISIBLE, 0},
        {CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, SCALED, MINUS_INFINITY, VISIBLE, MASKED,
         0},
    };
    static const haul_cudnn_pointwise powers[] = {
        {CUDNN_POINTWISE_SUB, CUDNN_DATA_FLOAT, MASKED, MAXIMUM, -1, DIFFERENCE, 0},
        {CUDNN_POINTWISE_EXP, CUDNN_DATA_FLOAT, DIFFERENCE, -1, -1, POWER, 0},
    };
    static const haul_cudnn_pointwise normalised[] = {
        {CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, SUM, -1, -1, LOGARITHM, 0},
        {CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, MAXIMUM, LOGARITHM, -1, LOG_SUM_EXP, 0},
        {CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, POWER, SUM, -1, PROBABILITY, 0},
    };
    add_tensors(graph, shape);
    haul_cudnn_add_product(graph, QUERY, KEY, SCORE);
    haul_cudnn_add_pointwise(graph, masked, sizeof masked / sizeof masked[0]);
    haul_cudnn_add_reduction(graph, CUDNN_REDUCE_TENSOR_MAX, MASKED, MAXIMUM);
    haul_cudnn_add_pointwise(graph, powers, sizeof powers / sizeof powers[0]);
    haul_cudnn_add_reduction(graph, CUDNN_REDUCE_TENSOR_ADD, POWER, SUM);
    haul_cudnn_add_pointwise(graph, normalised, sizeof normalised / sizeof normalised[0]);
    haul_cudnn_add_product(graph, PROBABILITY, VALUE, OUT);
}

int64_t haul_cuda_attention_cudnn_workspace(const haul_attention_args *args) {
    return haul_cuda_attention_suits(&args->shape, args->query.dtype) ? INT64_C(1) << 20 : 0;
}

bool haul_cuda_attention_cudnn(haul_stream *stream, const haul_attention_args *args) {
    haul_cuda_device *cuda = haul_cuda_device_of(stream->device);
    float scale = (float)args->shape.scale, minus_infinity = -INFINITY;
    void *const data[GIVEN] = {
        [QUERY] = args->query.data,
        [KEY] = args->key.data,
        [VALUE] = args->value.data,
        [OUT] = args->out.data,
        [LOG_SUM_EXP] = args->log_sum_exp.data,
        [SCALE] = &scale,
        [MINUS_INFINITY] = &minus_infinity,
    };
    haul_cudnn_object plan =
        haul_cudnn_aligned(data, STORED)
            ? haul_cuda_attention_plan(cuda, describe, &args->shape,
                                       haul_cuda_attention_cudnn_workspace(args))
            : NULL;
    return plan != NULL && haul_cuda_attention_run(cuda, plan, data, GIVEN, stream->scratch);
}
