/* LOSS. A row of logits is held in the registers of a cluster of blocks, so that it is read once
 * and written once, however little cache there is; each thread finds the maximum and the sum of its
 * own part, and these pairs are merged (Milakov and Gimelshein, "Online normalizer calculation for
 * softmax", 2018). Rows that are too long for that, or not aligned, are read twice. */
#include "device/cuda/bits.cuh"
#include "device/cuda/kernels.h"

#include <cooperative_groups.h>
#include <float.h>

namespace groups = cooperative_groups;

enum {
    THREADS = 512,
    HELD = 8,            /* groups of 16 bytes in the registers of a thread */
    BLOCKS = 2,          /* of a multiprocessor */
    LARGEST_CLUSTER = 8, /* that every Hopper grants */
    LARGEST_TURNS = 2    /* the largest cluster that takes several rows */
};

typedef struct loss_job {
    void *logits;
    const int32_t *targets;
    const float *weights;
    float *losses;
    int64_t rows;
    int columns, vocabulary;
    bool gradient;
} loss_job;

/* Exponents are taken to the base 2, as the hardware does. */
static const float log2_e = 1.44269504088896340736f;
static const double ln_2 = 0.69314718055994530942;

static __device__ __forceinline__ float exp2_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* `top` is the largest logit times log2_e, rounded; sum = sum of 2^(x log2_e - top). */
typedef struct softmax {
    float top, sum;
} softmax;

/* Of nothing. Its top is finite, so that a difference to it is never NaN. */
static __device__ __forceinline__ softmax softmax_none() {
    softmax none = {-FLT_MAX / 2.0f, 0.0f};
    return none;
}

static __device__ __forceinline__ float power_of(float x, float top) {
    return exp2_of(__fmaf_rn(x, log2_e, -top));
}

/* Of all lanes, given to all. */
static __device__ __forceinline__ softmax warp_softmax(softmax x) {
    float top = x.top;
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) {
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
    }
    float sum = x.sum * exp2_of(x.top - top);
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    }
    softmax all = {top, sum};
    return all;
}

/* Of all threads of the block, given to all. `shared` has one place a warp. */
static __device__ __forceinline__ softmax block_softmax(softmax x, softmax *shared) {
    int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    x = warp_softmax(x);
    __syncthreads(); /* readers of the call before */
    if (lane == 0) {
        shared[threadIdx.x >> 5] = x;
    }
    __syncthreads();
    return warp_softmax(lane < warps ? shared[lane] : softmax_none());
}

/* Of all blocks of the cluster, given to all. `shared` may be used again after the cluster has met
 * once more. */
static __device__ __forceinline__ softmax cluster_softmax(softmax x, softmax *shared) {
    groups::cluster_group cluster = groups::this_cluster();
    int lane = threadIdx.x & 31;
    if (threadIdx.x == 0) {
        *shared = x;
    }
    cluster.sync();
    bool present = lane < (int)cluster.num_blocks();
    return warp_softmax(present ? *cluster.map_shared_rank(shared, lane) : softmax_none());
}

/* Puts -inf, which counts for nothing, in place of elements from `end` on. */
template <typename T>
static __device__ __forceinline__ void cut(float x[group_of<T>::elements], int at, int end) {
    if (at + group_of<T>::elements > end) {
#pragma unroll
        for (int i = 0; i < group_of<T>::elements; i++) {
            x[i] = at + i < end ? x[i] : -INFINITY;
        }
    }
}

template <typename T>
static __device__ __forceinline__ float maximum_of(const float x[group_of<T>::elements],
                                                   float maximum) {
#pragma unroll
    for (int i = 0; i < group_of<T>::elements; i++) {
        maximum = fmaxf(maximum, x[i]);
    }
    return maximum;
}

template <typename T>
static __device__ __forceinline__ float sum_of_powers(const float x[group_of<T>::elements],
                                                      float top) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < group_of<T>::elements; i++) {
        sum += power_of(x[i], top);
    }
    return sum;
}

/* What a row has besides its logits. A target out of range makes its loss and gradient NaN, for
 * the verdict to see. Must be read before any logit of the row is overwritten. */
typedef struct loss_row {
    int target;
    float weight, at_target;
} loss_row;

