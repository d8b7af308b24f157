/* The one line that a terminal shows while a run goes on. */
#ifndef HAUL_REPORT_LIVE_LINE_H
#define HAUL_REPORT_LIVE_LINE_H

#include "base/string.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What is known after a step. A value that is NAN, or a count of 0, is not shown. */
typedef struct haul_live_state {
    int64_t iteration;
    int64_t train_iters;
    double loss; /* nats per token */
    double tokens_per_second;
    double mfu;         /* fraction of the machine's measured product speed, 0 to 1 */
    double eta_seconds; /* until train_iters */
    int64_t memory_bytes;
} haul_live_state;

typedef struct haul_live_style {
    int columns; /* of the terminal */
    bool utf8;   /* the terminal shows UTF-8 */
    bool color;  /* ANSI colours are wanted */
} haul_live_style;

enum { HAUL_LIVE_HISTORY = 16 };

/* The losses so far, thinned: when the array is full, neighbours become their mean. */
typedef struct haul_live_history {
    double losses[HAUL_LIVE_HISTORY]; /* each the mean of `span` calls of add */
    int count;
    int64_t span;
    double sum; /* of the `added` losses that wait to become the next entry */
    int64_t added;
} haul_live_history;

/* Adds a loss; one that is not finite is passed over. A zeroed history is empty. */
void haul_live_history_add(haul_live_history *history, double loss);

/* Appends the line, without any end of line, in at most columns - 1 columns. Where it is too
 * long, fields go in this order: memory, MFU, curve, speed, ETA. */
void haul_live_line_format(const haul_live_state *state, const haul_live_history *history,
                           const haul_live_style *style, haul_string *out);

/* Prints to a terminal, whose width is asked at each update. */
typedef struct haul_live_line {
    FILE *stream;
    haul_live_style style;
    haul_live_history history;
    haul_string text;
    double last_update; /* in the caller's clock */
    bool shown;
} haul_live_line;

/* Nothing is printed yet. The stream stays the caller's. */
void haul_live_line_init(haul_live_line *line, FILE *stream, bool utf8, bool color);
void haul_live_line_deinit(haul_live_line *line);

/* Notes the loss, and replaces the line when the last time was at least 0.25 s ago. `now` is in
 * seconds of any clock that does not go back. */
void haul_live_line_update(haul_live_line *line, const haul_live_state *state, double now);

/* Removes the line, so that other output can go where it was; the next update shows it again. */
void haul_live_line_clear(haul_live_line *line);

#endif
