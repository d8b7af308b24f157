/* The backward of attention as cuDNN knows it. With P the probabilities, dP = d_out value^T:
 *
 *     d_value = P^T d_out,  dS = P (dP - d_out . out) scale,
 *     d_query = dS key,  d_key = dS^T query.
 *
 * dS, rounded to bf16, goes to memory between two kernels, so that d_query is a plain product. That
 * is quadratic in the sequence; so the groups of heads, or samples, are taken in several parts,
 * each a run of the same plan. */
#include "base/memory.h"
#include "device/cuda/attention_cudnn.h"
#include "device/cuda/attention_plans.h"

#include <math.h>

/* Tensors of the graph. */
enum {
    QUERY,
    KEY,
    VALUE,
    OUT,
    D_OUT,
    LOG_SUM_EXP,
    D_QUERY,
    D_KEY,
    D_VALUE,
    DOT,
    STORED, /* how many are in memory */
    SCALE = STORED,
    MINUS_INFINITY,
    ONE,
    GIVEN, /* how many are not virtual */
    TERMS = GIVEN,
    SUM,
    SCORE,
    SCALED,
    DIFFERENCE,
    ROW,
    COLUMN,
    VISIBLE,
    MASKED,
    PROBABILITY,
    PROBABILITY_TURNED,
    HEADS_D_VALUE, /* of each query head */
    D_PROBABILITY,
    D_DIFFERENCE,
    PRODUCT,
    D_SCORE,
    D_SCORE_TURNED,
    HEADS_D_KEY,
    KEY_TURNED,
    TENSORS
};

/* What one run of the plan takes: samples of all groups, or groups of one sample. */
typedef struct part {
    int64_t samples, groups;
} part;

/* Bytes of dS and, where heads share keys, of their d_key and d_value before they are added. */
static int64_t bytes_of(const haul_attention_shape *shape, part of) {
    int64_t ratio = shape->heads / shape->groups;
    int64_t row = shape->keys + (ratio > 1 ? 2 * shape->head_size : 0);
    return of.samples * of.groups * ratio * shape->queries * row * 2;
}

/* The largest number below `divisor` that divides `whole`. */
static int64_t next_divisor(int64_t whole, int64_t divisor) {
    do {
        divisor--;
    } while (whole % divisor != 0);
    return divisor;
}

/* d_out . out of each query. */
static int64_t dot_bytes(const haul_attention_shape *shape, part of) {
    int64_t ratio = shape->heads / shape->groups;
    return of.samples * of.groups * ratio * shape->queries * (int64_t)sizeof(float);
}

/* The largest equal parts that fit the scratch; no samples when cuDNN is not to run. Each run ends
 * with multiprocessors that wait for the last tiles of queries: it takes many tiles to be faster
 * than our own kernels all the same (docs/speed.md). */
static part choose_part(const haul_attention_shape *shape) {
    const int64_t most_bytes = INT64_C(9) << 29, fewest_tiles = 1024, tile = 128;
    int64_t ratio = shape->heads / shape->groups;
    part of = {shape->batch, shape->groups};
    while (bytes_of(shape, of) > most_bytes && of.samples > 1) {
        of.samples = next_divisor(shape->batch, of.samples);
    }
    while (bytes_of(shape, of) > most_bytes && of.groups > 1) {
        of.groups = next_divisor(shape->groups, of.groups);
    }
    bool pays = of.samples * of.groups * ratio * (shape->queries / tile) >= fewest_tiles;
    return pays && bytes_of(shape, of) <= most_bytes ? of : (part){0};
}

