#include "device/ref/ref.h"

#include <math.h>

void haul_ref_loss(haul_stream *stream, const void *args) {
    const haul_loss_args *loss = args;
    double *logits = haul_ref_reals(stream, &loss->logits, "logits");
    const int32_t *targets = haul_ref_indices(stream, &loss->targets, "targets");
    const double *weights = haul_ref_reals(stream, &loss->weights, "weights");
    double *losses = haul_ref_reals(stream, &loss->losses, "losses");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t rows = haul_tensor_rows(&loss->logits), columns = haul_tensor_columns(&loss->logits);
    for (int64_t r = 0; r < rows; r++) {
        double *row = logits + r * columns;
        double maximum = -INFINITY, denominator = 0.0;
        for (int64_t v = 0; v < loss->vocabulary; v++) {
            maximum = fmax(maximum, row[v]);
        }
        for (int64_t v = 0; v < loss->vocabulary; v++) {
            denominator += exp(row[v] - maximum);
        }
        losses[r] = maximum + log(denominator) - row[targets[r]];
        for (int64_t v = 0; v < columns && loss->gradient; v++) {
            double onehot = v == targets[r] ? 1.0 : 0.0;
            double softmax = exp(row[v] - maximum) / denominator;
            row[v] = v < loss->vocabulary ? weights[r] * (softmax - onehot) : 0.0;
        }
    }
}

void haul_ref_squared_norm(haul_stream *stream, const void *args) {
    const haul_squared_norm_args *norm = args;
    const double *x = haul_ref_reals(stream, &norm->x, "x");
    double *result = haul_ref_reals(stream, &norm->result, "result");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t count = haul_tensor_count(&norm->x);
    double sum = norm->accumulate ? result[0] : 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += x[i] * x[i];
    }
    result[0] = sum;
}
