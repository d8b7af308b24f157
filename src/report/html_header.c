/* The top of the page: the verdict, how it compares, and the run's key figures. */
#include "report/html_parts.h"

#include "base/format.h"
#include "base/memory.h"
#include "report/axis.h"
#include "report/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const haul_log_start *haul_report_start(const haul_report_run *run) {
    static const haul_log_start none = {0};
    int64_t count = run->history.attempt_count;
    return count > 0 ? &run->history.attempts[count - 1].start : &none;
}

static int compare_doubles(const void *a, const void *b) {
    double left, right;
    memcpy(&left, a, sizeof left);
    memcpy(&right, b, sizeof right);
    return (left > right) - (left < right);
}

double haul_report_median(const haul_report_run *run, size_t offset) {
    double *values = haul_calloc(run->history.train_count, sizeof *values);
    int64_t count = 0;
    for (int64_t i = 0; values != NULL && i < run->history.train_count; i++) {
        double value;
        memcpy(&value, (const char *)&run->history.train[i] + offset, sizeof value);
        if (isfinite(value)) {
            values[count++] = value;
        }
    }
    double median = (double)NAN;
    if (count > 0) {
        qsort(values, (size_t)count, sizeof *values, compare_doubles);
        median = values[count / 2];
    }
    free(values);
    return median;
}

/* The evaluation that the verdict quotes: the last one. NULL without any. */
static const haul_log_eval *final_eval(const haul_report_run *run) {
    int64_t count = run->history.eval_count;
    return count > 0 ? &run->history.eval[count - 1] : NULL;
}

static const haul_log_train *final_train(const haul_report_run *run) {
    int64_t count = run->history.train_count;
    return count > 0 ? &run->history.train[count - 1] : NULL;
}

static void append_title(const haul_report_run *run, haul_string *out) {
    const haul_log_eval *eval = final_eval(run);
    const haul_log_train *train = final_train(run);
    haul_string_append_text(out, "<h1>");
    if (eval != NULL && isfinite(eval->bits_per_byte)) {
        haul_string_append_format(out, "%.2f bits per byte on held-out text", eval->bits_per_byte);
    } else if (eval != NULL && isfinite(eval->loss)) {
        haul_string_append_format(out, "Held-out loss %.3f", eval->loss);
    } else if (train != NULL && isfinite(train->loss)) {
        haul_string_append_format(out, "Training loss %.3f", train->loss);
    } else if (train != NULL) {
        haul_string_append_text(out, "The loss is not finite");
    } else {
        haul_string_append_text(out, "No step is logged yet");
    }
    haul_string_append_text(out, "</h1>\n");
}

/* "15 % below xz", "3 % above gzip". */
static void append_against(haul_string *out, const char *before, const char *name, double value,
                           double reference) {
    double percent = 100 * (value / reference - 1);
    haul_string_append_format(out, "%s%.0f\u202f%% %s %s", before, fabs(percent),
                              percent <= 0 ? "below" : "above", name);
}

static void append_progress(const haul_report_run *run, haul_string *out) {
    const haul_log_start *start = haul_report_start(run);
    if (run->history.attempt_count == 0) {
        return;
    }
    const haul_run_attempt *last = &run->history.attempts[run->history.attempt_count - 1];
    haul_string_append_format(out, "%s", haul_axis_integer(last->reached).text);
    if (start->train_iters > 0) {
        haul_string_append_format(out, " of %s", haul_axis_integer(start->train_iters).text);
    }
    haul_string_append_text(out, last->reached == 1 ? " iteration" : " iterations");
    if (last->ended && isfinite(last->end.seconds)) {
        haul_string_append_format(out, " in %s", haul_format_duration(last->end.seconds).text);
    }
    haul_string_append_text(out, "; ");
    haul_text_append_html(out, !last->ended               ? "no end is logged"
                               : last->end.reason == NULL ? "ended"
                                                          : last->end.reason);
    haul_string_append_text(out, ".");
}

static void append_lead(const haul_report_run *run, haul_string *out) {
    const haul_log_start *start = haul_report_start(run);
    const haul_log_eval *eval = final_eval(run);
    haul_string_append_text(out, "<p class=\"lead\">");
    if (eval != NULL && eval->bits_per_byte > 0) {
        const char *before = "That is ";
        if (start->xz_bits_per_byte > 0) {
            append_against(out, before, "xz", eval->bits_per_byte, start->xz_bits_per_byte);
            before = " and ";
        }
        if (start->gzip_bits_per_byte > 0) {
            append_against(out, before, "gzip", eval->bits_per_byte, start->gzip_bits_per_byte);
            before = " and ";
        }
        haul_string_append_text(out, strcmp(before, " and ") == 0 ? ". " : "");
    }
    append_progress(run, out);
    haul_string_append_text(out, "</p>\n");
}

