/* The curves: loss, learning rate, gradient norm, speed. */
#include "report/html_parts.h"

#include "base/memory.h"
#include "report/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Columns of the log as arrays of doubles, for the charts. All NULL without memory. */
typedef struct columns {
    double *iteration, *loss, *learning_rate, *grad_norm, *speed;
    double *smooth_loss, *smooth_norm, *smooth_speed;
    int64_t count;
    double *eval_iteration, *eval_loss;
    int64_t eval_count;
    double *resumes;
    int64_t resume_count;
} columns;

/* Each value's mean with its neighbours, up to 1/80 of the curve to each side and never further
 * than the curve's start is, so that the steep beginning keeps its shape. */
static void smooth_values(const double *values, int64_t count, double *out) {
    int64_t reach = count / 80;
    double sum = 0;
    int64_t finite = 0, from = 0, to = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t half = haul_min(i, reach);
        int64_t end = haul_min(i + half + 1, count);
        for (; to < end; to++) {
            if (isfinite(values[to])) {
                sum += values[to];
                finite++;
            }
        }
        for (; from < i - half; from++) {
            if (isfinite(values[from])) {
                sum -= values[from];
                finite--;
            }
        }
        out[i] = finite > 0 ? sum / (double)finite : (double)NAN;
    }
}

/* Beyond that a value is as good as infinite, and an axis could not span it. */
static const double DRAWN_LIMIT = 1e100;

static double drawn(double value) {
    return fabs(value) < DRAWN_LIMIT ? value : (double)NAN;
}

static void fill_columns(const haul_run_history *history, columns *c) {
    for (int64_t i = 0; i < c->count; i++) {
        const haul_log_train *line = &history->train[i];
        c->iteration[i] = (double)line->iteration;
        c->loss[i] = drawn(line->loss);
        c->learning_rate[i] = drawn(line->learning_rate);
        c->grad_norm[i] = drawn(line->grad_norm);
        c->speed[i] = drawn(line->tokens_per_second);
    }
    smooth_values(c->loss, c->count, c->smooth_loss);
    smooth_values(c->grad_norm, c->count, c->smooth_norm);
    smooth_values(c->speed, c->count, c->smooth_speed);
    for (int64_t i = 0; i < history->eval_count; i++) {
        if (history->eval[i].split == NULL || strcmp(history->eval[i].split, "test") != 0) {
            c->eval_iteration[c->eval_count] = (double)history->eval[i].iteration;
            c->eval_loss[c->eval_count++] = drawn(history->eval[i].loss);
        }
    }
    for (int64_t i = 0; i < history->attempt_count; i++) {
        if (history->attempts[i].start.iteration > 0) {
            c->resumes[c->resume_count++] = (double)history->attempts[i].start.iteration;
        }
    }
}

/* One allocation holds all columns; it begins at `iteration`. */
static bool create_columns(const haul_run_history *history, columns *c) {
    enum { TRAIN_COLUMNS = 8 };
    int64_t train = history->train_count;
    int64_t evals = history->eval_count;
    int64_t doubles = TRAIN_COLUMNS * train + 2 * evals + history->attempt_count;
    double *all = haul_calloc(doubles, sizeof *all);
    if (all == NULL) {
        return false;
    }
    *c = (columns){.count = train};
    double **const targets[TRAIN_COLUMNS] = {
        &c->iteration, &c->loss,        &c->learning_rate, &c->grad_norm,
        &c->speed,     &c->smooth_loss, &c->smooth_norm,   &c->smooth_speed,
    };
    for (int i = 0; i < TRAIN_COLUMNS; i++) {
        *targets[i] = all + i * train;
    }
    c->eval_iteration = all + TRAIN_COLUMNS * train;
    c->eval_loss = c->eval_iteration + evals;
    c->resumes = c->eval_loss + evals;
    fill_columns(history, c);
    return true;
}

static void append_loss(const columns *c, haul_string *out) {
    const haul_svg_series series[] = {
        {.style = "raw", .x = c->iteration, .y = c->loss, .count = c->count},
        {.name = "train",
         .style = "train",
         .x = c->iteration,
         .y = c->smooth_loss,
         .count = c->count},
        {.name = "held-out",
         .style = "eval",
         .x = c->eval_iteration,
         .y = c->eval_loss,
         .count = c->eval_count,
         .dots = true},
    };
    haul_svg_chart chart = {
        .title = "loss against iterations",
        .x_label = "iteration",
        .style = "wide",
        .width = 920,
        .height = 340,
        .label_width = 110,
        .y_scale = HAUL_SCALE_AUTO,
        .series = series,
        .series_count = 3,
        .marks = c->resumes,
        .mark_count = c->resume_count,
    };
    haul_string_append_text(out, "<figure><figcaption><b>Loss</b> nats per token; train as logged "
                                 "(faint) and smoothed</figcaption>\n");
    haul_svg_append(&chart, out);
    /* The same for a phone, where the wide one would shrink its text. */
    chart.style = "narrow";
    chart.width = 420;
    chart.height = 300;
    haul_svg_append(&chart, out);
    haul_string_append_text(out, "</figure>\n");
}

/* A third of the width. `smooth` NULL draws the values alone. */
static void append_small(const columns *c, const char *title, const char *unit, const double *raw,
                         const double *smooth, haul_scale scale, haul_string *out) {
    const haul_svg_series series[] = {
        {.style = "raw", .x = c->iteration, .y = raw, .count = smooth != NULL ? c->count : 0},
        {.name = "",
         .style = "train",
         .x = c->iteration,
         .y = smooth != NULL ? smooth : raw,
         .count = c->count},
    };
    const haul_svg_chart chart = {
        .title = title,
        .style = "small",
        .width = 310,
        .height = 200,
        .label_width = 62,
        .y_scale = scale,
        .series = series,
        .series_count = 2,
        .marks = c->resumes,
        .mark_count = c->resume_count,
    };
    haul_string svg = {0};
    if (haul_svg_append(&chart, &svg)) {
        haul_string_append_format(out, "<figure><figcaption><b>%s</b> %s</figcaption>\n", title,
                                  unit);
        haul_string_append(out, svg.data, svg.length);
        haul_string_append_text(out, "</figure>\n");
    }
    out->failed = out->failed || svg.failed;
    haul_string_deinit(&svg);
}

void haul_html_charts(const haul_report_run *run, haul_string *out) {
    columns c;
    if (run->history.train_count + run->history.eval_count == 0) {
        return;
    }
    if (!create_columns(&run->history, &c)) {
        out->failed = true;
        return;
    }
    haul_html_section_begin(out, "Training");
    append_loss(&c, out);
    haul_string_append_text(out, "<div class=\"grid\">\n");
    append_small(&c, "Learning rate", "", c.learning_rate, NULL, HAUL_SCALE_LINEAR_FROM_ZERO, out);
    append_small(&c, "Gradient norm", "before clipping", c.grad_norm, c.smooth_norm,
                 HAUL_SCALE_AUTO, out);
    append_small(&c, "Speed", "tokens per second", c.speed, c.smooth_speed,
                 HAUL_SCALE_LINEAR_FROM_ZERO, out);
    haul_string_append_text(out, "</div>\n");
    if (c.resume_count > 0) {
        haul_string_append_text(out, "<p class=\"note\">Dashed lines: resumed from a checkpoint."
                                     "</p>\n");
    }
    haul_html_section_end(out);
    free(c.iteration);
}
