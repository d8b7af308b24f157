/* ctest: unit */
#include "testing.h"

#include "base/memory.h"
#include "schedule/schedule.h"

static void test_1f1b_passes_the_check(void **state) {
    (void)state;
    static const int stages[] = {1, 2, 3, 4, 5, 7, 8, 16, 31, 64};
    static const int micro_batches[] = {1, 2, 3, 4, 8, 13, 33, 64, 100, 512};
    for (size_t p = 0; p < sizeof stages / sizeof stages[0]; p++) {
        for (size_t m = 0; m < sizeof micro_batches / sizeof micro_batches[0]; m++) {
            haul_schedule schedule;
            assert_ok(haul_schedule_1f1b(stages[p], micro_batches[m], &schedule));
            assert_ok(haul_schedule_check(&schedule));
            for (int rank = 0; rank < stages[p]; rank++) {
                int64_t expected = haul_min(stages[p] - rank, micro_batches[m]);
                assert_int_equal(haul_schedule_in_flight(&schedule, rank), expected);
            }
            haul_schedule_deinit(&schedule);
        }
    }
}

static void test_none_is_one_micro_batch_after_the_other(void **state) {
    (void)state;
    haul_schedule schedule;
    assert_ok(haul_schedule_none(5, &schedule));
    assert_ok(haul_schedule_check(&schedule));
    assert_int_equal(schedule.stages, 1);
    for (int i = 0; i < 15; i++) {
        haul_schedule_item item = schedule.ranks[0].items[i];
        assert_int_equal(item.micro_batch, i / 3);
        assert_int_equal(item.op, i % 3);
    }
    haul_schedule_deinit(&schedule);
}

static void test_refuses_empty_schedules(void **state) {
    (void)state;
    haul_schedule schedule;
    haul_test_assert_fails(haul_schedule_1f1b(0, 4, &schedule), HAUL_ERROR_CONFIG, "one stage");
    haul_test_assert_fails(haul_schedule_1f1b(4, 0, &schedule), HAUL_ERROR_CONFIG,
                           "one micro-batch");
}

static void assert_picture(int stages, int micro_batches, const char *expected) {
    haul_schedule schedule;
    haul_string picture = {0};
    assert_ok(haul_schedule_1f1b(stages, micro_batches, &schedule));
    assert_ok(haul_schedule_print(&schedule, &picture));
    assert_string_equal(picture.data, expected);
    haul_string_deinit(&picture);
    haul_schedule_deinit(&schedule);
}

static void test_picture(void **state) {
    (void)state;
    /* Drawn by hand: F goes down the ranks, B up, W stands behind its B. */
    assert_picture(4, 4,
                   "rank 0: F0 F1 F2 F3 -- -- -- B0 W0 -- B1 W1 -- B2 W2 -- B3 W3\n"
                   "rank 1: -- F0 F1 F2 -- -- B0 W0 F3 B1 W1 -- B2 W2 -- B3 W3\n"
                   "rank 2: -- -- F0 F1 -- B0 W0 F2 B1 W1 F3 B2 W2 -- B3 W3\n"
                   "rank 3: -- -- -- F0 B0 W0 F1 B1 W1 F2 B2 W2 F3 B3 W3\n");
}

static void test_picture_keeps_columns_beyond_ten(void **state) {
    (void)state;
    assert_picture(1, 11,
                   "rank 0: F00 B00 W00 F01 B01 W01 F02 B02 W02 F03 B03 W03 F04 B04 W04 F05 B05 "
                   "W05 F06 B06 W06 F07 B07 W07 F08 B08 W08 F09 B09 W09 F10 B10 W10\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_1f1b_passes_the_check),
        cmocka_unit_test(test_none_is_one_micro_batch_after_the_other),
        cmocka_unit_test(test_refuses_empty_schedules),
        cmocka_unit_test(test_picture),
        cmocka_unit_test(test_picture_keeps_columns_beyond_ten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
