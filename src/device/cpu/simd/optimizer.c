/* SQUARED_NORM, ADAM, SGD: one visit to each array. */
#include "base/memory.h"
#include "device/cpu/simd/kernels.h"
#include "device/cpu/simd/random.h"

#include <float.h>

enum {
    LINE = 64,         /* elements; threads write whole cache lines */
    WORD_BLOCK = 1024, /* elements whose random words are made at a time; a multiple of 4 */
    NORM_BLOCK = 4096  /* elements of a partial sum of squares */
};

typedef struct squared_norm_job {
    const haul_tensor *x;
    double *partial; /* one a block */
    bool bf16;
} squared_norm_job;

/* In double, as squares of large floats have no place in float; four sums at a time, because one
 * addition would wait for the other. */
HAUL_INLINE double block_squares(const void *x, int64_t count, bool bf16) {
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    int64_t part = count / 4;
#pragma omp simd reduction(+ : a, b, c, d)
    for (int64_t i = 0; i < part; i++) {
        double xa = (double)load(x, i, bf16), xb = (double)load(x, part + i, bf16);
        double xc = (double)load(x, 2 * part + i, bf16), xd = (double)load(x, 3 * part + i, bf16);
        a += xa * xa;
        b += xb * xb;
        c += xc * xc;
        d += xd * xd;
    }
    for (int64_t i = 4 * part; i < count; i++) {
        a += (double)load(x, i, bf16) * (double)load(x, i, bf16);
    }
    return (a + b) + (c + d);
}

static void squared_norm_blocks(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const squared_norm_job *job = context;
    int64_t total = haul_tensor_count(job->x);
    for (int64_t block = begin; block < end; block++) {
        int64_t first = block * NORM_BLOCK, count = haul_min(NORM_BLOCK, total - first);
        const void *x = element(job->x, first, job->bf16);
        job->partial[block] =
            job->bf16 ? block_squares(x, count, true) : block_squares(x, count, false);
    }
}

static int64_t norm_blocks(const haul_tensor *x) {
    return (haul_tensor_count(x) + NORM_BLOCK - 1) / NORM_BLOCK;
}

int64_t HAUL_ISA(haul_cpu_squared_norm_workspace)(haul_device *device, const void *args) {
    (void)device;
    const haul_squared_norm_args *norm = args;
    return norm_blocks(&norm->x) * (int64_t)sizeof(double);
}

void HAUL_ISA(haul_cpu_squared_norm)(haul_stream *stream, const void *args) {
    const haul_squared_norm_args *norm = args;
    squared_norm_job job = {.x = &norm->x, .partial = stream->scratch};
    const haul_tensor *const tensors[] = {&norm->x};
    if (!haul_cpu_dtype(stream, HAUL_OP_SQUARED_NORM, tensors, 1, &job.bf16)) {
        return;
    }
    int64_t blocks = norm_blocks(&norm->x);
    haul_cpu_parallel(stream, blocks, 1, NORM_BLOCK * 4, squared_norm_blocks, &job);
    double *result = norm->result.data;
    double sum = norm->accumulate ? result[0] : 0.0;
    for (int64_t block = 0; block < blocks; block++) {
        sum += job.partial[block];
    }
    result[0] = sum;
}

/* A parameter: f32, or split into bf16 and low bits. */
HAUL_INLINE float load_master(const void *parameter, const uint16_t *low, int64_t i, bool split) {
    return split ? haul_master_join(((const uint16_t *)parameter)[i], low[i])
                 : ((const float *)parameter)[i];
}

HAUL_INLINE void store_master(void *parameter, uint16_t *low, int64_t i, bool split, float value) {
    if (split) {
        haul_master_split(value, (uint16_t *)parameter + i, low + i);
    } else {
        ((float *)parameter)[i] = value;
    }
}

/* True when the parameter is f32 without, or bf16 with, `low`; then *split tells which. */
static bool master_is(haul_stream *stream, haul_op op, const haul_tensor *parameter,
                      const haul_tensor *low, bool *split) {
    const haul_tensor *const tensors[] = {parameter};
    if (!haul_cpu_dtype(stream, op, tensors, 1, split)) {
        return false;
    }
    if (*split != haul_tensor_present(low) || (*split && low->dtype != HAUL_U16)) {
        haul_stream_fail(stream, HAUL_ERROR_INTERNAL, "%s: low bits are %s, must be %s for %s",
                         haul_op_name(op),
                         haul_tensor_present(low) ? haul_dtype_name(low->dtype) : "absent",
                         *split ? "u16" : "absent", haul_dtype_name(parameter->dtype));
        return false;
    }
    return true;
}

