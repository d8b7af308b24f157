/* Samples, memory, settings, environment and history. */
#include "report/html_parts.h"

#include "base/format.h"
#include "base/memory.h"
#include "report/axis.h"
#include "report/text.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EARLIER_SAMPLES = 4, CHECKPOINTS_SHOWN = 5, LINES_SHOWN = 12 };

static const char *or_empty(const char *text) {
    return text == NULL ? "" : text;
}

static void append_sample(const haul_log_sample *sample, haul_string *out) {
    haul_string_append_format(out, "<article><h3>iteration %s</h3>\n<pre class=\"sample\">",
                              haul_axis_integer(sample->iteration).text);
    if (or_empty(sample->prompt)[0] != '\0') {
        haul_html_element(out, "b", NULL, sample->prompt);
    }
    haul_text_append_html(out, or_empty(sample->text));
    haul_string_append_text(out, "</pre></article>\n");
}

void haul_html_samples(const haul_report_run *run, haul_string *out) {
    int64_t count = run->history.sample_count;
    if (count == 0) {
        return;
    }
    haul_html_section_begin(out, "Samples");
    haul_string_append_text(out,
                            "<p class=\"note\">What the model wrote; the prompt is bold.</p>\n");
    append_sample(&run->history.sample[count - 1], out);
    /* Below the last one, a few from the way there, evenly spaced and the first among them. */
    int64_t earlier = haul_min(count - 1, EARLIER_SAMPLES);
    haul_string_append_text(out, "<div class=\"pair\">\n");
    for (int64_t i = 0; i < earlier; i++) {
        append_sample(&run->history.sample[(earlier - 1 - i) * (count - 1) / earlier], out);
    }
    haul_string_append_text(out, "</div>\n");
    haul_html_section_end(out);
}

/* A category of the memory table and the sum of its lines. */
typedef struct category {
    const char *name;
    int64_t bytes;
} category;

