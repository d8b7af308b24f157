/* Each op of a training step alone: which launches a step has, and how long each takes. */
#ifndef HAUL_TRAIN_BENCH_KERNELS_H
#define HAUL_TRAIN_BENCH_KERNELS_H

#include "train/bench_fill.h"
#include "train/session.h"

typedef struct haul_bench_launch {
    haul_op op;
    int64_t count; /* in a step */
    haul_cost cost;
    char shape[96];
    double seconds; /* of one; 0 before it was timed */
    union {         /* tensors lack data */
        unsigned char args[HAUL_BENCH_ARGS_BYTES];
        max_align_t align;
    };
} haul_bench_launch;

typedef struct haul_bench_launches {
    haul_bench_launch *items;
    int64_t count, capacity;
} haul_bench_launches;

void haul_bench_launches_deinit(haul_bench_launches *launches);

/* The distinct launches of a step of a planned training, told apart by op, shape and cost. */
haul_status haul_bench_collect(haul_session *session, haul_bench_launches *out);

/* Times launches on a device, in memory of their own. */
typedef struct haul_bench_timer {
    haul_stream stream;
    haul_bench_filler filler;
    haul_stamp begin, end;
} haul_bench_timer;

haul_status haul_bench_timer_init(haul_bench_timer *timer, haul_device *device);
void haul_bench_timer_deinit(haul_bench_timer *timer);

/* Sets launch->seconds: the median of several runs, each of many launches on inputs that no cache
 * holds, after `warm_up` seconds of them. */
haul_status haul_bench_time(haul_bench_timer *timer, haul_bench_launch *launch, double warm_up);

/* FLOP/s of a large square product of this dtype after a warm-up of half a second, and bytes a
 * second of a large copy, read and written both counted. */
haul_status haul_bench_product_ceiling(haul_bench_timer *timer, haul_dtype dtype, double *out);
haul_status haul_bench_copy_ceiling(haul_bench_timer *timer, haul_dtype dtype, double *out);

#endif
