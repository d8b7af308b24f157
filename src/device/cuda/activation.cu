#include "device/cuda/kernels.h"
#include "device/cuda/vector.cuh"

static const int THREADS = 256;

/* --- swiglu --------------------------------------------------------------------------------- */

static __device__ __forceinline__ float sigmoid(float z) {
    return 1.0f / (1.0f + expf(-z));
}

/* A thread has one group of the F columns of a row. */
template <typename T>
static __global__ void swiglu_kernel(const T *x, T *y, int64_t rows, int64_t columns) {
    const int width = group_of<T>::elements;
    int64_t groups = (columns + width - 1) / width;
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < rows * groups;
         i += gridDim.x * (int64_t)THREADS) {
        int64_t r = i / groups, at = (i - r * groups) * width;
        float gate[width], up[width];
        load_group(x + 2 * r * columns, at, columns, gate);
        load_group(x + (2 * r + 1) * columns, at, columns, up);
#pragma unroll
        for (int e = 0; e < width; e++) {
            gate[e] = gate[e] * sigmoid(gate[e]) * up[e];
        }
        store_group(y + r * columns, at, columns, gate);
    }
}

template <typename T>
static __global__ void swiglu_backward_kernel(const T *dy, const T *x, T *dx, int64_t rows,
                                              int64_t columns) {
    const int width = group_of<T>::elements;
    int64_t groups = (columns + width - 1) / width;
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < rows * groups;
         i += gridDim.x * (int64_t)THREADS) {
        int64_t r = i / groups, at = (i - r * groups) * width;
        float gate[width], up[width], d[width];
        load_group(x + 2 * r * columns, at, columns, gate);
        load_group(x + (2 * r + 1) * columns, at, columns, up);
        load_group(dy + r * columns, at, columns, d);
#pragma unroll
        for (int e = 0; e < width; e++) {
            float s = sigmoid(gate[e]), silu = gate[e] * s;
            gate[e] = d[e] * up[e] * s * (1.0f + gate[e] * (1.0f - s));
            up[e] = d[e] * silu;
        }
        store_group(dx + 2 * r * columns, at, columns, gate);
        store_group(dx + (2 * r + 1) * columns, at, columns, up);
    }
}

template <typename T> static unsigned group_blocks(int64_t rows, int64_t columns) {
    return stride_blocks(rows * ((columns + group_of<T>::elements - 1) / group_of<T>::elements),
                         THREADS);
}

template <typename T> static void launch_swiglu(cudaStream_t stream, const haul_swiglu_args *args) {
    int64_t rows = haul_tensor_rows(&args->y), columns = haul_tensor_columns(&args->y);
    swiglu_kernel<T><<<group_blocks<T>(rows, columns), THREADS, 0, stream>>>(
        (const T *)args->x.data, (T *)args->y.data, rows, columns);
}

void haul_cuda_swiglu(haul_stream *stream, const void *args) {
    const haul_swiglu_args *swiglu = (const haul_swiglu_args *)args;
    const haul_tensor *const tensors[] = {&swiglu->x, &swiglu->y};
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_SWIGLU, tensors, 2, &narrow) ||
        haul_tensor_count(&swiglu->y) == 0) {
        return;
    }
    cudaStream_t on = haul_cuda_stream_of(stream);
    narrow ? launch_swiglu<bf16>(on, swiglu) : launch_swiglu<float>(on, swiglu);
    haul_cuda_check_launch(stream, HAUL_OP_SWIGLU);
}

template <typename T>
static void launch_swiglu_backward(cudaStream_t stream, const haul_swiglu_backward_args *args) {
    int64_t rows = haul_tensor_rows(&args->dy), columns = haul_tensor_columns(&args->dy);
    swiglu_backward_kernel<T><<<group_blocks<T>(rows, columns), THREADS, 0, stream>>>(
        (const T *)args->dy.data, (const T *)args->x.data, (T *)args->dx.data, rows, columns);
}

