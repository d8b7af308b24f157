/* The samples of one step, as the programs read them. */
#ifndef HAUL_TRAIN_BATCH_H
#define HAUL_TRAIN_BATCH_H

#include "data/dataset.h"
#include "step/executor.h"

typedef struct haul_batch {
    int64_t samples;
    int64_t length; /* T; a sample has T + 1 tokens */
    int64_t micro_batches;
    int32_t *tokens; /* [samples, T + 1] */
    int64_t *labels; /* [samples]: labels that count, the first ones of each sample */
} haul_batch;

haul_status haul_batch_init(haul_batch *batch, int64_t samples, int64_t length,
                            int64_t micro_batches);
void haul_batch_deinit(haul_batch *batch);

/* Samples [first, first + batch->samples) of a data set; those beyond its last have no labels. */
haul_status haul_batch_load(haul_batch *batch, const haul_dataset *dataset, int64_t first);

/* The windows [first, first + batch->samples); those beyond the last have no labels. */
haul_status haul_batch_load_windows(haul_batch *batch, const haul_windows *windows, int64_t first);

/* The haul_fill_function of a haul_batch. A label's weight is 1 / (labels of its micro-batch *
 * number of micro-batches), so that the gradient is that of Megatron-LM's loss: the mean over
 * micro-batches of the mean over tokens. */
haul_status haul_batch_fill(void *batch, int micro_batch, const char *value, haul_tensor tensor);

/* Adds up what a run of an executor left in its `losses` value, over labels that count, in the
 * order of the samples. */
void haul_batch_sum_losses(const haul_batch *batch, const haul_executor *executor, int losses,
                           double *sum, int64_t *count);

#endif
