/* ctest: unit */
#include "testing.h"

#include "report/live_line.h"
#include "report/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const haul_live_state middle = {
    .iteration = 1200,
    .train_iters = 5000,
    .loss = 2.31049,
    .tokens_per_second = 34567,
    .mfu = 0.617,
    .eta_seconds = 130,
    .memory_bytes = 84 << 20,
};

static void assert_format(const haul_live_state *state, const haul_live_history *history,
                          haul_live_style style, const char *expected) {
    haul_string line = {0};
    haul_live_line_format(state, history, &style, &line);
    assert_ok(haul_string_status(&line));
    assert_string_equal(line.data, expected);
    haul_string_deinit(&line);
}

static haul_live_history falling(void) {
    haul_live_history history = {0};
    for (int i = 0; i < 4; i++) {
        haul_live_history_add(&history, 8 - 2 * i);
    }
    return history;
}

static void full_line(void **state) {
    (void)state;
    haul_live_history history = falling();
    assert_format(&middle, &history, (haul_live_style){.columns = 200, .utf8 = true},
                  "step 1200/5000  24% \u00b7 loss 2.31 \u2588\u2586\u2583\u2581 \u00b7 "
                  "34.6k tokens/s \u00b7 MFU 62% \u00b7 84.0 MiB \u00b7 ETA 2m 10s");
    assert_format(&middle, &history, (haul_live_style){.columns = 200},
                  "step 1200/5000  24% | loss 2.31 | 34.6k tokens/s | MFU 62% | 84.0 MiB | "
                  "ETA 2m 10s");
}

static void unknown_fields_are_left_out(void **state) {
    (void)state;
    const haul_live_history none = {0};
    const haul_live_state start = {.iteration = 1,
                                   .loss = (double)NAN,
                                   .tokens_per_second = (double)NAN,
                                   .mfu = (double)NAN,
                                   .eta_seconds = (double)NAN};
    assert_format(&start, &none, (haul_live_style){.columns = 80, .utf8 = true}, "step 1");
}

static void narrow_terminals_drop_fields(void **state) {
    (void)state;
    haul_live_history history = falling();
    assert_format(&middle, &history, (haul_live_style){.columns = 66, .utf8 = true},
                  "step 1200/5000  24% \u00b7 loss 2.31 \u00b7 34.6k tokens/s \u00b7 ETA 2m 10s");
    assert_format(&middle, &history, (haul_live_style){.columns = 30}, "step 1200/5000  24%");
    for (int columns = 1; columns < 100; columns++) {
        haul_live_style style = {.columns = columns, .utf8 = true};
        haul_string line = {0};
        haul_live_line_format(&middle, &history, &style, &line);
        assert_true(haul_text_columns(line.data == NULL ? "" : line.data) < columns);
        haul_string_deinit(&line);
    }
}

/* The line without its escape sequences is the line without colour. */
static void color_adds_escapes_only(void **state) {
    (void)state;
    haul_live_history history = falling();
    haul_string plain = {0}, colored = {0}, stripped = {0};
    haul_live_style style = {.columns = 100, .utf8 = true};
    haul_live_line_format(&middle, &history, &style, &plain);
    style.color = true;
    haul_live_line_format(&middle, &history, &style, &colored);
    assert_null(strchr(plain.data, '\x1b'));
    assert_non_null(strchr(colored.data, '\x1b'));
    for (const char *at = colored.data; *at != '\0'; at++) {
        if (*at == '\x1b') {
            at = strchr(at, 'm');
        } else {
            haul_string_append(&stripped, at, 1);
        }
    }
    assert_string_equal(stripped.data, plain.data);
    haul_string_deinit(&plain);
    haul_string_deinit(&colored);
    haul_string_deinit(&stripped);
}

static void history_thins_itself(void **state) {
    (void)state;
    haul_live_history history = {0};
    for (int i = 0; i < 1000; i++) {
        haul_live_history_add(&history, i);
        haul_live_history_add(&history, (double)NAN);
        assert_in_range(history.count, i < 8 ? i : 8, HAUL_LIVE_HISTORY);
    }
    assert_int_equal(history.span, 64);
    assert_true(history.losses[0] == 31.5);
    assert_true(history.losses[history.count - 1] == 64 * (history.count - 1) + 31.5);
}

static void printer_keeps_its_pace(void **state) {
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    assert_non_null(stream);
    haul_live_line line;
    haul_live_line_init(&line, stream, false, false);
    haul_live_line_clear(&line);
    for (int i = 0; i <= 1280; i++) {
        haul_live_line_update(&line, &middle, 50 + i / 128.0);
    }
    haul_live_line_clear(&line);
    haul_live_line_clear(&line);
    haul_live_line_deinit(&line);
    fclose(stream);
    int drawn = 0;
    for (const char *at = text; (at = strstr(at, "\rstep")) != NULL; at++) {
        drawn++;
    }
    assert_int_equal(drawn, 41); /* 4 a second over 10 seconds, and the first */
    const char *end = strrchr(text, '\r');
    assert_string_equal(end, "\r\x1b[K");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_line),
        cmocka_unit_test(unknown_fields_are_left_out),
        cmocka_unit_test(narrow_terminals_drop_fields),
        cmocka_unit_test(color_adds_escapes_only),
        cmocka_unit_test(history_thins_itself),
        cmocka_unit_test(printer_keeps_its_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