static void append_bar(haul_string *out, const char *name, const char *style, double value,
                       double most) {
    if (!(value > 0)) {
        return;
    }
    haul_string_append_format(out,
                              "<span>%s</span><span class=\"bar %s\">"
                              "<i style=\"width:%.1f%%\"></i></span><b>%.2f</b>\n",
                              name, style, 100 * value / most, value);
}

/* Bars of bits per byte, where there is something to compare with. */
static void append_comparison(const haul_report_run *run, haul_string *out) {
    const haul_log_start *start = haul_report_start(run);
    const haul_log_eval *eval = final_eval(run);
    double most = fmax(start->gzip_bits_per_byte, start->xz_bits_per_byte);
    if (eval == NULL || !(eval->bits_per_byte > 0) || !(most > 0)) {
        return;
    }
    most = fmax(most, eval->bits_per_byte);
    haul_string_append_text(out, "<div class=\"bars\" role=\"img\" aria-label=\"bits per byte, "
                                 "lower is better\">\n");
    append_bar(out, "this model", "train", eval->bits_per_byte, most);
    append_bar(out, "xz", "other", start->xz_bits_per_byte, most);
    append_bar(out, "gzip", "other", start->gzip_bits_per_byte, most);
    haul_string_append_text(out, "</div>\n<p class=\"note\">Bits per byte, lower is better. xz and "
                                 "gzip compress the whole text.</p>\n");
}

static void append_fact(haul_string *out, const char *name, const char *value, const char *unit) {
    if (value[0] == '\0') {
        return;
    }
    haul_string_append_format(out, "<div><dt>%s</dt><dd>%s", name, value);
    if (unit[0] != '\0') {
        haul_string_append_format(out, " <small>%s</small>", unit);
    }
    haul_string_append_text(out, "</dd></div>\n");
}

int64_t haul_report_add_bytes(int64_t total, int64_t bytes) {
    int64_t sum;
    return haul_size_add(total, bytes, &sum) ? sum : total;
}

int64_t haul_report_memory(const haul_report_run *run) {
    int64_t total = 0;
    for (int64_t i = 0; i < run->history.memory_count; i++) {
        total = haul_report_add_bytes(total, run->history.memory[i].bytes);
    }
    return total;
}

static void append_facts(const haul_report_run *run, haul_string *out) {
    const haul_log_start *start = haul_report_start(run);
    const haul_log_eval *eval = final_eval(run);
    const haul_log_train *train = final_train(run);
    double speed = haul_report_median(run, offsetof(haul_log_train, tokens_per_second));
    double mfu = haul_report_median(run, offsetof(haul_log_train, mfu));
    int64_t memory = haul_report_memory(run);
    char text[32];
    haul_string_append_text(out, "<dl class=\"facts\">\n");
    if (eval != NULL && isfinite(eval->loss)) {
        snprintf(text, sizeof text, "%.3f", eval->loss);
        append_fact(out, "Held-out loss", text, "nats/token");
    }
    if (eval != NULL && isfinite(eval->perplexity)) {
        append_fact(out, "Perplexity", haul_axis_number(eval->perplexity).text, "");
    }
    if (start->parameters > 0) {
        append_fact(out, "Parameters", haul_format_count(start->parameters).text, "");
    }
    if (train != NULL && train->tokens > 0) {
        append_fact(out, "Trained on", haul_format_count(train->tokens).text, "tokens");
    }
    if (speed > 0 && speed < 1e15) {
        append_fact(out, "Speed", haul_format_count(llround(speed)).text, "tokens/s");
    }
    if (isfinite(mfu)) {
        snprintf(text, sizeof text, "%.0f\u202f%%", 100 * mfu);
        append_fact(out, "MFU", text, "of measured peak");
    }
    if (memory > 0) {
        append_fact(out, "Memory", haul_format_bytes(memory).text, "");
    }
    haul_string_append_text(out, "</dl>\n");
}

void haul_html_header(const haul_report_run *run, haul_string *out) {
    const haul_log_start *start = haul_report_start(run);
    haul_string_append_text(out, "<header>\n<p class=\"eyebrow\">haul training report \u00b7 ");
    haul_text_append_html(out, run->name);
    haul_string_append_text(out, "</p>\n");
    append_title(run, out);
    append_lead(run, out);
    const char *const lines[] = {start->model, start->data};
    for (int i = 0; i < 2; i++) {
        if (lines[i] != NULL) {
            haul_html_element(out, "p", "about", lines[i]);
            haul_string_append_text(out, "\n");
        }
    }
    append_comparison(run, out);
    append_facts(run, out);
    haul_string_append_text(out, "</header>\n");
}
