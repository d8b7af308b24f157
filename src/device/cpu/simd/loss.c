#include "base/memory.h"
#include "device/cpu/simd/kernels.h"

#include <float.h>

enum { BLOCK = 1024 }; /* logits whose maximum and sum are found while they are near */

typedef struct softmax {
    float maximum;
    double sum; /* of e^(x - maximum) */
} softmax;

HAUL_INLINE float maximum_of(const void *x, int64_t count, float maximum, bool bf16) {
#pragma omp simd reduction(max : maximum)
    for (int64_t i = 0; i < count; i++) {
        float value = load(x, i, bf16);
        maximum = value > maximum ? value : maximum;
    }
    return maximum;
}

HAUL_INLINE float sum_of_exp(const void *x, int64_t count, float maximum, bool bf16) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) {
        sum += exp_f32(load(x, i, bf16) - maximum);
    }
    return sum;
}

/* One visit of a row: when a block raises the maximum, the sum so far is scaled down (Milakov and
 * Gimelshein, "Online normalizer calculation for softmax", 2018). */
HAUL_INLINE softmax visit(const haul_tensor *logits, int64_t row, int64_t vocabulary, bool bf16) {
    softmax result = {-FLT_MAX, 0.0}; /* finite, so that a block of -inf adds 0 */
    for (int64_t v = 0; v < vocabulary; v += BLOCK) {
        const void *x = element(logits, row * haul_tensor_columns(logits) + v, bf16);
        int64_t count = haul_min(BLOCK, vocabulary - v);
        float maximum = maximum_of(x, count, result.maximum, bf16);
        if (maximum > result.maximum) {
            result.sum *= exp((double)result.maximum - (double)maximum);
            result.maximum = maximum;
        }
        result.sum += (double)sum_of_exp(x, count, result.maximum, bf16);
    }
    return result;
}

HAUL_INLINE void write_gradient(void *x, int64_t columns, int64_t vocabulary, int64_t target,
                                softmax row, float weight, bool bf16) {
    float scale = (float)((double)weight / row.sum), maximum = row.maximum;
    float at_target = exp_f32(load(x, target, bf16) - maximum);
#pragma omp simd
    for (int64_t v = 0; v < vocabulary; v++) {
        store(x, v, bf16, scale * exp_f32(load(x, v, bf16) - maximum));
    }
    store(x, target, bf16, (float)((double)weight * ((double)at_target / row.sum - 1.0)));
    for (int64_t v = vocabulary; v < columns; v++) {
        store(x, v, bf16, 0.0f);
    }
}

HAUL_INLINE void loss_span(const haul_loss_args *loss, int64_t begin, int64_t end, bool bf16) {
    int64_t columns = haul_tensor_columns(&loss->logits), vocabulary = loss->vocabulary;
    const int32_t *targets = loss->targets.data;
    const float *weights = loss->weights.data;
    float *losses = loss->losses.data;
    for (int64_t r = begin; r < end; r++) {
        void *x = element(&loss->logits, r * columns, bf16);
        softmax row = visit(&loss->logits, r, vocabulary, bf16);
        double to_target = (double)row.maximum - (double)load(x, targets[r], bf16);
        losses[r] = (float)(log(row.sum) + to_target);
        if (loss->gradient) {
            write_gradient(x, columns, vocabulary, targets[r], row, weights[r], bf16);
        }
    }
}

static void loss_rows(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const kernel_job *job = context;
    if (job->bf16) {
        loss_span(job->args, begin, end, true);
    } else {
        loss_span(job->args, begin, end, false);
    }
}

void HAUL_ISA(haul_cpu_loss)(haul_stream *stream, const void *args) {
    const haul_loss_args *loss = args;
    kernel_job job = {.args = loss};
    const haul_tensor *const activations[] = {&loss->logits};
    const haul_tensor *const floats[] = {&loss->weights, &loss->losses};
    if (haul_cpu_dtype(stream, HAUL_OP_LOSS, activations, 1, &job.bf16) &&
        haul_cpu_f32(stream, HAUL_OP_LOSS, floats, 2) &&
        haul_cpu_indices(stream, HAUL_OP_LOSS, &loss->targets, loss->vocabulary)) {
        int64_t row_bytes = 4 * 4 * haul_tensor_columns(&loss->logits);
        haul_cpu_parallel(stream, haul_tensor_rows(&loss->logits), 1, row_bytes, loss_rows, &job);
    }
}
