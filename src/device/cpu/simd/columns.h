/* Sums over the rows of a matrix, in an order that does not depend on threads: rows are cut into
 * blocks, each block has one partial row in the workspace, and partial rows are added in order. */
#ifndef HAUL_DEVICE_CPU_SIMD_COLUMNS_H
#define HAUL_DEVICE_CPU_SIMD_COLUMNS_H

#include "base/memory.h"
#include "device/cpu/simd/kernels.h"

/* Enough blocks for many threads, enough rows in each that the partial rows cost little. */
static inline int64_t column_block_rows(int64_t rows) {
    return haul_max(16, (rows + 127) / 128);
}

static inline int64_t column_blocks(int64_t rows) {
    int64_t block = column_block_rows(rows);
    return (rows + block - 1) / block;
}

/* sum[c] (+)= partial[0][c] + partial[1][c] + ..., rows of `partial` being `stride` floats apart.
 * Sets to 0 without partial rows. */
void HAUL_ISA(haul_cpu_sum_partial)(haul_stream *stream, const float *partial, int64_t count,
                                    int64_t stride, float *sum, int64_t columns, bool accumulate);

#endif