void haul_cuda_swiglu_backward(haul_stream *stream, const void *args) {
    const haul_swiglu_backward_args *swiglu = (const haul_swiglu_backward_args *)args;
    const haul_tensor *const tensors[] = {&swiglu->dy, &swiglu->x, &swiglu->dx};
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_SWIGLU_BACKWARD, tensors, 3, &narrow) ||
        haul_tensor_count(&swiglu->dy) == 0) {
        return;
    }
    cudaStream_t on = haul_cuda_stream_of(stream);
    narrow ? launch_swiglu_backward<bf16>(on, swiglu) : launch_swiglu_backward<float>(on, swiglu);
    haul_cuda_check_launch(stream, HAUL_OP_SWIGLU_BACKWARD);
}

/* --- gelu ----------------------------------------------------------------------------------- */

static const float SQRT_HALF = 0.70710678118654752f;        /* 1 / sqrt(2) */
static const float INVERSE_SQRT_TAU = 0.39894228040143268f; /* 1 / sqrt(2 pi) */
static const float SQRT_2_OVER_PI = 0.79788456080286536f;
static const float CUBIC = 0.044715f;

static __device__ __forceinline__ float gelu(float x, bool tanh_form) {
    if (tanh_form) {
        return 0.5f * x * (1.0f + tanhf(SQRT_2_OVER_PI * (x + CUBIC * x * x * x)));
    }
    return 0.5f * x * (1.0f + erff(SQRT_HALF * x));
}

static __device__ __forceinline__ float gelu_slope(float x, bool tanh_form) {
    if (tanh_form) {
        float t = tanhf(SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
        float inner = SQRT_2_OVER_PI * (1.0f + 3.0f * CUBIC * x * x);
        return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
    }
    return 0.5f * (1.0f + erff(SQRT_HALF * x)) + x * INVERSE_SQRT_TAU * expf(-0.5f * x * x);
}

/* y = gelu(x), or with dy, y = dy * slope(x). */
template <typename T, bool BACKWARD>
static __global__ void gelu_kernel(const T *dy, const T *x, T *y, int64_t count, bool tanh_form) {
    const int width = group_of<T>::elements;
    for (int64_t at = (blockIdx.x * (int64_t)THREADS + threadIdx.x) * width; at < count;
         at += gridDim.x * (int64_t)THREADS * width) {
        float in[width], d[width];
        load_group(x, at, count, in);
        if (BACKWARD) {
            load_group(dy, at, count, d);
        }
#pragma unroll
        for (int e = 0; e < width; e++) {
            in[e] = BACKWARD ? d[e] * gelu_slope(in[e], tanh_form) : gelu(in[e], tanh_form);
        }
        store_group(y, at, count, in);
    }
}

template <typename T, bool BACKWARD>
static void launch_gelu(cudaStream_t stream, const haul_tensor *dy, const haul_tensor *x,
                        const haul_tensor *y, bool tanh_form) {
    int64_t count = haul_tensor_count(y);
    gelu_kernel<T, BACKWARD><<<group_blocks<T>(1, count), THREADS, 0, stream>>>(
        dy == NULL ? NULL : (const T *)dy->data, (const T *)x->data, (T *)y->data, count,
        tanh_form);
}

void haul_cuda_gelu(haul_stream *stream, const void *args) {
    const haul_gelu_args *gelu_args = (const haul_gelu_args *)args;
    const haul_tensor *const tensors[] = {&gelu_args->x, &gelu_args->y};
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_GELU, tensors, 2, &narrow) ||
        haul_tensor_count(&gelu_args->y) == 0) {
        return;
    }
    cudaStream_t on = haul_cuda_stream_of(stream);
    if (narrow) {
        launch_gelu<bf16, false>(on, NULL, &gelu_args->x, &gelu_args->y, gelu_args->tanh);
    } else {
        launch_gelu<float, false>(on, NULL, &gelu_args->x, &gelu_args->y, gelu_args->tanh);
    }
    haul_cuda_check_launch(stream, HAUL_OP_GELU);
}

