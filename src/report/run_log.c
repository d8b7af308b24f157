#include "report/run_log.h"

#include "base/string.h"
#include "report/run_log_fields.h"
#include "report/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* The length of `path` up to and with its last end of line. */
static haul_status whole_lines(const char *path, int64_t *length) {
    haul_file_map map;
    HAUL_TRY(haul_file_map_open(path, &map));
    const char *last = map.bytes > 0 ? memrchr(map.data, '\n', (size_t)map.bytes) : NULL;
    *length = last == NULL ? 0 : last - (const char *)map.data + 1;
    haul_file_map_close(&map);
    return HAUL_OK;
}

haul_status haul_run_log_open(const char *path, haul_run_log *out) {
    haul_file_writer file = {.descriptor = -1};
    haul_text_copy(file.path, sizeof file.path, path);
    file.descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file.descriptor < 0) {
        return haul_fail(HAUL_ERROR_CREATE, "cannot create %s: %s", path, strerror(errno));
    }
    haul_status status = whole_lines(path, &file.bytes);
    if (status == HAUL_OK && ftruncate(file.descriptor, file.bytes) != 0) {
        status = haul_fail(HAUL_ERROR_IO, "cannot truncate %s: %s", path, strerror(errno));
    }
    if (status != HAUL_OK) {
        haul_file_abandon(&file);
        return status;
    }
    out->file = file;
    return HAUL_OK;
}

void haul_run_log_close(haul_run_log *log) {
    haul_file_abandon(&log->file);
}

static void append_text(haul_string *line, const char *text) {
    haul_string valid = {0};
    haul_text_append_utf8(&valid, text, (int64_t)strlen(text));
    haul_string_append_json(line, valid.length > 0 ? valid.data : "");
    line->failed = line->failed || valid.failed;
    haul_string_deinit(&valid);
}

static void append_field(haul_string *line, const haul_log_field *field, const void *record) {
    const char *at = (const char *)record + field->offset;
    int64_t integer = 0;
    double real = 0;
    const char *text = NULL;
    switch (field->type) {
    case HAUL_LOG_INTEGER:
        memcpy(&integer, at, sizeof integer);
        haul_string_append_format(line, ", \"%s\": %lld", field->name, (long long)integer);
        break;
    case HAUL_LOG_REAL:
        memcpy(&real, at, sizeof real);
        if (isfinite(real)) {
            haul_string_append_format(line, ", \"%s\": %.12g", field->name, real);
        }
        break;
    case HAUL_LOG_TEXT:
        memcpy(&text, at, sizeof text);
        if (text != NULL) {
            haul_string_append_format(line, ", \"%s\": ", field->name);
            append_text(line, text);
        }
        break;
    }
}

static haul_status write_record(haul_run_log *log, haul_log_kind kind, const void *record) {
    const haul_log_layout *layout = &haul_log_layouts[kind];
    haul_string line = {0};
    haul_string_append_format(&line, "{\"kind\": \"%s\"", layout->kind);
    for (const haul_log_field *field = layout->fields; field->name != NULL; field++) {
        append_field(&line, field, record);
    }
    haul_string_append_text(&line, "}\n");
    haul_status status = haul_string_status(&line);
    int64_t before = log->file.bytes;
    if (status == HAUL_OK) {
        status = haul_file_write(&log->file, line.data, line.length);
        if (status != HAUL_OK && ftruncate(log->file.descriptor, before) == 0) {
            log->file.bytes = before;
        }
    }
    haul_string_deinit(&line);
    return status;
}

haul_status haul_run_log_start(haul_run_log *log, const haul_log_start *record) {
    return write_record(log, HAUL_LOG_START, record);
}

haul_status haul_run_log_memory(haul_run_log *log, const haul_log_memory *record) {
    return write_record(log, HAUL_LOG_MEMORY, record);
}

haul_status haul_run_log_train(haul_run_log *log, const haul_log_train *record) {
    return write_record(log, HAUL_LOG_TRAIN, record);
}

haul_status haul_run_log_eval(haul_run_log *log, const haul_log_eval *record) {
    return write_record(log, HAUL_LOG_EVAL, record);
}

haul_status haul_run_log_sample(haul_run_log *log, const haul_log_sample *record) {
    return write_record(log, HAUL_LOG_SAMPLE, record);
}

haul_status haul_run_log_checkpoint(haul_run_log *log, const haul_log_checkpoint *record) {
    return write_record(log, HAUL_LOG_CHECKPOINT, record);
}

haul_status haul_run_log_end(haul_run_log *log, const haul_log_end *record) {
    return write_record(log, HAUL_LOG_END, record);
}
