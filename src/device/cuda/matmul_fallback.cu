/* c = op(a) op(b) + bias for what cuBLASLt does not take. A block computes a tile of c; each
 * thread sums its elements over k in ascending order, so results repeat to the bit. */
#include "device/cuda/matmul.h"
#include "device/cuda/vector.cuh"

static const int TILE = 64, DEPTH = 16, THREADS = 256;
static const int SIDE = 4; /* rows and columns of c that a thread computes */

/* A matrix as one product reads it: element (i, j) is data[i * row + j * column]. */
typedef struct strided {
    const void *data;
    int64_t rows, columns, row, column;
} strided;

typedef struct plain_args {
    strided a, b;
    void *c;
    const void *bias; /* NULL: none */
    bool bias_narrow, accumulate;
    int64_t k;
} plain_args;

template <typename T>
static __device__ __forceinline__ float element(const strided &matrix, int64_t i, int64_t j) {
    return i < matrix.rows && j < matrix.columns
               ? to_float(((const T *)matrix.data)[i * matrix.row + j * matrix.column])
               : 0.0f;
}

/* Loads rows [i, i + TILE) and columns [k, k + DEPTH) of a matrix, neighbouring threads from
 * neighbouring addresses. */
template <typename T>
static __device__ __forceinline__ void load_tile(const strided &matrix, int64_t i, int64_t k,
                                                 float tile[DEPTH][TILE + 1]) {
    for (int at = threadIdx.x; at < TILE * DEPTH; at += THREADS) {
        int row = matrix.column == 1 ? at / DEPTH : at % TILE;
        int depth = matrix.column == 1 ? at % DEPTH : at / TILE;
        tile[depth][row] = element<T>(matrix, i + row, k + depth);
    }
}

template <typename C>
static __device__ __forceinline__ void store(const plain_args &args, int64_t i, int64_t j,
                                             float sum) {
    int64_t n = args.b.rows;
    if (i >= args.a.rows || j >= n) {
        return;
    }
    C *c = (C *)args.c + i * n + j;
    if (args.bias != NULL) {
        sum += args.bias_narrow ? to_float(((const bf16 *)args.bias)[j])
                                : ((const float *)args.bias)[j];
    }
    *c = from_float<C>(args.accumulate ? sum + to_float(*c) : sum);
}

/* b comes transposed: its rows are the columns of c. */
template <typename T, typename C>
static __global__ void __launch_bounds__(THREADS)
    plain_kernel(plain_args args, int64_t tiles_n, int64_t tiles) {
    __shared__ float a[DEPTH][TILE + 1], b[DEPTH][TILE + 1];
    int row = threadIdx.x / (TILE / SIDE), column = threadIdx.x % (TILE / SIDE);
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int64_t i = tile / tiles_n * TILE, j = tile % tiles_n * TILE;
        float sums[SIDE][SIDE] = {};
        for (int64_t k = 0; k < args.k; k += DEPTH) {
            load_tile<T>(args.a, i, k, a);
            load_tile<T>(args.b, j, k, b);
            __syncthreads();
#pragma unroll
            for (int depth = 0; depth < DEPTH; depth++) {
#pragma unroll
                for (int x = 0; x < SIDE; x++) {
#pragma unroll
                    for (int y = 0; y < SIDE; y++) {
                        sums[x][y] = fmaf(a[depth][row + x * (TILE / SIDE)],
                                          b[depth][column + y * (TILE / SIDE)], sums[x][y]);
                    }
                }
            }
            __syncthreads();
        }
#pragma unroll
        for (int x = 0; x < SIDE; x++) {
#pragma unroll
            for (int y = 0; y < SIDE; y++) {
                store<C>(args, i + row + x * (TILE / SIDE), j + column + y * (TILE / SIDE),
                         sums[x][y]);
            }
        }
    }
}

template <typename T, typename C>
static void launch_plain(cudaStream_t stream, const plain_args *args) {
    int64_t tiles_m = (args->a.rows + TILE - 1) / TILE, tiles_n = (args->b.rows + TILE - 1) / TILE;
    int64_t tiles = tiles_m * tiles_n;
    plain_kernel<T, C><<<stride_blocks(tiles, 1), THREADS, 0, stream>>>(*args, tiles_n, tiles);
}

/* A [rows, columns] matrix that lies in memory as it is, or transposed. */
static strided view(const haul_tensor *tensor, int64_t rows, int64_t columns, bool transposed) {
    strided result = {tensor->data, rows, columns, transposed ? 1 : columns, transposed ? rows : 1};
    return result;
}

extern "C" void haul_cuda_matmul_plain(haul_stream *stream, const haul_matmul_args *matmul) {
    const haul_tensor *a = &matmul->a, *c = &matmul->c, *bias = &matmul->bias;
    int64_t m = haul_tensor_rows(c), n = haul_tensor_columns(c);
    int64_t k = matmul->transpose_a ? haul_tensor_rows(a) : haul_tensor_columns(a);
    plain_args args = {};
    args.a = view(a, m, k, matmul->transpose_a);
    args.b = view(&matmul->b, n, k, !matmul->transpose_b);
    args.c = c->data;
    args.bias = haul_tensor_present(bias) ? bias->data : NULL;
    args.bias_narrow = bias->dtype == HAUL_BF16;
    args.accumulate = matmul->accumulate;
    args.k = k;
    cudaStream_t on = haul_cuda_stream_of(stream);
    bool narrow_operands = a->dtype == HAUL_BF16, narrow_output = c->dtype == HAUL_BF16;
    if (narrow_operands) {
        narrow_output ? launch_plain<bf16, bf16>(on, &args) : launch_plain<bf16, float>(on, &args);
    } else {
        narrow_output ? launch_plain<float, bf16>(on, &args)
                      : launch_plain<float, float>(on, &args);
    }
    haul_cuda_check_launch(stream, HAUL_OP_MATMUL);
}

static __global__ void spread_kernel(const bf16 *bias, bf16 *c, int64_t rows, int64_t columns) {
    const int width = group_of<bf16>::elements;
    int64_t at = (blockIdx.x * (int64_t)THREADS + threadIdx.x) * width;
    float group[width];
    if (at >= columns) {
        return;
    }
    load_group(bias, at, columns, group);
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        store_group(c + row * columns, at, columns, group);
    }
}

extern "C" cudaError_t haul_cuda_spread_bias(const void *bias, void *c, int64_t rows,
                                             int64_t columns, cudaStream_t stream) {
    const int64_t most = 1024; /* blocks down the rows: a thread writes several of them */
    int64_t groups = (columns + group_of<bf16>::elements - 1) / group_of<bf16>::elements;
    dim3 blocks((unsigned)((groups + THREADS - 1) / THREADS),
                (unsigned)(rows < most ? rows : most));
    spread_kernel<<<blocks, THREADS, 0, stream>>>((const bf16 *)bias, (bf16 *)c, rows, columns);
    return cudaGetLastError();
}
