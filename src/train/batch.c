#include "train/batch.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

haul_status haul_batch_init(haul_batch *batch, int64_t samples, int64_t length,
                            int64_t micro_batches) {
    *batch = (haul_batch){.samples = samples, .length = length, .micro_batches = micro_batches};
    batch->tokens = haul_calloc(samples * (length + 1), sizeof(int32_t));
    batch->labels = haul_calloc(samples, sizeof(int64_t));
    return batch->tokens != NULL && batch->labels != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
}

void haul_batch_deinit(haul_batch *batch) {
    free(batch->tokens);
    free(batch->labels);
    *batch = (haul_batch){0};
}

static int32_t *sample_tokens(const haul_batch *batch, int64_t sample) {
    return batch->tokens + sample * (batch->length + 1);
}

static void clear_tokens(haul_batch *batch) {
    memset(batch->tokens, 0,
           (size_t)(batch->samples * (batch->length + 1)) * sizeof *batch->tokens);
}

haul_status haul_batch_load(haul_batch *batch, const haul_dataset *dataset, int64_t first) {
    int64_t available = haul_dataset_samples(dataset) - first;
    if (available < batch->samples) {
        clear_tokens(batch);
    }
    for (int64_t s = 0; s < batch->samples; s++) {
        batch->labels[s] = s < available ? batch->length : 0;
        if (s < available) {
            HAUL_TRY(haul_dataset_sample(dataset, first + s, sample_tokens(batch, s)));
        }
    }
    return HAUL_OK;
}

haul_status haul_batch_load_windows(haul_batch *batch, const haul_windows *windows, int64_t first) {
    clear_tokens(batch);
    for (int64_t s = 0; s < batch->samples; s++) {
        batch->labels[s] = 0;
        if (first + s < haul_windows_count(windows)) {
            HAUL_TRY(
                haul_windows_get(windows, first + s, sample_tokens(batch, s), &batch->labels[s]));
        }
    }
    return HAUL_OK;
}

static void fill_weights(const haul_batch *batch, int64_t first, int64_t samples,
                         haul_tensor tensor) {
    int64_t labels = 0;
    for (int64_t s = 0; s < samples; s++) {
        labels += batch->labels[first + s];
    }
    double weight = 1 / ((double)haul_max(labels, 1) * (double)batch->micro_batches);
    for (int64_t r = 0; r < haul_tensor_count(&tensor); r++) {
        bool counts = r % batch->length < batch->labels[first + r / batch->length];
        haul_element_set(tensor.data, tensor.dtype, r, counts ? weight : 0);
    }
}

haul_status haul_batch_fill(void *context, int micro_batch, const char *value, haul_tensor tensor) {
    const haul_batch *batch = context;
    int64_t samples = haul_tensor_count(&tensor) / batch->length;
    int64_t first = micro_batch * samples;
    if (strcmp(value, "weights") == 0) {
        fill_weights(batch, first, samples, tensor);
        return HAUL_OK;
    }
    int64_t shift = strcmp(value, "targets") == 0;
    for (int64_t s = 0; s < samples; s++) {
        memcpy((int32_t *)tensor.data + s * batch->length, sample_tokens(batch, first + s) + shift,
               (size_t)batch->length * sizeof(int32_t));
    }
    return HAUL_OK;
}

void haul_batch_sum_losses(const haul_batch *batch, const haul_executor *executor, int value,
                           double *sum, int64_t *count) {
    int64_t samples = batch->samples / batch->micro_batches;
    for (int m = 0; m < batch->micro_batches; m++) {
        haul_tensor losses = haul_executor_output(executor, value, m);
        for (int64_t s = 0; s < samples; s++) {
            int64_t labels = batch->labels[m * samples + s];
            for (int64_t t = 0; t < labels; t++) {
                *sum += haul_element_get(losses.data, losses.dtype, s * batch->length + t);
            }
            *count += labels;
        }
    }
}
