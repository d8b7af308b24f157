#include "base/arena.h"

#include "base/format.h"
#include "base/memory.h"
#include "base/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void haul_memory_table_deinit(haul_memory_table *table) {
    free(table->lines);
    *table = (haul_memory_table){0};
}

haul_status haul_memory_table_add(haul_memory_table *table, const char *name, const char *category,
                                  int64_t bytes) {
    int64_t sum;
    if (!haul_size_add(table->bytes, bytes, &sum)) {
        return haul_fail(HAUL_ERROR_MEMORY, "the memory for %s overflows: %lld bytes more", name,
                         (long long)bytes);
    }
    HAUL_TRY(haul_grow(&table->lines, &table->capacity, table->count + 1, sizeof *table->lines));
    haul_memory_line *line = &table->lines[table->count++];
    haul_text_copy(line->name, sizeof line->name, name);
    haul_text_copy(line->category, sizeof line->category, category);
    line->bytes = bytes;
    table->bytes = sum;
    return HAUL_OK;
}

typedef struct sorted_line {
    const haul_memory_line *line;
    int64_t category_bytes; /* the sum over its category */
} sorted_line;

static int compare_categories(const void *left, const void *right) {
    const sorted_line *a = left;
    const sorted_line *b = right;
    return strcmp(a->line->category, b->line->category);
}

static int descending(int64_t a, int64_t b) {
    return (a < b) - (a > b);
}

/* Lines of equal size keep their order in the table, whose lines lie in one array. */
static int compare_lines(const void *left, const void *right) {
    const sorted_line *a = left;
    const sorted_line *b = right;
    int order = descending(a->category_bytes, b->category_bytes);
    order = order != 0 ? order : compare_categories(a, b);
    order = order != 0 ? order : descending(a->line->bytes, b->line->bytes);
    return order != 0 ? order : (a->line > b->line) - (a->line < b->line);
}

/* The end of the run of lines of one category that starts at `begin`. */
static int64_t category_end(const sorted_line *sorted, int64_t begin, int64_t count) {
    int64_t end = begin + 1;
    while (end < count && compare_categories(&sorted[begin], &sorted[end]) == 0) {
        end++;
    }
    return end;
}

/* Fills `sorted` with the lines of the table, the largest category and line first. */
static void sort_lines(const haul_memory_table *table, sorted_line *sorted) {
    for (int64_t i = 0; i < table->count; i++) {
        sorted[i].line = &table->lines[i];
    }
    qsort(sorted, (size_t)table->count, sizeof *sorted, compare_categories);
    for (int64_t begin = 0, end; begin < table->count; begin = end) {
        end = category_end(sorted, begin, table->count);
        int64_t bytes = 0;
        for (int64_t i = begin; i < end; i++) {
            bytes += sorted[i].line->bytes;
        }
        for (int64_t i = begin; i < end; i++) {
            sorted[i].category_bytes = bytes;
        }
    }
    qsort(sorted, (size_t)table->count, sizeof *sorted, compare_lines);
}

static void add_row(haul_table *text, const char *indent, const char *name, int64_t bytes,
                    int64_t total) {
    haul_table_cell(text, "%s%s", indent, name);
    haul_table_cell(text, "%s", haul_format_bytes(bytes).text);
    haul_table_cell(text, "%.1f %%", total > 0 ? 100 * (double)bytes / (double)total : 0);
}

/* The lines [begin, end) of one category. */
static void add_category(haul_table *text, const sorted_line *sorted, int64_t begin, int64_t end,
                         int64_t limit, int64_t total) {
    add_row(text, "", sorted[begin].line->category, sorted[begin].category_bytes, total);
    int64_t shown = end - begin > limit ? begin + limit : end;
    int64_t rest = sorted[begin].category_bytes;
    for (int64_t i = begin; i < shown; i++) {
        add_row(text, "  ", sorted[i].line->name, sorted[i].line->bytes, total);
        rest -= sorted[i].line->bytes;
    }
    if (shown < end) {
        char name[64];
        snprintf(name, sizeof name, "%lld more", (long long)(end - shown));
        add_row(text, "  ", name, rest, total);
    }
}

haul_status haul_memory_table_render(const haul_memory_table *table, int64_t limit,
                                     haul_string *out) {
    sorted_line *sorted = haul_calloc(table->count, sizeof *sorted);
    if (sorted == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    sort_lines(table, sorted);
    static const haul_table_column columns[] = {
        {"memory", HAUL_ALIGN_LEFT}, {"size", HAUL_ALIGN_RIGHT}, {"share", HAUL_ALIGN_RIGHT}};
    haul_table text;
    haul_table_init(&text, columns, 3);
    for (int64_t begin = 0, end; begin < table->count; begin = end) {
        end = category_end(sorted, begin, table->count);
        add_category(&text, sorted, begin, end, limit, table->bytes);
    }
    add_row(&text, "", "total", table->bytes, table->bytes);
    haul_status status = haul_table_render(&text, out);
    haul_table_deinit(&text);
    free(sorted);
    return status;
}

haul_status haul_memory_table_summarize(const haul_memory_table *table, haul_string *out) {
    sorted_line *sorted = haul_calloc(table->count, sizeof *sorted);
    if (sorted == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    sort_lines(table, sorted);
    haul_string_append_text(out, haul_format_bytes(table->bytes).text);
    for (int64_t i = 0; i < table->count; i = category_end(sorted, i, table->count)) {
        if (sorted[i].category_bytes >= table->bytes / 100) {
            haul_string_append_format(out, "%s %s %s", i == 0 ? ":" : ",", sorted[i].line->category,
                                      haul_format_bytes(sorted[i].category_bytes).text);
        }
    }
    free(sorted);
    return haul_string_status(out);
}

haul_status haul_arena_place(int64_t *end, int64_t bytes, int64_t alignment, int64_t *offset) {
    int64_t padded, next;
    if (!haul_size_add(*end, alignment - 1, &padded) ||
        !haul_size_add(padded / alignment * alignment, bytes, &next)) {
        return haul_fail(HAUL_ERROR_MEMORY, "the memory overflows: %lld bytes behind %lld",
                         (long long)bytes, (long long)*end);
    }
    *offset = padded / alignment * alignment;
    *end = next;
    return HAUL_OK;
}
