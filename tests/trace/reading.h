/* Reads a trace back with other libraries than it was written with, and checks what every trace
 * must keep. */
#ifndef HAUL_TESTS_TRACE_READING_H
#define HAUL_TESTS_TRACE_READING_H

#include "testing.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* The whole trace; freed by json_decref. */
static inline json_t *trace_read(const char *path) {
    size_t length = 0, capacity = 1 << 20;
    char *text = malloc(capacity);
    gzFile file = gzopen(path, "rb");
    assert_non_null(file);
    for (int got = 1; got > 0; length += (size_t)got) {
        if (capacity - length < 1 << 16) {
            text = realloc(text, capacity *= 2);
        }
        got = gzread(file, text + length, 1 << 16);
        assert_true(got >= 0);
    }
    assert_int_equal(gzclose(file), Z_OK);
    json_error_t error;
    json_t *trace = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (trace == NULL) {
        fail_msg("line %d: %s", error.line, error.text);
    }
    free(text);
    return trace;
}

static inline const char *trace_text(const json_t *event, const char *key) {
    const char *text = json_string_value(json_object_get(event, key));
    return text != NULL ? text : "";
}

static inline int64_t trace_integer(const json_t *event, const char *key) {
    const json_t *value = json_object_get(event, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* Nanoseconds behind the base. */
static inline int64_t trace_time(const json_t *event, const char *key) {
    const json_t *value = json_object_get(event, key);
    assert_true(json_is_real(value));
    return llround(1e3 * json_real_value(value));
}

static inline int64_t trace_begin(const json_t *event) {
    return trace_time(event, "ts");
}

static inline int64_t trace_end(const json_t *event) {
    return trace_begin(event) + trace_time(event, "dur");
}

static inline bool trace_is(const json_t *event, const char *category) {
    return strcmp(trace_text(event, "ph"), "X") == 0 &&
           strcmp(trace_text(event, "cat"), category) == 0;
}

static inline int64_t trace_count(const json_t *events, const char *category) {
    int64_t count = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        count += trace_is(json_array_get(events, i), category);
    }
    return count;
}

static inline bool trace_contains(const json_t *outer, const json_t *inner) {
    return trace_integer(outer, "pid") == trace_integer(inner, "pid") &&
           trace_integer(outer, "tid") == trace_integer(inner, "tid") &&
           trace_begin(outer) <= trace_begin(inner) && trace_end(outer) >= trace_end(inner);
}

/* On every thread events come in order, and one that begins inside another ends inside it. */
static inline void trace_check_nested(const json_t *events) {
    enum { THREADS = 16, DEPTH = 32 };
    struct {
        int64_t process, thread, last, ends[DEPTH];
        int depth;
    } threads[THREADS];
    int count = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (strcmp(trace_text(event, "ph"), "X") != 0) {
            continue;
        }
        int64_t begin = trace_begin(event), end = trace_end(event);
        int at = 0;
        while (at < count && (threads[at].process != trace_integer(event, "pid") ||
                              threads[at].thread != trace_integer(event, "tid"))) {
            at++;
        }
        if (at == count) {
            assert_true(count < THREADS);
            threads[count].process = trace_integer(event, "pid");
            threads[count].thread = trace_integer(event, "tid");
            threads[count].depth = 0;
            threads[count++].last = begin;
        }
        assert_true(begin >= threads[at].last);
        threads[at].last = begin;
        while (threads[at].depth > 0 && threads[at].ends[threads[at].depth - 1] <= begin) {
            threads[at].depth--;
        }
        assert_true(threads[at].depth == 0 || end <= threads[at].ends[threads[at].depth - 1]);
        assert_true(threads[at].depth < DEPTH);
        threads[at].ends[threads[at].depth++] = end;
    }
}

/* Arrows have two ends of the same id, of which the first is not later. Returns their number. */
static inline int64_t trace_check_flows(const json_t *events) {
    int64_t starts = 0, ends = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *start = json_array_get(events, i);
        ends += strcmp(trace_text(start, "ph"), "f") == 0;
        if (strcmp(trace_text(start, "ph"), "s") != 0) {
            continue;
        }
        const json_t *end = NULL;
        for (size_t j = 0; j < json_array_size(events) && end == NULL; j++) {
            const json_t *other = json_array_get(events, j);
            if (strcmp(trace_text(other, "ph"), "f") == 0 &&
                trace_integer(other, "id") == trace_integer(start, "id")) {
                end = other;
            }
        }
        assert_non_null(end);
        assert_true(trace_begin(start) <= trace_begin(end));
        assert_string_equal(trace_text(end, "bp"), "e");
        assert_string_equal(trace_text(end, "cat"), "ac2g");
        starts++;
    }
    assert_int_equal(starts, ends);
    return starts;
}

#endif
