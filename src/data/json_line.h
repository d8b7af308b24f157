/* The fast way through a line of JSON Lines: it takes the text of some members and makes no tree.
 */
#ifndef HAUL_DATA_JSON_LINE_H
#define HAUL_DATA_JSON_LINE_H

#include "base/string.h"

#include <stdbool.h>

/* The value of a string member. A zeroed one is ready; deinit frees. */
typedef struct haul_json_text {
    const char *text; /* [bytes], in the line or in `buffer`; NULL when there is no such member */
    int64_t bytes;
    haul_string buffer; /* kept from line to line */
} haul_json_text;

void haul_json_text_deinit(haul_json_text *text);

/* Sets texts[i] to the string member keys[i] of the object that line[bytes] holds, the last one
 * where there are several. True only for a valid object (RFC 8259, UTF-8) in which all keys are
 * strings. False says nothing: the line may be malformed, or be one that is too unusual for this
 * reader (a nesting of more than 64, numbers with exponents or many digits, names with escapes), or
 * memory is out. */
bool haul_json_line_read(const char *line, int64_t bytes, const char *const *keys, int64_t count,
                         haul_json_text *texts);

#endif
