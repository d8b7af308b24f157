/* Inside schedule/: running the lists of all ranks against each other. */
#ifndef HAUL_SCHEDULE_WALK_H
#define HAUL_SCHEDULE_WALK_H

#include "schedule/schedule.h"

enum { HAUL_SCHEDULE_OPS = 3 };

/* "F", "B", "W". */
extern const char *const haul_schedule_op_names[HAUL_SCHEDULE_OPS];

typedef struct haul_schedule_walk {
    const haul_schedule *schedule;
    int64_t *ends; /* [stages, micro_batches, ops]: when an item ended; 0: it did not run */
    int64_t *next; /* [stages]: where a rank stands in its list */
} haul_schedule_walk;

/* Runs every rank as far as it comes; an op takes one unit of time, from the moment at which the
 * op before it in the list and the one that it needs of another stage have ended. The items must be
 * in range. Deinit is legal after a failure. */
haul_status haul_schedule_walk_init(haul_schedule_walk *walk, const haul_schedule *schedule);
void haul_schedule_walk_deinit(haul_schedule_walk *walk);

/* When the item of a stage ended; 0: it did not run. */
int64_t haul_schedule_walk_end(const haul_schedule_walk *walk, int stage, haul_schedule_item item);

#endif
