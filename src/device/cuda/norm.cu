/* A block has a row in registers: each input is read once, each output written once. */
#include "device/cuda/columns.cuh"
#include "device/cuda/kernels.h"
#include "device/cuda/vector.cuh"

/* Threads of a block, and groups of a thread, at most: rows of 16384 bf16 or 8192 f32. */
static const int MOST_THREADS = 512;

struct norm_shape {
    int64_t rows, columns;
    float epsilon;
    bool layer; /* else RMS */
};

static int groups_of_thread(int64_t columns, int width) {
    int threads = row_threads(columns, width, MOST_THREADS);
    return (int)((columns + (int64_t)threads * width - 1) / ((int64_t)threads * width));
}

/* --- forward -------------------------------------------------------------------------------- */

template <typename T, int GROUPS>
static __global__ void norm_kernel(const T *x, const T *addend, T *sum, const T *weight,
                                   const T *bias, T *y, float2 *statistics, norm_shape shape) {
    const int width = group_of<T>::elements;
    __shared__ float shared[32];
    int64_t row = blockIdx.x, offset = row * shape.columns;
    float s[GROUPS][width], total = 0.0f;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int64_t at = (threadIdx.x + (int64_t)g * blockDim.x) * width;
        load_group(x + offset, at, shape.columns, s[g]);
        if (addend != NULL) {
            float more[width];
            load_group(addend + offset, at, shape.columns, more);
#pragma unroll
            for (int e = 0; e < width; e++) {
                s[g][e] = to_float(from_float<T>(s[g][e] + more[e]));
            }
            store_group(sum + offset, at, shape.columns, s[g]);
        }
#pragma unroll
        for (int e = 0; e < width; e++) {
            total += s[g][e];
        }
    }
    float mean = shape.layer ? block_sum(total, shared) / (float)shape.columns : 0.0f;
    float squares = 0.0f;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int64_t at = (threadIdx.x + (int64_t)g * blockDim.x) * width;
#pragma unroll
        for (int e = 0; e < width; e++) {
            float centered = at + e < shape.columns ? s[g][e] - mean : 0.0f;
            squares += centered * centered;
        }
    }
    float rstd = 1.0f / sqrtf(block_sum(squares, shared) / (float)shape.columns + shape.epsilon);
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int64_t at = (threadIdx.x + (int64_t)g * blockDim.x) * width;
        float w[width], b[width];
        load_group(weight, at, shape.columns, w);
        if (bias != NULL) {
            load_group(bias, at, shape.columns, b);
        }
#pragma unroll
        for (int e = 0; e < width; e++) {
            s[g][e] = (s[g][e] - mean) * rstd * w[e] + (bias != NULL ? b[e] : 0.0f);
        }
        store_group(y + offset, at, shape.columns, s[g]);
    }
    if (threadIdx.x == 0) {
        statistics[row] = make_float2(mean, rstd);
    }
}

template <typename T, int GROUPS>
static void launch_norm(cudaStream_t stream, const haul_norm_args *norm) {
    norm_shape shape = {haul_tensor_rows(&norm->y), haul_tensor_columns(&norm->y),
                        (float)norm->epsilon, norm->kind == HAUL_NORM_LAYER};
    int threads = row_threads(shape.columns, group_of<T>::elements, MOST_THREADS);
    norm_kernel<T, GROUPS><<<(unsigned)shape.rows, threads, 0, stream>>>(
        (const T *)norm->x.data,
        haul_tensor_present(&norm->addend) ? (const T *)norm->addend.data : NULL,
        (T *)norm->sum.data, (const T *)norm->weight.data,
        haul_tensor_present(&norm->bias) ? (const T *)norm->bias.data : NULL, (T *)norm->y.data,
        (float2 *)norm->statistics.data, shape);
}

template <typename T> static bool choose_norm(cudaStream_t stream, const haul_norm_args *norm) {
    int groups = groups_of_thread(haul_tensor_columns(&norm->y), group_of<T>::elements);
    if (groups > 4) {
        return false;
    }
    groups == 1   ? launch_norm<T, 1>(stream, norm)
    : groups == 2 ? launch_norm<T, 2>(stream, norm)
                  : launch_norm<T, 4>(stream, norm);
    return true;
}

