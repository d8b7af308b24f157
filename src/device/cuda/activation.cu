#include "device/cuda/bits.cuh"
#include "device/cuda/kernels.h"

static const int THREADS = 256;

/* --- swiglu --------------------------------------------------------------------------------- */

static __device__ __forceinline__ float exp2_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Within 2 U, for what is not subnormal, nor its inverse. */
static __device__ __forceinline__ float inverse_of(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ __forceinline__ float sigmoid(float z) {
    return inverse_of(1.0f + expf(-z));
}

/* A block has blockDim.x groups of the F columns of two rows, a thread one group of each: so many
 * loads are under way at once. */
static const int ROWS_OF_BLOCK = 2;

struct swiglu_shape {
    int64_t rows, columns;
    unsigned column_blocks;
};

struct swiglu_place {
    int64_t row, at; /* the first of the rows, the first of the columns */
};

static __device__ __forceinline__ swiglu_place place_in(const swiglu_shape &shape, int width) {
    unsigned rows = blockIdx.x / shape.column_blocks;
    unsigned columns = blockIdx.x - rows * shape.column_blocks;
    return {rows * (int64_t)ROWS_OF_BLOCK, (columns * (int64_t)blockDim.x + threadIdx.x) * width};
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    swiglu_kernel(const T *x, T *y, swiglu_shape shape) {
    const int width = group_of<T>::elements;
    swiglu_place place = place_in(shape, width);
    uint4 gates[ROWS_OF_BLOCK], ups[ROWS_OF_BLOCK];
#pragma unroll
    for (int i = 0; i < ROWS_OF_BLOCK; i++) {
        const T *row = x + 2 * (place.row + i) * shape.columns;
        int64_t columns = place.row + i < shape.rows ? shape.columns : 0;
        gates[i] = load_bits(row, place.at, columns);
        ups[i] = load_bits(row + columns, place.at, columns);
    }
#pragma unroll
    for (int i = 0; i < ROWS_OF_BLOCK; i++) {
        int64_t columns = place.row + i < shape.rows ? shape.columns : 0;
        float gate[width], up[width];
        unpack<T>(gates[i], gate);
        unpack<T>(ups[i], up);
#pragma unroll
        for (int e = 0; e < width; e++) {
            gate[e] = gate[e] * sigmoid(gate[e]) * up[e];
        }
        store_group(y + (place.row + i) * shape.columns, place.at, columns, gate);
    }
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    swiglu_backward_kernel(const T *dy, const T *x, T *dx, swiglu_shape shape) {
    const int width = group_of<T>::elements;
    swiglu_place place = place_in(shape, width);
    uint4 gates[ROWS_OF_BLOCK], ups[ROWS_OF_BLOCK], ds[ROWS_OF_BLOCK];
#pragma unroll
    for (int i = 0; i < ROWS_OF_BLOCK; i++) {
        const T *row = x + 2 * (place.row + i) * shape.columns;
        int64_t columns = place.row + i < shape.rows ? shape.columns : 0;
        gates[i] = load_bits(row, place.at, columns);
        ups[i] = load_bits(row + columns, place.at, columns);
        ds[i] = load_bits(dy + (place.row + i) * shape.columns, place.at, columns);
    }
#pragma unroll
    for (int i = 0; i < ROWS_OF_BLOCK; i++) {
        T *row = dx + 2 * (place.row + i) * shape.columns;
        int64_t columns = place.row + i < shape.rows ? shape.columns : 0;
        float gate[width], up[width], d[width];
        unpack<T>(gates[i], gate);
        unpack<T>(ups[i], up);
        unpack<T>(ds[i], d);
#pragma unroll
        for (int e = 0; e < width; e++) {
            float s = sigmoid(gate[e]), silu = gate[e] * s;
            gate[e] = d[e] * up[e] * s * (1.0f + gate[e] * (1.0f - s));
            up[e] = d[e] * silu;
        }
        store_group(row, place.at, columns, gate);
        store_group(row + columns, place.at, columns, up);
    }
}

/* A grid for one of them: its blocks and threads. */
struct swiglu_grid {
    swiglu_shape shape;
    unsigned blocks;
    int threads;
};

static swiglu_grid grid_of(const haul_tensor *y, int width) {
    int64_t rows = haul_tensor_rows(y), columns = haul_tensor_columns(y);
    int64_t groups = (columns + width - 1) / width;
    int64_t column_blocks = (groups + THREADS - 1) / THREADS;
    int64_t row_blocks = (rows + ROWS_OF_BLOCK - 1) / ROWS_OF_BLOCK;
    return {{rows, columns, (unsigned)column_blocks},
            (unsigned)(column_blocks * row_blocks),
            row_threads((groups + column_blocks - 1) / column_blocks, 1, THREADS)};
}

template <typename T> static void launch_swiglu(cudaStream_t stream, const haul_swiglu_args *args) {
    swiglu_grid grid = grid_of(&args->y, group_of<T>::elements);
    swiglu_kernel<T><<<grid.blocks, grid.threads, 0, stream>>>((const T *)args->x.data,
                                                               (T *)args->y.data, grid.shape);
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
    swiglu_grid grid = grid_of(&args->dy, group_of<T>::elements);
    swiglu_backward_kernel<T><<<grid.blocks, grid.threads, 0, stream>>>(
        (const T *)args->dy.data, (const T *)args->x.data, (T *)args->dx.data, grid.shape);
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

static const float INVERSE_SQRT_TAU = 0.39894228040143268f; /* 1 / sqrt(2 pi) */
static const float SQRT_2_OVER_PI = 0.79788456080286536f;
static const float CUBIC = 0.044715f;
static const float LOG2_E = 1.44269504088896341f;

/* The distribution of a normal number at x, and exp(-x^2 / 2). The smaller tail is
 * exp(-x^2 / 2) t P(t), t = 1 / (1 + 0.35 |x|), the form of Abramowitz and Stegun 7.1.26; P is
 * fitted so that the tail is right within half a U, and within 6e-6 of itself. */
static __device__ __forceinline__ float2 normal_at(float x) {
    float t = inverse_of(__fmaf_rn(0.35f, fabsf(x), 1.0f));
    float bell = exp2_of(-0.5f * LOG2_E * x * x);
    float p = __fmaf_rn(0.0436766523104f, t, -0.180440865902f);
    p = __fmaf_rn(p, t, 0.204207528527f);
    p = __fmaf_rn(p, t, 0.0150512749301f);
    p = __fmaf_rn(p, t, 0.140202601933f);
    p = __fmaf_rn(p, t, 0.137596335714f);
    p = __fmaf_rn(p, t, 0.139706501476f);
    float tail = p * t * bell;
    return make_float2(x < 0.0f ? tail : 1.0f - tail, bell);
}

/* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), with u = sqrt(2 / pi) (x + CUBIC x^3). */
static __device__ __forceinline__ float tanh_half(float x) {
    const float first = -2.0f * LOG2_E * SQRT_2_OVER_PI, third = first * CUBIC;
    return inverse_of(1.0f + exp2_of(x * __fmaf_rn(third, x * x, first)));
}

template <bool TANH> static __device__ __forceinline__ float gelu(float x) {
    return x * (TANH ? tanh_half(x) : normal_at(x).x);
}

template <bool TANH> static __device__ __forceinline__ float gelu_slope(float x) {
    if (TANH) {
        float s = tanh_half(x);
        float twice = 2.0f * SQRT_2_OVER_PI * __fmaf_rn(3.0f * CUBIC, x * x, 1.0f); /* 2 du/dx */
        return s + x * twice * s * (1.0f - s);
    }
    float2 normal = normal_at(x);
    return normal.x + x * INVERSE_SQRT_TAU * normal.y;
}

/* y = gelu(x), or with dy, y = dy * slope(x). A thread has GROUPS groups, whose loads are under way
 * together. */
template <typename T, bool BACKWARD, bool TANH, int GROUPS>
static __global__ void __launch_bounds__(THREADS)
    gelu_kernel(const T *dy, const T *x, T *y, int64_t count) {
    const int width = group_of<T>::elements;
    int64_t first = (blockIdx.x * (int64_t)(THREADS * GROUPS) + threadIdx.x) * width;
    uint4 in[GROUPS], d[GROUPS];
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int64_t at = first + g * THREADS * width;
        in[g] = load_bits(x, at, count);
        if (BACKWARD) {
            d[g] = load_bits(dy, at, count);
        }
    }
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        float out[width], factor[width];
        unpack<T>(in[g], out);
        if (BACKWARD) {
            unpack<T>(d[g], factor);
        }
#pragma unroll
        for (int e = 0; e < width; e++) {
            out[e] = BACKWARD ? factor[e] * gelu_slope<TANH>(out[e]) : gelu<TANH>(out[e]);
        }
        store_group(y, first + g * THREADS * width, count, out);
    }
}

template <typename T, bool BACKWARD>
static void launch_gelu(cudaStream_t stream, const haul_tensor *dy, const haul_tensor *x,
                        const haul_tensor *y, bool tanh_form) {
    const int groups = BACKWARD ? 2 : 4;
    const int64_t step = (int64_t)THREADS * groups * group_of<T>::elements;
    int64_t count = haul_tensor_count(y);
    auto *kernel = tanh_form ? gelu_kernel<T, BACKWARD, true, groups>
                             : gelu_kernel<T, BACKWARD, false, groups>;
    kernel<<<(unsigned)((count + step - 1) / step), THREADS, 0, stream>>>(
        dy == NULL ? NULL : (const T *)dy->data, (const T *)x->data, (T *)y->data, count);
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
