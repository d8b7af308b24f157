/* A growing text (or byte) buffer. A failed growth sticks: append freely, then ask
 * haul_string_status once. */
#ifndef HAUL_BASE_STRING_H
#define HAUL_BASE_STRING_H

#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct haul_string {
    char *data; /* NUL-terminated once anything was appended; NULL before */
    int64_t length;
    int64_t capacity;
    bool failed;
} haul_string;

/* A zeroed haul_string is an empty one. Deinit frees and zeroes. */
void haul_string_deinit(haul_string *string);
void haul_string_append(haul_string *string, const void *bytes, int64_t count);
void haul_string_append_text(haul_string *string, const char *text);
void haul_string_append_format(haul_string *string, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void haul_string_append_arguments(haul_string *string, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* Appends `text` as a JSON string, quotes and escapes included. */
void haul_string_append_json(haul_string *string, const char *text);

/* Keeps the memory, forgets the content. */
void haul_string_clear(haul_string *string);

/* HAUL_ERROR_MEMORY if any append failed. */
haul_status haul_string_status(const haul_string *string);

/* Copies `source` into the `capacity` bytes of `target`, cut and NUL-terminated. */
void haul_text_copy(char *target, int64_t capacity, const char *source);

/* The number of single-character edits (insert, delete, replace, swap neighbours) between two
 * words of at most 127 characters; longer words compare by their first 127. */
int haul_edit_distance(const char *a, const char *b);

#endif
