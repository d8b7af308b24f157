/* ctest: unit */
#include "testing.h"

#include "base/file.h"
#include "report/axis.h"
#include "report/html.h"
#include "report/run_log.h"
#include "report/svg.h"
#include "report/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void assert_ticks(double low, double high, haul_scale scale, int ticks,
                         const char *expected) {
    haul_axis axis = haul_axis_create(low, high, scale, 0, ticks);
    assert_in_range(axis.tick_count, 2, ticks);
    char text[256] = "";
    for (int i = 0; i < axis.tick_count; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 0 ? " " : "",
                 haul_axis_number(axis.ticks[i]).text);
    }
    assert_string_equal(text, expected);
}

static void ticks_are_round(void **state) {
    (void)state;
    assert_ticks(0, 4500, HAUL_SCALE_LINEAR, 6, "0 1,000 2,000 3,000 4,000");
    assert_ticks(0.3, 0.34, HAUL_SCALE_LINEAR, 6, "0.3 0.31 0.32 0.33 0.34");
    assert_ticks(0.5e-4, 3e-4, HAUL_SCALE_LINEAR_FROM_ZERO, 4, "0 1e-4 2e-4 3e-4");
    assert_ticks(-3, 3, HAUL_SCALE_AUTO, 5, "-2 0 2");
    assert_ticks(0, 2.4e6, HAUL_SCALE_AUTO, 6, "0 500k 1M 1.5M 2M");
    assert_ticks(1.3, 7, HAUL_SCALE_AUTO, 7, "1.5 2 3 4 5 7");
    assert_ticks(0.01, 100, HAUL_SCALE_AUTO, 5, "0.01 0.1 1 10 100");
    assert_ticks(1e-9, 1e9, HAUL_SCALE_AUTO, 5, "1e-9 1e-4 10 1M");
}

static void axis_of_a_constant(void **state) {
    (void)state;
    haul_axis axis = haul_axis_create(3, 3, HAUL_SCALE_AUTO, 0, 5);
    assert_true(axis.low < 3 && axis.high > 3);
    assert_true(fabs(haul_axis_position(&axis, 3) - 0.5) < 1e-12);
    axis = haul_axis_create(0, 0, HAUL_SCALE_LINEAR_FROM_ZERO, 0, 5);
    assert_true(axis.low <= 0 && axis.high > axis.low);
}

static void positions(void **state) {
    (void)state;
    haul_axis axis = haul_axis_create(1, 100, HAUL_SCALE_AUTO, 0, 5);
    assert_true(axis.logarithmic);
    assert_true(fabs(haul_axis_position(&axis, 10) - 0.5) < 1e-12);
    axis = haul_axis_create(50, 100, HAUL_SCALE_AUTO, 0, 5);
    assert_false(axis.logarithmic);
    assert_true(fabs(haul_axis_position(&axis, 75) - 0.5) < 1e-12);
}

static void numbers(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},          {1.25, "1.25"},       {-0.5, "-0.5"},
        {999.4, "999"},    {999.6, "1,000"},     {62026, "62,026"},
        {99999.6, "100k"}, {4.1e6, "4.1M"},      {0.00314, "0.00314"},
        {3e-4, "3e-4"},    {2.5e-12, "2.5e-12"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(haul_axis_number(cases[i].value).text, cases[i].text);
    }
    assert_string_equal(haul_axis_integer(1234567890).text, "1,234,567,890");
    assert_string_equal(haul_axis_integer(INT64_MIN).text, "-9,223,372,036,854,775,808");
}

static void invalid_text(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\x80z", "?z"},
        {"\xc3", "?"},
        {"\xc0\xaf", "??"},
        {"\xe0\x80\x80", "???"},
        {"\xed\xa0\x80", "???"},
        {"\xf4\x90\x80\x80", "????"},
        {"\xe2\x82", "??"},
        {"\xf0\x9f\x98z", "???z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        haul_string expected = {0}, valid = {0};
        for (const char *at = cases[i].out; *at != '\0'; at++) {
            haul_string_append(&expected, *at == '?' ? "\xef\xbf\xbd" : at, *at == '?' ? 3 : 1);
        }
        haul_text_append_utf8(&valid, cases[i].in, (int64_t)strlen(cases[i].in));
        assert_string_equal(valid.data, expected.data);
        haul_string_clear(&valid);
        haul_text_append_html(&valid, cases[i].in);
        assert_string_equal(valid.data, expected.data);
        haul_string_deinit(&expected);
        haul_string_deinit(&valid);
    }
}

