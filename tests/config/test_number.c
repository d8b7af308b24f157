#include "testing.h"

#include "config/number.h"

#include <math.h>
#include <stdlib.h>

static void test_int_as_python(void **state) {
    (void)state;
    const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"007", 7},
                {" 12\n", 12},
                {"+5", 5},
                {"-3", -3},
                {"1_000", 1000},
                {"1_0_0", 100},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t value = 99;
        assert_true(haul_parse_int(good[i].text, &value));
        assert_int_equal(value, good[i].value);
    }
    const char *const bad[] = {"",
                               " ",
                               "1e3",
                               "1.0",
                               "0x10",
                               "_1",
                               "1_",
                               "1__0",
                               "1 2",
                               "--1",
                               "+",
                               "- 1",
                               "9223372036854775808"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t value = 99;
        assert_false(haul_parse_int(bad[i], &value));
        assert_int_equal(value, 99);
    }
}

static void test_float_as_python(void **state) {
    (void)state;
    const struct {
        const char *text;
        double value;
    } good[] = {{"1", 1},
                {"1e-5", 1e-5},
                {".5", 0.5},
                {"5.", 5},
                {" -2.5E+3 ", -2500},
                {"1_0.2_5", 10.25},
                {"1e1_0", 1e10},
                {"+0.1", 0.1},
                {"inf", INFINITY},
                {"-Infinity", -INFINITY}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double value = 99;
        assert_true(haul_parse_float(good[i].text, &value));
        assert_true(value <= good[i].value && value >= good[i].value);
    }
    double not_a_number = 0;
    assert_true(haul_parse_float("NaN", &not_a_number));
    assert_true(isnan(not_a_number));
    const char *const bad[] = {"",     ".",     "e5",  "1e",   "1e+",    "0x1p3", "1_.0",
                               "1._0", "1.2.3", "1,5", "infi", "nan(1)", "_1.0",  "- 1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double value = 99;
        assert_false(haul_parse_float(bad[i], &value));
    }
}

static void test_floats_read_back(void **state) {
    (void)state;
    const double values[] = {0,       1,     0.1,    1e-5, 10000,
                             1.0 / 3, 1e300, 5e-324, -2.5, 0.30000000000000004};
    const char *const texts[] = {"0", "1", "0.1", "1e-05", "10000"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        haul_string text = {0};
        haul_append_float(&text, values[i]);
        double back = strtod(text.data, NULL);
        assert_true(back <= values[i] && back >= values[i]);
        if (i < sizeof texts / sizeof *texts) {
            assert_string_equal(text.data, texts[i]);
        }
        haul_string_deinit(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int_as_python),
        cmocka_unit_test(test_float_as_python),
        cmocka_unit_test(test_floats_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
