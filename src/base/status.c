#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 1024 };

static _Thread_local char last_message[MESSAGE_BYTES];
static _Thread_local char last_hint[MESSAGE_BYTES];

/* Messages are one line and safe to print, whatever a file's content brought into them. */
static void flatten(char *text) {
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = ' ';
        }
    }
}

/* Formats through a copy, since an argument may be the very buffer that is overwritten. */
static void format_into(char *buffer, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void format_into(char *buffer, const char *format, va_list arguments) {
    char text[MESSAGE_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    flatten(text);
    memcpy(buffer, text, sizeof text);
}

haul_status haul_fail(haul_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    format_into(last_message, format, arguments);
    va_end(arguments);
    last_hint[0] = '\0';
    return status;
}

void haul_hint(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    format_into(last_hint, format, arguments);
    va_end(arguments);
}

void haul_fail_context(const char *format, ...) {
    char context[MESSAGE_BYTES];
    char whole[2 * MESSAGE_BYTES + 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context, sizeof context, format, arguments);
    va_end(arguments);
    flatten(context);
    snprintf(whole, sizeof whole, "%s: %s", context, last_message);
    memcpy(last_message, whole, MESSAGE_BYTES - 1);
    last_message[MESSAGE_BYTES - 1] = '\0';
}

const char *haul_error_message(void) {
    return last_message;
}

const char *haul_error_hint(void) {
    return last_hint;
}
