/* ctest: unit */
#include "testing.h"

#include "base/format.h"

#include <math.h>

static void bytes_have_binary_units(void **state) {
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {12900000, "12.3 MiB"},
        {1023 * 1024, "1023 KiB"},
        {1024 * 1024 - 1, "1.00 MiB"},
        {(int64_t)512 << 30, "512 GiB"},
        {INT64_MAX, "8.00 EiB"},
        {-2048, "-2.00 KiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(haul_format_bytes(cases[i].bytes).text, cases[i].text);
    }
}

static void counts_have_decimal_units(void **state) {
    (void)state;
    static const struct {
        int64_t count;
        const char *text;
    } cases[] = {
        {0, "0"},
        {999, "999"},
        {1000, "1.00k"},
        {1500, "1.50k"},
        {9994, "9.99k"},
        {9995, "10.0k"},
        {99949, "99.9k"},
        {99950, "100k"},
        {999499, "999k"},
        {999500, "1.00M"},
        {124439808, "124M"},
        {7000000000, "7.00B"},
        {-1500, "-1.50k"},
        {15000000000000, "15.0T"},
        {4000000000000000, "4000T"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(haul_format_count(cases[i].count).text, cases[i].text);
    }
}

static void durations_have_two_parts(void **state) {
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0 ms"},        {0.0004, "0 ms"},        {0.85, "850 ms"},   {0.9994, "999 ms"},
        {0.9996, "1.0 s"},  {4.21, "4.2 s"},         {59.94, "59.9 s"},  {59.96, "1m 00s"},
        {200, "3m 20s"},    {3599.4, "59m 59s"},     {3599.6, "1h 00m"}, {7500, "2h 05m"},
        {86399, "23h 59m"}, {86400, "1d 00h"},       {273600, "3d 04h"}, {-1, "?"},
        {(double)NAN, "?"}, {(double)INFINITY, "?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(haul_format_duration(cases[i].seconds).text, cases[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_have_binary_units),
        cmocka_unit_test(counts_have_decimal_units),
        cmocka_unit_test(durations_have_two_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
