#include "device/cpu/simd/kernels.h"

HAUL_INLINE void embed_span(const haul_embed_args *embed, int64_t begin, int64_t end, bool bf16) {
    const int32_t *tokens = embed->tokens.data;
    int64_t hidden = haul_tensor_columns(&embed->y);
    for (int64_t r = begin; r < end; r++) {
        const void *word = element(&embed->table, tokens[r] * hidden, bf16);
        void *y = element(&embed->y, r * hidden, bf16);
        if (!haul_tensor_present(&embed->positions)) {
            memcpy(y, word, (size_t)(hidden * (bf16 ? 2 : 4)));
            continue;
        }
        int64_t at = r % embed->sequence_length + embed->position_offset;
        const void *position = element(&embed->positions, at * hidden, bf16);
#pragma omp simd
        for (int64_t h = 0; h < hidden; h++) {
            store(y, h, bf16, load(word, h, bf16) + load(position, h, bf16));
        }
    }
}

static void embed_rows(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const kernel_job *job = context;
    if (job->bf16) {
        embed_span(job->args, begin, end, true);
    } else {
        embed_span(job->args, begin, end, false);
    }
}

void HAUL_ISA(haul_cpu_embed)(haul_stream *stream, const void *args) {
    const haul_embed_args *embed = args;
    kernel_job job = {.args = embed};
    const haul_tensor *const tensors[] = {&embed->y, &embed->table, &embed->positions};
    if (!haul_cpu_dtype(stream, HAUL_OP_EMBED, tensors, 3, &job.bf16) ||
        !haul_cpu_indices(stream, HAUL_OP_EMBED, &embed->tokens, embed->table.shape[0])) {
        return;
    }
    int64_t row_bytes = 3 * 4 * haul_tensor_columns(&embed->y);
    haul_cpu_parallel(stream, haul_tensor_rows(&embed->y), 1, row_bytes, embed_rows, &job);
}

HAUL_INLINE void add_row(float *sum, const void *row, int64_t begin, int64_t end, bool bf16) {
#pragma omp simd
    for (int64_t h = begin; h < end; h++) {
        sum[h] += load(row, h, bf16);
    }
}

HAUL_INLINE void embed_backward_span(const haul_embed_backward_args *embed, int64_t begin,
                                     int64_t end, bool bf16) {
    const int32_t *tokens = embed->tokens.data;
    float *d_table = embed->d_table.data, *d_positions = embed->d_positions.data;
    int64_t rows = haul_tensor_rows(&embed->dy), hidden = haul_tensor_columns(&embed->dy);
    bool positions = haul_tensor_present(&embed->d_positions);
    for (int64_t r = 0; r < rows; r++) {
        const void *dy = element(&embed->dy, r * hidden, bf16);
        add_row(d_table + tokens[r] * hidden, dy, begin, end, bf16);
        if (positions) {
            add_row(d_positions + r % embed->sequence_length * hidden, dy, begin, end, bf16);
        }
    }
}

/* A thread owns columns, so that rows of the same token are added in ascending order whatever
 * the number of threads. */
static void embed_backward_columns(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const kernel_job *job = context;
    if (job->bf16) {
        embed_backward_span(job->args, begin, end, true);
    } else {
        embed_backward_span(job->args, begin, end, false);
    }
}

static void clear(haul_stream *stream, const haul_tensor *gradient) {
    if (haul_tensor_present(gradient)) {
        haul_fill_args fill = {.y = *gradient};
        HAUL_ISA(haul_cpu_fill)(stream, &fill);
    }
}

void HAUL_ISA(haul_cpu_embed_backward)(haul_stream *stream, const void *args) {
    const haul_embed_backward_args *embed = args;
    kernel_job job = {.args = embed};
    const haul_tensor *const activations[] = {&embed->dy};
    const haul_tensor *const gradients[] = {&embed->d_table, &embed->d_positions};
    if (!haul_cpu_dtype(stream, HAUL_OP_EMBED_BACKWARD, activations, 1, &job.bf16) ||
        !haul_cpu_f32(stream, HAUL_OP_EMBED_BACKWARD, gradients, 2) ||
        !haul_cpu_indices(stream, HAUL_OP_EMBED_BACKWARD, &embed->tokens,
                          embed->d_table.shape[0])) {
        return;
    }
    if (!embed->accumulate_table) {
        clear(stream, &embed->d_table);
    }
    if (!embed->accumulate_positions) {
        clear(stream, &embed->d_positions);
    }
    enum { GRAIN = 16 }; /* a cache line of gradients */
    int64_t column_bytes = 5 * 4 * haul_tensor_rows(&embed->dy);
    haul_cpu_parallel(stream, haul_tensor_columns(&embed->dy), GRAIN, column_bytes,
                      embed_backward_columns, &job);
}
