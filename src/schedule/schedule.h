/* A schedule is data: for each pipeline rank the order of its work, as {op, chunk, micro-batch}. It
 * knows nothing of layers. A new schedule is one new generator here; haul_schedule_check proves any
 * list. */
#ifndef HAUL_SCHEDULE_SCHEDULE_H
#define HAUL_SCHEDULE_SCHEDULE_H

#include "base/status.h"
#include "base/string.h"

#include <stdint.h>

typedef enum haul_schedule_op {
    HAUL_SCHEDULE_FORWARD,
    HAUL_SCHEDULE_BACKWARD, /* gradients of the inputs */
    HAUL_SCHEDULE_WEIGHT    /* gradients of the weights */
} haul_schedule_op;

typedef struct haul_schedule_item {
    haul_schedule_op op;
    int32_t chunk; /* of this rank, from 0 */
    int32_t micro_batch;
} haul_schedule_item;

typedef struct haul_schedule_rank {
    haul_schedule_item *items;
    int64_t count, capacity;
} haul_schedule_rank;

typedef struct haul_schedule {
    int stages; /* pipeline ranks; stage s holds the s-th part of the model */
    int chunks; /* a rank */
    int micro_batches;
    haul_schedule_rank *ranks;
} haul_schedule;

void haul_schedule_deinit(haul_schedule *schedule);

/* One stage: F, B, W of each micro-batch in turn. */
haul_status haul_schedule_none(int micro_batches, haul_schedule *out);

/* One forward, one backward (Narayanan et al., "PipeDream", SOSP 2019; the non-interleaved,
 * flushing form of Megatron-LM): stage s runs min(stages - s - 1, micro_batches) forwards first,
 * then alternates. W follows its B at once. */
haul_status haul_schedule_1f1b(int stages, int micro_batches, haul_schedule *out);

/* Proves that each rank does F, B and W of every micro-batch exactly once, F before B before W, W
 * in ascending order, and that all ranks come to the end: F waits for the stage before, B for the
 * stage behind. HAUL_ERROR_CONFIG names rank, position and item of the first mistake. */
haul_status haul_schedule_check(const haul_schedule *schedule);

/* The most micro-batches of which a rank holds activations at once, from F to the end of W. */
int haul_schedule_in_flight(const haul_schedule *schedule, int rank);

/* Appends a picture to `out`: a row for each rank, time from left to right, each op taking one cell
 * ("F3", "B0", "W0"; "--" while the rank waits). Fails where haul_schedule_check does. */
haul_status haul_schedule_print(const haul_schedule *schedule, haul_string *out);

#endif
