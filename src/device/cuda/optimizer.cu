/* SQUARED_NORM, VERDICT, ADAM, SGD: one visit to each array. */
#include "device/cuda/bits.cuh"
#include "device/cuda/kernels.h"
#include "device/cuda/philox.cuh"

#include <float.h>

enum {
    THREADS = 256,
    SUM_THREADS = 1024,
    NORM_BLOCK = 32768, /* elements of a partial sum of squares */
    BLOCKS = 4          /* of an update on a multiprocessor */
};

template <typename T>
static __device__ __forceinline__ double add_squares(const float x[group_of<T>::elements],
                                                     double sum) {
#pragma unroll
    for (int i = 0; i < group_of<T>::elements; i++) {
        sum = __fma_rn((double)x[i], (double)x[i], sum);
    }
    return sum;
}

/* In double, as squares of large floats have no place in float. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    squares_of_blocks(const T *x, int64_t count, double *partial) {
    const int width = group_of<T>::elements, step = THREADS * width;
    __shared__ double shared[32];
    const T *block = x + blockIdx.x * (int64_t)NORM_BLOCK;
    int64_t here = min((int64_t)NORM_BLOCK, count - blockIdx.x * (int64_t)NORM_BLOCK);
    double sum = 0.0;
    float values[width];
    if (here == NORM_BLOCK && aligned16(block)) {
#pragma unroll 8
        for (int at = (int)threadIdx.x * width; at < NORM_BLOCK; at += step) {
            unpack<T>(*(const uint4 *)(block + at), values);
            sum = add_squares<T>(values, sum);
        }
    } else {
        for (int at = (int)threadIdx.x * width; at < here; at += step) {
            unpack<T>(load_bits(block, at, here), values);
            sum = add_squares<T>(values, sum);
        }
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
}

/* One block. */
static __global__ void __launch_bounds__(SUM_THREADS)
    sum_of_partial(const double *partial, int64_t count, double *result, bool accumulate) {
    __shared__ double shared[32];
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < count; i += SUM_THREADS) {
        sum += partial[i];
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) {
        result[0] = accumulate ? result[0] + sum : sum;
    }
}

static int64_t norm_blocks(const haul_tensor *x) {
    return (haul_tensor_count(x) + NORM_BLOCK - 1) / NORM_BLOCK;
}

int64_t haul_cuda_squared_norm_workspace(haul_device *device, const void *args) {
    (void)device;
    const haul_squared_norm_args *norm = (const haul_squared_norm_args *)args;
    return norm_blocks(&norm->x) * (int64_t)sizeof(double);
}

void haul_cuda_squared_norm(haul_stream *stream, const void *args) {
    const haul_squared_norm_args *norm = (const haul_squared_norm_args *)args;
    const haul_tensor *const tensors[] = {&norm->x};
    int64_t count = haul_tensor_count(&norm->x), blocks = norm_blocks(&norm->x);
    double *partial = (double *)stream->scratch;
    cudaStream_t on = haul_cuda_stream_of(stream);
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_SQUARED_NORM, tensors, 1, &narrow)) {
        return;
    }
    if (blocks > 0 && narrow) {
        squares_of_blocks<<<(unsigned)blocks, THREADS, 0, on>>>((const bf16 *)norm->x.data, count,
                                                                partial);
    } else if (blocks > 0) {
        squares_of_blocks<<<(unsigned)blocks, THREADS, 0, on>>>((const float *)norm->x.data, count,
                                                                partial);
    }
    sum_of_partial<<<1, SUM_THREADS, 0, on>>>(partial, blocks, (double *)norm->result.data,
                                              norm->accumulate);
    haul_cuda_check_launch(stream, HAUL_OP_SQUARED_NORM);
}

