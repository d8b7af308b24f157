/* Text from models made fit for JSON, HTML and terminals. */
#ifndef HAUL_REPORT_TEXT_H
#define HAUL_REPORT_TEXT_H

#include "base/string.h"

#include <stdint.h>

/* Appends `length` bytes as valid UTF-8. A byte that is no part of a character, and a NUL, becomes
 * U+FFFD: models over bytes write such. */
void haul_text_append_utf8(haul_string *out, const char *bytes, int64_t length);

/* Appends `text` with &, <, > and quotes escaped, for elements and quoted attributes. Invalid
 * UTF-8 and control characters become U+FFFD. */
void haul_text_append_html(haul_string *out, const char *text);

/* The number of terminal columns of a valid UTF-8 text whose characters are one column each. */
int haul_text_columns(const char *text);

#endif