static void long_curves_stay_small_and_keep_spikes(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    static double x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = i;
        y[i] = i == 54321 ? 100 : i % 7;
    }
    y[500] = (double)NAN;
    const haul_svg_series series = {.style = "train", .x = x, .y = y, .count = COUNT};
    const haul_svg_chart chart = {.title = "t<",
                                  .x_label = "step",
                                  .style = "wide",
                                  .width = 600,
                                  .height = 240,
                                  .label_width = 60,
                                  .y_scale = HAUL_SCALE_LINEAR,
                                  .series = &series,
                                  .series_count = 1};
    haul_string svg = {0};
    assert_true(haul_svg_append(&chart, &svg));
    assert_in_range(svg.length, 1000, 50000);
    assert_non_null(strstr(svg.data, "aria-label=\"t&lt;\""));
    assert_null(strstr(svg.data, "nan"));
    /* The spike is the highest point: 5 % of the axis below the top of the plot. */
    haul_axis axis = haul_axis_create(0, 100, HAUL_SCALE_LINEAR, 0.05, 8);
    char point[32];
    snprintf(point, sizeof point, " %.1f", 210 - haul_axis_position(&axis, 100) * 200);
    assert_non_null(strstr(strstr(svg.data, "<path"), point));
    haul_string_clear(&svg);
    const haul_svg_series empty = {.style = "train", .x = x, .y = &y[500], .count = 1};
    haul_svg_chart nothing = chart;
    nothing.series = &empty;
    assert_false(haul_svg_append(&nothing, &svg));
    assert_int_equal(svg.length, 0);
    haul_string_deinit(&svg);
}

static void write_file(const char *directory, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(haul_file_replace(path, text, (int64_t)strlen(text)));
}

static void make_report(const char *directory, haul_string *page) {
    char path[512];
    snprintf(path, sizeof path, "%s/report.html", directory);
    assert_ok(haul_report_write(directory, path));
    haul_string_clear(page);
    assert_ok(haul_file_read(path, page));
}

static const char *run_directory(const char *name) {
    static char directory[512];
    snprintf(directory, sizeof directory, "%s/%s", haul_test_directory(), name);
    assert_ok(haul_directory_create(directory));
    return directory;
}

static void assert_has(const haul_string *page, const char *text) {
    if (strstr(page->data, text) == NULL) {
        print_error("the page lacks: %s\n", text);
        fail();
    }
}

