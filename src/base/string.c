#include "base/string.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void haul_string_deinit(haul_string *string) {
    free(string->data);
    memset(string, 0, sizeof *string);
}

static bool reserve(haul_string *string, int64_t extra) {
    if (string->failed ||
        haul_grow(&string->data, &string->capacity, string->length + extra + 1, 1)) {
        string->failed = true;
        return false;
    }
    return true;
}

void haul_string_append(haul_string *string, const void *bytes, int64_t count) {
    if (!reserve(string, count)) {
        return;
    }
    if (count > 0) {
        memcpy(string->data + string->length, bytes, (size_t)count);
    }
    string->length += count;
    string->data[string->length] = '\0';
}

void haul_string_append_text(haul_string *string, const char *text) {
    haul_string_append(string, text, (int64_t)strlen(text));
}

void haul_string_append_format(haul_string *string, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    haul_string_append_arguments(string, format, arguments);
    va_end(arguments);
}

void haul_string_append_arguments(haul_string *string, const char *format, va_list arguments) {
    va_list copy;
    va_copy(copy, arguments);
    int needed = vsnprintf(NULL, 0, format, copy);
    va_end(copy);
    if (needed < 0 || !reserve(string, needed)) {
        string->failed = true;
        return;
    }
    vsnprintf(string->data + string->length, (size_t)needed + 1, format, arguments);
    string->length += needed;
}

void haul_string_append_json(haul_string *string, const char *text) {
    haul_string_append_text(string, "\"");
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\') {
            haul_string_append_format(string, "\\%c", byte);
        } else if (byte == '\n') {
            haul_string_append_text(string, "\\n");
        } else if (byte < 0x20) {
            haul_string_append_format(string, "\\u%04x", byte);
        } else {
            haul_string_append(string, at, 1);
        }
    }
    haul_string_append_text(string, "\"");
}

void haul_string_clear(haul_string *string) {
    string->length = 0;
    if (string->data != NULL) {
        string->data[0] = '\0';
    }
}

haul_status haul_string_status(const haul_string *string) {
    return string->failed ? haul_fail(HAUL_ERROR_MEMORY, "out of memory while building a text")
                          : HAUL_OK;
}

void haul_text_copy(char *target, int64_t capacity, const char *source) {
    snprintf(target, (size_t)capacity, "%s", source);
}

int haul_edit_distance(const char *a, const char *b) {
    enum { LIMIT = 127 };
    int rows[3][LIMIT + 2];
    int a_length = (int)strnlen(a, LIMIT);
    int b_length = (int)strnlen(b, LIMIT);
    for (int j = 0; j <= b_length; j++) {
        rows[0][j] = j;
    }
    for (int i = 1; i <= a_length; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i - 1) % 3];
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                int swapped = rows[(i - 2) % 3][j - 2] + 1;
                best = swapped < best ? swapped : best;
            }
            row[j] = best;
        }
    }
    return rows[a_length % 3][b_length];
}
