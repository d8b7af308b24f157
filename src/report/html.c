#include "report/html.h"

#include "base/file.h"
#include "report/html_parts.h"
#include "report/text.h"

#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024 };

void haul_html_element(haul_string *out, const char *tag, const char *style, const char *text) {
    haul_string_append_format(out, "<%s", tag);
    if (style != NULL) {
        haul_string_append_format(out, " class=\"%s\"", style);
    }
    haul_string_append_text(out, ">");
    haul_text_append_html(out, text);
    haul_string_append_format(out, "</%s>", tag);
}

void haul_html_section_begin(haul_string *out, const char *title) {
    haul_string_append_text(out, "<section>\n");
    haul_html_element(out, "h2", NULL, title);
    haul_string_append_text(out, "\n");
}

void haul_html_section_end(haul_string *out) {
    haul_string_append_text(out, "</section>\n");
}

static haul_status join(const char *directory, const char *name, char path[PATH_BYTES]) {
    if (snprintf(path, PATH_BYTES, "%s/%s", directory, name) >= PATH_BYTES) {
        return haul_fail(HAUL_ERROR_NO_INPUT, "the path %s is too long", directory);
    }
    return HAUL_OK;
}

static haul_status read_config(haul_report_run *run, const char *path) {
    haul_string text = {0};
    haul_status status = haul_file_read(path, &text);
    if (status == HAUL_OK) {
        json_error_t error;
        run->config = json_loadb(text.length > 0 ? text.data : "", (size_t)text.length, 0, &error);
        if (!json_is_object(run->config)) {
            run->config_error = "config.json is not a JSON object.";
        }
    }
    haul_string_deinit(&text);
    return status;
}

static haul_status read_run(haul_report_run *run, const char *directory) {
    char path[PATH_BYTES];
    HAUL_TRY(join(directory, "log.jsonl", path));
    haul_status status = haul_run_history_read(path, &run->history);
    if (status == HAUL_ERROR_NO_INPUT) {
        haul_hint("name a run directory: haul train writes log.jsonl into it");
    }
    HAUL_TRY(status);
    HAUL_TRY(join(directory, "command.txt", path));
    if (haul_file_exists(path)) {
        HAUL_TRY(haul_file_read(path, &run->command));
    }
    HAUL_TRY(join(directory, "config.json", path));
    return haul_file_exists(path) ? read_config(run, path) : HAUL_OK;
}

static void append_page(const haul_report_run *run, haul_string *out) {
    haul_string_append_text(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                                 "<meta charset=\"utf-8\">\n"
                                 "<meta name=\"viewport\" content=\"width=device-width, "
                                 "initial-scale=1\">\n"
                                 "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    haul_text_append_html(out, run->name);
    haul_string_append_text(out, " \u00b7 haul</title>\n<style>\n");
    haul_string_append_text(out, haul_html_style);
    haul_string_append_text(out, "</style>\n</head>\n<body>\n<main>\n");
    haul_html_header(run, out);
    haul_html_charts(run, out);
    haul_html_samples(run, out);
    haul_html_memory(run, out);
    haul_html_command(run, out);
    haul_html_settings(run, out);
    haul_html_environment(run, out);
    haul_html_attempts(run, out);
    haul_string_append_text(out, "</main>\n</body>\n</html>\n");
}

haul_status haul_report_write(const char *run_directory, const char *path) {
    char full[PATH_MAX];
    char name[PATH_MAX];
    haul_text_copy(name, sizeof name, realpath(run_directory, full) != NULL ? full : run_directory);
    haul_report_run run = {.name = basename(name)};
    haul_string page = {0};
    haul_status status = read_run(&run, run_directory);
    if (status == HAUL_OK) {
        append_page(&run, &page);
        status = haul_string_status(&page);
    }
    if (status == HAUL_OK) {
        status = haul_file_replace(path, page.data, page.length);
    }
    haul_string_deinit(&page);
    haul_string_deinit(&run.command);
    json_decref(run.config);
    haul_run_history_deinit(&run.history);
    return status;
}