/* One block, which fetches squares side by side, and whose first thread adds them in order. */
static __global__ void __launch_bounds__(THREADS)
    decide(const double *squares, int64_t count, double *norm, haul_step_scalars *scalars,
           double clip, double beta1, double beta2, double learning_rate) {
    __shared__ double shared[THREADS];
    double sum = 0.0;
    for (int64_t first = 0; first < count; first += THREADS) {
        int here = (int)min((int64_t)THREADS, count - first);
        __syncthreads();
        if ((int)threadIdx.x < here) {
            shared[threadIdx.x] = squares[first + threadIdx.x];
        }
        __syncthreads();
        for (int i = 0; i < here && threadIdx.x == 0; i++) {
            sum += shared[i];
        }
    }
    if (threadIdx.x == 0) {
        norm[0] = sqrt(sum);
        double scale = clip > 0.0 ? clip / (norm[0] + 1e-6) : 1.0;
        haul_step_scalars next = {};
        next.learning_rate = learning_rate;
        next.gradient_scale = scale < 1.0 ? scale : 1.0;
        next.skip = !isfinite(sum);
        next.update = scalars->update + (next.skip ? 0 : 1);
        next.bias_correction1 = 1.0 - pow(beta1, (double)next.update);
        next.bias_correction2 = 1.0 - pow(beta2, (double)next.update);
        *scalars = next;
    }
}

void haul_cuda_verdict(haul_stream *stream, const void *args) {
    const haul_verdict_args *verdict = (const haul_verdict_args *)args;
    decide<<<1, THREADS, 0, haul_cuda_stream_of(stream)>>>(
        (const double *)verdict->squares.data, haul_tensor_count(&verdict->squares),
        (double *)verdict->norm.data, verdict->scalars, verdict->clip, verdict->beta1,
        verdict->beta2, verdict->learning_rate);
    haul_cuda_check_launch(stream, HAUL_OP_VERDICT);
}

/* Four elements of an array. WIDE: they are there, and fetched at once; else the first n are. */
template <typename T> struct __align__(4 * sizeof(T)) quad {
    T of[4];
};

template <bool WIDE, typename T>
static __device__ __forceinline__ quad<T> load_quad(const T *x, int n) {
    if constexpr (WIDE) {
        return *(const quad<T> *)x;
    } else {
        quad<T> values;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            values.of[i] = i < n ? x[i] : (T)0;
        }
        return values;
    }
}

template <bool WIDE, typename T>
static __device__ __forceinline__ void store_quad(T *x, quad<T> values, int n) {
    if constexpr (WIDE) {
        *(quad<T> *)x = values;
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i < n) {
                x[i] = values.of[i];
            }
        }
    }
}

/* A parameter: f32, or split into bf16 and low bits (base/dtype.h). */
typedef struct master {
    void *parameter;
    uint16_t *low;
} master;

static __device__ __forceinline__ float join(uint16_t parameter, uint16_t low) {
    return __uint_as_float(((uint32_t)parameter << 16) + (uint32_t)(int32_t)(int16_t)low);
}

static __device__ __forceinline__ void split(float value, uint16_t *parameter, uint16_t *low) {
    uint32_t bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        bits = (bits & 0x80000000u) | 0x7fc00000u;
    }
    *parameter = (uint16_t)((bits + 0x8000u) >> 16);
    *low = (uint16_t)bits;
}

template <bool SPLIT, bool WIDE>
static __device__ __forceinline__ quad<float> load_master(master from, int64_t at, int n) {
    if constexpr (SPLIT) {
        quad<uint16_t> high = load_quad<WIDE>((const uint16_t *)from.parameter + at, n);
        quad<uint16_t> low = load_quad<WIDE>((const uint16_t *)from.low + at, n);
        quad<float> values;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            values.of[i] = join(high.of[i], low.of[i]);
        }
        return values;
    } else {
        return load_quad<WIDE>((const float *)from.parameter + at, n);
    }
}

template <bool SPLIT, bool WIDE>
static __device__ __forceinline__ void store_master(master to, int64_t at, quad<float> values,
                                                    int n) {
    if constexpr (SPLIT) {
        quad<uint16_t> high, low;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            split(values.of[i], &high.of[i], &low.of[i]);
        }
        store_quad<WIDE>((uint16_t *)to.parameter + at, high, n);
        store_quad<WIDE>(to.low + at, low, n);
    } else {
        store_quad<WIDE>((float *)to.parameter + at, values, n);
    }
}

/* The arrays and constants of an update. */
typedef struct adam_job {
    master parameter;
    const float *gradient;
    void *first, *second; /* f32 or bf16, as the kernel knows */
    int64_t count;
    bool wide; /* every array starts at a multiple of what four of its elements take */
    const haul_step_scalars *now;
    double weight_decay;
    float beta1, beta2, rest1, rest2; /* rest = 1 - beta */
    float epsilon;
    uint32_t key0, key1, stream; /* of the rounding of bf16 moments */
} adam_job;

