/* What the kernels of the plugin share: groups of 16 bytes, sums over a block, checks of dtypes.
 *
 * A row is cut into groups of GROUP elements, which thread t of a block owns in turn: t, t +
 * threads,
 * ... Who owns what depends on the shape alone, so sums do not depend on how memory is aligned. */
#ifndef HAUL_DEVICE_CUDA_VECTOR_CUH
#define HAUL_DEVICE_CUDA_VECTOR_CUH

#include "device/cuda/cuda.h"

#include <stdint.h>

typedef __nv_bfloat16 bf16;

template <typename T> struct group_of { static const int elements = 16 / sizeof(T); };

static __device__ __forceinline__ float to_float(float x) {
    return x;
}

static __device__ __forceinline__ float to_float(bf16 x) {
    return __bfloat162float(x);
}

template <typename T> static __device__ __forceinline__ T from_float(float x);

template <> __device__ __forceinline__ float from_float<float>(float x) {
    return x;
}

template <> __device__ __forceinline__ bf16 from_float<bf16>(float x) {
    return __float2bfloat16_rn(x);
}

static __device__ __forceinline__ bool aligned16(const void *p) {
    return ((uintptr_t)p & 15) == 0;
}

/* Elements [at, at + GROUP) of a row of `count`; 0 beyond its end. */
template <typename T>
static __device__ __forceinline__ void load_group(const T *row, int64_t at, int64_t count,
                                                  float out[group_of<T>::elements]) {
    const int width = group_of<T>::elements;
    if (at + width <= count && aligned16(row + at)) {
        uint4 bits = *(const uint4 *)(row + at);
        const T *values = (const T *)&bits;
#pragma unroll
        for (int i = 0; i < width; i++) {
            out[i] = to_float(values[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < width; i++) {
            out[i] = at + i < count ? to_float(row[at + i]) : 0.0f;
        }
    }
}

template <typename T>
static __device__ __forceinline__ void store_group(T *row, int64_t at, int64_t count,
                                                   const float in[group_of<T>::elements]) {
    const int width = group_of<T>::elements;
    if (at + width <= count && aligned16(row + at)) {
        uint4 bits;
        T *values = (T *)&bits;
#pragma unroll
        for (int i = 0; i < width; i++) {
            values[i] = from_float<T>(in[i]);
        }
        __stwb((uint4 *)(row + at), bits); /* an assignment may become four stores */
    } else {
#pragma unroll
        for (int i = 0; i < width; i++) {
            if (at + i < count) {
                row[at + i] = from_float<T>(in[i]);
            }
        }
    }
}

/* The sum over the threads of a block, in a fixed order, given to all of them. `shared` has 32
 * elements; calls with the same one need no barrier between them. */
template <typename S> static __device__ __forceinline__ S block_sum(S x, S *shared) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) {
        x += __shfl_xor_sync(0xffffffffu, x, step);
    }
    __syncthreads();
    if (lane == 0) {
        shared[warp] = x;
    }
    __syncthreads();
    S sum = shared[0];
    for (int w = 1; w < warps; w++) {
        sum += shared[w];
    }
    return sum;
}

/* Threads for a row of `columns`: whole warps, one group a thread where 1024 suffice. */
static inline int row_threads(int64_t columns, int group, int most) {
    int64_t groups = (columns + group - 1) / group, threads = (groups + 31) / 32 * 32;
    return (int)(threads < 32 ? 32 : threads > most ? most : threads);
}

/* Blocks of `threads` for `work` pieces, in a grid that strides. */
static inline unsigned stride_blocks(int64_t work, int threads) {
    int64_t blocks = (work + threads - 1) / threads, most = 1 << 20;
    return (unsigned)(blocks < most ? blocks : most);
}

/* True when the present tensors are all f32, or all bf16; *narrow tells which. */
static inline bool same_dtype(haul_stream *stream, haul_op op, const haul_tensor *const *tensors,
                              int count, bool *narrow) {
    haul_dtype dtype = tensors[0]->dtype;
    bool good = dtype == HAUL_F32 || dtype == HAUL_BF16;
    for (int i = 1; i < count; i++) {
        good = good && (!haul_tensor_present(tensors[i]) || tensors[i]->dtype == dtype);
    }
    if (!good) {
        haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE,
                         "%s on cuda takes activations of one dtype, f32 or bf16",
                         haul_op_name(op));
    }
    *narrow = dtype == HAUL_BF16;
    return good;
}

static inline bool all_f32(haul_stream *stream, haul_op op, const haul_tensor *const *tensors,
                           int count) {
    for (int i = 0; i < count; i++) {
        if (haul_tensor_present(tensors[i]) && tensors[i]->dtype != HAUL_F32) {
            haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE,
                             "%s on cuda takes f32 for what is not "
                             "an activation",
                             haul_op_name(op));
            return false;
        }
    }
    return true;
}

#endif
