#include "device/cuda/bits.cuh"
#include "device/cuda/kernels.h"
#include "device/cuda/philox.cuh"

#include <string.h>

static const int THREADS = 256;

/* --- fill ----------------------------------------------------------------------------------- */

template <typename T> static __global__ void fill_kernel(T *y, int64_t count, T value) {
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < count;
         i += gridDim.x * (int64_t)THREADS) {
        y[i] = value;
    }
}

template <typename T>
static void launch_fill(cudaStream_t stream, const haul_tensor *y, const void *bits) {
    int64_t count = haul_tensor_count(y);
    T value;
    memcpy(&value, bits, sizeof value);
    fill_kernel<T>
        <<<stride_blocks(count, THREADS), THREADS, 0, stream>>>((T *)y->data, count, value);
}

void haul_cuda_fill(haul_stream *stream, const void *args) {
    const haul_fill_args *fill = (const haul_fill_args *)args;
    cudaStream_t on = haul_cuda_stream_of(stream);
    uint64_t bits = 0;
    if (haul_tensor_count(&fill->y) == 0) {
        return;
    }
    haul_element_set(&bits, fill->y.dtype, 0, fill->value);
    switch (haul_dtype_size(fill->y.dtype)) {
    case 1:
        launch_fill<uint8_t>(on, &fill->y, &bits);
        break;
    case 2:
        launch_fill<uint16_t>(on, &fill->y, &bits);
        break;
    case 4:
        launch_fill<uint32_t>(on, &fill->y, &bits);
        break;
    default:
        launch_fill<uint64_t>(on, &fill->y, &bits);
    }
    haul_cuda_check_launch(stream, HAUL_OP_FILL);
}

/* --- copy ----------------------------------------------------------------------------------- */

static __device__ double widen(double x) {
    return x;
}

static __device__ double widen(float x) {
    return (double)x;
}

static __device__ double widen(bf16 x) {
    return (double)__bfloat162float(x);
}

static __device__ double widen(__half x) {
    return (double)__half2float(x);
}

/* To the short dtypes by way of f32, as haul_element_set does. */
static __device__ void narrow(double x, double *y) {
    *y = x;
}

static __device__ void narrow(double x, float *y) {
    *y = (float)x;
}

static __device__ void narrow(double x, bf16 *y) {
    *y = __float2bfloat16_rn((float)x);
}

static __device__ void narrow(double x, __half *y) {
    *y = __float2half_rn((float)x);
}

template <typename From, typename To>
static __global__ void copy_kernel(const From *x, int64_t x_stride, To *y, int64_t y_stride,
                                   int64_t rows, int64_t columns) {
    int64_t count = rows * columns;
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < count;
         i += gridDim.x * (int64_t)THREADS) {
        int64_t r = i / columns, c = i - r * columns;
        narrow(widen(x[r * x_stride + c]), y + r * y_stride + c);
    }
}

template <typename From, typename To>
static void launch_copy(cudaStream_t stream, const haul_copy_args *copy) {
    int64_t rows = haul_tensor_rows(&copy->y), columns = haul_tensor_columns(&copy->y);
    copy_kernel<From, To><<<stride_blocks(rows * columns, THREADS), THREADS, 0, stream>>>(
        (const From *)copy->x.data, copy->x_stride, (To *)copy->y.data, copy->y_stride, rows,
        columns);
}

template <typename From>
static bool launch_copy_from(cudaStream_t stream, const haul_copy_args *copy) {
    switch (copy->y.dtype) {
    case HAUL_F64:
        launch_copy<From, double>(stream, copy);
        return true;
    case HAUL_F32:
        launch_copy<From, float>(stream, copy);
        return true;
    case HAUL_BF16:
        launch_copy<From, bf16>(stream, copy);
        return true;
    case HAUL_F16:
        launch_copy<From, __half>(stream, copy);
        return true;
    default:
        return false;
    }
}

static bool launch_conversion(cudaStream_t stream, const haul_copy_args *copy) {
    switch (copy->x.dtype) {
    case HAUL_F64:
        return launch_copy_from<double>(stream, copy);
    case HAUL_F32:
        return launch_copy_from<float>(stream, copy);
    case HAUL_BF16:
        return launch_copy_from<bf16>(stream, copy);
    case HAUL_F16:
        return launch_copy_from<__half>(stream, copy);
    default:
        return false;
    }
}