static void fail_width(haul_stream *stream, haul_op op, int64_t columns) {
    haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE,
                     "%s on cuda takes rows of at most 16384 bf16 or 8192 f32, not %lld",
                     haul_op_name(op), (long long)columns);
}

void haul_cuda_norm(haul_stream *stream, const void *args) {
    const haul_norm_args *norm = (const haul_norm_args *)args;
    const haul_tensor *const activations[] = {&norm->y,   &norm->x,      &norm->addend,
                                              &norm->sum, &norm->weight, &norm->bias};
    const haul_tensor *const wide[] = {&norm->statistics};
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_NORM, activations, 6, &narrow) ||
        !all_f32(stream, HAUL_OP_NORM, wide, 1) || haul_tensor_count(&norm->y) == 0) {
        return;
    }
    cudaStream_t on = haul_cuda_stream_of(stream);
    if (narrow ? !choose_norm<bf16>(on, norm) : !choose_norm<float>(on, norm)) {
        fail_width(stream, HAUL_OP_NORM, haul_tensor_columns(&norm->y));
        return;
    }
    haul_cuda_check_launch(stream, HAUL_OP_NORM);
}

/* --- backward ------------------------------------------------------------------------------- */

struct norm_pointers {
    const void *dy, *s, *weight, *residual;
    void *dx;
    const float2 *statistics;
    float *partial; /* [blocks, columns] for the weight, then the same for the bias */
    bool bias;
};

/* Groups of a row that registers hold beside the sums; more are read again, from the cache, once
 * the means are known. */
static const int HELD = 2;

template <typename T>
static __device__ __forceinline__ void load_terms(const norm_pointers &p, int64_t offset, int at,
                                                  int64_t columns, float2 moments,
                                                  float n[group_of<T>::elements],
                                                  float dy[group_of<T>::elements],
                                                  float w[group_of<T>::elements]) {
    load_group((const T *)p.s + offset, at, columns, n);
    load_group((const T *)p.dy + offset, at, columns, dy);
    load_group((const T *)p.weight, at, columns, w);
#pragma unroll
    for (int e = 0; e < group_of<T>::elements; e++) {
        n[e] = e < (int)columns - at ? (n[e] - moments.x) * moments.y : 0.0f;
    }
}

/* Block b has rows b, b + blocks, ...: it sums d_weight and d_bias over them in registers. With
 * n = (s - mean) rstd and g = weight dy: dx = residual + rstd (g - mean(g n) n - mean(g)). */
template <typename T, int GROUPS>
static __global__ void __launch_bounds__(512)
    norm_backward_kernel(norm_pointers p, norm_shape shape) {
    const int width = group_of<T>::elements;
    __shared__ float shared[32], shared_too[32];
    float weight_sum[GROUPS][width] = {}, bias_sum[GROUPS][width] = {};
    for (int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
        int64_t offset = row * shape.columns;
        float2 moments = p.statistics[row]; /* mean, rstd */
        float n[GROUPS][width], g[GROUPS][width], g_total = 0.0f, gn_total = 0.0f;
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            int at = (int)(threadIdx.x + k * blockDim.x) * width;
            float w[width];
            load_terms<T>(p, offset, at, shape.columns, moments, n[k], g[k], w);
#pragma unroll
            for (int e = 0; e < width; e++) {
                weight_sum[k][e] += g[k][e] * n[k][e];
                bias_sum[k][e] += g[k][e];
                g[k][e] *= w[e];
                g_total += g[k][e];
                gn_total += g[k][e] * n[k][e];
            }
        }
        float gn_mean = block_sum(gn_total, shared) / (float)shape.columns;
        float g_mean = shape.layer ? block_sum(g_total, shared_too) / (float)shape.columns : 0.0f;
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            int at = (int)(threadIdx.x + k * blockDim.x) * width;
            float more[width] = {};
            if (p.residual != NULL) {
                load_group((const T *)p.residual + offset, at, shape.columns, more);
            }
            if (GROUPS > HELD) {
                float w[width];
                asm volatile("" : "+r"(at)); /* else the compiler keeps what it has read */
                load_terms<T>(p, offset, at, shape.columns, moments, n[k], g[k], w);
#pragma unroll
                for (int e = 0; e < width; e++) {
                    g[k][e] *= w[e];
                }
            }
#pragma unroll
            for (int e = 0; e < width; e++) {
                more[e] += moments.y * (g[k][e] - g_mean - n[k][e] * gn_mean);
            }
            store_group((T *)p.dx + offset, at, shape.columns, more);
        }
    }
    float *weight_row = p.partial + (int64_t)blockIdx.x * shape.columns;
    float *bias_row = weight_row + (int64_t)gridDim.x * shape.columns;