/* What the step adds to them. */
typedef struct adam_step {
    float gradient_scale;
    float step;       /* learning rate / bias correction 1 */
    float root_scale; /* 1 / sqrt(bias correction 2) */
    float decay;      /* learning rate * weight decay */
    uint32_t update;
} adam_step;

/* What is in memory of four elements. */
template <typename M, typename V> struct adam_quad {
    quad<float> p, gradient;
    quad<M> m;
    quad<V> v;
};

static __device__ __forceinline__ float moment_of(float moment) {
    return moment;
}

static __device__ __forceinline__ float moment_of(uint16_t moment) {
    return __uint_as_float((uint32_t)moment << 16);
}

/* Four moments go into memory: as they are, or haul_bf16_round_at_random with 16 bits of a word. */
template <int SHIFT>
static __device__ __forceinline__ void round_moments(const float x[4], uint4, quad<float> *out) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out->of[i] = x[i];
    }
}

template <int SHIFT>
static __device__ __forceinline__ void round_moments(const float x[4], uint4 word,
                                                     quad<uint16_t> *out) {
    const uint32_t random[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int i = 0; i < 4; i++) { /* infinity stays, as its low half is 0 */
        uint32_t bits = __float_as_uint(x[i]);
        bits = isnan(x[i]) ? bits | 0x00400000u : bits + (random[i] >> SHIFT & 0xffffu);
        out->of[i] = (uint16_t)(bits >> 16);
    }
}

template <bool SPLIT, bool WIDE, typename M, typename V>
static __device__ __forceinline__ adam_quad<M, V> adam_load(const adam_job &k, int64_t at, int n) {
    adam_quad<M, V> x;
    x.p = load_master<SPLIT, WIDE>(k.parameter, at, n);
    x.gradient = load_quad<WIDE>(k.gradient + at, n);
    x.m = load_quad<WIDE>((const M *)k.first + at, n);
    x.v = load_quad<WIDE>((const V *)k.second + at, n);
    return x;
}

/* With a moment in bf16 subnormal moments become 0: so they are the very bits of the cpu. */
template <bool SPLIT, bool WIDE, typename M, typename V>
static __device__ __forceinline__ void adam_store(const adam_job &k, adam_step now,
                                                  adam_quad<M, V> x, int64_t at, int n) {
    constexpr bool rounded = sizeof(M) < 4 || sizeof(V) < 4;
    float m[4], v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float g = __fmul_rn(now.gradient_scale, x.gradient.of[i]);
        m[i] = __fmaf_rn(k.beta1, moment_of(x.m.of[i]), __fmul_rn(k.rest1, g));
        v[i] = __fmaf_rn(k.beta2, moment_of(x.v.of[i]), __fmul_rn(__fmul_rn(k.rest2, g), g));
        if constexpr (rounded) {
            m[i] = fabsf(m[i]) < FLT_MIN ? 0.0f : m[i];
            v[i] = fabsf(v[i]) < FLT_MIN ? 0.0f : v[i];
        }
        float root = __fmaf_rn(__fsqrt_rn(v[i]), now.root_scale, k.epsilon);
        float direction = __fdiv_rn(__fmul_rn(now.step, m[i]), root);
        x.p.of[i] = __fsub_rn(x.p.of[i], __fmaf_rn(now.decay, x.p.of[i], direction));
    }
    uint4 word = {};
    if constexpr (rounded) {
        uint64_t four = (uint64_t)at / 4;
        word = philox_4x32(k.key0, k.key1, (uint32_t)four, (uint32_t)(four >> 32), k.stream,
                           now.update);
    }
    round_moments<0>(m, word, &x.m);
    round_moments<16>(v, word, &x.v);
    store_quad<WIDE>((M *)k.first + at, x.m, n);
    store_quad<WIDE>((V *)k.second + at, x.v, n);
    store_master<SPLIT, WIDE>(k.parameter, at, x.p, n);
}

/* A thread fetches all its elements before it computes: narrow arrays take more of them to keep
 * the memory busy. */
