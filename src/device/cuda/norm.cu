/* A team of threads has a row, each of its threads up to four groups of it: each input is read
 * once, each output written once. Rows of up to 128 groups (1024 bf16) have a warp as their team,
 * which needs no barrier; wider ones a block. */
#include "device/cuda/bits.cuh"
#include "device/cuda/columns.cuh"
#include "device/cuda/kernels.h"

static const int WARP = 32, BLOCK = 256, WIDE_BLOCK = 512;
static const int MOST_GROUPS = 4; /* of a thread: rows of 16384 bf16 or 8192 f32 */

struct norm_shape {
    int64_t rows, columns;
    float epsilon;
    bool layer; /* else RMS */
};

/* Threads of a block whose teams have TEAM threads. */
static __host__ __device__ constexpr int block_of(int team) {
    return team > BLOCK ? team : BLOCK;
}

/* Column of a thread's group k. */
template <typename T, int TEAM> static __device__ __forceinline__ int column_of(int k) {
    return ((int)threadIdx.x % TEAM + k * TEAM) * group_of<T>::elements;
}

/* Both sums over a team, given to all of it. Calls take `shared`, a row of it, in turns of two:
 * then one barrier each suffices. */
template <int TEAM>
static __device__ __forceinline__ float2 team_sum(float2 x, float2 shared[TEAM / WARP]) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) {
        x.x += __shfl_xor_sync(0xffffffffu, x.x, step);
        x.y += __shfl_xor_sync(0xffffffffu, x.y, step);
    }
    if (TEAM == WARP) {
        return x;
    }
    if (threadIdx.x % WARP == 0) {
        shared[threadIdx.x / WARP] = x;
    }
    __syncthreads();
    float2 sum = shared[0];
#pragma unroll
    for (int w = 1; w < TEAM / WARP; w++) {
        sum.x += shared[w].x;
        sum.y += shared[w].y;
    }
    return sum;
}

/* --- forward -------------------------------------------------------------------------------- */

struct norm_job {
    const void *x, *addend, *weight, *bias; /* addend, bias: or NULL */
    void *sum, *y;
    float2 *statistics;
    norm_shape shape;
    cudaStream_t stream;
};

/* s in `x`, for the row at `offset`; what the thread has of a row beyond its end is 0. */
template <typename T, int TEAM, int GROUPS>
static __device__ __forceinline__ float2 load_sum(const norm_job &job, int64_t offset,
                                                  uint4 x[GROUPS]) {
    const int width = group_of<T>::elements;
    uint4 addend[GROUPS];
    float2 total = {0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < GROUPS; k++) {
        x[k] = load_bits((const T *)job.x + offset, column_of<T, TEAM>(k), job.shape.columns);
    }
    if (job.addend != NULL) {
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            addend[k] =
                load_bits((const T *)job.addend + offset, column_of<T, TEAM>(k), job.shape.columns);
        }
    }
#pragma unroll
    for (int k = 0; k < GROUPS; k++) {
        float s[width], more[width];
        unpack<T>(x[k], s);
        if (job.addend != NULL) {
            unpack<T>(addend[k], more);
#pragma unroll
            for (int e = 0; e < width; e++) {
                s[e] += more[e];
            }
            x[k] = pack<T>(s);
            store_group((T *)job.sum + offset, column_of<T, TEAM>(k), job.shape.columns, s);
            unpack<T>(x[k], s);
        }
#pragma unroll
        for (int e = 0; e < width; e++) {
            total.x += s[e];
        }
    }
    return total;
}

template <typename T, int TEAM, int GROUPS>
static __global__ void __launch_bounds__(block_of(TEAM)) norm_kernel(norm_job job) {
    const int width = group_of<T>::elements;
    __shared__ float2 shared[2][TEAM / WARP];
    int64_t row = blockIdx.x * (int64_t)(block_of(TEAM) / TEAM) + threadIdx.x / TEAM;
    int columns = (int)job.shape.columns;
    if (TEAM == WARP && row >= job.shape.rows) {
        return;
    }
    int64_t offset = row * columns;
    uint4 s[GROUPS];
    float2 total = load_sum<T, TEAM, GROUPS>(job, offset, s);
    float mean = job.shape.layer ? team_sum<TEAM>(total, shared[0]).x / (float)columns : 0.0f;
    float2 squares = {0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < GROUPS; k++) {
        float values[width];
        unpack<T>(s[k], values);
#pragma unroll
        for (int e = 0; e < width; e++) {
            float centered = column_of<T, TEAM>(k) + e < columns ? values[e] - mean : 0.0f;
            squares.x += centered * centered;
        }
    }
    float variance = team_sum<TEAM>(squares, shared[1]).x / (float)columns;
    float rstd = 1.0f / sqrtf(variance + job.shape.epsilon);
#pragma unroll
    for (int k = 0; k < GROUPS; k++) {
        int at = column_of<T, TEAM>(k);
        float values[width], w[width], b[width] = {};
        unpack<T>(s[k], values);
        unpack<T>(load_bits((const T *)job.weight, at, columns), w);
        if (job.bias != NULL) {
            unpack<T>(load_bits((const T *)job.bias, at, columns), b);
        }
#pragma unroll
        for (int e = 0; e < width; e++) {
            values[e] = (values[e] - mean) * rstd * w[e] + b[e];
        }
        store_group((T *)job.y + offset, at, columns, values);
    }
    if (threadIdx.x % TEAM == 0) {
        job.statistics[row] = make_float2(mean, rstd);
    }
}