void haul_cuda_gelu_backward(haul_stream *stream, const void *args) {
    const haul_gelu_backward_args *back = (const haul_gelu_backward_args *)args;
    const haul_tensor *const tensors[] = {&back->dy, &back->x, &back->dx};
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_GELU_BACKWARD, tensors, 3, &narrow) ||
        haul_tensor_count(&back->dx) == 0) {
        return;
    }
    cudaStream_t on = haul_cuda_stream_of(stream);
    if (narrow) {
        launch_gelu<bf16, true>(on, &back->dy, &back->x, &back->dx, back->tanh);
    } else {
        launch_gelu<float, true>(on, &back->dy, &back->x, &back->dx, back->tanh);
    }
    haul_cuda_check_launch(stream, HAUL_OP_GELU_BACKWARD);
}

/* --- rope ----------------------------------------------------------------------------------- */

struct rope_shape {
    int64_t columns, sequence_length, position_offset;
    int heads, head_size, half, groups; /* groups of GROUP pairs in a head */
};

/* The turns of pairs [at, at + GROUP) of a position; `row` starts at an even place of the table
 * where half is even. */
template <int WIDTH>
static __device__ __forceinline__ void load_turns(const float2 *row, int at, int half,
                                                  float2 turn[WIDTH]) {
    if (half % 2 == 0 && at + WIDTH <= half) {
#pragma unroll
        for (int i = 0; i < WIDTH; i += 2) {
            float4 two = __ldg((const float4 *)(row + at + i));
            turn[i] = make_float2(two.x, two.y);
            turn[i + 1] = make_float2(two.z, two.w);
        }
    } else {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            turn[i] = at + i < half ? row[at + i] : make_float2(1.0f, 0.0f);
        }
    }
}

/* A block turns a row, a thread a group of pairs. */
template <typename T>
static __global__ void rope_kernel(T *x, const float2 *table, int64_t rows, rope_shape shape,
                                   float sign) {
    const int width = group_of<T>::elements;
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        int64_t position = r % shape.sequence_length + shape.position_offset;
        const float2 *turns = table + position * shape.half;
        T *row = x + r * shape.columns;
        for (int item = threadIdx.x; item < shape.heads * shape.groups; item += blockDim.x) {
            int head = item / shape.groups, at = (item - head * shape.groups) * width;
            T *first = row + (int64_t)head * shape.head_size, *second = first + shape.half;
            float a[width], b[width], turned[width];
            float2 turn[width];
            load_group(first, at, shape.half, a);
            load_group(second, at, shape.half, b);
            load_turns<width>(turns, at, shape.half, turn);
#pragma unroll
            for (int i = 0; i < width; i++) {
                turned[i] = a[i] * turn[i].x - b[i] * (sign * turn[i].y);
                b[i] = b[i] * turn[i].x + a[i] * (sign * turn[i].y);
            }
            store_group(first, at, shape.half, turned);
            store_group(second, at, shape.half, b);
        }
    }
}

template <typename T> static void launch_rope(cudaStream_t stream, const haul_rope_args *rope) {
    const int width = group_of<T>::elements;
    rope_shape shape = {haul_tensor_columns(&rope->x),
                        rope->sequence_length,
                        rope->position_offset,
                        (int)rope->heads,
                        (int)rope->head_size,
                        (int)(rope->rotary_size / 2),
                        (int)((rope->rotary_size / 2 + width - 1) / width)};
    int64_t rows = haul_tensor_rows(&rope->x);
    int threads = row_threads((int64_t)shape.heads * shape.groups, 1, 512);
    rope_kernel<T><<<stride_blocks(rows, 1), threads, 0, stream>>>(
        (T *)rope->x.data, (const float2 *)rope->table.data, rows, shape,
        rope->inverse ? -1.0f : 1.0f);
}

void haul_cuda_rope(haul_stream *stream, const void *args) {
    const haul_rope_args *rope = (const haul_rope_args *)args;
    const haul_tensor *const activations[] = {&rope->x}, *const tables[] = {&rope->table};
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_ROPE, activations, 1, &narrow) ||
        !all_f32(stream, HAUL_OP_ROPE, tables, 1) ||
        haul_tensor_rows(&rope->x) * rope->heads * rope->rotary_size == 0) {
        return;
    }
    cudaStream_t on = haul_cuda_stream_of(stream);
    narrow ? launch_rope<bf16>(on, rope) : launch_rope<float>(on, rope);
    haul_cuda_check_launch(stream, HAUL_OP_ROPE);
}
