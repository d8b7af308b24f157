#include "report/live_line.h"

#include "base/format.h"
#include "base/terminal.h"
#include "report/text.h"

#include <math.h>

static const double UPDATE_SECONDS = 0.25;

void haul_live_history_add(haul_live_history *history, double loss) {
    if (!isfinite(loss)) {
        return;
    }
    if (history->span == 0) {
        history->span = 1;
    }
    history->sum += loss;
    if (++history->added < history->span) {
        return;
    }
    if (history->count == HAUL_LIVE_HISTORY) {
        for (int i = 0; i < HAUL_LIVE_HISTORY / 2; i++) {
            history->losses[i] = (history->losses[2 * i] + history->losses[2 * i + 1]) / 2;
        }
        history->count = HAUL_LIVE_HISTORY / 2;
        history->span *= 2;
        return;
    }
    history->losses[history->count++] = history->sum / (double)history->added;
    history->sum = 0;
    history->added = 0;
}

/* Bars from the lowest to the highest loss; nothing until there are two. */
static void append_curve(const haul_live_history *history, haul_string *out) {
    static const char *const bars[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
    double low = (double)INFINITY, high = -(double)INFINITY;
    for (int i = 0; i < history->count; i++) {
        low = fmin(low, history->losses[i]);
        high = fmax(high, history->losses[i]);
    }
    for (int i = 0; i < history->count && high > low; i++) {
        double height = (history->losses[i] - low) / (high - low);
        haul_string_append_text(out, bars[(int)lround(height * 7)]);
    }
}

/* The fields from left to right. */
typedef enum field_kind { STEP, LOSS, CURVE, SPEED, MFU, MEMORY, ETA, FIELDS } field_kind;

/* What a narrow terminal goes without, first to last. */
static const field_kind drop_order[FIELDS] = {MEMORY, MFU, CURVE, SPEED, ETA, LOSS, STEP};

static const haul_style styles[FIELDS] = {
    [STEP] = HAUL_STYLE_BOLD,
    [LOSS] = HAUL_STYLE_BOLD,
    [CURVE] = HAUL_STYLE_GREEN,
    [MEMORY] = HAUL_STYLE_DIM,
};

static void format_step(const haul_live_state *state, haul_string *out) {
    haul_string_append_format(out, "step %lld", (long long)state->iteration);
    if (state->train_iters > 0) {
        double share = 100.0 * (double)state->iteration / (double)state->train_iters;
        haul_string_append_format(out, "/%lld %3.0f%%", (long long)state->train_iters,
                                  floor(share));
    }
}

static void format_field(field_kind kind, const haul_live_state *state,
                         const haul_live_history *history, bool utf8, haul_string *out) {
    switch (kind) {
    case STEP:
        format_step(state, out);
        break;
    case LOSS:
        if (!isnan(state->loss)) {
            haul_string_append_format(out, "loss %.4g", state->loss);
        }
        break;
    case CURVE:
        if (utf8) {
            append_curve(history, out);
        }
        break;
    case SPEED:
        if (isfinite(state->tokens_per_second) && state->tokens_per_second < 1e15) {
            int64_t speed = llround(state->tokens_per_second);
            haul_string_append_format(out, "%s tokens/s", haul_format_count(speed).text);
        }
        break;
    case MFU:
        if (isfinite(state->mfu)) {
            haul_string_append_format(out, "MFU %.0f%%", 100 * state->mfu);
        }
        break;
    case MEMORY:
        if (state->memory_bytes > 0) {
            haul_string_append_text(out, haul_format_bytes(state->memory_bytes).text);
        }
        break;
    default:
        if (isfinite(state->eta_seconds)) {
            haul_string_append_format(out, "ETA %s", haul_format_duration(state->eta_seconds).text);
        }
        break;
    }
}

static const char *separator(field_kind kind, bool utf8) {
    return kind == STEP ? "" : kind == CURVE ? " " : utf8 ? " \u00b7 " : " | ";
}

static int columns_of(const haul_string *field, field_kind kind) {
    if (field->length == 0) {
        return 0;
    }
    return haul_text_columns(field->data) + haul_text_columns(separator(kind, false));
}

/* Empties fields until the rest fits. */
static void drop_fields(haul_string fields[FIELDS], int columns) {
    int used = 0;
    for (field_kind kind = 0; kind < FIELDS; kind++) {
        used += columns_of(&fields[kind], kind);
    }
    for (int i = 0; i < FIELDS && used > columns; i++) {
        field_kind kind = drop_order[i];
        used -= columns_of(&fields[kind], kind);
        haul_string_clear(&fields[kind]);
    }
}

void haul_live_line_format(const haul_live_state *state, const haul_live_history *history,
                           const haul_live_style *style, haul_string *out) {
    haul_string fields[FIELDS] = {{0}};
    for (field_kind kind = 0; kind < FIELDS; kind++) {
        format_field(kind, state, history, style->utf8, &fields[kind]);
    }
    drop_fields(fields, style->columns - 1);
    for (field_kind kind = 0; kind < FIELDS; kind++) {
        if (fields[kind].length == 0) {
            continue;
        }
        haul_string_append_text(out, separator(kind, style->utf8));
        haul_style look = styles[kind];
        bool styled = style->color && look != HAUL_STYLE_NONE;
        haul_string_append_text(out, haul_terminal_style(styled, look));
        haul_string_append_text(out, fields[kind].data);
        haul_string_append_text(out, haul_terminal_style(styled, HAUL_STYLE_NONE));
    }
    for (field_kind kind = 0; kind < FIELDS; kind++) {
        out->failed = out->failed || fields[kind].failed;
        haul_string_deinit(&fields[kind]);
    }
}

void haul_live_line_init(haul_live_line *line, FILE *stream, bool utf8, bool color) {
    *line = (haul_live_line){
        .stream = stream,
        .style = {.utf8 = utf8, .color = color},
        .last_update = -(double)INFINITY,
    };
}

void haul_live_line_deinit(haul_live_line *line) {
    haul_string_deinit(&line->text);
}

void haul_live_line_update(haul_live_line *line, const haul_live_state *state, double now) {
    haul_live_history_add(&line->history, state->loss);
    if (now - line->last_update < UPDATE_SECONDS) {
        return;
    }
    line->last_update = now;
    haul_live_style style = line->style;
    style.columns = haul_terminal_width(line->stream);
    haul_string_clear(&line->text);
    haul_live_line_format(state, &line->history, &style, &line->text);
    if (!line->text.failed && line->text.length > 0) {
        /* Overwritten first and cleared behind, so that nothing flickers. */
        fprintf(line->stream, "\r%s\x1b[K", line->text.data);
        fflush(line->stream);
        line->shown = true;
    }
}

void haul_live_line_clear(haul_live_line *line) {
    if (line->shown) {
        fputs("\r\x1b[K", line->stream);
        fflush(line->stream);
        line->shown = false;
    }
}
