#include "device/cpu/simd/columns.h"

typedef struct sum_job {
    const float *partial;
    int64_t count, stride;
    float *sum;
    bool accumulate;
} sum_job;

static void sum_columns(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const sum_job *job = context;
    float *sum = job->sum;
    if (!job->accumulate) {
        memset(sum + begin, 0, (size_t)(end - begin) * sizeof *sum);
    }
    int64_t row = 0;
    for (; row + 4 <= job->count; row += 4) { /* four at a time: `sum` is visited less often */
        const float *a = job->partial + row * job->stride, *b = a + job->stride;
        const float *c = b + job->stride, *d = c + job->stride;
#pragma omp simd
        for (int64_t i = begin; i < end; i++) {
            sum[i] += (a[i] + b[i]) + (c[i] + d[i]);
        }
    }
    for (; row < job->count; row++) {
        const float *a = job->partial + row * job->stride;
#pragma omp simd
        for (int64_t i = begin; i < end; i++) {
            sum[i] += a[i];
        }
    }
}

void HAUL_ISA(haul_cpu_sum_partial)(haul_stream *stream, const float *partial, int64_t count,
                                    int64_t stride, float *sum, int64_t columns, bool accumulate) {
    enum { GRAIN = 16 }; /* a cache line of sums */
    sum_job job = {partial, count, stride, sum, accumulate};
    haul_cpu_parallel(stream, columns, GRAIN, 4 * (count + 1), sum_columns, &job);
}

typedef struct bias_job {
    const haul_bias_backward_args *args;
    float *partial; /* [blocks, C] */
    bool bf16;
} bias_job;

HAUL_INLINE void add_rows(const haul_tensor *dy, int64_t begin, int64_t end, float *sum,
                          bool bf16) {
    int64_t columns = haul_tensor_columns(dy);
    memset(sum, 0, (size_t)columns * sizeof *sum);
    int64_t row = begin;
    for (; row + 4 <= end; row += 4) {
        const void *a = element(dy, row * columns, bf16);
        const void *b = element(dy, (row + 1) * columns, bf16);
        const void *c = element(dy, (row + 2) * columns, bf16);
        const void *d = element(dy, (row + 3) * columns, bf16);
#pragma omp simd
        for (int64_t i = 0; i < columns; i++) {
            sum[i] += (load(a, i, bf16) + load(b, i, bf16)) + (load(c, i, bf16) + load(d, i, bf16));
        }
    }
    for (; row < end; row++) {
        const void *a = element(dy, row * columns, bf16);
#pragma omp simd
        for (int64_t i = 0; i < columns; i++) {
            sum[i] += load(a, i, bf16);
        }
    }
}

static void bias_blocks(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const bias_job *job = context;
    const haul_tensor *dy = &job->args->dy;
    int64_t rows = haul_tensor_rows(dy), columns = haul_tensor_columns(dy);
    int64_t block = column_block_rows(rows);
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * block, last = haul_min(rows, first + block);
        if (job->bf16) {
            add_rows(dy, first, last, job->partial + i * columns, true);
        } else {
            add_rows(dy, first, last, job->partial + i * columns, false);
        }
    }
}

int64_t HAUL_ISA(haul_cpu_bias_backward_workspace)(haul_device *device, const void *args) {
    (void)device;
    const haul_tensor *dy = &((const haul_bias_backward_args *)args)->dy;
    return column_blocks(haul_tensor_rows(dy)) * haul_tensor_columns(dy) * (int64_t)sizeof(float);
}

void HAUL_ISA(haul_cpu_bias_backward)(haul_stream *stream, const void *args) {
    const haul_bias_backward_args *bias = args;
    bias_job job = {.args = bias, .partial = stream->scratch};
    const haul_tensor *const activations[] = {&bias->dy}, *const gradients[] = {&bias->d_bias};
    if (!haul_cpu_dtype(stream, HAUL_OP_BIAS_BACKWARD, activations, 1, &job.bf16) ||
        !haul_cpu_f32(stream, HAUL_OP_BIAS_BACKWARD, gradients, 1)) {
        return;
    }
    int64_t rows = haul_tensor_rows(&bias->dy), columns = haul_tensor_columns(&bias->dy);
    int64_t blocks = column_blocks(rows);
    haul_cpu_parallel(stream, blocks, 1, column_block_rows(rows) * columns * 4, bias_blocks, &job);
    HAUL_ISA(haul_cpu_sum_partial)
    (stream, job.partial, blocks, columns, bias->d_bias.data, columns, bias->accumulate);
}
