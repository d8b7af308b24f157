#include "base/memory.h"
#include "device/cpu/simd/kernels.h"

enum { ANGLES = 128 }; /* turned at a time, so that their sines and cosines stay near */

HAUL_INLINE void rotate(void *first, void *second, const float *cosine, const float *sine,
                        int64_t count, bool bf16) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float a = load(first, i, bf16), b = load(second, i, bf16);
        store(first, i, bf16, madd(a, cosine[i], -(b * sine[i])));
        store(second, i, bf16, madd(b, cosine[i], a * sine[i]));
    }
}

HAUL_INLINE void rope_span(const haul_rope_args *rope, int64_t begin, int64_t end, bool bf16) {
    int64_t columns = haul_tensor_columns(&rope->x), half = rope->rotary_size / 2;
    const float *table = rope->table.data;
    float sign = rope->inverse ? -1.0f : 1.0f;
    float cosine[ANGLES], sine[ANGLES];
    for (int64_t r = begin; r < end; r++) {
        int64_t position = r % rope->sequence_length + rope->position_offset;
        for (int64_t at = 0; at < half; at += ANGLES) {
            int64_t count = haul_min(ANGLES, half - at);
            const float *angles = table + (position * half + at) * 2;
#pragma omp simd
            for (int64_t i = 0; i < count; i++) {
                cosine[i] = angles[2 * i];
                sine[i] = sign * angles[2 * i + 1];
            }
            for (int64_t n = 0; n < rope->heads; n++) {
                int64_t head = r * columns + n * rope->head_size + at;
                rotate(element(&rope->x, head, bf16), element(&rope->x, head + half, bf16), cosine,
                       sine, count, bf16);
            }
        }
    }
}

static void rope_rows(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const kernel_job *job = context;
    if (job->bf16) {
        rope_span(job->args, begin, end, true);
    } else {
        rope_span(job->args, begin, end, false);
    }
}

void HAUL_ISA(haul_cpu_rope)(haul_stream *stream, const void *args) {
    const haul_rope_args *rope = args;
    kernel_job job = {.args = rope};
    const haul_tensor *const activations[] = {&rope->x}, *const tables[] = {&rope->table};
    if (haul_cpu_dtype(stream, HAUL_OP_ROPE, activations, 1, &job.bf16) &&
        haul_cpu_f32(stream, HAUL_OP_ROPE, tables, 1)) {
        int64_t row_bytes = 2 * 4 * rope->heads * rope->rotary_size;
        haul_cpu_parallel(stream, haul_tensor_rows(&rope->x), 1, row_bytes, rope_rows, &job);
    }
}
