/* Loss on data that is not trained on. */
#ifndef HAUL_TRAIN_EVALUATE_H
#define HAUL_TRAIN_EVALUATE_H

#include "data/dataset.h"
#include "data/tokenizer.h"
#include "train/session.h"

typedef struct haul_evaluation {
    double loss_sum; /* nats over all labels */
    int64_t labels;
    int64_t bytes; /* of text that the labels stand for; 0 when unknown */
} haul_evaluation;

double haul_evaluation_loss(const haul_evaluation *evaluation);          /* nats a token */
double haul_evaluation_bits_per_byte(const haul_evaluation *evaluation); /* NAN when unknown */

/* `samples` samples of a data set from `first` on, rounded up to whole micro-batches where there
 * are that many. */
haul_status haul_evaluate_samples(haul_session *session, const haul_dataset *dataset, int64_t first,
                                  int64_t samples, const haul_tokenizer *tokenizer,
                                  haul_evaluation *out);

/* All windows, each label once. `progress` may be NULL. */
haul_status haul_evaluate_windows(haul_session *session, const haul_windows *windows,
                                  const haul_tokenizer *tokenizer,
                                  void (*progress)(void *context, int64_t done, int64_t total),
                                  void *context, haul_evaluation *out);

#endif
