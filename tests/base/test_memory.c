/* ctest: unit */
#include "testing.h"

#include "base/fault.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static void calloc_gives_zeroes_even_for_none(void **state) {
    (void)state;
    char *bytes = haul_calloc(1000, 1);
    assert_non_null(bytes);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(bytes[i], 0);
    }
    free(bytes);
    void *none = haul_calloc(0, 64);
    assert_non_null(none);
    free(none);
}

static void calloc_refuses_what_cannot_be(void **state) {
    (void)state;
    assert_null(haul_calloc(INT64_MAX, 16));
    haul_test_assert_fails(HAUL_ERROR_MEMORY, HAUL_ERROR_MEMORY, "9223372036854775807 objects");
    assert_null(haul_calloc(-1, 1));
    haul_fault_arm(HAUL_FAULT_ALLOC, 1, false);
    assert_null(haul_calloc(1, 1));
}

static void grow_keeps_the_old_and_zeroes_the_new(void **state) {
    (void)state;
    int32_t *items = NULL;
    int64_t capacity = 0;
    int growths = 0;
    for (int32_t i = 0; i < 1000; i++) {
        void *grown = items;
        growths += capacity == i;
        assert_ok(haul_grow(&grown, &capacity, i + 1, sizeof *items));
        items = grown;
        assert_true(capacity > i);
        assert_int_equal(items[i], 0);
        items[i] = i;
    }
    assert_int_equal(growths, 7); /* to 16, 32, ... 1024 */
    assert_int_equal(capacity, 1024);
    for (int32_t i = 0; i < 1000; i++) {
        assert_int_equal(items[i], i);
    }
    free(items);
}

static void a_failed_grow_changes_nothing(void **state) {
    (void)state;
    void *items = NULL;
    int64_t capacity = 0;
    assert_ok(haul_grow(&items, &capacity, 1, 1));
    void *before = items;
    int64_t capacity_before = capacity;
    haul_fault_arm(HAUL_FAULT_ALLOC, 1, false);
    assert_int_equal(haul_grow(&items, &capacity, capacity + 1, 1), HAUL_ERROR_MEMORY);
    assert_ptr_equal(items, before);
    assert_int_equal(capacity, capacity_before);
    free(items);
}

static void strdup_copies(void **state) {
    (void)state;
    char *copy = haul_strdup("haul");
    assert_string_equal(copy, "haul");
    free(copy);
    haul_fault_arm(HAUL_FAULT_ALLOC, 1, false);
    assert_null(haul_strdup("haul"));
}

static void sizes_do_not_overflow(void **state) {
    (void)state;
    static const struct {
        int64_t a, b;
        bool product, sum;
    } cases[] = {
        {0, 0, true, true},
        {3, 5, true, true},
        {INT64_MAX, 1, true, false},
        {INT64_MAX, 0, true, true},
        {(int64_t)1 << 32, (int64_t)1 << 31, false, true},
        {((int64_t)1 << 32) - 1, (int64_t)1 << 31, true, true},
        {-1, 5, false, false},
        {5, -1, false, false},
        {-1, -1, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t result = 0;
        assert_int_equal(haul_size_multiply(cases[i].a, cases[i].b, &result), cases[i].product);
        assert_true(!cases[i].product || result == cases[i].a * cases[i].b);
        assert_int_equal(haul_size_add(cases[i].a, cases[i].b, &result), cases[i].sum);
        assert_true(!cases[i].sum || result == cases[i].a + cases[i].b);
    }
}

static void rounding_and_bounds(void **state) {
    (void)state;
    assert_int_equal(haul_round_up(0, 64), 0);
    assert_int_equal(haul_round_up(1, 64), 64);
    assert_int_equal(haul_round_up(64, 64), 64);
    assert_int_equal(haul_round_up(65, 48), 96);
    assert_int_equal(haul_min(2, -3), -3);
    assert_int_equal(haul_max(2, -3), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calloc_gives_zeroes_even_for_none),
        cmocka_unit_test(calloc_refuses_what_cannot_be),
        cmocka_unit_test(grow_keeps_the_old_and_zeroes_the_new),
        cmocka_unit_test(a_failed_grow_changes_nothing),
        cmocka_unit_test(strdup_copies),
        cmocka_unit_test(sizes_do_not_overflow),
        cmocka_unit_test(rounding_and_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
