/* The sections of report.html. Each appends its section, or nothing when the run has no data for
 * it; failures stick to the string. */
#ifndef HAUL_REPORT_HTML_PARTS_H
#define HAUL_REPORT_HTML_PARTS_H

#include "base/string.h"
#include "report/run_log.h"

#include <stddef.h>

struct json_t;

typedef struct haul_report_run {
    const char *name;         /* the run directory's last part */
    haul_string command;      /* command.txt; empty when absent */
    struct json_t *config;    /* config.json; NULL when absent */
    const char *config_error; /* why config.json could not be read; NULL when it could */
    haul_run_history history;
} haul_report_run;

extern const char haul_html_style[]; /* the page's style sheet */

/* <tag class="style">text</tag>, the text escaped; without a class when style is NULL. */
void haul_html_element(haul_string *out, const char *tag, const char *style, const char *text);
void haul_html_section_begin(haul_string *out, const char *title);
void haul_html_section_end(haul_string *out);

void haul_html_header(const haul_report_run *run, haul_string *out);
void haul_html_charts(const haul_report_run *run, haul_string *out);
void haul_html_samples(const haul_report_run *run, haul_string *out);
void haul_html_memory(const haul_report_run *run, haul_string *out);
void haul_html_command(const haul_report_run *run, haul_string *out);
void haul_html_settings(const haul_report_run *run, haul_string *out);
void haul_html_environment(const haul_report_run *run, haul_string *out);
void haul_html_attempts(const haul_report_run *run, haul_string *out);

/* The last attempt's start, or a zeroed one. */
const haul_log_start *haul_report_start(const haul_report_run *run);

/* total + bytes; a number from the log that is no size, or too large, is left out. */
int64_t haul_report_add_bytes(int64_t total, int64_t bytes);

/* The sum of the memory table. */
int64_t haul_report_memory(const haul_report_run *run);

/* The median of the train lines' values at `offset` (of a double), finite ones only; NAN without
 * any or without memory. */
double haul_report_median(const haul_report_run *run, size_t offset);

#endif
