/* ctest: unit */
#include "testing.h"

#include "base/arena.h"
#include "base/fault.h"

#include <string.h>
#include <sys/mman.h>

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

static int64_t resident_pages(const haul_arena *arena) {
    static unsigned char resident[4096];
    assert_true(arena->bytes <= 4096 * (int64_t)sizeof resident);
    assert_int_equal(mincore(arena->base, (size_t)arena->bytes, resident), 0);
    int64_t pages = 0;
    for (int64_t i = 0; i < (arena->bytes + 4095) / 4096; i++) {
        pages += resident[i] & 1;
    }
    return pages;
}

static void an_arena_is_aligned_and_zeroed(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 4096, 4097, 2 << 20, (5 << 20) + 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        haul_arena arena;
        assert_ok(haul_arena_create(sizes[i], &arena));
        assert_int_equal(arena.bytes, sizes[i]);
        assert_int_equal((uintptr_t)arena.base % (2 << 20), 0);
        for (int64_t at = 0; at < arena.bytes; at++) {
            assert_true(arena.base[at] == 0);
            arena.base[at] = 1;
        }
        haul_arena_destroy(&arena);
        assert_null(arena.base);
    }
}

static void touching_takes_the_pages_and_keeps_the_content(void **state) {
    (void)state;
    haul_arena arena;
    assert_ok(haul_arena_create((9 << 20) + 5, &arena));
    assert_int_equal(resident_pages(&arena), 0);
    memset(arena.base, 7, 4096);
    haul_arena_touch(&arena, 3);
    assert_int_equal(resident_pages(&arena), 9 * 256 + 1);
    assert_int_equal(arena.base[0], 7);
    assert_int_equal(arena.base[4095], 7);
    assert_int_equal(arena.base[4096], 0);
    haul_arena_destroy(&arena);
}

static void no_memory_is_an_error_with_a_hint(void **state) {
    (void)state;
    haul_arena arena = {NULL, 3};
    haul_test_assert_fails(haul_arena_create((int64_t)1 << 60, &arena), HAUL_ERROR_MEMORY,
                           "cannot reserve 1.00 EiB");
    assert_true(strlen(haul_error_hint()) > 0);
    haul_test_assert_fails(haul_arena_create(INT64_MAX, &arena), HAUL_ERROR_MEMORY, "impossible");
    haul_test_assert_fails(haul_arena_create(-1, &arena), HAUL_ERROR_MEMORY, "impossible");
    haul_fault_arm(HAUL_FAULT_ALLOC, 1, false);
    haul_test_assert_fails(haul_arena_create(1, &arena), HAUL_ERROR_MEMORY, "cannot reserve 1 B");
    assert_int_equal(arena.bytes, 3);
}

static void an_empty_arena_and_none_are_legal(void **state) {
    (void)state;
    haul_arena arena;
    assert_ok(haul_arena_create(0, &arena));
    assert_null(arena.base);
    haul_arena_touch(&arena, 2);
    haul_arena_destroy(&arena);
    haul_arena_destroy(&arena);
    haul_arena_destroy(NULL);
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
        cmocka_unit_test(an_arena_is_aligned_and_zeroed),
        cmocka_unit_test(touching_takes_the_pages_and_keeps_the_content),
        cmocka_unit_test(no_memory_is_an_error_with_a_hint),
        cmocka_unit_test(an_empty_arena_and_none_are_legal),
        cmocka_unit_test(the_table_sorts_groups_and_sums),
        cmocka_unit_test(the_table_checks_its_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