/* 0 for a subnormal number: the moments of parameters that get no gradient decay to those, and
 * processors are many times slower on them. */
HAUL_INLINE float flushed(float x) {
    return fabsf(x) < FLT_MIN ? 0.0f : x;
}

/* The arguments of a step in the form that the loop uses. */
typedef struct adam_job {
    const haul_adam_args *args;
    float beta1, beta2, rest1, rest2; /* rest = 1 - beta */
    float gradient_scale;
    float step;           /* learning rate / bias correction 1 */
    float root_scale;     /* 1 / sqrt(bias correction 2) */
    float epsilon, decay; /* decay = learning rate * weight decay */
    uint32_t update;
    bool split, first_bf16, second_bf16;
} adam_job;

/* The words of op.h that round the moments of elements [first, first + count), rounded up to a
 * multiple of 4; `first` is one. */
HAUL_INLINE void moment_words(const adam_job *job, int64_t first, int64_t count, uint32_t *word) {
    uint32_t key0 = (uint32_t)job->args->seed, key1 = (uint32_t)(job->args->seed >> 32);
    uint32_t stream = job->args->stream, update = job->update;
    uint64_t begin = (uint64_t)first / 4;
    uint32_t fours = (uint32_t)((count + 3) / 4);
#pragma omp simd
    for (uint32_t i = 0; i < fours; i++) {
        uint64_t four = begin + i;
        philox_counter c = {(uint32_t)four, (uint32_t)(four >> 32), stream, update};
        philox_counter random = philox_words(c, key0, key1);
        word[4 * i] = random.c0;
        word[4 * i + 1] = random.c1;
        word[4 * i + 2] = random.c2;
        word[4 * i + 3] = random.c3;
    }
}

HAUL_INLINE void store_moment(void *moment, int64_t i, bool bf16, float value, uint32_t random) {
    if (bf16) {
        ((uint16_t *)moment)[i] = haul_bf16_round_at_random(value, random);
    } else {
        ((float *)moment)[i] = value;
    }
}

/* Elements [begin, end), with their random words where a moment is bf16. */
HAUL_INLINE void adam_block(const adam_job *job, int64_t begin, int64_t end, const uint32_t *word,
                            bool split, bool first_bf16, bool second_bf16) {
    void *parameter = job->args->parameter.data;
    uint16_t *low = job->args->low.data;
    const float *gradient = job->args->gradient.data;
    void *first = job->args->first_moment.data, *second = job->args->second_moment.data;
    const adam_job k = *job;
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        float g = k.gradient_scale * gradient[i];
        float m = flushed(madd(k.beta1, load(first, i, first_bf16), k.rest1 * g));
        float v = flushed(madd(k.beta2, load(second, i, second_bf16), k.rest2 * g * g));
        float p = load_master(parameter, low, i, split);
        float direction = k.step * m / madd(sqrtf(v), k.root_scale, k.epsilon);
        uint32_t random = first_bf16 || second_bf16 ? word[i - begin] : 0;
        store_moment(first, i, first_bf16, m, random & 0xffffu);
        store_moment(second, i, second_bf16, v, random >> 16);
        store_master(parameter, low, i, split, p - madd(k.decay, p, direction));
    }
}

HAUL_INLINE void adam_span(const adam_job *job, int64_t begin, int64_t end, bool split,
                           bool first_bf16, bool second_bf16) {
    uint32_t word[WORD_BLOCK];
    if (!first_bf16 && !second_bf16) {
        adam_block(job, begin, end, NULL, split, false, false);
        return;
    }
    for (int64_t at = begin; at < end; at += WORD_BLOCK) {
        int64_t count = haul_min(WORD_BLOCK, end - at);
        moment_words(job, at, count, word);
        adam_block(job, at, at + count, word, split, first_bf16, second_bf16);
    }
}