template <bool SPLIT, typename M, typename V>
static __global__ void __launch_bounds__(THREADS, BLOCKS) adam_update(adam_job k) {
    constexpr int quads = sizeof(M) < 4 || sizeof(V) < 4 ? 2 : 1;
    const int64_t apart = 4 * THREADS, step = quads * apart;
    haul_step_scalars s = *k.now;
    if (s.skip != 0) {
        return;
    }
    adam_step now = {(float)s.gradient_scale, (float)(s.learning_rate / s.bias_correction1),
                     (float)(1.0 / sqrt(s.bias_correction2)),
                     (float)(s.learning_rate * k.weight_decay), s.update};
    int64_t at = blockIdx.x * step + 4 * (int64_t)threadIdx.x;
    for (; at < k.count; at += step * gridDim.x) {
        if (k.wide && at + (step - apart) + 4 <= k.count) {
            adam_quad<M, V> x[quads];
#pragma unroll
            for (int q = 0; q < quads; q++) {
                x[q] = adam_load<SPLIT, true, M, V>(k, at + q * apart, 4);
            }
#pragma unroll
            for (int q = 0; q < quads; q++) {
                adam_store<SPLIT, true, M, V>(k, now, x[q], at + q * apart, 4);
            }
        } else {
            for (int64_t here = at; here < k.count && here < at + step; here += apart) {
                int n = (int)min(INT64_C(4), k.count - here);
                adam_quad<M, V> x = adam_load<SPLIT, false, M, V>(k, here, n);
                adam_store<SPLIT, false, M, V>(k, now, x, here, n);
            }
        }
    }
}

typedef struct sgd_job {
    master parameter;
    const float *gradient;
    float *buffer;
    int64_t count;
    bool wide;
    const haul_step_scalars *now;
    float momentum, decay;
} sgd_job;

template <bool SPLIT, bool WIDE>
static __device__ __forceinline__ void sgd_quad(const sgd_job &k, float gradient_scale,
                                                float learning_rate, int64_t at, int n) {
    quad<float> p = load_master<SPLIT, WIDE>(k.parameter, at, n);
    quad<float> gradient = load_quad<WIDE>(k.gradient + at, n);
    quad<float> m = load_quad<WIDE>(k.buffer + at, n);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float g = __fmaf_rn(k.decay, p.of[i], __fmul_rn(gradient_scale, gradient.of[i]));
        m.of[i] = __fmaf_rn(k.momentum, m.of[i], g);
        p.of[i] = __fmaf_rn(-learning_rate, m.of[i], p.of[i]);
    }
    store_quad<WIDE>(k.buffer + at, m, n);
    store_master<SPLIT, WIDE>(k.parameter, at, p, n);
}

template <bool SPLIT> static __global__ void __launch_bounds__(THREADS) sgd_update(sgd_job k) {
    haul_step_scalars s = *k.now;
    if (s.skip != 0) {
        return;
    }
    float gradient_scale = (float)s.gradient_scale, learning_rate = (float)s.learning_rate;
    int64_t at = 4 * (blockIdx.x * (int64_t)THREADS + threadIdx.x);
    for (; at < k.count; at += 4 * (int64_t)THREADS * gridDim.x) {
        if (k.wide && at + 4 <= k.count) {
            sgd_quad<SPLIT, true>(k, gradient_scale, learning_rate, at, 4);
        } else {
            int n = (int)min(INT64_C(4), k.count - at);
            sgd_quad<SPLIT, false>(k, gradient_scale, learning_rate, at, n);
        }
    }
}

/* True when the parameter is f32 without, or bf16 with, `low`; then *is_split tells which. */
static bool master_is(haul_stream *stream, haul_op op, const haul_tensor *parameter,
                      const haul_tensor *low, bool *is_split) {
    const haul_tensor *const tensors[] = {parameter};
    if (!same_dtype(stream, op, tensors, 1, is_split)) {
        return false;
    }
    if (*is_split != haul_tensor_present(low) || (*is_split && low->dtype != HAUL_U16)) {
        haul_stream_fail(stream, HAUL_ERROR_INTERNAL, "%s: low bits are %s, must be %s for %s",
                         haul_op_name(op),
                         haul_tensor_present(low) ? haul_dtype_name(low->dtype) : "absent",
                         *is_split ? "u16" : "absent", haul_dtype_name(parameter->dtype));
        return false;
    }
    return true;
}

static bool all_wide(const haul_tensor *const *tensors, int count) {
    for (int i = 0; i < count; i++) {
        uintptr_t bytes = 4 * (uintptr_t)haul_dtype_size(tensors[i]->dtype);
        if (haul_tensor_present(tensors[i]) && (uintptr_t)tensors[i]->data % bytes != 0) {
            return false;
        }
    }
    return true;
}

