#include "device/cpu/simd/columns.h"
#include "device/cpu/simd/kernels.h"

/* A row is read from memory once; the later loops over it find it in the first-level cache. */

HAUL_INLINE void add_rows(const void *a, const void *b, void *sum, int64_t hidden, bool bf16) {
#pragma omp simd
    for (int64_t h = 0; h < hidden; h++) {
        store(sum, h, bf16, load(a, h, bf16) + load(b, h, bf16));
    }
}

HAUL_INLINE float mean_of(const void *s, int64_t hidden, bool bf16) {
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (int64_t h = 0; h < hidden; h++) {
        total += load(s, h, bf16);
    }
    return total / (float)hidden;
}

HAUL_INLINE float variance_of(const void *s, float mean, int64_t hidden, bool bf16) {
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (int64_t h = 0; h < hidden; h++) {
        float centered = load(s, h, bf16) - mean;
        total = madd(centered, centered, total);
    }
    return total / (float)hidden;
}

HAUL_INLINE void normalise(const haul_norm_args *norm, const void *s, void *y, float mean,
                           float rstd, bool bf16) {
    const void *weight = norm->weight.data, *bias = norm->bias.data;
    int64_t hidden = haul_tensor_columns(&norm->y);
    if (haul_tensor_present(&norm->bias)) {
#pragma omp simd
        for (int64_t h = 0; h < hidden; h++) {
            float n = (load(s, h, bf16) - mean) * rstd;
            store(y, h, bf16, madd(n, load(weight, h, bf16), load(bias, h, bf16)));
        }
    } else {
#pragma omp simd
        for (int64_t h = 0; h < hidden; h++) {
            float n = (load(s, h, bf16) - mean) * rstd;
            store(y, h, bf16, n * load(weight, h, bf16));
        }
    }
}

HAUL_INLINE void norm_span(const haul_norm_args *norm, int64_t begin, int64_t end, bool bf16) {
    int64_t hidden = haul_tensor_columns(&norm->y);
    float *statistics = norm->statistics.data;
    for (int64_t r = begin; r < end; r++) {
        const void *s = element(&norm->x, r * hidden, bf16);
        if (haul_tensor_present(&norm->addend)) {
            void *sum = element(&norm->sum, r * hidden, bf16);
            add_rows(s, element(&norm->addend, r * hidden, bf16), sum, hidden, bf16);
            s = sum;
        }
        float mean = norm->kind == HAUL_NORM_RMS ? 0.0f : mean_of(s, hidden, bf16);
        float variance = variance_of(s, mean, hidden, bf16);
        float rstd = 1.0f / sqrtf(variance + (float)norm->epsilon);
        normalise(norm, s, element(&norm->y, r * hidden, bf16), mean, rstd, bf16);
        statistics[2 * r] = mean;
        statistics[2 * r + 1] = rstd;
    }
}

static void norm_rows(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const kernel_job *job = context;
    if (job->bf16) {
        norm_span(job->args, begin, end, true);
    } else {
        norm_span(job->args, begin, end, false);
    }
}

void HAUL_ISA(haul_cpu_norm)(haul_stream *stream, const void *args) {
    const haul_norm_args *norm = args;
    kernel_job job = {.args = norm};
    const haul_tensor *const activations[] = {&norm->y,   &norm->x,      &norm->addend,
                                              &norm->sum, &norm->weight, &norm->bias};
    const haul_tensor *const statistics[] = {&norm->statistics};
    if (haul_cpu_dtype(stream, HAUL_OP_NORM, activations, 6, &job.bf16) &&
        haul_cpu_f32(stream, HAUL_OP_NORM, statistics, 1)) {
        int64_t row_bytes = 4 * 4 * haul_tensor_columns(&norm->y);
        haul_cpu_parallel(stream, haul_tensor_rows(&norm->y), 1, row_bytes, norm_rows, &job);
    }
}

typedef struct norm_backward_job {
    const haul_norm_backward_args *args;
    float *partial; /* [blocks, H], or [blocks, 2H] with d_bias: sums for weight, then bias */
    int64_t stride; /* of a partial row */
    bool bf16;
} norm_backward_job;

/* The means over a row of g and of g n, where n = (s - mean) * rstd and g = weight * dy. */
typedef struct norm_means {
    float g, gn;
} norm_means;

/* Also adds dy n and, unless NULL, dy to the sums of the weight and the bias. */
HAUL_INLINE norm_means visit_row(const void *dy, const void *s, const void *weight, float mean,
                                 float rstd, float *weight_sum, float *bias_sum, int64_t hidden,
                                 bool bf16) {
    float g_sum = 0.0f, gn_sum = 0.0f;
#pragma omp simd reduction(+ : g_sum, gn_sum)
    for (int64_t h = 0; h < hidden; h++) {
        float d = load(dy, h, bf16);
        float n = (load(s, h, bf16) - mean) * rstd;
        float g = d * load(weight, h, bf16);
        g_sum += g;
        gn_sum = madd(g, n, gn_sum);
        weight_sum[h] = madd(d, n, weight_sum[h]);
    }
    if (bias_sum != NULL) {
#pragma omp simd
        for (int64_t h = 0; h < hidden; h++) {
            bias_sum[h] += load(dy, h, bf16);
        }
    }
    return (norm_means){g_sum / (float)hidden, gn_sum / (float)hidden};
}

