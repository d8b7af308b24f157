/* What an output stream can show: whether it is a terminal, its width, colours. */
#ifndef HAUL_BASE_TERMINAL_H
#define HAUL_BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

typedef enum haul_style {
    HAUL_STYLE_NONE, /* back to normal */
    HAUL_STYLE_BOLD,
    HAUL_STYLE_DIM,
    HAUL_STYLE_RED,
    HAUL_STYLE_GREEN,
    HAUL_STYLE_YELLOW,
    HAUL_STYLES
} haul_style;

bool haul_terminal_is(FILE *file);

/* Columns of the terminal at this moment; 80 when that is unknown. */
int haul_terminal_width(FILE *file);

/* Whether to colour what goes to `file`: a terminal, and `no_color`, the value of the environment
 * variable NO_COLOR or NULL, is empty (https://no-color.org). */
bool haul_terminal_colors(FILE *file, const char *no_color);

/* The escape sequence that begins a style, "" without colours. */
const char *haul_terminal_style(bool colors, haul_style style);

#endif
