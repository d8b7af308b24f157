/* c = op(a) op(b) + bias for what cuBLASLt does not take. A block computes a tile of c; each
 * thread sums its elements over k in ascending order, so results repeat to the bit. */
#include "device/cuda/matmul.h"
#include "device/cuda/vector.cuh"

static const int TILE = 64, DEPTH = 16, THREADS = 256;
static const int SIDE = 4; /* rows and columns of c that a thread computes */

typedef struct code {
    uint8_t bits;
} code;

/* A matrix as one product reads it: element (i, j) is data[i * row + j * column], of FP8 codes
 * times scales[i / block_rows * scale_row + j / 128 * scale_column]. */
typedef struct strided {
    const void *data;
    int64_t rows, columns, row, column;
    const float *scales;
    int64_t block_rows, scale_row, scale_column;
    bool e5m2;
} strided;

typedef struct plain_args {
    strided a, b;
    void *c;
    const void *bias; /* NULL: none */
    bool bias_narrow, accumulate;
    int64_t k;
} plain_args;

template <typename T>
static __device__ __forceinline__ float value(const strided &matrix, int64_t i, int64_t j) {
    return to_float(((const T *)matrix.data)[i * matrix.row + j * matrix.column]);
}

template <>
__device__ __forceinline__ float value<code>(const strided &matrix, int64_t i, int64_t j) {
    uint8_t bits = ((const uint8_t *)matrix.data)[i * matrix.row + j * matrix.column];
    __half_raw half = __nv_cvt_fp8_to_halfraw(bits, matrix.e5m2 ? __NV_E5M2 : __NV_E4M3);
    float scale = matrix.scales[i / matrix.block_rows * matrix.scale_row +
                                j / HAUL_SCALING_BLOCK * matrix.scale_column];
    return __half2float(__half(half)) * scale;
}

template <typename T>
static __device__ __forceinline__ float element(const strided &matrix, int64_t i, int64_t j) {
    return i < matrix.rows && j < matrix.columns ? value<T>(matrix, i, j) : 0.0f;
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
    strided result = {};
    result.data = tensor->data;
    result.rows = rows;
    result.columns = columns;
    result.row = transposed ? 1 : columns;
    result.column = transposed ? rows : 1;
    return result;
}

/* Where the scales of the codes in `matrix` are. */
static void scale_view(strided *matrix, const haul_tensor *codes, haul_scaling scaling,
                       const haul_tensor *scales) {
    matrix->e5m2 = codes->dtype == HAUL_E5M2;
    matrix->scales = (const float *)scales->data;
    matrix->block_rows = scaling == HAUL_SCALING_BLOCKS ? HAUL_SCALING_BLOCK : 1;
    if (scaling == HAUL_SCALING_ROWS) {
        matrix->scale_row = 1;
        matrix->scale_column = haul_tensor_columns(scales);
    } else if (scaling == HAUL_SCALING_BLOCKS) {
        matrix->scale_row = haul_tensor_columns(scales);
        matrix->scale_column = 1;
    }
}

template <typename T>
static void launch_plain_to(cudaStream_t stream, const plain_args *args, bool narrow) {
    narrow ? launch_plain<T, bf16>(stream, args) : launch_plain<T, float>(stream, args);
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
    bool narrow = c->dtype == HAUL_BF16;
    if (matmul->a_scaling != HAUL_SCALING_NONE) {
        scale_view(&args.a, a, matmul->a_scaling, &matmul->a_scales);
        scale_view(&args.b, &matmul->b, matmul->b_scaling, &matmul->b_scales);
        launch_plain_to<code>(on, &args, narrow);
    } else if (a->dtype == HAUL_BF16) {
        launch_plain_to<bf16>(on, &args, narrow);
    } else {
        launch_plain_to<float>(on, &args, narrow);
    }
    haul_cuda_check_launch(stream, HAUL_OP_MATMUL);
}
