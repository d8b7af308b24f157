#include "device/cpu/simd/random.h"

#include "base/memory.h"
#include "device/cpu/simd/kernels.h"

typedef struct dropout_job {
    const haul_dropout_args *args;
    dropout_rule rule;
    int64_t sample_size;   /* elements of a sample */
    int64_t sample_blocks; /* blocks of a sample, the last one may be short */
    bool bf16;
} dropout_job;

HAUL_INLINE void dropout_span(const dropout_job *job, int64_t begin, int64_t end, bool bf16) {
    float factor[HAUL_DROPOUT_BLOCK];
    for (int64_t block = begin; block < end; block++) {
        int64_t sample = block / job->sample_blocks;
        int64_t first = block % job->sample_blocks * HAUL_DROPOUT_BLOCK;
        int64_t count = haul_min(HAUL_DROPOUT_BLOCK, job->sample_size - first);
        const void *x = element(&job->args->x, sample * job->sample_size + first, bf16);
        void *y = element(&job->args->y, sample * job->sample_size + first, bf16);
        dropout_factors(&job->rule, sample, first, factor);
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            store(y, i, bf16, load(x, i, bf16) * factor[i]);
        }
    }
}

static void dropout_blocks(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const dropout_job *job = context;
    if (job->bf16) {
        dropout_span(job, begin, end, true);
    } else {
        dropout_span(job, begin, end, false);
    }
}

void HAUL_ISA(haul_cpu_dropout)(haul_stream *stream, const void *args) {
    const haul_dropout_args *dropout = args;
    dropout_job job = {.args = dropout};
    const haul_tensor *const tensors[] = {&dropout->x, &dropout->y};
    int64_t count = haul_tensor_count(&dropout->y);
    if (count == 0 || !haul_cpu_dtype(stream, HAUL_OP_DROPOUT, tensors, 2, &job.bf16)) {
        return;
    }
    if (dropout->dropout.probability <= 0.0) {
        if (dropout->x.data != dropout->y.data) {
            int64_t columns = haul_tensor_columns(&dropout->y);
            haul_copy_args copy = {dropout->x, dropout->y, columns, columns};
            HAUL_ISA(haul_cpu_copy)(stream, &copy);
        }
        return;
    }
    job.rule = dropout_prepare(&dropout->dropout);
    job.sample_size = dropout->sequence_length * haul_tensor_columns(&dropout->y);
    job.sample_blocks = (job.sample_size + HAUL_DROPOUT_BLOCK - 1) / HAUL_DROPOUT_BLOCK;
    int64_t blocks = count / job.sample_size * job.sample_blocks;
    haul_cpu_parallel(stream, blocks, 1, HAUL_DROPOUT_BLOCK * 32, dropout_blocks, &job);
}
