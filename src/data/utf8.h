/* Which bytes of a text are UTF-8 (RFC 3629: no surrogates, no overlong forms, to U+10FFFF). */
#ifndef HAUL_DATA_UTF8_H
#define HAUL_DATA_UTF8_H

#include <stdint.h>

/* Bytes of the character that text starts with, 0 when it is malformed or cut off. */
int64_t haul_utf8_character(const char *text, int64_t bytes);

/* The longest start of text that is valid, and that holds no start of a valid character. */
int64_t haul_utf8_valid_run(const char *text, int64_t bytes);
int64_t haul_utf8_invalid_run(const char *text, int64_t bytes);

#endif