static void report_of_a_whole_run(void **state) {
    (void)state;
    const char *directory = run_directory("whole");
    write_file(directory, "command.txt", "haul train --name '<b>'\n");
    write_file(
        directory, "config.json",
        "{\"lr\": 0.01, \"x\": {\"y\": \"a&b\"}, \"data-path\": [\"1.0\", \"p\"], \"n\": null}");
    write_file(
        directory, "log.jsonl",
        "{\"kind\": \"start\", \"train_iters\": 4500, \"gzip_bits_per_byte\": 4, "
        "\"xz_bits_per_byte\": 2.5, \"cpu\": \"CPU <1>\", \"parameters\": 625184}\n"
        "{\"kind\": \"memory\", \"category\": \"big\", \"name\": \"m\", \"bytes\": 3145728}\n"
        "{\"kind\": \"memory\", \"category\": \"small\", \"name\": \"n\", \"bytes\": 1048576}\n"
        "{\"kind\": \"train\", \"iteration\": 10, \"loss\": 5, \"tokens_per_second\": 61000}\n"
        "{\"kind\": \"train\", \"iteration\": 2000, \"loss\": 2, \"tokens_per_second\": 62000}\n"
        "{\"kind\": \"train\", \"iteration\": 4500, \"loss\": 1, \"tokens_per_second\": 63000}\n"
        "{\"kind\": \"sample\", \"iteration\": 4500, \"prompt\": \"A<\", \"text\": \"</pre>\"}\n"
        "{\"kind\": \"eval\", \"iteration\": 4500, \"loss\": 1.5, \"bits_per_byte\": 2}\n"
        "{\"kind\": \"end\", \"reason\": \"finished\", \"seconds\": 178}\n");
    haul_string page = {0};
    make_report(directory, &page);
    assert_has(&page, "<h1>2.00 bits per byte on held-out text</h1>");
    assert_has(&page, "That is 20\u202f% below xz and 50\u202f% below gzip. ");
    assert_has(&page, "4,500 of 4,500 iterations in 2m 58s; finished.");
    assert_has(&page, "haul train --name &#39;&lt;b&gt;&#39;");
    assert_has(&page, "<dt>x.y</dt><dd>a&amp;b</dd>");
    assert_has(&page, "<dt>data-path</dt><dd>1.0 p</dd>");
    assert_has(&page, "<dd>CPU &lt;1&gt;</dd>");
    assert_has(&page, "<dd>62.0k <small>tokens/s</small>");
    assert_has(&page, "<b>A&lt;</b>&lt;/pre&gt;</pre>");
    assert_has(&page, "<b>3.00 MiB</b></td><td>75\u202f%</td>");
    assert_has(&page, "held-out 1.5</text>");
    assert_has(&page, "train 1</text>");
    assert_null(strstr(page.data, "<dt>n</dt>"));
    /* Self-contained: nothing to fetch, nothing to run. */
    assert_null(strstr(page.data, "http"));
    assert_null(strstr(page.data, "<script"));
    assert_null(strstr(page.data, "url("));
    haul_string_deinit(&page);
}

static void report_of_little(void **state) {
    (void)state;
    haul_string page = {0};
    const char *directory = run_directory("little");
    write_file(directory, "log.jsonl", "");
    make_report(directory, &page);
    assert_has(&page, "<h1>No step is logged yet</h1>");
    assert_null(strstr(page.data, "<section>"));
    write_file(directory, "log.jsonl",
               "{\"kind\": \"start\"}\n{\"kind\": \"train\", \"iteration\": 1, \"loss\": 5.5}\n");
    write_file(directory, "config.json", "{broken");
    make_report(directory, &page);
    assert_has(&page, "<h1>Training loss 5.500</h1>");
    assert_has(&page, "1 iteration; no end is logged.");
    assert_has(&page, "config.json is not a JSON object.");
    assert_null(strstr(page.data, "nan"));
    /* Values that no run writes must not break the page. */
    write_file(directory, "log.jsonl",
               "{\"kind\": \"start\", \"time\": 1e300}\n"
               "{\"kind\": \"memory\", \"bytes\": 9223372036854775807}\n"
               "{\"kind\": \"memory\", \"bytes\": 9223372036854775807}\n"
               "{\"kind\": \"memory\", \"bytes\": -1}\n"
               "{\"kind\": \"train\", \"iteration\": 1, \"grad_norm\": 1e-300}\n"
               "{\"kind\": \"train\", \"iteration\": 2, \"grad_norm\": 1e300}\n");
    make_report(directory, &page);
    assert_has(&page, "<h1>The loss is not finite</h1>");
    assert_has(&page, "<dd>8.00 EiB</dd>");
    assert_null(strstr(page.data, "nan"));
    haul_string_deinit(&page);
    haul_test_assert_fails(haul_report_write("/nonexistent", "/nonexistent.html"),
                           HAUL_ERROR_NO_INPUT, "/nonexistent/log.jsonl");
    assert_non_null(strstr(haul_error_hint(), "run directory"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(axis_of_a_constant),
        cmocka_unit_test(positions),
        cmocka_unit_test(numbers),
        cmocka_unit_test(invalid_text),
        cmocka_unit_test(long_curves_stay_small_and_keep_spikes),
        cmocka_unit_test(report_of_a_whole_run),
        cmocka_unit_test(report_of_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
