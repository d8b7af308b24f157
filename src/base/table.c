#include "base/table.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void haul_table_init(haul_table *table, const haul_table_column *columns, int count) {
    *table = (haul_table){.columns = columns, .count = count};
    for (int i = 0; i < count; i++) {
        haul_table_cell(table, "%s", columns[i].title);
    }
}

void haul_table_deinit(haul_table *table) {
    haul_string_deinit(&table->cells);
}

void haul_table_cell(haul_table *table, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    haul_string_append_arguments(&table->cells, format, arguments);
    va_end(arguments);
    haul_string_append(&table->cells, "", 1);
}

/* The columns that UTF-8 text takes: its bytes but for continuation bytes. */
static int text_width(const char *text) {
    int width = 0;
    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

static void measure(const haul_table *table, int *widths) {
    int column = 0;
    for (int64_t at = 0; at < table->cells.length;) {
        const char *cell = table->cells.data + at;
        int width = text_width(cell);
        widths[column] = width > widths[column] ? width : widths[column];
        column = (column + 1) % table->count;
        at += (int64_t)strlen(cell) + 1;
    }
}

static void append_cell(haul_string *out, const char *text, haul_align align, int width) {
    int padding = width - text_width(text);
    haul_string_append_format(out, "%*s%s%*s", align == HAUL_ALIGN_RIGHT ? padding : 0, "", text,
                              align == HAUL_ALIGN_LEFT ? padding : 0, "");
}

static void end_line(haul_string *out) {
    while (out->length > 0 && out->data[out->length - 1] == ' ') {
        out->length--;
    }
    haul_string_append(out, "\n", 1);
}

haul_status haul_table_render(const haul_table *table, haul_string *out) {
    HAUL_TRY(haul_string_status(&table->cells));
    int *widths = haul_calloc(table->count, sizeof *widths);
    if (widths == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    measure(table, widths);
    int column = 0;
    for (int64_t at = 0; at < table->cells.length;) {
        const char *cell = table->cells.data + at;
        append_cell(out, cell, table->columns[column].align, widths[column]);
        at += (int64_t)strlen(cell) + 1;
        column = (column + 1) % table->count;
        if (column == 0 || at == table->cells.length) {
            end_line(out);
        } else {
            haul_string_append_text(out, "  ");
        }
    }
    free(widths);
    return haul_string_status(out);
}
