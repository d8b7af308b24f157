#include "device/ref/ref.h"

#include <math.h>

/* Mean (0 for RMS) and 1 / standard deviation of one row. */
static void measure(const haul_norm_args *norm, const double *s, int64_t hidden,
                    double statistics[2]) {
    double mean = 0.0, variance = 0.0;
    if (norm->kind == HAUL_NORM_LAYER) {
        for (int64_t h = 0; h < hidden; h++) {
            mean += s[h] / (double)hidden;
        }
    }
    for (int64_t h = 0; h < hidden; h++) {
        variance += (s[h] - mean) * (s[h] - mean) / (double)hidden;
    }
    statistics[0] = mean;
    statistics[1] = 1.0 / sqrt(variance + norm->epsilon);
}

void haul_ref_norm(haul_stream *stream, const void *args) {
    const haul_norm_args *norm = args;
    const double *x = haul_ref_reals(stream, &norm->x, "x");
    const double *addend = haul_ref_reals(stream, &norm->addend, "addend");
    double *sum = haul_ref_reals(stream, &norm->sum, "sum");
    const double *weight = haul_ref_reals(stream, &norm->weight, "weight");
    const double *bias = haul_ref_reals(stream, &norm->bias, "bias");
    double *y = haul_ref_reals(stream, &norm->y, "y");
    double *statistics = haul_ref_reals(stream, &norm->statistics, "statistics");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t rows = haul_tensor_rows(&norm->y), hidden = haul_tensor_columns(&norm->y);
    for (int64_t r = 0; r < rows; r++) {
        const double *s = x + r * hidden;
        if (addend != NULL) {
            for (int64_t h = 0; h < hidden; h++) {
                sum[r * hidden + h] = x[r * hidden + h] + addend[r * hidden + h];
            }
            s = sum + r * hidden;
        }
        measure(norm, s, hidden, statistics + 2 * r);
        double mean = statistics[2 * r], rstd = statistics[2 * r + 1];
        for (int64_t h = 0; h < hidden; h++) {
            double shift = bias != NULL ? bias[h] : 0.0;
            y[r * hidden + h] = weight[h] * (s[h] - mean) * rstd + shift;
        }
    }
}

/* One row: with g = weight * dy and n = (s - mean) * rstd,
 * ds = rstd * (g - mean(g) - n * mean(g * n)), without mean(g) for RMS. */
static void norm_row_backward(const haul_norm_backward_args *norm, const double *dy,
                              const double *s, const double *residual, const double *weight,
                              const double statistics[2], double *dx) {
    int64_t hidden = haul_tensor_columns(&norm->dx);
    double mean = statistics[0], rstd = statistics[1], mean_g = 0.0, mean_gn = 0.0;
    for (int64_t h = 0; h < hidden; h++) {
        double g = weight[h] * dy[h];
        mean_g += norm->kind == HAUL_NORM_LAYER ? g / (double)hidden : 0.0;
        mean_gn += g * (s[h] - mean) * rstd / (double)hidden;
    }
    for (int64_t h = 0; h < hidden; h++) {
        double n = (s[h] - mean) * rstd;
        double ds = rstd * (weight[h] * dy[h] - mean_g - n * mean_gn);
        dx[h] = ds + (residual != NULL ? residual[h] : 0.0);
    }
}

void haul_ref_norm_backward(haul_stream *stream, const void *args) {
    const haul_norm_backward_args *norm = args;
    const double *dy = haul_ref_reals(stream, &norm->dy, "dy");
    const double *s = haul_ref_reals(stream, &norm->s, "s");
    const double *weight = haul_ref_reals(stream, &norm->weight, "weight");
    const double *statistics = haul_ref_reals(stream, &norm->statistics, "statistics");
    const double *residual = haul_ref_reals(stream, &norm->residual, "residual");
    double *dx = haul_ref_reals(stream, &norm->dx, "dx");
    double *d_weight = haul_ref_reals(stream, &norm->d_weight, "d_weight");
    double *d_bias = haul_ref_reals(stream, &norm->d_bias, "d_bias");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t rows = haul_tensor_rows(&norm->dx), hidden = haul_tensor_columns(&norm->dx);
    for (int64_t h = 0; h < hidden; h++) {
        double weight_sum = norm->accumulate ? d_weight[h] : 0.0;
        double bias_sum = norm->accumulate && d_bias != NULL ? d_bias[h] : 0.0;
        for (int64_t r = 0; r < rows; r++) {
            double n = (s[r * hidden + h] - statistics[2 * r]) * statistics[2 * r + 1];
            weight_sum += dy[r * hidden + h] * n;
            bias_sum += dy[r * hidden + h];
        }
        d_weight[h] = weight_sum;
        if (d_bias != NULL) {
            d_bias[h] = bias_sum;
        }
    }
    /* Last, because dx may be dy. */
    for (int64_t r = 0; r < rows; r++) {
        norm_row_backward(norm, dy + r * hidden, s + r * hidden,
                          residual != NULL ? residual + r * hidden : NULL, weight,
                          statistics + 2 * r, dx + r * hidden);
    }
}
