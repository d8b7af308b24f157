/* Large memory as it is planned: the table of what takes it, and places in it. A packer places
 * every tensor with haul_arena_place and adds a line to a haul_memory_table, both before any memory
 * exists; a backend of device/ then allocates the whole. */
#ifndef HAUL_BASE_ARENA_H
#define HAUL_BASE_ARENA_H

#include "base/status.h"
#include "base/string.h"

#include <stdint.h>

typedef struct haul_memory_line {
    char name[96];
    char category[32];
    int64_t bytes;
} haul_memory_line;

/* A zeroed table is an empty one. */
typedef struct haul_memory_table {
    haul_memory_line *lines;
    int64_t count, capacity;
    int64_t bytes; /* the sum over the lines */
} haul_memory_table;

void haul_memory_table_deinit(haul_memory_table *table);

/* Appends a line; texts are copied, longer ones cut. HAUL_ERROR_MEMORY when the sum overflows. */
haul_status haul_memory_table_add(haul_memory_table *table, const char *name, const char *category,
                                  int64_t bytes);

/* Appends the table for people to `out`: the categories, largest first, each with its largest
 * `limit` lines and one for the rest, and the total. */
haul_status haul_memory_table_render(const haul_memory_table *table, int64_t limit,
                                     haul_string *out);

/* Appends the total and the categories that are at least 1 % of it, largest first, in one line:
 * "16.0 MiB: parameters 12.0 MiB, scratch 4.00 MiB". */
haul_status haul_memory_table_summarize(const haul_memory_table *table, haul_string *out);

/* Gives the next `bytes` bytes behind *end (at first 0) a place: *offset is a multiple of
 * `alignment`, and *end moves behind them. HAUL_ERROR_MEMORY when that overflows or bytes is
 * negative. */
haul_status haul_arena_place(int64_t *end, int64_t bytes, int64_t alignment, int64_t *offset);

#endif
