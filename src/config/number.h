#ifndef HAUL_CONFIG_NUMBER_H
#define HAUL_CONFIG_NUMBER_H

#include "base/string.h"

#include <stdbool.h>
#include <stdint.h>

/* Python's int(text) and float(text): blanks around and '_' between digits are fine. False when
 * Python would refuse, for an integer beyond 64 bits and for more than 250 characters. */
bool haul_parse_int(const char *text, int64_t *out);
bool haul_parse_float(const char *text, double *out);

/* Appends the shortest decimal text that reads back as exactly `value`, which is finite. */
void haul_append_float(haul_string *out, double value);

#endif
