/* ctest: unit */
#include "testing.h"

#include "base/fault.h"
#include "base/table.h"

static const haul_table_column columns[] = {
    {"name", HAUL_ALIGN_LEFT}, {"iterations", HAUL_ALIGN_RIGHT}, {"state", HAUL_ALIGN_LEFT}};

static void columns_are_aligned(void **state) {
    (void)state;
    haul_table table;
    haul_string out = {0};
    haul_table_init(&table, columns, 3);
    haul_table_cell(&table, "%s-%d", "run", 1);
    haul_table_cell(&table, "%d", 1200);
    haul_table_cell(&table, "good");
    haul_table_cell(&table, "a longer name");
    haul_table_cell(&table, "%lld", 123456789012ll);
    haul_table_cell(&table, "%s", "");
    haul_table_cell(&table, "caf\xc3\xa9");
    haul_table_cell(&table, "7");
    haul_string_append_text(&out, "before\n");
    assert_ok(haul_table_render(&table, &out));
    assert_string_equal(out.data, "before\n"
                                  "name             iterations  state\n"
                                  "run-1                  1200  good\n"
                                  "a longer name  123456789012\n"
                                  "caf\xc3\xa9                      7\n");
    haul_string_deinit(&out);
    haul_table_deinit(&table);
}

static void an_empty_table_is_its_titles(void **state) {
    (void)state;
    haul_table table;
    haul_string out = {0};
    haul_table_init(&table, columns, 3);
    assert_ok(haul_table_render(&table, &out));
    assert_string_equal(out.data, "name  iterations  state\n");
    haul_string_deinit(&out);
    haul_table_deinit(&table);
}

static void render_reports_a_lost_cell(void **state) {
    (void)state;
    haul_table table;
    haul_string out = {0};
    haul_table_init(&table, columns, 3);
    haul_fault_arm(HAUL_FAULT_ALLOC, 1, false);
    haul_table_cell(&table, "%1000d", 1);
    haul_test_assert_fails(haul_table_render(&table, &out), HAUL_ERROR_MEMORY, "out of memory");
    haul_string_deinit(&out);
    haul_table_deinit(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_aligned),
        cmocka_unit_test(an_empty_table_is_its_titles),
        cmocka_unit_test(render_reports_a_lost_cell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
