#include "checkpoint/convert.h"

#include "base/memory.h"

/* Elements that are converted at a time, in aligned buffers on the stack; and the side of a
 * transposed tile, whose square is at most as much. */
enum { PIECE = 4096, TILE = 64 };

bool haul_convert_reads(haul_dtype dtype) {
    return dtype == HAUL_F64 || dtype == HAUL_F32 || dtype == HAUL_BF16 || dtype == HAUL_F16;
}

static void convert_aligned(const void *source, haul_dtype from, void *target, haul_dtype to,
                            int64_t count) {
    if (from == HAUL_BF16 && to == HAUL_F32) {
        for (int64_t i = 0; i < count; i++) {
            ((float *)target)[i] = haul_bf16_to_f32(((const uint16_t *)source)[i]);
        }
    } else if (from == HAUL_F32 && to == HAUL_BF16) {
        for (int64_t i = 0; i < count; i++) {
            ((uint16_t *)target)[i] = haul_f32_to_bf16(((const float *)source)[i]);
        }
    } else {
        for (int64_t i = 0; i < count; i++) {
            haul_element_set(target, to, i, haul_element_get(source, from, i));
        }
    }
}

void haul_convert(const char *source, haul_dtype from, void *target, haul_dtype to, int64_t count) {
    int64_t source_size = haul_dtype_size(from), target_size = haul_dtype_size(to);
    if (from == to && count > 0) {
        memcpy(target, source, (size_t)(count * source_size));
        return;
    }
    _Alignas(64) char piece[PIECE * sizeof(double)];
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t length = haul_min(count - at, PIECE);
        memcpy(piece, source + at * source_size, (size_t)(length * source_size));
        convert_aligned(piece, from, (char *)target + at * target_size, to, length);
    }
}

/* Converts a tile row by row, then writes it column by column. */
static void transpose_tile(const char *source, haul_dtype from, int64_t rows, int64_t columns,
                           int64_t row, int64_t column, char *target, haul_dtype to) {
    int64_t source_size = haul_dtype_size(from);
    size_t size = (size_t)haul_dtype_size(to);
    int64_t height = haul_min(rows - row, TILE), width = haul_min(columns - column, TILE);
    _Alignas(64) char tile[TILE * TILE * sizeof(double)];
    for (int64_t r = 0; r < height; r++) {
        haul_convert(source + ((row + r) * columns + column) * source_size, from,
                     tile + (size_t)(r * TILE) * size, to, width);
    }
    for (int64_t c = 0; c < width; c++) {
        for (int64_t r = 0; r < height; r++) {
            memcpy(target + (size_t)((column + c) * rows + row + r) * size,
                   tile + (size_t)(r * TILE + c) * size, size);
        }
    }
}

void haul_convert_transposed(const char *source, haul_dtype from, int64_t rows, int64_t columns,
                             void *target, haul_dtype to) {
    for (int64_t row = 0; row < rows; row += TILE) {
        for (int64_t column = 0; column < columns; column += TILE) {
            transpose_tile(source, from, rows, columns, row, column, target, to);
        }
    }
}
