/* What the attention kernels share: the problem as a kernel sees it, and its dropout. */
#ifndef HAUL_DEVICE_CUDA_ATTENTION_CUH
#define HAUL_DEVICE_CUDA_ATTENTION_CUH

#include "device/cuda/cuda.h"
#include "device/cuda/philox.cuh"

/* haul_attention_shape and the tensors, in the types that kernels calculate with. */
typedef struct attention_problem {
    int batch, queries, keys, heads, groups, head_size;
    int query_offset; /* within [-queries, keys] */
    int64_t key_capacity, query_stride, key_stride;
    float scale, scale_log2; /* scale * log2(e): softmax is calculated in powers of two */
    bool aligned;            /* every head of every row starts at a multiple of 16 bytes */
    dropout_rule dropout;
    const void *query, *key, *value;
    void *out;
    const void *d_out;
    float *log_sum_exp;
    void *d_query, *d_key, *d_value;
    float2 *statistics; /* [B, N, Tq]: log2 of the denominator (inf: sees no key), d_out . out */
} attention_problem;

/* The elements of one head of one sample: row i at data + i * stride. */
template <typename T> struct attention_rows {
    T *data;
    int64_t stride;
};

template <typename T>
__device__ inline attention_rows<const T> query_rows(const attention_problem &p, const void *data,
                                                     int sample, int head) {
    int64_t start = (int64_t)sample * p.queries * p.query_stride + (int64_t)head * p.head_size;
    return {(const T *)data + start, p.query_stride};
}

template <typename T>
__device__ inline attention_rows<const T> key_rows(const attention_problem &p, const void *data,
                                                   int sample, int group) {
    int64_t start = sample * p.key_capacity * p.key_stride + (int64_t)group * p.head_size;
    return {(const T *)data + start, p.key_stride};
}

/* Of out and d_out. */
template <typename T>
__device__ inline attention_rows<const T> out_rows(const attention_problem &p, const void *data,
                                                   int sample, int head) {
    int64_t stride = (int64_t)p.heads * p.head_size;
    return {(const T *)data + sample * p.queries * stride + (int64_t)head * p.head_size, stride};
}

/* The same rows, to be written. */
template <typename T> __device__ inline attention_rows<T> written(attention_rows<const T> rows) {
    return {const_cast<T *>(rows.data), rows.stride};
}

/* How many keys query `i` sees. */
__device__ inline int visible_keys(const attention_problem &p, int i) {
    return max(0, min(p.keys, i + p.query_offset + 1));
}

/* The first query that sees key `j`. */
__device__ inline int first_viewer(const attention_problem &p, int j) {
    return max(0, j - p.query_offset);
}

/* Whether the probability of query i and key j is kept: the rule of haul_dropout. */
__device__ inline bool attention_keeps(const attention_problem &p, int sample, int head, int i,
                                       int j) {
    const dropout_rule &rule = p.dropout;
    int64_t element = ((int64_t)head * p.queries + i) * p.keys + j;
    uint4 words = philox_4x32(rule.key0, rule.key1, (uint32_t)(element / 4), rule.stream,
                              rule.first_sample + (uint32_t)sample, rule.step);
    uint32_t first = element % 2 ? words.y : words.x, second = element % 2 ? words.w : words.z;
    return (element % 4 < 2 ? first : second) >= rule.threshold;
}

/* attention_flash.cu, attention_flash_backward.cu: bf16, heads of at most 256, by the tensor cores.
 */
enum { ATTENTION_FLASH_HEAD = 256 };
void attention_flash(const attention_problem &problem, cudaStream_t stream);
void attention_flash_backward(const attention_problem &problem, cudaStream_t stream);

/* attention_plain.cu: any head size, f32 or bf16, in f32.
 * attention_statistics fills problem.statistics, for both kinds of backward. */
void attention_plain(const attention_problem &problem, haul_dtype dtype, cudaStream_t stream);
void attention_plain_backward(const attention_problem &problem, haul_dtype dtype,
                              cudaStream_t stream);
void attention_statistics(const attention_problem &problem, haul_dtype dtype, cudaStream_t stream);

#endif
