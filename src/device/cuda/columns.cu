#include "device/cuda/bits.cuh"
#include "device/cuda/columns.cuh"
#include "device/cuda/kernels.h"

/* --- partial sums --------------------------------------------------------------------------- */

static const int SUM_LANES = 32, SUM_COLUMNS = 32;

/* A block sums 32 columns; of the rows, a warp takes every 32nd, and the warps' sums are added in
 * order. */
static __global__ void __launch_bounds__(SUM_LANES *SUM_COLUMNS)
    sum_rows_kernel(const float *partial, int64_t rows, int64_t columns, float *out, float *second,
                    bool accumulate) {
    __shared__ float sums[SUM_LANES][SUM_COLUMNS];
    int64_t c = blockIdx.x * (int64_t)SUM_COLUMNS + threadIdx.x;
    float sum = 0.0f;
    if (blockIdx.y == 1) {
        partial += rows * columns;
        out = second;
    }
    if (c < columns) {
#pragma unroll 8
        for (int64_t r = threadIdx.y; r < rows; r += SUM_LANES) {
            sum += partial[r * columns + c];
        }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && c < columns) {
#pragma unroll
        for (int lane = 1; lane < SUM_LANES; lane++) {
            sum += sums[lane][threadIdx.x];
        }
        out[c] = accumulate ? out[c] + sum : sum;
    }
}

void launch_sum_rows(cudaStream_t stream, const float *partial, int64_t rows, int64_t columns,
                     float *out, float *second, bool accumulate) {
    dim3 threads(SUM_COLUMNS, SUM_LANES);
    dim3 blocks((unsigned)((columns + SUM_COLUMNS - 1) / SUM_COLUMNS), second == NULL ? 1 : 2);
    sum_rows_kernel<<<blocks, threads, 0, stream>>>(partial, rows, columns, out, second,
                                                    accumulate);
}

/* --- bias_backward -------------------------------------------------------------------------- */

static const int WARPS = 8;
static const int BLOCKS = 4; /* on a multiprocessor */

/* A block has 32 groups of columns and a range of rows, of which a warp takes every eighth, with
 * several under way at once. */
template <typename T>
static __global__ void __launch_bounds__(32 * WARPS)
    partial_columns_kernel(const T *dy, int64_t rows, int64_t columns, float *partial) {
    const int width = group_of<T>::elements, tile = 32 * width;
    __shared__ float sums[WARPS][tile];
    int64_t left = blockIdx.x * (int64_t)tile, at = left + threadIdx.x * width;
    int64_t first = rows * blockIdx.y / gridDim.y, last = rows * (blockIdx.y + 1) / gridDim.y;
    float sum[width] = {};
    bool aligned = aligned16(dy) && columns % width == 0;
    if (aligned && at < columns) {
#pragma unroll 8
        for (int64_t r = first + threadIdx.y; r < last; r += WARPS) {
            float row[width];
            unpack<T>(*(const uint4 *)(dy + r * columns + at), row);
#pragma unroll
            for (int e = 0; e < width; e++) {
                sum[e] += row[e];
            }
        }
    } else if (!aligned) {
        for (int64_t r = first + threadIdx.y; r < last; r += WARPS) {
            float row[width];
            load_group(dy + r * columns, at, columns, row);
#pragma unroll
            for (int e = 0; e < width; e++) {
                sum[e] += row[e];
            }
        }
    }
#pragma unroll
    for (int e = 0; e < width; e++) {
        sums[threadIdx.y][threadIdx.x * width + e] = sum[e];
    }
    __syncthreads();
    for (int c = threadIdx.y * 32 + threadIdx.x; c < tile && left + c < columns; c += 32 * WARPS) {
        float total = 0.0f;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++) {
            total += sums[warp][c];
        }
        partial[blockIdx.y * columns + left + c] = total;
    }
}

/* Blocks side by side, and of rows: as many as the card has room for at once. */
static dim3 partial_blocks(const haul_device *device, const haul_tensor *dy) {
    int64_t tile = 32 * 16 / haul_dtype_size(dy->dtype);
    int64_t wide = max((haul_tensor_columns(dy) + tile - 1) / tile, (int64_t)1);
    int64_t room = BLOCKS * (int64_t)haul_cuda_device_of(device)->multiprocessors;
    int64_t high = min(max(room / wide, (int64_t)1), haul_tensor_rows(dy));
    return dim3((unsigned)wide, (unsigned)high);
}

int64_t haul_cuda_bias_backward_workspace(haul_device *device, const void *args) {
    const haul_bias_backward_args *bias = (const haul_bias_backward_args *)args;
    return partial_blocks(device, &bias->dy).y * haul_tensor_columns(&bias->dy) *
           (int64_t)sizeof(float);
}

template <typename T>
static void launch_partial(cudaStream_t stream, dim3 blocks, const haul_tensor *dy,
                           float *partial) {
    partial_columns_kernel<T><<<blocks, dim3(32, WARPS), 0, stream>>>(
        (const T *)dy->data, haul_tensor_rows(dy), haul_tensor_columns(dy), partial);
}

void haul_cuda_bias_backward(haul_stream *stream, const void *args) {
    const haul_bias_backward_args *bias = (const haul_bias_backward_args *)args;
    const haul_tensor *const activations[] = {&bias->dy}, *const wide[] = {&bias->d_bias};
    float *partial = (float *)stream->scratch;
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_BIAS_BACKWARD, activations, 1, &narrow) ||
        !all_f32(stream, HAUL_OP_BIAS_BACKWARD, wide, 1) || haul_tensor_count(&bias->dy) == 0) {
        return;
    }
    cudaStream_t on = haul_cuda_stream_of(stream);
    dim3 blocks = partial_blocks(stream->device, &bias->dy);
    narrow ? launch_partial<bf16>(on, blocks, &bias->dy, partial)
           : launch_partial<float>(on, blocks, &bias->dy, partial);
    launch_sum_rows(on, partial, blocks.y, haul_tensor_columns(&bias->dy),
                    (float *)bias->d_bias.data, NULL, bias->accumulate);
    haul_cuda_check_launch(stream, HAUL_OP_BIAS_BACKWARD);
}