/* Enough to fill the card: each prepares the step's numbers once, then strides. */
static unsigned update_blocks(const haul_stream *stream, int64_t count) {
    int64_t blocks = (count + 4 * THREADS - 1) / (4 * THREADS);
    int64_t most = BLOCKS * (int64_t)haul_cuda_device_of(stream->device)->multiprocessors;
    return (unsigned)(blocks < most ? blocks : most);
}

/* True when the moment is f32 or bf16; *narrow tells which. */
static bool moment_is(haul_stream *stream, const haul_tensor *moment, bool *narrow) {
    const haul_tensor *const tensors[] = {moment};
    return same_dtype(stream, HAUL_OP_ADAM, tensors, 1, narrow);
}

typedef void adam_kernel(adam_job job);

/* By: the parameter is split, the first moment is bf16, the second. */
static adam_kernel *const adam_kernels[2][2][2] = {
    {{adam_update<false, float, float>, adam_update<false, float, uint16_t>},
     {adam_update<false, uint16_t, float>, adam_update<false, uint16_t, uint16_t>}},
    {{adam_update<true, float, float>, adam_update<true, float, uint16_t>},
     {adam_update<true, uint16_t, float>, adam_update<true, uint16_t, uint16_t>}}};

void haul_cuda_adam(haul_stream *stream, const void *args) {
    const haul_adam_args *adam = (const haul_adam_args *)args;
    const haul_tensor *const tensors[] = {&adam->gradient, &adam->first_moment,
                                          &adam->second_moment, &adam->parameter, &adam->low};
    adam_job job = {};
    job.parameter = {adam->parameter.data, (uint16_t *)adam->low.data};
    job.gradient = (const float *)adam->gradient.data;
    job.first = adam->first_moment.data;
    job.second = adam->second_moment.data;
    job.count = haul_tensor_count(&adam->parameter);
    job.wide = all_wide(tensors, 5);
    job.now = adam->scalars;
    job.weight_decay = adam->weight_decay;
    job.beta1 = (float)adam->beta1;
    job.beta2 = (float)adam->beta2;
    job.rest1 = (float)(1.0 - adam->beta1);
    job.rest2 = (float)(1.0 - adam->beta2);
    job.epsilon = (float)adam->epsilon;
    job.key0 = (uint32_t)adam->seed;
    job.key1 = (uint32_t)(adam->seed >> 32);
    job.stream = adam->stream;
    bool is_split, first, second;
    if (!master_is(stream, HAUL_OP_ADAM, &adam->parameter, &adam->low, &is_split) ||
        !moment_is(stream, &adam->first_moment, &first) ||
        !moment_is(stream, &adam->second_moment, &second) ||
        !all_f32(stream, HAUL_OP_ADAM, tensors, 1) || job.count == 0) {
        return;
    }
    adam_kernel *kernel = adam_kernels[is_split][first][second];
    kernel<<<update_blocks(stream, job.count), THREADS, 0, haul_cuda_stream_of(stream)>>>(job);
    haul_cuda_check_launch(stream, HAUL_OP_ADAM);
}

void haul_cuda_sgd(haul_stream *stream, const void *args) {
    const haul_sgd_args *sgd = (const haul_sgd_args *)args;
    const haul_tensor *const tensors[] = {&sgd->gradient, &sgd->momentum_buffer, &sgd->parameter,
                                          &sgd->low};
    sgd_job job = {};
    job.parameter = {sgd->parameter.data, (uint16_t *)sgd->low.data};
    job.gradient = (const float *)sgd->gradient.data;
    job.buffer = (float *)sgd->momentum_buffer.data;
    job.count = haul_tensor_count(&sgd->parameter);
    job.wide = all_wide(tensors, 4);
    job.now = sgd->scalars;
    job.momentum = (float)sgd->momentum;
    job.decay = (float)sgd->weight_decay;
    bool is_split;
    if (!master_is(stream, HAUL_OP_SGD, &sgd->parameter, &sgd->low, &is_split) ||
        !all_f32(stream, HAUL_OP_SGD, tensors, 2) || job.count == 0) {
        return;
    }
    auto kernel = is_split ? sgd_update<true> : sgd_update<false>;
    kernel<<<update_blocks(stream, job.count), THREADS, 0, haul_cuda_stream_of(stream)>>>(job);
    haul_cuda_check_launch(stream, HAUL_OP_SGD);
}
