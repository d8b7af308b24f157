/* ctest: unit */
#include "testing.h"

#include "base/fault.h"
#include "base/string.h"

#include <string.h>

static void appends_join(void **state) {
    (void)state;
    haul_string string = {0};
    haul_string_append_text(&string, "a");
    haul_string_append(&string, "b\0c", 3);
    haul_string_append(&string, NULL, 0);
    haul_string_append_format(&string, "%d-%s", 42, "x");
    assert_ok(haul_string_status(&string));
    assert_int_equal(string.length, 8);
    assert_memory_equal(string.data, "ab\0c42-x", 9);
    haul_string_clear(&string);
    assert_int_equal(string.length, 0);
    assert_string_equal(string.data, "");
    haul_string_deinit(&string);
    assert_null(string.data);
}

static void formats_grow_as_needed(void **state) {
    (void)state;
    haul_string string = {0};
    for (int i = 0; i < 200; i++) {
        haul_string_append_format(&string, "%*d", i, 0);
    }
    assert_ok(haul_string_status(&string));
    assert_int_equal(string.length, 1 + 199 * 200 / 2);
    assert_int_equal(strlen(string.data), string.length);
    haul_string_deinit(&string);
}

static void a_failed_growth_sticks(void **state) {
    (void)state;
    haul_string string = {0};
    haul_string_append_text(&string, "kept");
    haul_fault_arm(HAUL_FAULT_ALLOC, 1, false);
    haul_string_append_format(&string, "%100d", 1);
    haul_string_append_text(&string, "lost");
    assert_string_equal(string.data, "kept");
    haul_test_assert_fails(haul_string_status(&string), HAUL_ERROR_MEMORY, "out of memory");
    haul_string_deinit(&string);
    assert_ok(haul_string_status(&string));
}

static void json_is_escaped(void **state) {
    (void)state;
    haul_string string = {0};
    haul_string_append_json(&string, "a\"b\\c\n\t\x01\x7f/\xc3\xa9");
    assert_string_equal(string.data, "\"a\\\"b\\\\c\\n\\u0009\\u0001\x7f/\xc3\xa9\"");
    haul_string_deinit(&string);
}

static void copies_are_cut(void **state) {
    (void)state;
    char text[6] = "zzzzz";
    haul_text_copy(text, 4, "abcdef");
    assert_string_equal(text, "abc");
    assert_int_equal(text[4], 'z');
    haul_text_copy(text, sizeof text, "ab");
    assert_string_equal(text, "ab");
}

static void edit_distances(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        int distance;
    } cases[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"abc", "", 3},
        {"hidden-size", "hidden-size", 0},
        {"hiden-size", "hidden-size", 1},
        {"hidden-size", "hidden-sise", 1},
        {"hidden-size", "hidden-siez", 1},
        {"kitten", "sitting", 3},
        {"ab", "ba", 1},
        {"ca", "abc", 3},
        {"lr", "lr-decay-style", 12},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(haul_edit_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(haul_edit_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
    char longest[300];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(haul_edit_distance(longest, ""), 127);
    assert_int_equal(haul_edit_distance("", longest), 127);
    assert_int_equal(haul_edit_distance(longest, longest), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_join),           cmocka_unit_test(formats_grow_as_needed),
        cmocka_unit_test(a_failed_growth_sticks), cmocka_unit_test(json_is_escaped),
        cmocka_unit_test(copies_are_cut),         cmocka_unit_test(edit_distances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