template <typename T, int TEAM, int GROUPS> static void launch(const norm_job &job) {
    const int teams = block_of(TEAM) / TEAM;
    norm_kernel<T, TEAM, GROUPS>
        <<<(unsigned)((job.shape.rows + teams - 1) / teams), block_of(TEAM), 0, job.stream>>>(job);
}

/* --- backward ------------------------------------------------------------------------------- */

struct norm_backward_job {
    const void *rows_of[3]; /* dy, s, residual or NULL */
    const void *weight;
    void *dx;
    const float2 *statistics;
    float *partial; /* [blocks, columns] for the weight, then the same for the bias */
    norm_shape shape;
    int blocks;
    bool bias;
    cudaStream_t stream;
};

/* Rows in shared memory: the one at work and those on their way. */
static __host__ __device__ constexpr int stages_of(int groups) {
    return groups == 1 ? 4 : groups == 2 ? 3 : 2;
}

/* What a thread has of a row; only this thread reads and writes it. */
template <int TEAM, int GROUPS> struct norm_stage {
    uint4 bits[3][GROUPS][block_of(TEAM)];
    float2 statistics[block_of(TEAM)]; /* mean, rstd */
};

static __device__ __forceinline__ unsigned shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

/* Starts to bring a row into a stage; where it is not aligned, this waits for it. */
template <typename T, int TEAM, int GROUPS>
static __device__ __forceinline__ void fetch(const norm_backward_job &job, int64_t row,
                                             bool aligned, norm_stage<TEAM, GROUPS> *stage) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(
                     shared_address(&stage->statistics[threadIdx.x])),
                 "l"(job.statistics + row)
                 : "memory");
    for (int i = 0; i < 3; i++) {
        const T *from = (const T *)job.rows_of[i] + row * job.shape.columns;
        if (job.rows_of[i] == NULL) {
            continue;
        }
        uint4(*to)[block_of(TEAM)] = stage->bits[i];
        if (!aligned) {
#pragma unroll 1
            for (int k = 0; k < GROUPS; k++) {
                to[k][threadIdx.x] = load_bits(from, column_of<T, TEAM>(k), job.shape.columns);
            }
            continue;
        }
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            int at = column_of<T, TEAM>(k), bytes = at < (int)job.shape.columns ? 16 : 0;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                             shared_address(&to[k][threadIdx.x])),
                         "l"(bytes > 0 ? from + at : from), "r"(bytes)
                         : "memory");
        }
    }
}

/* dy and n = (s - mean) rstd of a group. */
template <typename T, int TEAM, int GROUPS>
static __device__ __forceinline__ void terms_of(const norm_stage<TEAM, GROUPS> *stage, int k,
                                                float2 moments, float dy[group_of<T>::elements],
                                                float n[group_of<T>::elements]) {
    unpack<T>(stage->bits[0][k][threadIdx.x], dy);
    unpack<T>(stage->bits[1][k][threadIdx.x], n);
#pragma unroll
    for (int e = 0; e < group_of<T>::elements; e++) {
        n[e] = (n[e] - moments.x) * moments.y;
    }
}

/* Adds what the teams of a block have summed, in order, to a row of partial sums. */
template <int TEAM, int SUMS, int WIDTH>
static __device__ __forceinline__ void store_sums(const float (&sum)[SUMS][WIDTH], float *shared,
                                                  float *row, int columns) {
    const int teams = block_of(TEAM) / TEAM, stride = TEAM * SUMS * WIDTH;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SUMS; k++) {
#pragma unroll
        for (int e = 0; e < WIDTH; e++) {
            int at = ((int)threadIdx.x % TEAM + k * TEAM) * WIDTH + e;
            shared[(int)threadIdx.x / TEAM * stride + at] = sum[k][e];
        }
    }
    __syncthreads();
    for (int c = threadIdx.x; c < columns; c += block_of(TEAM)) {
        float total = shared[c];
#pragma unroll
        for (int team = 1; team < teams; team++) {
            total += shared[team * stride + c];
        }
        row[c] = total;
    }
}

