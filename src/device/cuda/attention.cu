/* The ops of attention: which kernels run. */
#include "device/cuda/attention.cuh"
#include "device/cuda/attention_cudnn.h"
#include "device/cuda/kernels.h"
#include "device/cuda/vector.cuh"

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Everything but the tensors. */
static attention_problem describe(const haul_attention_shape &shape) {
    attention_problem p = {};
    p.batch = (int)shape.batch;
    p.queries = (int)shape.queries;
    p.keys = (int)shape.keys;
    p.heads = (int)shape.heads;
    p.groups = (int)shape.groups;
    p.head_size = (int)shape.head_size;
    p.query_offset = (int)clamp(shape.query_offset, -shape.queries, shape.keys);
    p.key_capacity = shape.key_capacity;
    p.query_stride = shape.query_stride;
    p.key_stride = shape.key_stride;
    p.scale = (float)shape.scale;
    p.scale_log2 = (float)(shape.scale * 1.4426950408889634);
    p.dropout = make_dropout(&shape.dropout);
    p.aligned =
        shape.head_size % 8 == 0 && shape.query_stride % 8 == 0 && shape.key_stride % 8 == 0;
    return p;
}

static bool all_aligned(const haul_tensor *const *tensors, int count) {
    uintptr_t bits = 0;
    for (int i = 0; i < count; i++) {
        bits |= (uintptr_t)tensors[i]->data;
    }
    return bits % 16 == 0;
}

/* Whether sizes fit the kernels' counters and grids; the stream fails if not. */
static bool fits(haul_stream *stream, haul_op op, const haul_attention_shape &shape) {
    const int64_t rows = INT64_C(65535) * 64, most = INT64_C(1) << 30; /* of a grid's y and x */
    bool good = shape.queries <= rows && shape.keys <= rows && shape.head_size <= rows &&
                shape.batch * shape.heads <= most;
    if (!good) {
        haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE,
                         "%s on cuda: %lld queries, %lld keys; at most %lld fit", haul_op_name(op),
                         (long long)shape.queries, (long long)shape.keys, (long long)rows);
    }
    return good;
}

/* The tensor cores' kernels look for the largest score before they scale. */
static bool runs_flash(const attention_problem &p, bool narrow) {
    return narrow && p.head_size <= ATTENTION_FLASH_HEAD && p.scale > 0.0f;
}

void haul_cuda_attention(haul_stream *stream, const void *args) {
    const haul_attention_args *op = (const haul_attention_args *)args;
    const haul_tensor *tensors[] = {&op->query, &op->key, &op->value, &op->out};
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_ATTENTION, tensors, 4, &narrow) ||
        !fits(stream, HAUL_OP_ATTENTION, op->shape) || haul_tensor_count(&op->out) == 0) {
        return;
    }
    if (haul_cuda_attention_cudnn_workspace(op) > 0 && haul_cuda_attention_cudnn(stream, op)) {
        return;
    }
    attention_problem p = describe(op->shape);
    p.aligned = p.aligned && all_aligned(tensors, 4);
    p.query = op->query.data;
    p.key = op->key.data;
    p.value = op->value.data;
    p.out = op->out.data;
    p.log_sum_exp = (float *)op->log_sum_exp.data;
    if (runs_flash(p, narrow)) {
        attention_flash(p, haul_cuda_stream_of(stream));
    } else {
        attention_plain(p, op->query.dtype, haul_cuda_stream_of(stream));
    }
    haul_cuda_check_launch(stream, HAUL_OP_ATTENTION);
}

int64_t haul_cuda_attention_workspace(haul_device *device, const void *args) {
    (void)device;
    return haul_cuda_attention_cudnn_workspace((const haul_attention_args *)args);
}

void haul_cuda_attention_backward(haul_stream *stream, const void *args) {
    const haul_attention_backward_args *op = (const haul_attention_backward_args *)args;
    const haul_tensor *tensors[] = {&op->query, &op->key,     &op->value, &op->out,
                                    &op->d_out, &op->d_query, &op->d_key, &op->d_value};
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_ATTENTION_BACKWARD, tensors, 8, &narrow) ||
        !fits(stream, HAUL_OP_ATTENTION_BACKWARD, op->shape)) {
        return;
    }
    if (haul_cuda_attention_backward_cudnn_workspace(op) > 0 &&
        haul_cuda_attention_backward_cudnn(stream, op)) {
        return;
    }
    attention_problem p = describe(op->shape);
    p.aligned = p.aligned && all_aligned(tensors, 8);
    p.query = op->query.data;
    p.key = op->key.data;
    p.value = op->value.data;
    p.out = op->out.data;
    p.d_out = op->d_out.data;
    p.log_sum_exp = (float *)op->log_sum_exp.data;
    p.d_query = op->d_query.data;
    p.d_key = op->d_key.data;
    p.d_value = op->d_value.data;
    p.statistics = (float2 *)stream->scratch;
    if (runs_flash(p, narrow)) {
        attention_flash_backward(p, haul_cuda_stream_of(stream));
    } else {
        attention_plain_backward(p, op->query.dtype, haul_cuda_stream_of(stream));
    }
    haul_cuda_check_launch(stream, HAUL_OP_ATTENTION_BACKWARD);
}

int64_t haul_cuda_attention_backward_workspace(haul_device *device, const void *args) {
    (void)device;
    const haul_attention_backward_args *op = (const haul_attention_backward_args *)args;
    const haul_attention_shape &shape = op->shape;
    int64_t own = shape.batch * shape.heads * shape.queries * (int64_t)sizeof(float2);
    int64_t cudnn = haul_cuda_attention_backward_cudnn_workspace(op);
    return own > cudnn ? own : cudnn;
}
