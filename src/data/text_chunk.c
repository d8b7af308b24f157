#include "data/text_reader.h"

#include "base/memory.h"
#include "data/json_line.h"
#include "data/separator.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The end of the line that begins at text: after its newline, or the end of the text. */
static const char *line_after(const char *text, const char *end) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    return newline != NULL ? newline + 1 : end;
}

static haul_status split_by_lines(const haul_text_chunk *chunk, const char *separator,
                                  haul_document_function *function, void *context) {
    const char *end = chunk->text + chunk->bytes, *begin = chunk->text, *next;
    for (const char *at = begin; at < end; at = next) {
        next = line_after(at, end);
        if (haul_is_separator(at, next - at - (next[-1] == '\n'), separator)) {
            if (at > begin) {
                HAUL_TRY(function(context, 0, begin, at - begin, true));
            }
            begin = next;
        }
    }
    return end > begin ? function(context, 0, begin, end - begin, true) : HAUL_OK;
}

static haul_status split_text(const haul_text_chunk *chunk, const char *separator,
                              haul_document_function *function, void *context) {
    if (separator != NULL) {
        return split_by_lines(chunk, separator, function, context);
    }
    if (chunk->bytes == 0 && !chunk->continues) {
        return HAUL_OK;
    }
    return function(context, 0, chunk->text, chunk->bytes, !chunk->open);
}

static haul_status visit_members(const haul_text_input *input, const json_t *object,
                                 const char *place, haul_document_function *function,
                                 void *context) {
    for (int64_t key = 0; key < input->json_key_count; key++) {
        const char *name = input->json_keys[key];
        const json_t *value = json_object_get(object, name);
        if (!json_is_string(value)) {
            haul_fail(HAUL_ERROR_DATA,
                      value == NULL ? "%s there is no member \"%s\""
                                    : "%s the member \"%s\" is no string",
                      place, name);
            haul_hint("name the members that hold text with --json-keys");
            return HAUL_ERROR_DATA;
        }
        HAUL_TRY(function(context, key, json_string_value(value),
                          (int64_t)json_string_length(value), true));
    }
    return HAUL_OK;
}

static haul_status visit_object(const haul_text_input *input, const char *line, int64_t bytes,
                                const char *place, haul_document_function *function,
                                void *context) {
    json_error_t error;
    json_t *object = json_loadb(line, (size_t)bytes, JSON_ALLOW_NUL, &error);
    if (object == NULL) {
        return haul_fail(HAUL_ERROR_DATA, "%s%d: %s", place, error.column, error.text);
    }
    haul_status status = visit_members(input, object, place, function, context);
    json_decref(object);
    return status;
}

/* Nearly all lines are read fast; the others by jansson, which also says what is wrong. */
static haul_status visit_line(const haul_text_input *input, const haul_text_chunk *chunk,
                              int64_t line, const char *text, int64_t bytes, haul_json_text *texts,
                              haul_document_function *function, void *context) {
    if (haul_json_line_read(text, bytes, input->json_keys, input->json_key_count, texts)) {
        for (int64_t key = 0; key < input->json_key_count; key++) {
            HAUL_TRY(function(context, key, texts[key].text, texts[key].bytes, true));
        }
        return HAUL_OK;
    }
    haul_string place = {0};
    haul_string_append_format(&place, "%s:%lld:", chunk->file, (long long)line);
    haul_status status = haul_string_status(&place);
    if (status == HAUL_OK) {
        status = visit_object(input, text, bytes, place.data, function, context);
    }
    haul_string_deinit(&place);
    return status;
}

static bool is_blank(const char *line, const char *end) {
    while (line < end && (*line == ' ' || *line == '\t' || *line == '\r' || *line == '\n')) {
        line++;
    }
    return line == end;
}

static haul_status split_json(const haul_text_input *input, const haul_text_chunk *chunk,
                              haul_document_function *function, void *context) {
    const char *end = chunk->text + chunk->bytes, *at = chunk->text;
    haul_json_text *texts = haul_calloc(input->json_key_count, sizeof *texts);
    haul_status status = texts != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
    for (int64_t line = chunk->line; at < end && status == HAUL_OK; line++) {
        const char *next = line_after(at, end);
        if (!is_blank(at, next)) {
            status = visit_line(input, chunk, line, at, next - at, texts, function, context);
        }
        at = next;
    }
    for (int64_t key = 0; texts != NULL && key < input->json_key_count; key++) {
        haul_json_text_deinit(&texts[key]);
    }
    free(texts);
    return status;
}

haul_status haul_text_chunk_split(const haul_text_input *input, const haul_text_chunk *chunk,
                                  haul_document_function *function, void *context) {
    bool json;
    HAUL_TRY(haul_text_input_check(input, &json));
    return json ? split_json(input, chunk, function, context)
                : split_text(chunk, input->separator, function, context);
}

haul_status haul_text_each(const haul_text_input *input, haul_document_function *function,
                           void *context) {
    haul_text_reader *reader;
    haul_text_chunk chunk = {0};
    bool more = true;
    HAUL_TRY(haul_text_reader_open(input, false, &reader));
    haul_status status = HAUL_OK;
    while (status == HAUL_OK && more) {
        status = haul_text_reader_next(reader, &chunk, &more);
        if (status == HAUL_OK && more) {
            status = haul_text_chunk_split(input, &chunk, function, context);
        }
    }
    haul_text_chunk_deinit(&chunk);
    haul_text_reader_close(reader);
    return status;
}
