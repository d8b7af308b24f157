/* ctest: unit */
#include "testing.h"

#include "base/arena.h"
#include "base/fault.h"

static void places_follow_each_other(void **state) {
    (void)state;
    static const struct {
        int64_t bytes, alignment, offset;
    } cases[] = {{10, 64, 0},     {1, 1, 10},    {64, 64, 64},
                 {0, 4096, 4096}, {5, 64, 4096}, {1, 4, 4104}};
    int64_t end = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t offset = -1;
        assert_ok(haul_arena_place(&end, cases[i].bytes, cases[i].alignment, &offset));
        assert_int_equal(offset, cases[i].offset);
        assert_int_equal(end, offset + cases[i].bytes);
    }
}

static void impossible_places_change_nothing(void **state) {
    (void)state;
    int64_t end = 100, offset = -1;
    haul_test_assert_fails(haul_arena_place(&end, INT64_MAX - 100, 64, &offset), HAUL_ERROR_MEMORY,
                           "overflows");
    haul_test_assert_fails(haul_arena_place(&end, -1, 64, &offset), HAUL_ERROR_MEMORY, "overflows");
    assert_int_equal(end, 100);
    assert_int_equal(offset, -1);
    end = INT64_MAX - 10;
    haul_test_assert_fails(haul_arena_place(&end, 0, 64, &offset), HAUL_ERROR_MEMORY, "overflows");
}

static void the_table_sorts_groups_and_sums(void **state) {
    (void)state;
    haul_memory_table table = {0};
    haul_string out = {0};
    assert_ok(haul_memory_table_add(&table, "logits", "scratch", 3 << 20));
    assert_ok(haul_memory_table_add(&table, "layers.0.weight", "parameters", 2 << 20));
    assert_ok(haul_memory_table_add(&table, "attention", "scratch", 1 << 20));
    assert_ok(haul_memory_table_add(&table, "embedding", "parameters", 8 << 20));
    assert_ok(haul_memory_table_add(&table, "layers.1.weight", "parameters", 2 << 20));
    assert_int_equal(table.count, 5);
    assert_int_equal(table.bytes, 16 << 20);
    assert_ok(haul_memory_table_render(&table, 2, &out));
    assert_string_equal(out.data, "memory                 size    share\n"
                                  "parameters         12.0 MiB   75.0 %\n"
                                  "  embedding        8.00 MiB   50.0 %\n"
                                  "  layers.0.weight  2.00 MiB   12.5 %\n"
                                  "  1 more           2.00 MiB   12.5 %\n"
                                  "scratch            4.00 MiB   25.0 %\n"
                                  "  logits           3.00 MiB   18.8 %\n"
                                  "  attention        1.00 MiB    6.2 %\n"
                                  "total              16.0 MiB  100.0 %\n");
    assert_ok(haul_memory_table_add(&table, "counters", "small", 64));
    haul_string_clear(&out);
    assert_ok(haul_memory_table_summarize(&table, &out));
    assert_string_equal(out.data, "16.0 MiB: parameters 12.0 MiB, scratch 4.00 MiB");
    haul_string_deinit(&out);
    haul_memory_table_deinit(&table);
    assert_int_equal(table.count, 0);
}

static void the_table_checks_its_sum(void **state) {
    (void)state;
    haul_memory_table table = {0};
    assert_ok(haul_memory_table_add(&table, "a", "b", INT64_MAX));
    haul_test_assert_fails(haul_memory_table_add(&table, "huge", "b", 1), HAUL_ERROR_MEMORY,
                           "huge overflows");
    haul_test_assert_fails(haul_memory_table_add(&table, "less", "b", -1), HAUL_ERROR_MEMORY,
                           "less overflows");
    assert_int_equal(table.count, 1);
    haul_memory_table_deinit(&table);
    haul_fault_arm(HAUL_FAULT_ALLOC, 1, false);
    assert_int_equal(haul_memory_table_add(&table, "a", "b", 1), HAUL_ERROR_MEMORY);
    assert_int_equal(table.bytes, 0);
    haul_memory_table_deinit(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_follow_each_other),
        cmocka_unit_test(impossible_places_change_nothing),
        cmocka_unit_test(the_table_sorts_groups_and_sums),
        cmocka_unit_test(the_table_checks_its_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
