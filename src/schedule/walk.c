#include "schedule/walk.h"

#include "base/memory.h"

#include <stdlib.h>

const char *const haul_schedule_op_names[HAUL_SCHEDULE_OPS] = {"F", "B", "W"};

static int64_t *end_of(const haul_schedule_walk *walk, int stage, haul_schedule_item item) {
    int64_t row = (int64_t)stage * walk->schedule->micro_batches + item.micro_batch;
    return &walk->ends[row * HAUL_SCHEDULE_OPS + (int64_t)item.op];
}

int64_t haul_schedule_walk_end(const haul_schedule_walk *walk, int stage, haul_schedule_item item) {
    return *end_of(walk, stage, item);
}

/* The stage whose op of the same kind an item waits for; -1: it waits for none. */
static int source_of(const haul_schedule *schedule, int stage, haul_schedule_op op) {
    if (op == HAUL_SCHEDULE_FORWARD) {
        return stage - 1;
    }
    return op == HAUL_SCHEDULE_BACKWARD && stage + 1 < schedule->stages ? stage + 1 : -1;
}

/* Runs the next item of a rank; false when there is none or it has to wait. */
static bool advance(haul_schedule_walk *walk, int stage) {
    const haul_schedule_rank *rank = &walk->schedule->ranks[stage];
    int64_t at = walk->next[stage];
    if (at == rank->count) {
        return false;
    }
    haul_schedule_item item = rank->items[at];
    int64_t begin = at > 0 ? *end_of(walk, stage, rank->items[at - 1]) : 0;
    int source = source_of(walk->schedule, stage, item.op);
    if (source >= 0) {
        int64_t arrival = *end_of(walk, source, item);
        if (arrival == 0) {
            return false;
        }
        begin = haul_max(begin, arrival);
    }
    *end_of(walk, stage, item) = begin + 1;
    walk->next[stage]++;
    return true;
}

haul_status haul_schedule_walk_init(haul_schedule_walk *walk, const haul_schedule *schedule) {
    int64_t cells = (int64_t)schedule->stages * schedule->micro_batches * HAUL_SCHEDULE_OPS;
    *walk = (haul_schedule_walk){.schedule = schedule,
                                 .ends = haul_calloc(cells, sizeof(int64_t)),
                                 .next = haul_calloc(schedule->stages, sizeof(int64_t))};
    if (walk->ends == NULL || walk->next == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int stage = 0; stage < schedule->stages; stage++) {
            while (advance(walk, stage)) {
                moved = true;
            }
        }
    }
    return HAUL_OK;
}

void haul_schedule_walk_deinit(haul_schedule_walk *walk) {
    free(walk->ends);
    free(walk->next);
    *walk = (haul_schedule_walk){0};
}
