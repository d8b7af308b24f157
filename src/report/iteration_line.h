/* The lines of a training run in Megatron-LM's exact form, which users' log parsers read. */
#ifndef HAUL_REPORT_ITERATION_LINE_H
#define HAUL_REPORT_ITERATION_LINE_H

#include "base/string.h"

#include <stdint.h>

/* What one log interval has to say. A NAN in an optional field leaves it out. */
typedef struct haul_iteration {
    int64_t iteration;
    int64_t train_iters;
    int64_t consumed_samples;
    int64_t skipped_samples; /* shown when > 0 */
    double elapsed_ms;       /* mean per iteration of the interval */
    double throughput;       /* TFLOP/s per device; optional */
    double learning_rate;
    int64_t global_batch_size; /* sequences */
    double loss;               /* mean over the interval's finite steps; left out when negative */
    double loss_scale;         /* 1 without loss scaling */
    double grad_norm;          /* optional */
    double params_norm;        /* optional */
    int64_t num_zeros;         /* gradient elements that are zero; < 0 when not counted */
    int64_t skipped_iterations;
    int64_t nan_iterations;
} haul_iteration;

enum { HAUL_TIMESTAMP_BYTES = 48 };

/* "2025-01-31 09:08:07.000042", local time, from seconds since 1970 UTC. */
void haul_iteration_timestamp(double wall, char out[HAUL_TIMESTAMP_BYTES]);

/* Appends Megatron's iteration line without the end of line; `timestamp` goes between the
 * brackets. */
void haul_iteration_line(const haul_iteration *iteration, const char *timestamp, haul_string *out);

/* Appends Megatron's three lines (dashes, values, dashes), each with its end of line. `where` is
 * "iteration 100" during training, "iteration 100 on validation set" or "... on test set" after
 * it. The perplexity is exp(min(20, loss)). */
void haul_validation_lines(const char *where, double loss, haul_string *out);

#endif