void haul_cuda_copy(haul_stream *stream, const void *args) {
    const haul_copy_args *copy = (const haul_copy_args *)args;
    cudaStream_t on = haul_cuda_stream_of(stream);
    size_t size = (size_t)haul_dtype_size(copy->x.dtype);
    if (haul_tensor_count(&copy->y) == 0) {
        return;
    }
    if (copy->x.dtype == copy->y.dtype) {
        haul_cuda_check(stream, "copy",
                        cudaMemcpy2DAsync(copy->y.data, (size_t)copy->y_stride * size, copy->x.data,
                                          (size_t)copy->x_stride * size,
                                          (size_t)haul_tensor_columns(&copy->y) * size,
                                          (size_t)haul_tensor_rows(&copy->y), cudaMemcpyDefault,
                                          on));
    } else if (launch_conversion(on, copy)) {
        haul_cuda_check_launch(stream, HAUL_OP_COPY);
    } else {
        haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE, "copy on cuda: no conversion of %s to %s",
                         haul_dtype_name(copy->x.dtype), haul_dtype_name(copy->y.dtype));
    }
}

/* --- add ------------------------------------------------------------------------------------ */

/* A thread has two groups, whose loads are under way together. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    add_kernel(const T *a, const T *b, T *y, int64_t count) {
    const int width = group_of<T>::elements, groups = 2;
    int64_t first = (blockIdx.x * (int64_t)(THREADS * groups) + threadIdx.x) * width;
    uint4 lefts[groups], rights[groups];
#pragma unroll
    for (int g = 0; g < groups; g++) {
        lefts[g] = load_bits(a, first + g * THREADS * width, count);
        rights[g] = load_bits(b, first + g * THREADS * width, count);
    }
#pragma unroll
    for (int g = 0; g < groups; g++) {
        float left[width], right[width];
        unpack<T>(lefts[g], left);
        unpack<T>(rights[g], right);
#pragma unroll
        for (int i = 0; i < width; i++) {
            left[i] += right[i];
        }
        store_group(y, first + g * THREADS * width, count, left);
    }
}

template <typename T> static void launch_add(cudaStream_t stream, const haul_add_args *add) {
    int64_t count = haul_tensor_count(&add->y);
    int64_t of_block = 2 * THREADS * group_of<T>::elements;
    add_kernel<T><<<(unsigned)((count + of_block - 1) / of_block), THREADS, 0, stream>>>(
        (const T *)add->a.data, (const T *)add->b.data, (T *)add->y.data, count);
}

void haul_cuda_add(haul_stream *stream, const void *args) {
    const haul_add_args *add = (const haul_add_args *)args;
    const haul_tensor *const tensors[] = {&add->a, &add->b, &add->y};
    bool narrow_dtype;
    if (!same_dtype(stream, HAUL_OP_ADD, tensors, 3, &narrow_dtype) ||
        haul_tensor_count(&add->y) == 0) {
        return;
    }
    cudaStream_t on = haul_cuda_stream_of(stream);
    narrow_dtype ? launch_add<bf16>(on, add) : launch_add<float>(on, add);
    haul_cuda_check_launch(stream, HAUL_OP_ADD);
}

/* --- dropout -------------------------------------------------------------------------------- */

/* A thread has four elements of a sample, which one random number serves. */
template <typename T>
static __global__ void dropout_kernel(const T *x, T *y, int64_t samples, int64_t elements,
                                      dropout_rule rule) {
    int64_t quads = (elements + 3) / 4;
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < samples * quads;
         i += gridDim.x * (int64_t)THREADS) {
        int64_t sample = i / quads, quad = i - sample * quads, at = sample * elements + 4 * quad;
        float4 kept = dropout_factors(rule, sample, quad);
        const float factors[4] = {kept.x, kept.y, kept.z, kept.w};
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (4 * quad + e < elements) {
                float value = to_float(x[at + e]);
                y[at + e] = from_float<T>(factors[e] == 0.0f ? 0.0f : value * factors[e]);
            }
        }
    }
}

template <typename T>
static void launch_dropout(cudaStream_t stream, const haul_dropout_args *dropout) {
    int64_t rows = haul_tensor_rows(&dropout->x);
    int64_t samples = rows / dropout->sequence_length;
    int64_t elements = dropout->sequence_length * haul_tensor_columns(&dropout->x);
    dropout_kernel<T>
        <<<stride_blocks(samples * ((elements + 3) / 4), THREADS), THREADS, 0, stream>>>(
            (const T *)dropout->x.data, (T *)dropout->y.data, samples, elements,
            make_dropout(&dropout->dropout));
}

void haul_cuda_dropout(haul_stream *stream, const void *args) {
    const haul_dropout_args *dropout = (const haul_dropout_args *)args;
    const haul_tensor *const tensors[] = {&dropout->x, &dropout->y};
    bool narrow_dtype;
    if (!same_dtype(stream, HAUL_OP_DROPOUT, tensors, 2, &narrow_dtype) ||
        haul_tensor_count(&dropout->x) == 0) {
        return;
    }
    cudaStream_t on = haul_cuda_stream_of(stream);
    narrow_dtype ? launch_dropout<bf16>(on, dropout) : launch_dropout<float>(on, dropout);
    haul_cuda_check_launch(stream, HAUL_OP_DROPOUT);
}
