#include "schedule/walk.h"

#include <stdio.h>

static int digits_of(int number) {
    return snprintf(NULL, 0, "%d", number);
}

/* One row: every item in the column of its time, "--" where the rank waits. */
static void draw_rank(const haul_schedule_walk *walk, int rank, haul_string *out) {
    const haul_schedule *schedule = walk->schedule;
    int width = digits_of(schedule->micro_batches - 1);
    int64_t column = 0;
    haul_string_append_format(out, "rank %*d:", digits_of(schedule->stages - 1), rank);
    for (int64_t i = 0; i < schedule->ranks[rank].count; i++) {
        haul_schedule_item item = schedule->ranks[rank].items[i];
        int64_t end = haul_schedule_walk_end(walk, rank, item);
        for (; column + 1 < end; column++) {
            haul_string_append_format(out, " %*s", 1 + width, "--");
        }
        haul_string_append_format(out, " %s%0*d", haul_schedule_op_names[item.op], width,
                                  item.micro_batch);
        column++;
    }
    haul_string_append_text(out, "\n");
}

haul_status haul_schedule_print(const haul_schedule *schedule, haul_string *out) {
    HAUL_TRY(haul_schedule_check(schedule));
    haul_schedule_walk walk;
    haul_status status = haul_schedule_walk_init(&walk, schedule);
    for (int rank = 0; rank < schedule->stages && status == HAUL_OK; rank++) {
        draw_rank(&walk, rank, out);
    }
    haul_schedule_walk_deinit(&walk);
    return status == HAUL_OK ? haul_string_status(out) : status;
}
