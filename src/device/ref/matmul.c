#include "base/memory.h"
#include "device/host.h"
#include "device/ref/ref.h"

#include <stdlib.h>

static void multiply(haul_stream *stream, const haul_matmul_args *matmul, const double *a,
                     const double *b) {
    const double *bias = haul_ref_reals(stream, &matmul->bias, "bias");
    double *c = haul_ref_reals(stream, &matmul->c, "c");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t m = haul_tensor_rows(&matmul->c), n = haul_tensor_columns(&matmul->c);
    int64_t k =
        matmul->transpose_a ? haul_tensor_rows(&matmul->a) : haul_tensor_columns(&matmul->a);
    int64_t a_row = matmul->transpose_a ? 1 : k, a_column = matmul->transpose_a ? m : 1;
    int64_t b_row = matmul->transpose_b ? 1 : n, b_column = matmul->transpose_b ? k : 1;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = matmul->accumulate ? c[i * n + j] : 0.0;
            sum += bias != NULL ? bias[j] : 0.0;
            for (int64_t l = 0; l < k; l++) {
                sum += a[i * a_row + l * a_column] * b[l * b_row + j * b_column];
            }
            c[i * n + j] = sum;
        }
    }
}

/* A matrix of FP8 codes as numbers; the caller frees them. NULL with a failed stream. */
static double *decode(haul_stream *stream, const haul_tensor *codes, haul_scaling scaling,
                      const haul_tensor *scales) {
    int64_t rows = haul_tensor_rows(codes), columns = haul_tensor_columns(codes);
    double *values = haul_calloc(rows * columns, sizeof *values);
    float *row = haul_calloc(columns, sizeof *row);
    if (values == NULL || row == NULL) {
        haul_stream_fail(stream, HAUL_ERROR_MEMORY, "matmul: no memory to decode FP8");
    }
    for (int64_t r = 0; r < rows && stream->status == HAUL_OK; r++) {
        haul_host_decode_row(codes, scaling, scales, r, row);
        for (int64_t c = 0; c < columns; c++) {
            values[r * columns + c] = (double)row[c];
        }
    }
    free(row);
    return values;
}

void haul_ref_matmul(haul_stream *stream, const void *args) {
    const haul_matmul_args *matmul = args;
    if (matmul->a_scaling == HAUL_SCALING_NONE) {
        multiply(stream, matmul, haul_ref_reals(stream, &matmul->a, "a"),
                 haul_ref_reals(stream, &matmul->b, "b"));
        return;
    }
    double *a = decode(stream, &matmul->a, matmul->a_scaling, &matmul->a_scales);
    double *b = decode(stream, &matmul->b, matmul->b_scaling, &matmul->b_scales);
    multiply(stream, matmul, a, b);
    free(a);
    free(b);
}

void haul_ref_bias_backward(haul_stream *stream, const void *args) {
    const haul_bias_backward_args *bias = args;
    const double *dy = haul_ref_reals(stream, &bias->dy, "dy");
    double *d_bias = haul_ref_reals(stream, &bias->d_bias, "d_bias");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t rows = haul_tensor_rows(&bias->dy), columns = haul_tensor_columns(&bias->dy);
    for (int64_t c = 0; c < columns; c++) {
        double sum = bias->accumulate ? d_bias[c] : 0.0;
        for (int64_t r = 0; r < rows; r++) {
            sum += dy[r * columns + c];
        }
        d_bias[c] = sum;
    }
}
