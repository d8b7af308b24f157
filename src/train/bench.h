/* How fast a model trains: the steps of haul train on made-up data, timed; and once more with a
 * stamp before and behind each launch, to tell where the time goes. */
#ifndef HAUL_TRAIN_BENCH_H
#define HAUL_TRAIN_BENCH_H

#include "data/dataset.h"
#include "train/bench_args.h"
#include "train/session.h"

/* Makes settings, before haul_config_finalize, those of a training that only measures: made-up
 * data, nothing saved, evaluated or logged, a small constant learning rate, enough iterations, and
 * of what a preset says at most 16 micro-batches. HAUL_ERROR_USAGE for what cannot be measured. */
haul_status haul_bench_settle(haul_config *config);

typedef struct haul_bench_result {
    int64_t warm_up_steps, steps;
    double warm_up_seconds;
    double median, fastest, slowest; /* seconds of a timed step */
    haul_condition condition;        /* during the timed steps */
    int64_t used_bytes;              /* of the device's memory; 0: unknown */
    /* Of one more step, with stamps. */
    double stamped_seconds;
    double class_seconds[HAUL_OP_CLASSES];
    int64_t class_launches[HAUL_OP_CLASSES];
} haul_bench_result;

/* Gives an allocated session random weights, warms up for two seconds and two steps at least, and
 * times config->bench_steps steps. */
haul_status haul_bench_train(haul_session *session, const haul_dataset *dataset,
                             haul_bench_result *out);

/* The middle of `count` numbers, which are sorted for it; NAN without any. */
double haul_bench_median(double *values, int64_t count);

#endif
