#include "report/run_log.h"

#include "base/memory.h"
#include "base/string.h"
#include "report/run_log_fields.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A growing array of one kind's structs. */
typedef struct list {
    void *items;
    int64_t count, capacity;
    size_t size;
} list;

typedef struct reader {
    const char *path;
    int64_t row;
    list lists[HAUL_LOG_KINDS]; /* HAUL_LOG_START holds attempts, HAUL_LOG_END stays empty */
    json_t *texts;              /* the lines that records point into */
} reader;

static const char *const type_names[] = {
    [HAUL_LOG_INTEGER] = "an integer",
    [HAUL_LOG_REAL] = "a number",
    [HAUL_LOG_TEXT] = "a string",
};

static bool has_type(const json_t *value, haul_log_type type) {
    switch (type) {
    case HAUL_LOG_INTEGER:
        return json_is_integer(value);
    case HAUL_LOG_REAL:
        return json_is_number(value);
    default:
        return json_is_string(value);
    }
}

static haul_status read_field(const reader *in, const haul_log_field *field, const json_t *line,
                              void *record) {
    const json_t *value = json_object_get(line, field->name);
    if (value != NULL && !has_type(value, field->type)) {
        return haul_fail(HAUL_ERROR_DATA, "%s:%lld: \"%s\" must be %s", in->path,
                         (long long)in->row, field->name, type_names[field->type]);
    }
    char *at = (char *)record + field->offset;
    int64_t integer = json_integer_value(value);
    double real = value == NULL ? (double)NAN : json_number_value(value);
    const char *text = json_string_value(value);
    switch (field->type) {
    case HAUL_LOG_INTEGER:
        memcpy(at, &integer, sizeof integer);
        break;
    case HAUL_LOG_REAL:
        memcpy(at, &real, sizeof real);
        break;
    case HAUL_LOG_TEXT:
        memcpy(at, &text, sizeof text);
        break;
    }
    return HAUL_OK;
}

static int64_t iteration_at(const list *items, int64_t index) {
    int64_t iteration; /* the first field of every struct this is asked of */
    memcpy(&iteration, (const char *)items->items + (size_t)index * items->size, sizeof iteration);
    return iteration;
}

_Static_assert(offsetof(haul_log_train, iteration) == 0 &&
                   offsetof(haul_log_eval, iteration) == 0 &&
                   offsetof(haul_log_sample, iteration) == 0 &&
                   offsetof(haul_log_checkpoint, iteration) == 0,
               "iteration_at reads the first field");

/* A new attempt goes on after `iteration`: what was logged later did not happen. */
static void supersede(reader *in, int64_t iteration) {
    static const haul_log_kind kinds[] = {HAUL_LOG_TRAIN, HAUL_LOG_EVAL, HAUL_LOG_SAMPLE,
                                          HAUL_LOG_CHECKPOINT};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        list *items = &in->lists[kinds[k]];
        while (items->count > 0 && iteration_at(items, items->count - 1) > iteration) {
            items->count--;
        }
    }
    in->lists[HAUL_LOG_MEMORY].count = 0;
}

static haul_status append_item(list *items, const void *record) {
    HAUL_TRY(haul_grow(&items->items, &items->capacity, items->count + 1, items->size));
    memcpy((char *)items->items + (size_t)items->count * items->size, record, items->size);
    items->count++;
    return HAUL_OK;
}

static haul_status add_record(reader *in, haul_log_kind kind, const void *record) {
    list *attempts = &in->lists[HAUL_LOG_START];
    haul_run_attempt *current = NULL;
    if (attempts->count > 0) {
        current = (haul_run_attempt *)attempts->items + attempts->count - 1;
    }
    if (kind == HAUL_LOG_START) {
        haul_run_attempt attempt = {.start = *(const haul_log_start *)record};
        attempt.reached = attempt.start.iteration;
        supersede(in, attempt.start.iteration);
        return append_item(attempts, &attempt);
    }
    if (kind == HAUL_LOG_END) {
        if (current != NULL) {
            current->end = *(const haul_log_end *)record;
            current->ended = true;
        }
        return HAUL_OK;
    }
    if (kind == HAUL_LOG_TRAIN && current != NULL) {
        current->reached = ((const haul_log_train *)record)->iteration;
    }
    return append_item(&in->lists[kind], record);
}