HAUL_INLINE void adam_moments(const adam_job *job, int64_t begin, int64_t end, bool split) {
    if (job->first_bf16 && job->second_bf16) {
        adam_span(job, begin, end, split, true, true);
    } else if (job->first_bf16) {
        adam_span(job, begin, end, split, true, false);
    } else if (job->second_bf16) {
        adam_span(job, begin, end, split, false, true);
    } else {
        adam_span(job, begin, end, split, false, false);
    }
}

static void adam_elements(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const adam_job *job = context;
    if (job->split) {
        adam_moments(job, begin, end, true);
    } else {
        adam_moments(job, begin, end, false);
    }
}

/* True when each moment is f32 or bf16; the job then says which. */
static bool moments_are(haul_stream *stream, const haul_adam_args *adam, adam_job *job) {
    const haul_tensor *const first[] = {&adam->first_moment};
    const haul_tensor *const second[] = {&adam->second_moment};
    return haul_cpu_dtype(stream, HAUL_OP_ADAM, first, 1, &job->first_bf16) &&
           haul_cpu_dtype(stream, HAUL_OP_ADAM, second, 1, &job->second_bf16);
}

void HAUL_ISA(haul_cpu_adam)(haul_stream *stream, const void *args) {
    const haul_adam_args *adam = args;
    const haul_step_scalars *now = adam->scalars;
    const haul_tensor *const floats[] = {&adam->gradient};
    adam_job job = {
        .args = adam,
        .beta1 = (float)adam->beta1,
        .beta2 = (float)adam->beta2,
        .rest1 = (float)(1.0 - adam->beta1),
        .rest2 = (float)(1.0 - adam->beta2),
        .gradient_scale = (float)now->gradient_scale,
        .step = (float)(now->learning_rate / now->bias_correction1),
        .root_scale = (float)(1.0 / sqrt(now->bias_correction2)),
        .epsilon = (float)adam->epsilon,
        .decay = (float)(now->learning_rate * adam->weight_decay),
        .update = now->update,
    };
    if (master_is(stream, HAUL_OP_ADAM, &adam->parameter, &adam->low, &job.split) &&
        moments_are(stream, adam, &job) && haul_cpu_f32(stream, HAUL_OP_ADAM, floats, 1) &&
        now->skip == 0) {
        haul_cpu_parallel(stream, haul_tensor_count(&adam->parameter), LINE, 28, adam_elements,
                          &job);
    }
}

typedef struct sgd_job {
    const haul_sgd_args *args;
    float momentum, decay, gradient_scale, learning_rate;
    bool split;
} sgd_job;

HAUL_INLINE void sgd_span(const sgd_job *job, int64_t begin, int64_t end, bool split) {
    void *parameter = job->args->parameter.data;
    uint16_t *low = job->args->low.data;
    const float *gradient = job->args->gradient.data;
    float *buffer = job->args->momentum_buffer.data;
    const sgd_job k = *job;
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        float p = load_master(parameter, low, i, split);
        float g = madd(k.decay, p, k.gradient_scale * gradient[i]);
        float m = flushed(madd(k.momentum, buffer[i], g));
        buffer[i] = m;
        store_master(parameter, low, i, split, madd(-k.learning_rate, m, p));
    }
}

static void sgd_elements(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const sgd_job *job = context;
    if (job->split) {
        sgd_span(job, begin, end, true);
    } else {
        sgd_span(job, begin, end, false);
    }
}

void HAUL_ISA(haul_cpu_sgd)(haul_stream *stream, const void *args) {
    const haul_sgd_args *sgd = args;
    const haul_step_scalars *now = sgd->scalars;
    const haul_tensor *const floats[] = {&sgd->gradient, &sgd->momentum_buffer};
    sgd_job job = {
        .args = sgd,
        .momentum = (float)sgd->momentum,
        .decay = (float)sgd->weight_decay,
        .gradient_scale = (float)now->gradient_scale,
        .learning_rate = (float)now->learning_rate,
    };
    if (master_is(stream, HAUL_OP_SGD, &sgd->parameter, &sgd->low, &job.split) &&
        haul_cpu_f32(stream, HAUL_OP_SGD, floats, 2) && now->skip == 0) {
        haul_cpu_parallel(stream, haul_tensor_count(&sgd->parameter), LINE, 20, sgd_elements, &job);
    }
}
