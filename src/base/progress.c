#include "base/progress.h"

#include "base/clock.h"
#include "base/terminal.h"

#include <string.h>

enum { BAR_COLUMNS = 20, LINE_BYTES = 256 };

static const double seconds_between_lines = 0.25;

static haul_formatted format_amount(const haul_progress *progress, int64_t amount) {
    return progress->unit == NULL ? haul_format_bytes(amount) : haul_format_count(amount);
}

static double fraction_done(const haul_progress *progress) {
    return progress->total > 0 ? (double)progress->done / (double)progress->total : 1;
}

/* "12.3 MiB of 30.1 MiB  5.20 MiB/s" or "10.0k of 25.0k documents  1.20k/s". */
static void describe_amounts(const haul_progress *progress, double elapsed, char *text,
                             size_t bytes) {
    double rate = elapsed > 0 ? (double)progress->done / elapsed : 0;
    snprintf(text, bytes, "%s of %s%s%s  %s/s", format_amount(progress, progress->done).text,
             format_amount(progress, progress->total).text, progress->unit != NULL ? " " : "",
             progress->unit != NULL ? progress->unit : "",
             format_amount(progress, (int64_t)rate).text);
}

/* Overwrites the live line, blanks over what is left of a longer one. No escape sequences, so
 * that the simplest terminals show it. */
static void draw(haul_progress *progress, const char *text) {
    int columns = haul_terminal_width(progress->file) - 1;
    int width = (int)strlen(text);
    width = width < columns ? width : columns;
    int blanks = progress->width > width ? progress->width - width : 0;
    fprintf(progress->file, "\r%.*s%*s", width, text, blanks, "");
    fflush(progress->file);
    progress->width = width;
}

static void show_live(haul_progress *progress, double now) {
    double fraction = fraction_done(progress);
    double elapsed = now - progress->started;
    char bar[BAR_COLUMNS + 1] = "....................";
    memset(bar, '#', (size_t)(fraction * BAR_COLUMNS));
    char amounts[128];
    describe_amounts(progress, elapsed, amounts, sizeof amounts);
    double left = fraction > 0 ? elapsed * (1 - fraction) / fraction : -1;
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "%s  [%s] %3.0f %%  %s  ETA %s", progress->label, bar,
             100 * fraction, amounts, haul_format_duration(left).text);
    draw(progress, line);
}

static void show_quarters(haul_progress *progress, double now) {
    int quarters = (int)(fraction_done(progress) * 4);
    if (quarters > progress->quarters) {
        char amounts[128];
        describe_amounts(progress, now - progress->started, amounts, sizeof amounts);
        fprintf(progress->file, "%s  %d %%  %s\n", progress->label, 25 * quarters, amounts);
        fflush(progress->file);
        progress->quarters = quarters;
    }
}

void haul_progress_begin(haul_progress *progress, FILE *file, const char *label, const char *unit,
                         int64_t total) {
    *progress = (haul_progress){
        .file = file,
        .label = label,
        .unit = unit,
        .total = total,
        .started = haul_clock_seconds(),
        .live = file != NULL && haul_terminal_is(file),
    };
}

void haul_progress_update(haul_progress *progress, int64_t done) {
    progress->done = done < progress->total ? done : progress->total;
    if (progress->file == NULL) {
        return;
    }
    double now = haul_clock_seconds();
    if (!progress->live) {
        show_quarters(progress, now);
    } else if (now - progress->shown >= seconds_between_lines) {
        show_live(progress, now);
        progress->shown = now;
    }
}

void haul_progress_end(haul_progress *progress) {
    if (progress->file == NULL || !progress->live) {
        return;
    }
    double elapsed = haul_clock_seconds() - progress->started;
    char amounts[128];
    describe_amounts(progress, elapsed, amounts, sizeof amounts);
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "%s  %s  in %s", progress->label, amounts,
             haul_format_duration(elapsed).text);
    draw(progress, line);
    fputc('\n', progress->file);
    fflush(progress->file);
    progress->file = NULL;
}