template <typename T>
static __device__ __forceinline__ loss_row read_row(const loss_job *job, int64_t r, int target) {
    loss_row row = {target, NAN, NAN};
    if (target >= 0 && target < job->vocabulary) {
        row.weight = job->weights[r];
        row.at_target = to_float(((const T *)job->logits)[r * job->columns + target]);
    }
    return row;
}

static __device__ __forceinline__ float loss_of(softmax all, loss_row row) {
    return (float)(log((double)all.sum) + (double)all.top * ln_2 - (double)row.at_target);
}

/* Makes the gradients of a group of its logits x; scale = weight / sum. */
template <typename T>
static __device__ __forceinline__ void make_gradient(float x[group_of<T>::elements], int at,
                                                     int vocabulary, float top, float scale,
                                                     loss_row row) {
    const int width = group_of<T>::elements;
#pragma unroll
    for (int i = 0; i < width; i++) {
        x[i] = scale * power_of(x[i], top);
    }
    if ((unsigned)(row.target - at) < (unsigned)width) {
#pragma unroll
        for (int i = 0; i < width; i++) {
            x[i] -= at + i == row.target ? row.weight : 0.0f;
        }
    }
    if (at + width > vocabulary) {
#pragma unroll
        for (int i = 0; i < width; i++) {
            x[i] = at + i < vocabulary ? x[i] : 0.0f;
        }
    }
}

/* The maximum and sum of what a thread holds: `held` groups from `first` on, below `end`. */
template <typename T>
static __device__ __forceinline__ softmax softmax_of_held(const uint4 held[HELD], int first,
                                                          int end, int vocabulary) {
    const int width = group_of<T>::elements;
    softmax mine = softmax_none();
    float maximum = mine.top, x[width];
#pragma unroll
    for (int k = 0; k < HELD; k++) {
        int group = first + k * (int)blockDim.x;
        if (group < end) {
            unpack<T>(held[k], x);
            cut<T>(x, group * width, vocabulary);
            maximum = maximum_of<T>(x, maximum);
        }
    }
    mine.top = maximum * log2_e;
#pragma unroll
    for (int k = 0; k < HELD; k++) {
        int group = first + k * (int)blockDim.x;
        if (group < end) {
            unpack<T>(held[k], x);
            cut<T>(x, group * width, vocabulary);
            mine.sum += sum_of_powers<T>(x, mine.top);
        }
    }
    return mine;
}

/* A cluster takes a row after the other; block k of it holds the k-th part, HELD groups a thread.
 * As soon as a group is written, the same group of the next row is fetched in its place. Rows must
 * start at a multiple of 16 bytes and be whole groups long. */
template <typename T>
static __global__ void __launch_bounds__(THREADS, BLOCKS) loss_held(loss_job job) {
    const int width = group_of<T>::elements;
    __shared__ softmax of_warps[THREADS / 32], of_block[2];
    groups::cluster_group cluster = groups::this_cluster();
    int blocks = (int)cluster.num_blocks(), rank = (int)cluster.block_rank();
    int row_groups = job.columns / width;
    int part = (row_groups + blocks - 1) / blocks;
    int first = rank * part + (int)threadIdx.x, end = min(row_groups, (rank + 1) * part);
    int64_t r = blockIdx.x / (unsigned)blocks, step = gridDim.x / (unsigned)blocks;
    uint4 *logits = (uint4 *)job.logits + r * row_groups;
    uint4 held[HELD];
#pragma unroll
    for (int k = 0; k < HELD; k++) {
        int group = first + k * (int)blockDim.x;
        if (group < end) {
            held[k] = logits[group];
        }
    }
    for (int turn = 0; r < job.rows; r += step, turn ^= 1) {
        int target = job.targets[r];
        softmax mine = softmax_of_held<T>(held, first, end, job.vocabulary);
        loss_row row = read_row<T>(&job, r, target);
        softmax all = cluster_softmax(block_softmax(mine, of_warps), &of_block[turn]);
        float scale = row.weight / all.sum;
        uint4 *next = logits + step * row_groups;
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            int group = first + k * (int)blockDim.x;
            if (group < end && job.gradient) {
                float x[width];
                unpack<T>(held[k], x);
                make_gradient<T>(x, group * width, job.vocabulary, all.top, scale, row);
                logits[group] = pack<T>(x);
            }
            if (group < end && r + step < job.rows) {
                held[k] = next[group];
            }
        }
        if (rank == 0 && threadIdx.x == 0) {
            job.losses[r] = loss_of(all, row);
        }
        logits = next;
    }
    cluster.sync(); /* before a block ends, whose shared memory others read */
}