/* Team t has rows t, t + teams, ...: it sums d_weight and d_bias over them in registers. With
 * g = weight dy: dx = residual + rstd (g - mean(g n) n - mean(g)). */
template <typename T, int TEAM, int GROUPS, bool BIAS>
static __global__ void __launch_bounds__(block_of(TEAM), WIDE_BLOCK / block_of(TEAM))
    norm_backward_kernel(norm_backward_job job) {
    const int width = group_of<T>::elements, stages = stages_of(GROUPS);
    const int teams = block_of(TEAM) / TEAM;
    extern __shared__ uint4 memory[];
    __shared__ float2 shared[2][TEAM / WARP];
    norm_stage<TEAM, GROUPS> *stage = (norm_stage<TEAM, GROUPS> *)memory;
    int64_t rows = job.shape.rows;
    int step = (int)gridDim.x * teams;
    int64_t row = blockIdx.x * (int64_t)teams + threadIdx.x / TEAM;
    int columns = (int)job.shape.columns;
    bool aligned = columns % width == 0 && aligned16(job.rows_of[0]) && aligned16(job.rows_of[1]) &&
                   aligned16(job.rows_of[2]);
    float weight_sum[GROUPS][width] = {}, bias_sum[BIAS ? GROUPS : 1][width] = {};
    const bool weight_held = GROUPS < MOST_GROUPS || !BIAS; /* else registers lack; it is cached */
    uint4 weight[GROUPS];
#pragma unroll
    for (int k = 0; weight_held && k < GROUPS; k++) {
        weight[k] = load_bits((const T *)job.weight, column_of<T, TEAM>(k), columns);
    }
#pragma unroll
    for (int i = 0; i < stages - 1; i++) {
        if (row + i * step < rows) {
            fetch<T, TEAM, GROUPS>(job, row + i * step, aligned, stage + i);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int turn = 0; row < rows; row += step, turn++) {
        const norm_stage<TEAM, GROUPS> *here = stage + turn % stages;
        int64_t ahead = row + (stages - 1) * step;
        if (ahead < rows) {
            fetch<T, TEAM, GROUPS>(job, ahead, aligned, stage + (turn + stages - 1) % stages);
        }
        asm volatile("cp.async.commit_group;\ncp.async.wait_group %0;" ::"n"(stages - 1)
                     : "memory");
        float2 moments = here->statistics[threadIdx.x], total = {0.0f, 0.0f};
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            int at = column_of<T, TEAM>(k);
            float dy[width], n[width], w[width];
            terms_of<T>(here, k, moments, dy, n);
            unpack<T>(weight_held ? weight[k] : load_bits((const T *)job.weight, at, columns), w);
#pragma unroll
            for (int e = 0; e < width; e++) {
                weight_sum[k][e] += dy[e] * n[e];
                if (BIAS) {
                    bias_sum[k][e] += dy[e];
                }
                total.x += dy[e] * w[e];
                total.y += dy[e] * w[e] * n[e];
            }
        }
        float2 mean = team_sum<TEAM>(total, shared[turn % 2]); /* of g and of g n */
        mean.x = job.shape.layer ? mean.x / (float)columns : 0.0f;
        mean.y /= (float)columns;
        asm volatile("" ::: "memory"); /* else registers keep all that was read */
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            int at = column_of<T, TEAM>(k);
            float dy[width], n[width], w[width], dx[width] = {};
            terms_of<T>(here, k, moments, dy, n);
            unpack<T>(weight_held ? weight[k] : load_bits((const T *)job.weight, at, columns), w);
            if (job.rows_of[2] != NULL) {
                unpack<T>(here->bits[2][k][threadIdx.x], dx);
            }
#pragma unroll
            for (int e = 0; e < width; e++) {
                dx[e] += moments.y * (dy[e] * w[e] - mean.x - n[e] * mean.y);
            }
            store_group((T *)job.dx + row * columns, at, columns, dx);
        }
    }
    float *sums = job.partial + (int64_t)blockIdx.x * columns;
    store_sums<TEAM>(weight_sum, (float *)memory, sums, columns);
    if (BIAS) {
        store_sums<TEAM>(bias_sum, (float *)memory, sums + (int64_t)gridDim.x * columns, columns);
    }
}