static haul_status read_line(reader *in, json_t *line) {
    const char *kind = json_string_value(json_object_get(line, "kind"));
    if (kind == NULL) {
        return haul_fail(HAUL_ERROR_DATA, "%s:%lld: \"kind\" is missing", in->path,
                         (long long)in->row);
    }
    for (haul_log_kind k = 0; k < HAUL_LOG_KINDS; k++) {
        if (strcmp(kind, haul_log_layouts[k].kind) != 0) {
            continue;
        }
        union {
            haul_log_start start;
            haul_log_memory memory;
            haul_log_train train;
            haul_log_eval eval;
            haul_log_sample sample;
            haul_log_checkpoint checkpoint;
            haul_log_end end;
        } record = {0};
        bool has_text = false;
        for (const haul_log_field *f = haul_log_layouts[k].fields; f->name != NULL; f++) {
            HAUL_TRY(read_field(in, f, line, &record));
            has_text = has_text || f->type == HAUL_LOG_TEXT;
        }
        if (has_text && json_array_append(in->texts, line) != 0) {
            return haul_fail(HAUL_ERROR_MEMORY, "out of memory while reading %s", in->path);
        }
        return add_record(in, k, &record);
    }
    return HAUL_OK;
}

static haul_status read_lines(reader *in, const haul_string *text) {
    for (const char *at = text->data, *end = at + text->length; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline == NULL ? end : newline;
        in->row++;
        json_error_t error;
        json_t *line = json_loadb(at, (size_t)(stop - at), 0, &error);
        if (line == NULL) {
            if (newline == NULL) {
                return HAUL_OK; /* cut short by a crash */
            }
            haul_fail(HAUL_ERROR_DATA, "%s:%lld: not a JSON object: %s", in->path,
                      (long long)in->row, error.text);
            haul_hint("remove that line");
            return HAUL_ERROR_DATA;
        }
        haul_status status = read_line(in, line);
        json_decref(line);
        HAUL_TRY(status);
        at = stop + 1;
    }
    return HAUL_OK;
}

static void hand_over(reader *in, haul_run_history *out) {
    const list *lists = in->lists;
    *out = (haul_run_history){
        .attempts = lists[HAUL_LOG_START].items,
        .memory = lists[HAUL_LOG_MEMORY].items,
        .train = lists[HAUL_LOG_TRAIN].items,
        .eval = lists[HAUL_LOG_EVAL].items,
        .sample = lists[HAUL_LOG_SAMPLE].items,
        .checkpoint = lists[HAUL_LOG_CHECKPOINT].items,
        .attempt_count = lists[HAUL_LOG_START].count,
        .memory_count = lists[HAUL_LOG_MEMORY].count,
        .train_count = lists[HAUL_LOG_TRAIN].count,
        .eval_count = lists[HAUL_LOG_EVAL].count,
        .sample_count = lists[HAUL_LOG_SAMPLE].count,
        .checkpoint_count = lists[HAUL_LOG_CHECKPOINT].count,
        .texts = in->texts,
    };
}

haul_status haul_run_history_read(const char *path, haul_run_history *out) {
    haul_string text = {0};
    reader in = {.path = path, .texts = json_array()};
    for (haul_log_kind k = 0; k < HAUL_LOG_KINDS; k++) {
        in.lists[k].size = haul_log_layouts[k].size;
    }
    in.lists[HAUL_LOG_START].size = sizeof(haul_run_attempt);
    haul_status status = in.texts == NULL
                             ? haul_fail(HAUL_ERROR_MEMORY, "out of memory while reading %s", path)
                             : haul_file_read(path, &text);
    if (status == HAUL_OK && text.length > 0) {
        status = read_lines(&in, &text);
    }
    haul_string_deinit(&text);
    haul_run_history history;
    hand_over(&in, &history);
    if (status == HAUL_OK) {
        *out = history;
    } else {
        haul_run_history_deinit(&history);
    }
    return status;
}

void haul_run_history_deinit(haul_run_history *history) {
    free(history->attempts);
    free(history->memory);
    free(history->train);
    free(history->eval);
    free(history->sample);
    free(history->checkpoint);
    json_decref(history->texts);
    *history = (haul_run_history){0};
}
