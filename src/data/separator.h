/* The one rule for lines between documents. */
#ifndef HAUL_DATA_SEPARATOR_H
#define HAUL_DATA_SEPARATOR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Whether a line, without its newline, equals `separator`; a carriage return at its end is no
 * part of it. */
static inline bool haul_is_separator(const char *line, int64_t bytes, const char *separator) {
    if (bytes > 0 && line[bytes - 1] == '\r') {
        bytes--;
    }
    return (size_t)bytes == strlen(separator) && memcmp(line, separator, (size_t)bytes) == 0;
}

#endif
