/* Made-up contents of tensors in device memory, for measuring: products of zeros run faster than
 * those of real numbers. */
#ifndef HAUL_TRAIN_BENCH_FILL_H
#define HAUL_TRAIN_BENCH_FILL_H

#include "train/bench_args.h"

typedef struct haul_bench_filler {
    haul_stream *stream;
    double *numbers; /* normal ones */
    void *staging;   /* host memory */
} haul_bench_filler;

/* The stream must outlive it. Deinit is legal after a failure. */
haul_status haul_bench_filler_init(haul_bench_filler *filler, haul_stream *stream);
void haul_bench_filler_deinit(haul_bench_filler *filler);

/* Fills a tensor with data, `bytes` of memory from its first element on, with numbers that repeat
 * after a quarter of a million; normal ones are multiplied by `scale`, tokens are below
 * `vocabulary`. Waits for the stream. ZERO and PACKED leave it as it is. */
haul_status haul_bench_fill(const haul_bench_filler *filler, const haul_tensor *tensor,
                            int64_t bytes, haul_bench_content content, double scale,
                            int64_t vocabulary);

#endif