static void add_tensors(haul_cudnn_graph *graph, const haul_attention_shape *shape) {
    part of = choose_part(shape);
    int64_t b = of.samples, g = of.groups, n = g * (shape->heads / shape->groups);
    int64_t t = shape->queries, d = shape->head_size, out_stride = shape->heads * d;
    int64_t query_stride = shape->query_stride, key_stride = shape->key_stride;
    int64_t query_sample = t * query_stride, key_sample = shape->key_capacity * key_stride;
    typedef haul_cudnn_tensor tensor;
    const cudnnDataType_t narrow = CUDNN_DATA_BFLOAT16, wide = CUDNN_DATA_FLOAT;
    const tensor scalar = {wide, {1, 1, 1, 1}, {1, 1, 1, 1}};
    const tensor row = {wide, {b, n, t, 1}, {n * t, t, 1, 1}};
    const tensor log_sum_exp = {wide, {b, n, t, 1}, {shape->heads * t, t, 1, 1}};
    const tensor square = {wide, {b, n, t, t}, {n * t * t, t * t, t, 1}};
    const tensor turned = {narrow, {b, n, t, t}, {n * t * t, t * t, 1, t}};
    const tensor query = {narrow, {b, n, t, d}, {query_sample, d, query_stride, 1}};
    const tensor key = {narrow, {b, g, t, d}, {key_sample, d, key_stride, 1}};
    const tensor key_turned = {narrow, {b, g, d, t}, {key_sample, d, 1, key_stride}};
    const tensor out = {narrow, {b, n, t, d}, {t * out_stride, d, out_stride, 1}};
    const tensor heads = {narrow, {b, n, t, d}, {n * t * d, t * d, d, 1}};
    tensor index = square, visible = square, terms = heads;
    index.dtype = CUDNN_DATA_INT32;
    visible.dtype = CUDNN_DATA_BOOLEAN;
    terms.dtype = wide;
    const tensor *const tensors[TENSORS] = {
        [QUERY] = &query,
        [KEY] = &key_turned,
        [VALUE] = &key_turned,
        [OUT] = &out,
        [D_OUT] = &out,
        [LOG_SUM_EXP] = &log_sum_exp,
        [D_QUERY] = &query,
        [D_KEY] = &key,
        [D_VALUE] = &key,
        [DOT] = &row,
        [SCALE] = &scalar,
        [MINUS_INFINITY] = &scalar,
        [ONE] = &scalar,
        [TERMS] = &terms,
        [SUM] = &row,
        [SCORE] = &square,
        [SCALED] = &square,
        [DIFFERENCE] = &square,
        [ROW] = &index,
        [COLUMN] = &index,
        [VISIBLE] = &visible,
        [MASKED] = &square,
        [PROBABILITY] = &square,
        [PROBABILITY_TURNED] = &turned,
        [HEADS_D_VALUE] = n == g ? NULL : &heads,
        [D_PROBABILITY] = &square,
        [D_DIFFERENCE] = &square,
        [PRODUCT] = &square,
        [D_SCORE] = &square,
        [D_SCORE_TURNED] = &turned,
        [HEADS_D_KEY] = n == g ? NULL : &heads,
        [KEY_TURNED] = &key,
    };
    haul_cudnn_add_tensors(graph, tensors, TENSORS, STORED, GIVEN - STORED);
}

/* out = left right, summed over the query heads of a group by way of `heads`. */
static void add_shared_product(haul_cudnn_graph *graph, bool shared, int left, int right, int heads,
                               int out) {
    haul_cudnn_add_product(graph, left, right, shared ? heads : out);
    if (shared) {
        haul_cudnn_add_reduction(graph, CUDNN_REDUCE_TENSOR_ADD, heads, out);
    }
}

/* The order and form of these operations is what cuDNN recognises, be they of use or not. */
static void describe(haul_cudnn_graph *graph, const haul_attention_shape *shape) {
    static const haul_cudnn_pointwise terms[] = {
        {CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, D_OUT, OUT, -1, TERMS, 0},
    };
    static const haul_cudnn_pointwise dot[] = {
        {CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, SUM, ONE, -1, DOT, 0},
    };
    static const haul_cudnn_pointwise probability[] = {
        {CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, SCORE, SCALE, -1, SCALED, 0},
        {CUDNN_POINTWISE_SUB, CUDNN_DATA_FLOAT, SCALED, LOG_SUM_EXP, -1, DIFFERENCE, 0},
        {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, DIFFERENCE, -1, -1, ROW, 2},
        {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, DIFFERENCE, -1, -1, COLUMN, 3},
        {CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, ROW, COLUMN, -1, VISIBLE, 0},
        {CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, DIFFERENCE, MINUS_INFINITY, VISIBLE,
         MASKED, 0},
        {CUDNN_POINTWISE_EXP, CUDNN_DATA_FLOAT, MASKED, -1, -1, PROBABILITY, 0},
    };
    static const haul_cudnn_pointwise d_score[] = {
        {CUDNN_POINTWISE_SUB, CUDNN_DATA_FLOAT, D_PROBABILITY, DOT, -1, D_DIFFERENCE, 0},
        {CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, D_DIFFERENCE, PROBABILITY, -1, PRODUCT, 0},
        {CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, PRODUCT, SCALE, -1, D_SCORE, 0},
    };
    bool shared = shape->heads > shape->groups;
    add_tensors(graph, shape);
    haul_cudnn_add_pointwise(graph, terms, 1);
    haul_cudnn_add_reduction(graph, CUDNN_REDUCE_TENSOR_ADD, TERMS, SUM);
    haul_cudnn_add_pointwise(graph, dot, 1);
    haul_cudnn_add_product(graph, QUERY, KEY, SCORE);
    haul_cudnn_add_pointwise(graph, probability, sizeof probability / sizeof probability[0]);
    haul_cudnn_add_view(graph, PROBABILITY, PROBABILITY_TURNED);
    add_shared_product(graph, shared, PROBABILITY_TURNED, D_OUT, HEADS_D_VALUE, D_VALUE);
    haul_cudnn_add_product(graph, D_OUT, VALUE, D_PROBABILITY);
    haul_cudnn_add_pointwise(graph, d_score, sizeof d_score / sizeof d_score[0]);
    haul_cudnn_add_view(graph, D_SCORE, D_SCORE_TURNED);
    add_shared_product(graph, shared, D_SCORE_TURNED, QUERY, HEADS_D_KEY, D_KEY);
    haul_cudnn_add_view(graph, KEY, KEY_TURNED);
    haul_cudnn_add_product(graph, D_SCORE, KEY_TURNED, D_QUERY);
}

