#include "schedule/schedule.h"

#include "base/memory.h"

#include <stdlib.h>

void haul_schedule_deinit(haul_schedule *schedule) {
    for (int rank = 0; schedule->ranks != NULL && rank < schedule->stages; rank++) {
        free(schedule->ranks[rank].items);
    }
    free(schedule->ranks);
    *schedule = (haul_schedule){0};
}

static haul_status create(int stages, int micro_batches, haul_schedule *out) {
    if (stages < 1 || micro_batches < 1) {
        return haul_fail(HAUL_ERROR_CONFIG,
                         "a schedule needs at least one stage and one micro-batch");
    }
    *out = (haul_schedule){.stages = stages, .chunks = 1, .micro_batches = micro_batches};
    out->ranks = haul_calloc(stages, sizeof *out->ranks);
    for (int rank = 0; out->ranks != NULL && rank < stages; rank++) {
        int64_t items = 3 * (int64_t)micro_batches;
        out->ranks[rank].items = haul_calloc(items, sizeof(haul_schedule_item));
        out->ranks[rank].capacity = items;
        if (out->ranks[rank].items == NULL) {
            haul_schedule_deinit(out);
            return HAUL_ERROR_MEMORY;
        }
    }
    return out->ranks != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
}

static void append(haul_schedule_rank *rank, haul_schedule_op op, int micro_batch) {
    rank->items[rank->count++] = (haul_schedule_item){.op = op, .micro_batch = micro_batch};
}

static void append_backward(haul_schedule_rank *rank, int micro_batch) {
    append(rank, HAUL_SCHEDULE_BACKWARD, micro_batch);
    append(rank, HAUL_SCHEDULE_WEIGHT, micro_batch);
}

haul_status haul_schedule_none(int micro_batches, haul_schedule *out) {
    return haul_schedule_1f1b(1, micro_batches, out);
}

haul_status haul_schedule_1f1b(int stages, int micro_batches, haul_schedule *out) {
    haul_schedule schedule;
    HAUL_TRY(create(stages, micro_batches, &schedule));
    for (int stage = 0; stage < stages; stage++) {
        haul_schedule_rank *rank = &schedule.ranks[stage];
        int ahead = stages - stage - 1 < micro_batches ? stages - stage - 1 : micro_batches;
        for (int i = 0; i < ahead; i++) {
            append(rank, HAUL_SCHEDULE_FORWARD, i);
        }
        for (int i = 0; i < micro_batches; i++) {
            if (i + ahead < micro_batches) {
                append(rank, HAUL_SCHEDULE_FORWARD, i + ahead);
            }
            append_backward(rank, i);
        }
    }
    *out = schedule;
    return HAUL_OK;
}
