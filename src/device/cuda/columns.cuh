/* Sums over the rows of a matrix of partial sums. */
#ifndef HAUL_DEVICE_CUDA_COLUMNS_CUH
#define HAUL_DEVICE_CUDA_COLUMNS_CUH

#include "device/cuda/cuda.h"

/* out[c] (+)= the sum of partial[r][c] over rows, always in the same order; `second`, unless it is
 * NULL, likewise of the matrix behind that one. */
void launch_sum_rows(cudaStream_t stream, const float *partial, int64_t rows, int64_t columns,
                     float *out, float *second, bool accumulate);

#endif
