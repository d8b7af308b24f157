#include "base/memory.h"
#include "schedule/walk.h"

#include <stdlib.h>

/* Where a failure is. */
typedef struct place {
    const haul_schedule *schedule;
    int rank;
    int64_t position;
} place;

static haul_schedule_item item_at(place at) {
    return at.schedule->ranks[at.rank].items[at.position];
}

static haul_status fail_item(place at, const char *what) {
    haul_schedule_item item = item_at(at);
    return haul_fail(HAUL_ERROR_CONFIG, "schedule, rank %d, position %lld, %s%d: %s", at.rank,
                     (long long)at.position, haul_schedule_op_names[item.op], item.micro_batch,
                     what);
}

static haul_status check_range(place at) {
    haul_schedule_item item = item_at(at);
    if ((int)item.op < 0 || (int)item.op >= HAUL_SCHEDULE_OPS) {
        return haul_fail(HAUL_ERROR_CONFIG, "schedule, rank %d, position %lld: no such op %d",
                         at.rank, (long long)at.position, (int)item.op);
    }
    if (item.micro_batch < 0 || item.micro_batch >= at.schedule->micro_batches) {
        return fail_item(at, "no such micro-batch");
    }
    if (item.chunk < 0 || item.chunk >= at.schedule->chunks) {
        return fail_item(at, "no such chunk");
    }
    return HAUL_OK;
}

/* What does not depend on other ranks. `seen` [micro_batches, ops] is zeroed. */
static haul_status check_rank(const haul_schedule *schedule, int rank, bool *seen) {
    const haul_schedule_rank *list = &schedule->ranks[rank];
    int32_t last_weight = -1;
    for (int64_t i = 0; i < list->count; i++) {
        place at = {schedule, rank, i};
        HAUL_TRY(check_range(at));
        haul_schedule_item item = item_at(at);
        bool *mine = &seen[(int64_t)item.micro_batch * HAUL_SCHEDULE_OPS + (int64_t)item.op];
        if (*mine) {
            return fail_item(at, "comes twice");
        }
        if (item.op != HAUL_SCHEDULE_FORWARD && !mine[-1]) {
            return fail_item(at, item.op == HAUL_SCHEDULE_BACKWARD ? "comes before its F"
                                                                   : "comes before its B");
        }
        if (item.op == HAUL_SCHEDULE_WEIGHT) {
            if (item.micro_batch < last_weight) {
                return fail_item(at, "W must run in ascending order of micro-batches");
            }
            last_weight = item.micro_batch;
        }
        *mine = true;
    }
    for (int64_t i = 0; i < (int64_t)schedule->micro_batches * HAUL_SCHEDULE_OPS; i++) {
        if (!seen[i]) {
            return haul_fail(HAUL_ERROR_CONFIG, "schedule, rank %d: %s%lld is missing", rank,
                             haul_schedule_op_names[i % HAUL_SCHEDULE_OPS],
                             (long long)(i / HAUL_SCHEDULE_OPS));
        }
    }
    return HAUL_OK;
}

static haul_status check_ranks(const haul_schedule *schedule) {
    haul_status status = HAUL_OK;
    for (int rank = 0; rank < schedule->stages && status == HAUL_OK; rank++) {
        bool *seen = haul_calloc(schedule->micro_batches, HAUL_SCHEDULE_OPS * sizeof(bool));
        status = seen != NULL ? check_rank(schedule, rank, seen) : HAUL_ERROR_MEMORY;
        free(seen);
    }
    return status;
}

/* A rank that does not come to the end waits for ever. */
static haul_status check_deadlock(const haul_schedule *schedule) {
    haul_schedule_walk walk;
    haul_status status = haul_schedule_walk_init(&walk, schedule);
    for (int rank = 0; rank < schedule->stages && status == HAUL_OK; rank++) {
        place at = {schedule, rank, walk.next[rank]};
        if (at.position < schedule->ranks[rank].count) {
            status = fail_item(at, "waits for ever for another rank (deadlock)");
        }
    }
    haul_schedule_walk_deinit(&walk);
    return status;
}

haul_status haul_schedule_check(const haul_schedule *schedule) {
    HAUL_TRY(check_ranks(schedule));
    return check_deadlock(schedule);
}

int haul_schedule_in_flight(const haul_schedule *schedule, int rank) {
    const haul_schedule_rank *list = &schedule->ranks[rank];
    int held = 0, most = 0;
    for (int64_t i = 0; i < list->count; i++) {
        held += list->items[i].op == HAUL_SCHEDULE_FORWARD;
        most = held > most ? held : most;
        held -= list->items[i].op == HAUL_SCHEDULE_WEIGHT;
    }
    return most;
}
