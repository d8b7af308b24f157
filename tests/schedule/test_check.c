/* ctest: unit */
/* The checker must reject lists that 1F1B could have become by a mistake. */
#include "testing.h"

#include "schedule/schedule.h"

#include <string.h>

enum { STAGES = 4, MICRO_BATCHES = 8 };

#define F HAUL_SCHEDULE_FORWARD
#define B HAUL_SCHEDULE_BACKWARD
#define W HAUL_SCHEDULE_WEIGHT

static int64_t find(const haul_schedule_rank *rank, haul_schedule_op op, int micro_batch) {
    for (int64_t i = 0; i < rank->count; i++) {
        if (rank->items[i].op == op && rank->items[i].micro_batch == micro_batch) {
            return i;
        }
    }
    fail_msg("the list has no such item");
    return -1;
}

static void swap(haul_schedule_rank *rank, int64_t a, int64_t b) {
    haul_schedule_item item = rank->items[a];
    rank->items[a] = rank->items[b];
    rank->items[b] = item;
}

/* Takes the item at `from` out and puts it in so that it stands at `to`. */
static void move(haul_schedule_rank *rank, int64_t from, int64_t to) {
    for (int64_t i = from; i != to; i += from < to ? 1 : -1) {
        swap(rank, i, from < to ? i + 1 : i - 1);
    }
}

static void drop(haul_schedule_rank *rank, int64_t at) {
    move(rank, at, rank->count - 1);
    rank->count--;
}

static void missing_forward(haul_schedule *s) {
    drop(&s->ranks[1], find(&s->ranks[1], F, 5));
}

static void missing_backward(haul_schedule *s) {
    drop(&s->ranks[2], find(&s->ranks[2], B, 3));
}

static void missing_weight(haul_schedule *s) {
    drop(&s->ranks[3], find(&s->ranks[3], W, 6));
}

static void empty_list(haul_schedule *s) {
    s->ranks[2].count = 0;
}

static void duplicate(haul_schedule *s) {
    s->ranks[0].items[find(&s->ranks[0], F, 4)].micro_batch = 3;
}

static void weight_before_backward(haul_schedule *s) {
    swap(&s->ranks[1], find(&s->ranks[1], W, 2), find(&s->ranks[1], B, 2));
}

static void weights_out_of_order(haul_schedule *s) {
    swap(&s->ranks[3], find(&s->ranks[3], W, 2), find(&s->ranks[3], W, 3));
    move(&s->ranks[3], find(&s->ranks[3], W, 3), find(&s->ranks[3], B, 3));
}

static void backward_before_forward(haul_schedule *s) {
    swap(&s->ranks[3], find(&s->ranks[3], F, 1), find(&s->ranks[3], B, 1));
}

static void backwards_out_of_order(haul_schedule *s) {
    haul_schedule_rank *rank = &s->ranks[3];
    swap(rank, find(rank, B, 4), find(rank, B, 5));
}

static void micro_batch_too_large(haul_schedule *s) {
    s->ranks[0].items[find(&s->ranks[0], B, 7)].micro_batch = 8;
}

static void micro_batch_negative(haul_schedule *s) {
    s->ranks[2].items[0].micro_batch = -1;
}

static void chunk_too_large(haul_schedule *s) {
    s->ranks[1].items[3].chunk = 1;
}

static void unknown_op(haul_schedule *s) {
    s->ranks[1].items[3].op = (haul_schedule_op)3;
}

/* The first rank asks for B0 before it has sent what the second needs to get there. */
static void deadlock_by_early_backward(haul_schedule *s) {
    haul_schedule_rank *rank = &s->ranks[0];
    move(rank, find(rank, W, 0), 1);
    move(rank, find(rank, B, 0), 1);
}

/* The last rank does all forwards first, as GPipe would; the others wait for its B0. */
static void deadlock_by_late_backward(haul_schedule *s) {
    haul_schedule_rank *rank = &s->ranks[3];
    for (int m = 0; m < MICRO_BATCHES; m++) {
        move(rank, find(rank, F, m), m);
    }
}

/* Rank 2 wants F7 before it gives B4, rank 1 wants B4 before it gives F7. */
static void deadlock_across_ranks(haul_schedule *s) {
    haul_schedule_rank *rank = &s->ranks[2];
    move(rank, find(rank, F, 7), find(rank, B, 4));
}

typedef struct mutation {
    void (*apply)(haul_schedule *schedule);
    const char *message;
} mutation;

static const mutation mutations[] = {
    {missing_forward, "schedule, rank 1, position 17, B5: comes before its F"},
    {missing_backward, "schedule, rank 2, position 11, W3: comes before its B"},
    {missing_weight, "schedule, rank 3: W6 is missing"},
    {empty_list, "schedule, rank 2: F0 is missing"},
    {duplicate, "schedule, rank 0, position 6, F3: comes twice"},
    {weight_before_backward, "schedule, rank 1, position 9, W2: comes before its B"},
    {weights_out_of_order, "W2: W must run in ascending order of micro-batches"},
    {backward_before_forward, "schedule, rank 3, position 3, B1: comes before its F"},
    {backwards_out_of_order, "schedule, rank 3, position 13, B5: comes before its F"},
    {micro_batch_too_large, "B8: no such micro-batch"},
    {micro_batch_negative, "schedule, rank 2, position 0, F-1: no such micro-batch"},
    {chunk_too_large, "schedule, rank 1, position 3, B0: no such chunk"},
    {unknown_op, "schedule, rank 1, position 3: no such op 3"},
    {deadlock_by_early_backward, "rank 0, position 1, B0: waits for ever for another rank"},
    {deadlock_by_late_backward, "rank 0, position 4, B0: waits for ever for another rank"},
    {deadlock_across_ranks, "waits for ever for another rank"},
};

static void test_rejects_mutations(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mutations / sizeof mutations[0]; i++) {
        haul_schedule schedule;
        haul_string picture = {0};
        assert_ok(haul_schedule_1f1b(STAGES, MICRO_BATCHES, &schedule));
        mutations[i].apply(&schedule);
        haul_test_assert_fails(haul_schedule_check(&schedule), HAUL_ERROR_CONFIG,
                               mutations[i].message);
        haul_test_assert_fails(haul_schedule_print(&schedule, &picture), HAUL_ERROR_CONFIG,
                               mutations[i].message);
        haul_string_deinit(&picture);
        haul_schedule_deinit(&schedule);
    }
}

/* Zero bubble: W may stand far behind its B, as long as its order is kept. */
static void test_accepts_late_weights(void **state) {
    (void)state;
    haul_schedule schedule;
    assert_ok(haul_schedule_1f1b(STAGES, MICRO_BATCHES, &schedule));
    for (int rank = 0; rank < STAGES; rank++) {
        for (int m = 0; m < MICRO_BATCHES; m++) {
            haul_schedule_rank *list = &schedule.ranks[rank];
            move(list, find(list, W, m), list->count - 1);
        }
    }
    assert_ok(haul_schedule_check(&schedule));
    assert_int_equal(haul_schedule_in_flight(&schedule, 0), MICRO_BATCHES);
    haul_schedule_deinit(&schedule);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rejects_mutations),
        cmocka_unit_test(test_accepts_late_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
