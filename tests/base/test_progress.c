/* ctest: unit */
#include "testing.h"

#include "base/progress.h"

#include <string.h>

/* What a job of `total` units, updated at each `step`, writes to a plain file. */
static void run_job(const char *unit, int64_t total, int64_t step, char *text, size_t bytes) {
    FILE *file = tmpfile();
    assert_non_null(file);
    haul_progress progress;
    haul_progress_begin(&progress, file, "reading", unit, total);
    for (int64_t done = 0; done <= total; done += step) {
        haul_progress_update(&progress, done);
    }
    haul_progress_end(&progress);
    rewind(file);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    fclose(file);
}

static int count_lines(const char *text) {
    int lines = 0;
    for (; *text != '\0'; text++) {
        lines += *text == '\n';
    }
    return lines;
}

static void a_file_gets_a_line_a_quarter(void **state) {
    (void)state;
    char text[2048];
    run_job("documents", 2000, 1, text, sizeof text);
    assert_int_equal(count_lines(text), 4);
    static const char *const lines[] = {
        "reading  25 %  500 of 2.00k documents", "reading  50 %  1.00k of 2.00k documents",
        "reading  75 %  1.50k of 2.00k documents", "reading  100 %  2.00k of 2.00k documents"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_non_null(strstr(text, lines[i]));
    }
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\033'));
}

static void large_steps_skip_quarters(void **state) {
    (void)state;
    char text[2048];
    run_job(NULL, 4 << 20, 3 << 20, text, sizeof text);
    assert_int_equal(count_lines(text), 1);
    assert_non_null(strstr(text, "reading  75 %  3.00 MiB of 4.00 MiB"));
    run_job(NULL, 10, 10, text, sizeof text);
    assert_int_equal(count_lines(text), 1);
    assert_non_null(strstr(text, "100 %  10 B of 10 B"));
}

static void nothing_to_do_is_done(void **state) {
    (void)state;
    char text[2048];
    run_job("steps", 0, 1, text, sizeof text);
    assert_int_equal(count_lines(text), 1);
    assert_non_null(strstr(text, "100 %  0 of 0 steps"));
}

static void no_file_shows_nothing(void **state) {
    (void)state;
    haul_progress progress;
    haul_progress_begin(&progress, NULL, "reading", NULL, 10);
    haul_progress_update(&progress, 10);
    haul_progress_end(&progress);
    assert_int_equal(progress.done, 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_gets_a_line_a_quarter),
        cmocka_unit_test(large_steps_skip_quarters),
        cmocka_unit_test(nothing_to_do_is_done),
        cmocka_unit_test(no_file_shows_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
