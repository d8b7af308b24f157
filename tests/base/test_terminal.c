/* ctest: unit */
#include "testing.h"

#include "base/progress.h"
#include "base/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A terminal of 70 columns: the program writes to `file`, the screen shows at `screen`. */
typedef struct terminal {
    int screen;
    FILE *file;
} terminal;

static terminal open_terminal(void) {
    terminal opened = {.screen = posix_openpt(O_RDWR | O_NOCTTY)};
    if (opened.screen < 0) {
        skip(); /* a sandbox without pseudo-terminals */
    }
    assert_int_equal(grantpt(opened.screen), 0);
    assert_int_equal(unlockpt(opened.screen), 0);
    opened.file = fopen(ptsname(opened.screen), "r+e");
    assert_non_null(opened.file);
    const struct winsize size = {.ws_col = 70, .ws_row = 24};
    assert_int_equal(ioctl(opened.screen, TIOCSWINSZ, &size), 0);
    assert_int_equal(fcntl(fileno(opened.file), F_SETFL, O_NONBLOCK), 0); /* a full screen fails */
    return opened;
}

static void close_terminal(terminal *opened) {
    fclose(opened->file);
    close(opened->screen);
}

/* What was written since the last call. The screen lags behind the program, so a mark follows the
 * text, and the reader waits for it, at most 5 s. */
static void read_screen(const terminal *opened, char *text, size_t bytes) {
    enum { MARK = 1, PATIENCE_MS = 5000 };
    fputc(MARK, opened->file);
    fflush(opened->file);
    size_t length = 0;
    struct pollfd screen = {.fd = opened->screen, .events = POLLIN};
    while (length < bytes - 1 && poll(&screen, 1, PATIENCE_MS) == 1) {
        ssize_t count = read(opened->screen, text + length, bytes - 1 - length);
        length += count > 0 ? (size_t)count : 0;
        if (length > 0 && text[length - 1] == MARK) {
            length--;
            break;
        }
    }
    text[length] = '\0';
}

static int count_of(const char *text, char wanted) {
    int count = 0;
    for (; *text != '\0'; text++) {
        count += *text == wanted;
    }
    return count;
}

static void a_file_is_no_terminal(void **state) {
    (void)state;
    FILE *file = tmpfile();
    assert_false(haul_terminal_is(file));
    assert_int_equal(haul_terminal_width(file), 80);
    assert_false(haul_terminal_colors(file, NULL));
    fclose(file);
}

static void a_terminal_has_a_width_and_colors(void **state) {
    (void)state;
    terminal opened = open_terminal();
    assert_true(haul_terminal_is(opened.file));
    assert_int_equal(haul_terminal_width(opened.file), 70);
    assert_true(haul_terminal_colors(opened.file, NULL));
    assert_true(haul_terminal_colors(opened.file, ""));
    assert_false(haul_terminal_colors(opened.file, "1"));
    close_terminal(&opened);
}

static void styles_are_sequences_or_nothing(void **state) {
    (void)state;
    assert_string_equal(haul_terminal_style(true, HAUL_STYLE_RED), "\033[31m");
    assert_string_equal(haul_terminal_style(true, HAUL_STYLE_NONE), "\033[0m");
    for (int style = 0; style < HAUL_STYLES; style++) {
        assert_non_null(haul_terminal_style(true, (haul_style)style));
        assert_string_equal(haul_terminal_style(false, (haul_style)style), "");
    }
}

static void progress_draws_one_line_seldom(void **state) {
    (void)state;
    terminal opened = open_terminal();
    char text[4096];
    haul_progress progress;
    haul_progress_begin(&progress, opened.file, "reading", "documents", 1000000);
    haul_progress_update(&progress, 500000);
    read_screen(&opened, text, sizeof text);
    assert_non_null(strstr(text, "\rreading  [##########..........]  50 %  500k of 1.00M doc"));
    assert_int_equal(count_of(text, '\n'), 0);
    for (int i = 0; i < 100000; i++) {
        haul_progress_update(&progress, 600000);
    }
    double elapsed = progress.shown - progress.started;
    read_screen(&opened, text, sizeof text);
    assert_true(count_of(text, '\r') <= 1 + (int)(elapsed / 0.25));
    haul_progress_update(&progress, 1000000);
    haul_progress_end(&progress);
    read_screen(&opened, text, sizeof text);
    assert_non_null(strstr(text, "\rreading  1.00M of 1.00M documents"));
    assert_non_null(strstr(text, " in "));
    assert_int_equal(count_of(text, '\n'), 1);
    close_terminal(&opened);
}

static void progress_fits_the_width(void **state) {
    (void)state;
    terminal opened = open_terminal();
    char label[200], text[4096];
    memset(label, 'x', sizeof label - 1);
    label[sizeof label - 1] = '\0';
    haul_progress progress;
    haul_progress_begin(&progress, opened.file, label, NULL, 10);
    haul_progress_update(&progress, 5);
    read_screen(&opened, text, sizeof text);
    assert_int_equal(strlen(text), 70);
    haul_progress_end(&progress);
    close_terminal(&opened);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_no_terminal),
        cmocka_unit_test(a_terminal_has_a_width_and_colors),
        cmocka_unit_test(styles_are_sequences_or_nothing),
        cmocka_unit_test(progress_draws_one_line_seldom),
        cmocka_unit_test(progress_fits_the_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