template <typename T, int TEAM, int GROUPS> static void launch(const norm_backward_job &job) {
    const int bytes = stages_of(GROUPS) * (int)sizeof(norm_stage<TEAM, GROUPS>);
    auto *kernel = job.bias ? norm_backward_kernel<T, TEAM, GROUPS, true>
                            : norm_backward_kernel<T, TEAM, GROUPS, false>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    kernel<<<job.blocks, block_of(TEAM), bytes, job.stream>>>(job);
}

/* --- both ----------------------------------------------------------------------------------- */

template <typename T, int TEAM, int GROUPS, typename Job>
static bool launch_if_fits(const Job &job) {
    bool fits = job.shape.columns <= (int64_t)TEAM * GROUPS * group_of<T>::elements;
    if (fits) {
        launch<T, TEAM, GROUPS>(job);
    }
    return fits;
}

template <typename T, typename Job> static bool launch_first(const Job &job) {
    return launch_if_fits<T, WARP, 1>(job) || launch_if_fits<T, WARP, 2>(job) ||
           launch_if_fits<T, WARP, 3>(job) || launch_if_fits<T, WARP, MOST_GROUPS>(job) ||
           launch_if_fits<T, BLOCK, 1>(job) || launch_if_fits<T, BLOCK, 2>(job) ||
           launch_if_fits<T, BLOCK, 3>(job) || launch_if_fits<T, BLOCK, MOST_GROUPS>(job) ||
           launch_if_fits<T, WIDE_BLOCK, MOST_GROUPS>(job);
}

template <typename Job>
static void launch_job(haul_stream *stream, haul_op op, const Job &job, bool narrow) {
    if (narrow ? launch_first<bf16>(job) : launch_first<float>(job)) {
        haul_cuda_check_launch(stream, op);
        return;
    }
    haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE,
                     "%s on cuda takes rows of at most 16384 bf16 or 8192 f32, not %lld",
                     haul_op_name(op), (long long)job.shape.columns);
}

static const void *optional(const haul_tensor *tensor) {
    return haul_tensor_present(tensor) ? tensor->data : NULL;
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
    norm_job job = {norm->x.data,
                    optional(&norm->addend),
                    norm->weight.data,
                    optional(&norm->bias),
                    norm->sum.data,
                    norm->y.data,
                    (float2 *)norm->statistics.data,
                    {haul_tensor_rows(&norm->y), haul_tensor_columns(&norm->y),
                     (float)norm->epsilon, norm->kind == HAUL_NORM_LAYER},
                    haul_cuda_stream_of(stream)};
    launch_job(stream, HAUL_OP_NORM, job, narrow);
}

/* Blocks of 256 threads, two on a multiprocessor; those of 512 find room one after another. */
static int backward_blocks(const haul_device *device, const haul_tensor *dy) {
    int64_t warp_columns = WARP * MOST_GROUPS * 16 / haul_dtype_size(dy->dtype);
    int64_t teams = haul_tensor_columns(dy) <= warp_columns ? BLOCK / WARP : 1;
    int64_t most = WIDE_BLOCK / BLOCK * haul_cuda_device_of(device)->multiprocessors;
    return (int)min((haul_tensor_rows(dy) + teams - 1) / teams, most);
}

int64_t haul_cuda_norm_backward_workspace(haul_device *device, const void *args) {
    const haul_norm_backward_args *norm = (const haul_norm_backward_args *)args;
    return 2 * backward_blocks(device, &norm->dy) * haul_tensor_columns(&norm->dy) *
           (int64_t)sizeof(float);
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
    norm_backward_job job = {{norm->dy.data, norm->s.data, optional(&norm->residual)},
                             norm->weight.data,
                             norm->dx.data,
                             (const float2 *)norm->statistics.data,
                             (float *)stream->scratch,
                             {haul_tensor_rows(&norm->dy), haul_tensor_columns(&norm->dy), 0.0f,
                              norm->kind == HAUL_NORM_LAYER},
                             backward_blocks(stream->device, &norm->dy),
                             haul_tensor_present(&norm->d_bias),
                             haul_cuda_stream_of(stream)};
    launch_job(stream, HAUL_OP_NORM_BACKWARD, job, narrow);
    launch_sum_rows(job.stream, job.partial, job.blocks, job.shape.columns,
                    (float *)norm->d_weight.data, job.bias ? (float *)norm->d_bias.data : NULL,
                    norm->accumulate);
    haul_cuda_check_launch(stream, HAUL_OP_NORM_BACKWARD);
}
