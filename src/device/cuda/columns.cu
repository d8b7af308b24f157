#include "device/cuda/columns.cuh"
#include "device/cuda/kernels.h"
#include "device/cuda/vector.cuh"

static const int THREADS = 256, ROWS_OF_BLOCK = 64, SUM_LANES = 8, SUM_COLUMNS = 32;

/* A block sums 32 columns; of the rows, eight threads take every eighth, and their sums are added
 * in order. */
static __global__ void sum_rows_kernel(const float *partial, int64_t rows, int64_t columns,
                                       float *out, bool accumulate) {
    __shared__ float sums[SUM_LANES][SUM_COLUMNS];
    int64_t c = blockIdx.x * (int64_t)SUM_COLUMNS + threadIdx.x;
    float sum = 0.0f;
    for (int64_t r = threadIdx.y; r < rows && c < columns; r += SUM_LANES) {
        sum += partial[r * columns + c];
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && c < columns) {
        for (int lane = 1; lane < SUM_LANES; lane++) {
            sum += sums[lane][threadIdx.x];
        }
        out[c] = accumulate ? out[c] + sum : sum;
    }
}

void launch_sum_rows(cudaStream_t stream, const float *partial, int64_t rows, int64_t columns,
                     float *out, bool accumulate) {
    dim3 threads(SUM_COLUMNS, SUM_LANES);
    unsigned blocks = (unsigned)((columns + SUM_COLUMNS - 1) / SUM_COLUMNS);
    sum_rows_kernel<<<blocks, threads, 0, stream>>>(partial, rows, columns, out, accumulate);
}

/* A thread sums one group of columns over the rows of its block. */
template <typename T>
static __global__ void partial_columns_kernel(const T *dy, int64_t rows, int64_t columns,
                                              float *partial) {
    const int width = group_of<T>::elements;
    int64_t at = (blockIdx.x * (int64_t)THREADS + threadIdx.x) * width;
    int64_t first = blockIdx.y * (int64_t)ROWS_OF_BLOCK;
    int64_t last = first + ROWS_OF_BLOCK < rows ? first + ROWS_OF_BLOCK : rows;
    float sum[width] = {};
    if (at >= columns) {
        return;
    }
#pragma unroll 4
    for (int64_t r = first; r < last; r++) {
        float row[width];
        load_group(dy + r * columns, at, columns, row);
#pragma unroll
        for (int e = 0; e < width; e++) {
            sum[e] += row[e];
        }
    }
#pragma unroll
    for (int e = 0; e < width; e++) {
        if (at + e < columns) {
            partial[blockIdx.y * columns + at + e] = sum[e];
        }
    }
}

static int64_t row_blocks(int64_t rows) {
    return (rows + ROWS_OF_BLOCK - 1) / ROWS_OF_BLOCK;
}

int64_t haul_cuda_bias_backward_workspace(haul_device *device, const void *args) {
    const haul_bias_backward_args *bias = (const haul_bias_backward_args *)args;
    (void)device;
    return row_blocks(haul_tensor_rows(&bias->dy)) * haul_tensor_columns(&bias->dy) *
           (int64_t)sizeof(float);
}

template <typename T>
static void launch_partial(cudaStream_t stream, const haul_tensor *dy, float *partial) {
    int64_t rows = haul_tensor_rows(dy), columns = haul_tensor_columns(dy);
    int64_t step = THREADS * group_of<T>::elements;
    dim3 blocks((unsigned)((columns + step - 1) / step), (unsigned)row_blocks(rows));
    partial_columns_kernel<T>
        <<<blocks, THREADS, 0, stream>>>((const T *)dy->data, rows, columns, partial);
}

void haul_cuda_bias_backward(haul_stream *stream, const void *args) {
    const haul_bias_backward_args *bias = (const haul_bias_backward_args *)args;
    const haul_tensor *const activations[] = {&bias->dy}, *const wide[] = {&bias->d_bias};
    int64_t rows = haul_tensor_rows(&bias->dy);
    float *partial = (float *)stream->scratch;
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_BIAS_BACKWARD, activations, 1, &narrow) ||
        !all_f32(stream, HAUL_OP_BIAS_BACKWARD, wide, 1) || haul_tensor_count(&bias->dy) == 0) {
        return;
    }
    if (row_blocks(rows) > 65535) {
        haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE, "bias_backward on cuda: too many rows");
        return;
    }
    cudaStream_t on = haul_cuda_stream_of(stream);
    narrow ? launch_partial<bf16>(on, &bias->dy, partial)
           : launch_partial<float>(on, &bias->dy, partial);
    launch_sum_rows(on, partial, row_blocks(rows), haul_tensor_columns(&bias->dy),
                    (float *)bias->d_bias.data, bias->accumulate);
    haul_cuda_check_launch(stream, HAUL_OP_BIAS_BACKWARD);
}