/* dx = residual + rstd * (g - mean(g) - n * mean(g n)), without mean(g) for RMS. */
HAUL_INLINE void write_row(const void *dy, const void *s, const void *weight, const void *residual,
                           void *dx, float mean, float rstd, norm_means means, int64_t hidden,
                           bool bf16) {
    if (residual != NULL) {
#pragma omp simd
        for (int64_t h = 0; h < hidden; h++) {
            float n = (load(s, h, bf16) - mean) * rstd;
            float g = madd(load(dy, h, bf16), load(weight, h, bf16), -means.g);
            float d = madd(-n, means.gn, g);
            store(dx, h, bf16, madd(d, rstd, load(residual, h, bf16)));
        }
    } else {
#pragma omp simd
        for (int64_t h = 0; h < hidden; h++) {
            float n = (load(s, h, bf16) - mean) * rstd;
            float g = madd(load(dy, h, bf16), load(weight, h, bf16), -means.g);
            store(dx, h, bf16, madd(-n, means.gn, g) * rstd);
        }
    }
}

HAUL_INLINE void backward_rows(const haul_norm_backward_args *norm, int64_t begin, int64_t end,
                               float *weight_sum, float *bias_sum, bool bf16) {
    int64_t hidden = haul_tensor_columns(&norm->dx);
    const float *statistics = norm->statistics.data;
    for (int64_t r = begin; r < end; r++) {
        const void *dy = element(&norm->dy, r * hidden, bf16);
        const void *s = element(&norm->s, r * hidden, bf16);
        const void *residual = haul_tensor_present(&norm->residual)
                                   ? element(&norm->residual, r * hidden, bf16)
                                   : NULL;
        float mean = statistics[2 * r], rstd = statistics[2 * r + 1];
        norm_means means =
            visit_row(dy, s, norm->weight.data, mean, rstd, weight_sum, bias_sum, hidden, bf16);
        means.g = norm->kind == HAUL_NORM_RMS ? 0.0f : means.g;
        write_row(dy, s, norm->weight.data, residual, element(&norm->dx, r * hidden, bf16), mean,
                  rstd, means, hidden, bf16);
    }
}

static void norm_backward_blocks(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const norm_backward_job *job = context;
    const haul_norm_backward_args *norm = job->args;
    int64_t rows = haul_tensor_rows(&norm->dx), hidden = haul_tensor_columns(&norm->dx);
    int64_t block = column_block_rows(rows);
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * block, last = haul_min(rows, first + block);
        float *weight_sum = job->partial + i * job->stride;
        float *bias_sum = job->stride > hidden ? weight_sum + hidden : NULL;
        memset(weight_sum, 0, (size_t)job->stride * sizeof *weight_sum);
        if (job->bf16) {
            backward_rows(norm, first, last, weight_sum, bias_sum, true);
        } else {
            backward_rows(norm, first, last, weight_sum, bias_sum, false);
        }
    }
}

/* Floats of a partial row. */
static int64_t partial_stride(const haul_norm_backward_args *norm) {
    return haul_tensor_columns(&norm->dx) * (haul_tensor_present(&norm->d_bias) ? 2 : 1);
}

int64_t HAUL_ISA(haul_cpu_norm_backward_workspace)(haul_device *device, const void *args) {
    (void)device;
    const haul_norm_backward_args *norm = args;
    return column_blocks(haul_tensor_rows(&norm->dx)) * partial_stride(norm) *
           (int64_t)sizeof(float);
}

void HAUL_ISA(haul_cpu_norm_backward)(haul_stream *stream, const void *args) {
    const haul_norm_backward_args *norm = args;
    norm_backward_job job = {
        .args = norm, .partial = stream->scratch, .stride = partial_stride(norm)};
    const haul_tensor *const activations[] = {&norm->dx, &norm->dy, &norm->s, &norm->weight,
                                              &norm->residual};
    const haul_tensor *const gradients[] = {&norm->statistics, &norm->d_weight, &norm->d_bias};
    if (!haul_cpu_dtype(stream, HAUL_OP_NORM_BACKWARD, activations, 5, &job.bf16) ||
        !haul_cpu_f32(stream, HAUL_OP_NORM_BACKWARD, gradients, 3)) {
        return;
    }
    int64_t rows = haul_tensor_rows(&norm->dx), hidden = haul_tensor_columns(&norm->dx);
    int64_t blocks = column_blocks(rows);
    int64_t block_bytes = column_block_rows(rows) * hidden * 4 * 4;
    haul_cpu_parallel(stream, blocks, 1, block_bytes, norm_backward_blocks, &job);
    HAUL_ISA(haul_cpu_sum_partial)
    (stream, job.partial, blocks, job.stride, norm->d_weight.data, hidden, norm->accumulate);
    if (haul_tensor_present(&norm->d_bias)) {
        HAUL_ISA(haul_cpu_sum_partial)
        (stream, job.partial + hidden, blocks, job.stride, norm->d_bias.data, hidden,
         norm->accumulate);
    }
}