static int by_bytes(const void *a, const void *b) {
    const category *left = a, *right = b;
    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

static int64_t sum_categories(const haul_run_history *history, category *categories) {
    int64_t count = 0;
    for (int64_t i = 0; i < history->memory_count; i++) {
        const char *name = or_empty(history->memory[i].category);
        int64_t at = 0;
        while (at < count && strcmp(categories[at].name, name) != 0) {
            at++;
        }
        count = haul_max(count, at + 1);
        categories[at].name = name;
        categories[at].bytes =
            haul_report_add_bytes(categories[at].bytes, history->memory[i].bytes);
    }
    qsort(categories, (size_t)count, sizeof *categories, by_bytes);
    return count;
}

static void append_lines(const haul_run_history *history, const category *c, haul_string *out) {
    int64_t shown = 0, hidden = 0, hidden_bytes = 0;
    for (int64_t i = 0; i < history->memory_count; i++) {
        const haul_log_memory *line = &history->memory[i];
        if (strcmp(or_empty(line->category), c->name) != 0) {
            continue;
        }
        if (shown++ >= LINES_SHOWN) {
            hidden++;
            hidden_bytes = haul_report_add_bytes(hidden_bytes, line->bytes);
            continue;
        }
        haul_string_append_text(out, "<tr class=\"line\">");
        haul_html_element(out, "td", NULL, or_empty(line->name));
        haul_string_append_format(out, "<td></td><td>%s</td><td></td></tr>\n",
                                  haul_format_bytes(line->bytes).text);
    }
    if (hidden > 0) {
        haul_string_append_format(out,
                                  "<tr class=\"line\"><td>%lld more</td><td></td><td>%s</td>"
                                  "<td></td></tr>\n",
                                  (long long)hidden, haul_format_bytes(hidden_bytes).text);
    }
}

static void append_category(const haul_run_history *history, const category *c, int64_t total,
                            int64_t largest, haul_string *out) {
    double share = 100 * (double)c->bytes / (double)haul_max(total, 1);
    haul_string_append_text(out, "<tr>");
    haul_html_element(out, "th", NULL, c->name);
    haul_string_append_format(out,
                              "<td class=\"bar train\"><i style=\"width:%.1f%%\"></i></td>"
                              "<td><b>%s</b></td><td>%s%.0f\u202f%%</td></tr>\n",
                              100 * (double)c->bytes / (double)haul_max(largest, 1),
                              haul_format_bytes(c->bytes).text, share < 1 ? "&lt;" : "",
                              fmax(share, 1));
    append_lines(history, c, out);
}

void haul_html_memory(const haul_report_run *run, haul_string *out) {
    const haul_run_history *history = &run->history;
    if (history->memory_count == 0) {
        return;
    }
    category *categories = haul_calloc(history->memory_count, sizeof *categories);
    if (categories == NULL) {
        out->failed = true;
        return;
    }
    int64_t count = sum_categories(history, categories);
    int64_t total = haul_report_memory(run);
    haul_html_section_begin(out, "Memory");
    haul_string_append_text(out, "<table class=\"memory\">\n");
    for (int64_t i = 0; i < count; i++) {
        append_category(history, &categories[i], total, categories[0].bytes, out);
    }
    haul_string_append_format(out,
                              "<tr class=\"total\"><th>total</th><td></td><td><b>%s</b></td>"
                              "<td></td></tr>\n</table>\n",
                              haul_format_bytes(total).text);
    haul_html_section_end(out);
    free(categories);
}

void haul_html_command(const haul_report_run *run, haul_string *out) {
    const char *command =
        run->command.length > 0 ? run->command.data : haul_report_start(run)->command;
    if (command == NULL) {
        return;
    }
    haul_html_section_begin(out, "Reproduce");
    haul_html_element(out, "pre", "command", command);
    haul_string_append_text(out, "\n");
    haul_html_section_end(out);
}

static void append_setting(haul_string *out, const char *name, const char *value) {
    haul_string_append_text(out, "<div>");
    haul_html_element(out, "dt", NULL, name);
    haul_html_element(out, "dd", NULL, value);
    haul_string_append_text(out, "</div>\n");
}

/* A value as text: strings without quotes, the elements of arrays parted by blanks. */
static void append_value(haul_string *out, json_t *value) {
    if (json_is_string(value)) {
        haul_string_append_text(out, json_string_value(value));
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            haul_string_append_text(out, i > 0 ? " " : "");
            append_value(out, json_array_get(value, i));
        }
    } else {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
        haul_string_append_text(out, or_empty(text));
        free(text);
    }
}

/* The members of an object as settings; members of objects inside it get dotted names. */
static void append_settings(haul_string *out, const char *prefix, json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        char name[256];
        if (json_is_object(value)) {
            snprintf(name, sizeof name, "%s%s.", prefix, key);
            append_settings(out, name, value);
        } else if (!json_is_null(value)) {
            haul_string text = {0};
            append_value(&text, value);
            snprintf(name, sizeof name, "%s%s", prefix, key);
            append_setting(out, name, or_empty(text.data));
            out->failed = out->failed || text.failed;
            haul_string_deinit(&text);
        }
    }
}

void haul_html_settings(const haul_report_run *run, haul_string *out) {
    if (run->config_error == NULL && json_object_size(run->config) == 0) {
        return;
    }
    haul_html_section_begin(out, "Settings");
    if (run->config_error != NULL) {
        haul_html_element(out, "p", "note", run->config_error);
    } else {
        haul_string_append_text(out, "<dl class=\"settings\">\n");
        append_settings(out, "", run->config);
        haul_string_append_text(out, "</dl>\n");
    }
    haul_html_section_end(out);
}

