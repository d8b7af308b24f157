/* Text tables with aligned columns, for listings on the command line. Plain ASCII, no frames. */
#ifndef HAUL_BASE_TABLE_H
#define HAUL_BASE_TABLE_H

#include "base/string.h"

typedef enum haul_align { HAUL_ALIGN_LEFT, HAUL_ALIGN_RIGHT } haul_align;

typedef struct haul_table_column {
    const char *title;
    haul_align align;
} haul_table_column;

typedef struct haul_table {
    const haul_table_column *columns; /* the caller's; they must outlive the table */
    int count;
    haul_string cells; /* the titles, then row by row, each ended by a NUL */
} haul_table;

void haul_table_init(haul_table *table, const haul_table_column *columns, int count);
void haul_table_deinit(haul_table *table);

/* Appends the next cell; after `count` cells the row is full. Render reports a failure. */
void haul_table_cell(haul_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends the titles and the rows to `out`: columns two blanks apart, no blanks at line ends.
 * Cells that the last row lacks are empty. */
haul_status haul_table_render(const haul_table *table, haul_string *out);

#endif