/* A block a row, which it reads twice if it writes a gradient. */
template <typename T>
static __global__ void __launch_bounds__(THREADS, BLOCKS) loss_streamed(loss_job job) {
    const int width = group_of<T>::elements;
    __shared__ softmax of_warps[THREADS / 32];
    int64_t r = blockIdx.x;
    int step = (int)blockDim.x * width;
    T *logits = (T *)job.logits + r * job.columns;
    loss_row row = read_row<T>(&job, r, job.targets[r]);
    softmax mine = softmax_none();
    float x[width];
    for (int at = (int)threadIdx.x * width; at < job.vocabulary; at += step) {
        load_group(logits, at, job.columns, x);
        cut<T>(x, at, job.vocabulary);
        float top = fmaxf(mine.top, maximum_of<T>(x, -FLT_MAX) * log2_e);
        mine.sum = mine.sum * exp2_of(mine.top - top) + sum_of_powers<T>(x, top);
        mine.top = top;
    }
    softmax all = block_softmax(mine, of_warps);
    float scale = row.weight / all.sum;
    for (int at = (int)threadIdx.x * width; job.gradient && at < job.columns; at += step) {
        load_group(logits, at, job.columns, x);
        make_gradient<T>(x, at, job.vocabulary, all.top, scale, row);
        store_group(logits, at, job.columns, x);
    }
    if (threadIdx.x == 0) {
        job.losses[r] = loss_of(all, row);
    }
}

/* How many clusters take the rows in turn. Small ones gain 5 to 10 % by fetching ahead; larger ones
 * were a quarter slower that way on an H200 than one for each row. */
static int64_t clusters_for(const loss_job *job, int cluster, int threads, int multiprocessors) {
    int64_t places = (int64_t)multiprocessors * BLOCKS * (THREADS / threads) / cluster;
    return cluster <= LARGEST_TURNS && places < job->rows ? places : job->rows;
}

template <typename T> static cudaError_t launch(const loss_job *job, const haul_cuda_device *cuda) {
    const int width = group_of<T>::elements;
    int row_groups = (job->columns + width - 1) / width;
    int cluster = (row_groups + THREADS * HELD - 1) / (THREADS * HELD);
    bool wide = (uintptr_t)job->logits % 16 == 0 && job->columns % width == 0;
    if (!wide || cluster > LARGEST_CLUSTER) {
        loss_streamed<T><<<(unsigned)job->rows, THREADS, 0, cuda->stream>>>(*job);
        return cudaGetLastError();
    }
    int threads = row_threads(job->columns, width, THREADS);
    int64_t clusters = clusters_for(job, cluster, threads, cuda->multiprocessors);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = (unsigned)cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(clusters * cluster));
    config.blockDim = dim3((unsigned)threads);
    config.stream = cuda->stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, loss_held<T>, *job);
}

void haul_cuda_loss(haul_stream *stream, const void *args) {
    const haul_loss_args *loss = (const haul_loss_args *)args;
    const haul_tensor *const activations[] = {&loss->logits};
    const haul_tensor *const floats[] = {&loss->weights, &loss->losses};
    loss_job job = {loss->logits.data,
                    (const int32_t *)loss->targets.data,
                    (const float *)loss->weights.data,
                    (float *)loss->losses.data,
                    haul_tensor_rows(&loss->logits),
                    (int)haul_tensor_columns(&loss->logits),
                    (int)loss->vocabulary,
                    loss->gradient};
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_LOSS, activations, 1, &narrow) ||
        !all_f32(stream, HAUL_OP_LOSS, floats, 2) || job.rows == 0) {
        return;
    }
    const haul_cuda_device *cuda = haul_cuda_device_of(stream->device);
    haul_cuda_check(stream, haul_op_name(HAUL_OP_LOSS),
                    narrow ? launch<bf16>(&job, cuda) : launch<float>(&job, cuda));
}