void haul_html_environment(const haul_report_run *run, haul_string *out) {
    const haul_log_start *start = haul_report_start(run);
    char threads[32] = "", ceiling[48] = "", flops[48] = "";
    if (start->threads > 0) {
        snprintf(threads, sizeof threads, "%lld", (long long)start->threads);
    }
    if (start->ceiling_gflops > 0) {
        snprintf(ceiling, sizeof ceiling, "%s GFLOP/s",
                 haul_axis_number(start->ceiling_gflops).text);
    }
    if (start->flops_per_token > 0) {
        snprintf(flops, sizeof flops, "%s FLOP", haul_axis_number(start->flops_per_token).text);
    }
    const struct {
        const char *name, *value;
    } rows[] = {
        {"Processor", start->cpu},
        {"Instructions", start->isa},
        {"Threads", threads},
        {"Precision", start->precision},
        {"Measured product speed", ceiling},
        {"Work per token", flops},
        {"Libraries", start->libraries},
        {"haul", start->version},
    };
    bool begun = false;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (or_empty(rows[i].value)[0] == '\0') {
            continue;
        }
        if (!begun) {
            haul_html_section_begin(out, "Environment");
            haul_string_append_text(out, "<dl class=\"settings\">\n");
            begun = true;
        }
        append_setting(out, rows[i].name, rows[i].value);
    }
    if (begun) {
        haul_string_append_text(out, "</dl>\n");
        haul_html_section_end(out);
    }
}

static void append_attempt(const haul_run_attempt *attempt, haul_string *out) {
    char date[32] = "";
    bool dated = attempt->start.time > 0 && attempt->start.time < 1e11;
    time_t seconds = dated ? (time_t)attempt->start.time : 0;
    struct tm local;
    if (dated && localtime_r(&seconds, &local) != NULL) {
        strftime(date, sizeof date, "%Y-%m-%d %H:%M", &local);
    }
    bool timed = attempt->ended && isfinite(attempt->end.seconds);
    haul_string_append_format(out, "<tr><td>%s</td><td>%s \u2192 %s</td><td>%s</td>", date,
                              haul_axis_integer(attempt->start.iteration).text,
                              haul_axis_integer(attempt->reached).text,
                              timed ? haul_format_duration(attempt->end.seconds).text : "");
    haul_html_element(out, "td", NULL,
                      attempt->ended ? or_empty(attempt->end.reason) : "no end is logged");
    haul_html_element(out, "td", NULL, or_empty(attempt->start.resumed_from));
    haul_string_append_text(out, "</tr>\n");
}

static void append_checkpoints(const haul_run_history *history, haul_string *out) {
    int64_t count = history->checkpoint_count;
    if (count == 0) {
        return;
    }
    haul_string_append_text(out, "<table>\n<tr><th>Checkpoint</th><th>Iteration</th><th>Size</th>"
                                 "<th>Saved in</th></tr>\n");
    for (int64_t i = haul_max(0, count - CHECKPOINTS_SHOWN); i < count; i++) {
        const haul_log_checkpoint *c = &history->checkpoint[i];
        haul_string_append_text(out, "<tr>");
        haul_html_element(out, "td", NULL, or_empty(c->path));
        haul_string_append_format(
            out, "<td>%s</td><td>%s</td><td>%s</td></tr>\n", haul_axis_integer(c->iteration).text,
            haul_format_bytes(c->bytes).text,
            isfinite(c->seconds) ? haul_format_duration(c->seconds).text : "");
    }
    haul_string_append_text(out, "</table>\n");
    if (count > CHECKPOINTS_SHOWN) {
        haul_string_append_format(out, "<p class=\"note\">The last %d of %lld saved.</p>\n",
                                  CHECKPOINTS_SHOWN, (long long)count);
    }
}

void haul_html_attempts(const haul_report_run *run, haul_string *out) {
    const haul_run_history *history = &run->history;
    if (history->attempt_count == 0) {
        return;
    }
    haul_html_section_begin(out, "History");
    haul_string_append_text(out, "<table>\n<tr><th>Started</th><th>Iterations</th><th>Took</th>"
                                 "<th>Ended</th><th>Resumed from</th></tr>\n");
    for (int64_t i = 0; i < history->attempt_count; i++) {
        append_attempt(&history->attempts[i], out);
    }
    haul_string_append_text(out, "</table>\n");
    append_checkpoints(history, out);
    haul_html_section_end(out);
}