#pragma unroll
    for (int k = 0; k < GROUPS; k++) {
        int at = (int)(threadIdx.x + k * blockDim.x) * width;
#pragma unroll
        for (int e = 0; e < width; e++) {
            if (e < (int)shape.columns - at) {
                weight_row[at + e] = weight_sum[k][e];
                if (p.bias) {
                    bias_row[at + e] = bias_sum[k][e];
                }
            }
        }
    }
}

static int64_t backward_blocks(const haul_device *device, int64_t rows) {
    int64_t most = 2 * haul_cuda_device_of(device)->multiprocessors;
    return rows < most ? rows : most;
}

int64_t haul_cuda_norm_backward_workspace(haul_device *device, const void *args) {
    const haul_norm_backward_args *norm = (const haul_norm_backward_args *)args;
    return 2 * backward_blocks(device, haul_tensor_rows(&norm->dy)) *
           haul_tensor_columns(&norm->dy) * (int64_t)sizeof(float);
}

template <typename T, int GROUPS>
static void launch_norm_backward(haul_stream *stream, const haul_norm_backward_args *norm) {
    norm_shape shape = {haul_tensor_rows(&norm->dy), haul_tensor_columns(&norm->dy), 0.0f,
                        norm->kind == HAUL_NORM_LAYER};
    norm_pointers p = {norm->dy.data,
                       norm->s.data,
                       norm->weight.data,
                       haul_tensor_present(&norm->residual) ? norm->residual.data : NULL,
                       norm->dx.data,
                       (const float2 *)norm->statistics.data,
                       (float *)stream->scratch,
                       haul_tensor_present(&norm->d_bias)};
    cudaStream_t on = haul_cuda_stream_of(stream);
    int64_t blocks = backward_blocks(stream->device, shape.rows);
    int threads = row_threads(shape.columns, group_of<T>::elements, MOST_THREADS);
    norm_backward_kernel<T, GROUPS><<<(unsigned)blocks, threads, 0, on>>>(p, shape);
    launch_sum_rows(on, p.partial, blocks, shape.columns, (float *)norm->d_weight.data,
                    norm->accumulate);
    if (p.bias) {
        launch_sum_rows(on, p.partial + blocks * shape.columns, blocks, shape.columns,
                        (float *)norm->d_bias.data, norm->accumulate);
    }
}

template <typename T>
static bool choose_norm_backward(haul_stream *stream, const haul_norm_backward_args *norm) {
    int groups = groups_of_thread(haul_tensor_columns(&norm->dy), group_of<T>::elements);
    if (groups > 4) {
        return false;
    }
    groups == 1   ? launch_norm_backward<T, 1>(stream, norm)
    : groups == 2 ? launch_norm_backward<T, 2>(stream, norm)
                  : launch_norm_backward<T, 4>(stream, norm);
    return true;
}

void haul_cuda_norm_backward(haul_stream *stream, const void *args) {
    const haul_norm_backward_args *norm = (const haul_norm_backward_args *)args;
    const haul_tensor *const activations[] = {&norm->dy, &norm->s, &norm->weight, &norm->residual,
                                              &norm->dx};
    const haul_tensor *const wide[] = {&norm->statistics, &norm->d_weight, &norm->d_bias};
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_NORM_BACKWARD, activations, 5, &narrow) ||
        !all_f32(stream, HAUL_OP_NORM_BACKWARD, wide, 3) || haul_tensor_count(&norm->dy) == 0) {
        return;
    }
    if (narrow ? !choose_norm_backward<bf16>(stream, norm)
               : !choose_norm_backward<float>(stream, norm)) {
        fail_width(stream, HAUL_OP_NORM_BACKWARD, haul_tensor_columns(&norm->dy));
        return;
    }
    haul_cuda_check_launch(stream, HAUL_OP_NORM_BACKWARD);
}