/* Before cuDNN 9.16 the last keys are wrong when they do not fill a tile of 128. */
static bool suits(const haul_attention_shape *shape, haul_dtype dtype) {
    return haul_cuda_attention_suits(shape, dtype) && shape->keys % 128 == 0 &&
           choose_part(shape).samples > 0;
}

/* Of cuDNN itself: what it keeps of a part, and a little more. */
static int64_t plan_bytes(const haul_attention_shape *shape) {
    return bytes_of(shape, choose_part(shape)) + (INT64_C(1) << 20);
}

int64_t haul_cuda_attention_backward_cudnn_workspace(const haul_attention_backward_args *args) {
    const haul_attention_shape *shape = &args->shape;
    return suits(shape, args->query.dtype)
               ? plan_bytes(shape) + dot_bytes(shape, choose_part(shape))
               : 0;
}

static char *advance(const haul_tensor *tensor, int64_t elements) {
    return (char *)tensor->data + elements * haul_dtype_size(tensor->dtype);
}

/* The tensors of one part, from `sample` and `group` on; scalars are left to the caller. */
static void locate(const haul_attention_backward_args *args, int64_t sample, int64_t group,
                   void **data) {
    const haul_attention_shape *shape = &args->shape;
    int64_t d = shape->head_size, t = shape->queries;
    int64_t head = group * (shape->heads / shape->groups);
    int64_t query = sample * t * shape->query_stride + head * d;
    int64_t key = sample * shape->key_capacity * shape->key_stride + group * d;
    int64_t out = (sample * t * shape->heads + head) * d;
    data[QUERY] = advance(&args->query, query);
    data[KEY] = advance(&args->key, key);
    data[VALUE] = advance(&args->value, key);
    data[OUT] = advance(&args->out, out);
    data[D_OUT] = advance(&args->d_out, out);
    data[LOG_SUM_EXP] = advance(&args->log_sum_exp, (sample * shape->heads + head) * t);
    data[D_QUERY] = advance(&args->d_query, query);
    data[D_KEY] = advance(&args->d_key, key);
    data[D_VALUE] = advance(&args->d_value, key);
}

bool haul_cuda_attention_backward_cudnn(haul_stream *stream,
                                        const haul_attention_backward_args *args) {
    const haul_attention_shape *shape = &args->shape;
    haul_cuda_device *cuda = haul_cuda_device_of(stream->device);
    float scale = (float)shape->scale, minus_infinity = -INFINITY, one = 1.0f;
    void *data[GIVEN] = {
        [DOT] = (char *)stream->scratch + plan_bytes(shape),
        [SCALE] = &scale,
        [MINUS_INFINITY] = &minus_infinity,
        [ONE] = &one,
    };
    locate(args, 0, 0, data);
    if (!haul_cudnn_aligned(data, STORED)) { /* those of all parts, or of none */
        return false;
    }
    haul_cudnn_object plan = haul_cuda_attention_plan(cuda, describe, shape, plan_bytes(shape));
    bool runs = plan != NULL;
    part of = choose_part(shape);
    for (int64_t sample = 0; sample < shape->batch && runs; sample += of.samples) {
        for (int64_t group = 0; group < shape->groups && runs; group += of.groups) {
            locate(args, sample, group, data);
            runs = haul_cuda_attention_run(cuda, plan, data, GIVEN, stream->scratch);
        }
    }
    return runs;
}
