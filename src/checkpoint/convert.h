/* Copies of tensors that change the dtype and may change the order. */
#ifndef HAUL_CHECKPOINT_CONVERT_H
#define HAUL_CHECKPOINT_CONVERT_H

#include "base/dtype.h"

/* Whether haul_convert reads this dtype: F64, F32, BF16, F16. */
bool haul_convert_reads(haul_dtype dtype);

/* target[i] = source[i] for `count` elements, rounded to nearest even. The source need not be
 * aligned. */
void haul_convert(const char *source, haul_dtype from, void *target, haul_dtype to, int64_t count);

/* target[c][r] = source[r][c] for a source of rows x columns. */
void haul_convert_transposed(const char *source, haul_dtype from, int64_t rows, int64_t columns,
                             void *target, haul_dtype to);

#endif
