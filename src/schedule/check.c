#include "schedule/schedule.h"

#include "base/memory.h"

#include <stdbool.h>

#include <stdlib.h>

static const char *const op_names[] = {"F", "B", "W"};

/* done[(stage * micro_batches + m) * 3 + op] */
typedef struct progress {
    const haul_schedule *schedule;
    unsigned char *done;
    int64_t *next; /* position of each rank */
} progress;

static unsigned char *cell(const progress *state, int stage, int micro_batch, haul_schedule_op op) {
    int64_t row = (int64_t)stage * state->schedule->micro_batches + micro_batch;
    return &state->done[row * 3 + op];
}

static haul_status fail_item(int stage, int64_t position, haul_schedule_item item,
                             const char *what) {
    return haul_fail(HAUL_ERROR_CONFIG, "schedule, rank %d, position %lld, %s%d: %s", stage,
                     (long long)position, op_names[item.op], item.micro_batch, what);
}

/* What does not depend on other ranks: range, once each, own order. */
static haul_status check_rank(const progress *state, int stage) {
    const haul_schedule *schedule = state->schedule;
    const haul_schedule_rank *rank = &schedule->ranks[stage];
    int last_weight = -1;
    for (int64_t i = 0; i < rank->count; i++) {
        haul_schedule_item item = rank->items[i];
        if (item.micro_batch < 0 || item.micro_batch >= schedule->micro_batches || item.chunk < 0 ||
            item.chunk >= schedule->chunks) {
            return fail_item(stage, i, item, "no such micro-batch or chunk");
        }
        if (*cell(state, stage, item.micro_batch, item.op)) {
            return fail_item(stage, i, item, "comes twice");
        }
        if (item.op != HAUL_SCHEDULE_FORWARD &&
            !*cell(state, stage, item.micro_batch, (haul_schedule_op)(item.op - 1))) {
            return fail_item(stage, i, item, "comes before what it needs");
        }
        if (item.op == HAUL_SCHEDULE_WEIGHT) {
            if (item.micro_batch < last_weight) {
                return fail_item(stage, i, item, "W must run in ascending order of micro-batches");
            }
            last_weight = item.micro_batch;
        }
        *cell(state, stage, item.micro_batch, item.op) = 1;
    }
    if (rank->count != 3 * (int64_t)schedule->micro_batches) {
        return haul_fail(HAUL_ERROR_CONFIG, "schedule, rank %d: %lld items, must be %lld", stage,
                         (long long)rank->count, 3 * (long long)schedule->micro_batches);
    }
    return HAUL_OK;
}

static bool ready(const progress *state, int stage, haul_schedule_item item) {
    if (item.op == HAUL_SCHEDULE_FORWARD) {
        return stage == 0 || *cell(state, stage - 1, item.micro_batch, item.op);
    }
    if (item.op == HAUL_SCHEDULE_BACKWARD) {
        return stage == state->schedule->stages - 1 ||
               *cell(state, stage + 1, item.micro_batch, item.op);
    }
    return true;
}

/* Runs all ranks as far as they come; stuck before the end is a deadlock. */
static haul_status check_deadlock(progress *state) {
    const haul_schedule *schedule = state->schedule;
    bool moved = true;
    while (moved) {
        moved = false;
        for (int stage = 0; stage < schedule->stages; stage++) {
            const haul_schedule_rank *rank = &schedule->ranks[stage];
            while (state->next[stage] < rank->count &&
                   ready(state, stage, rank->items[state->next[stage]])) {
                haul_schedule_item item = rank->items[state->next[stage]++];
                *cell(state, stage, item.micro_batch, item.op) = 1;
                moved = true;
            }
        }
    }
    for (int stage = 0; stage < schedule->stages; stage++) {
        int64_t at = state->next[stage];
        if (at < schedule->ranks[stage].count) {
            return fail_item(stage, at, schedule->ranks[stage].items[at],
                             "waits for ever for another rank (deadlock)");
        }
    }
    return HAUL_OK;
}

haul_status haul_schedule_check(const haul_schedule *schedule) {
    int64_t cells = (int64_t)schedule->stages * schedule->micro_batches * 3;
    progress state = {.schedule = schedule,
                      .done = haul_calloc(cells, 1),
                      .next = haul_calloc(schedule->stages, sizeof(int64_t))};
    haul_status status = state.done != NULL && state.next != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
    for (int stage = 0; stage < schedule->stages && status == HAUL_OK; stage++) {
        status = check_rank(&state, stage);
    }
    for (int64_t i = 0; i < cells && status == HAUL_OK; i++) {
        state.done[i] = 0;
    }
    if (status == HAUL_OK) {
        status = check_deadlock(&state);
    }
    free(state.done);
    free(state.next);
    return status;
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

/* Time advances by one cell an op; a rank that waits shows "--". */
haul_status haul_schedule_print(const haul_schedule *schedule, haul_string *out) {
    haul_status status = haul_schedule_check(schedule);
    int64_t cells = (int64_t)schedule->stages * schedule->micro_batches * 3;
    progress state = {.schedule = schedule,
                      .done = haul_calloc(cells, 1),
                      .next = haul_calloc(schedule->stages, sizeof(int64_t))};
    haul_string *rows = haul_calloc(schedule->stages, sizeof *rows);
    if (status == HAUL_OK && (state.done == NULL || state.next == NULL || rows == NULL)) {
        status = HAUL_ERROR_MEMORY;
    }
    for (int64_t left = cells; status == HAUL_OK && left > 0;) {
        haul_schedule_item *ran = haul_calloc(schedule->stages, sizeof *ran);
        if (ran == NULL) {
            status = HAUL_ERROR_MEMORY;
            break;
        }
        for (int stage = 0; stage < schedule->stages; stage++) {
            const haul_schedule_rank *rank = &schedule->ranks[stage];
            int64_t at = state.next[stage];
            ran[stage].chunk = -1;
            if (at < rank->count && ready(&state, stage, rank->items[at])) {
                ran[stage] = rank->items[at];
                state.next[stage]++;
                left--;
            }
        }
        for (int stage = 0; stage < schedule->stages; stage++) {
            if (ran[stage].chunk < 0) {
                haul_string_append_text(&rows[stage], " -- ");
            } else {
                *cell(&state, stage, ran[stage].micro_batch, ran[stage].op) = 1;
                haul_string_append_format(&rows[stage], "%s%-3d", op_names[ran[stage].op],
                                          ran[stage].micro_batch);
            }
        }
        free(ran);
    }
    for (int stage = 0; rows != NULL && stage < schedule->stages; stage++) {
        if (status == HAUL_OK) {
            haul_string_append_format(out, "stage %-3d %s\n", stage, rows[stage].data);
        }
        haul_string_deinit(&rows[stage]);
    }
    free(rows);
    free(state.done);
    free(state.next);
    return status == HAUL_OK ? haul_string_status(out) : status;
}
