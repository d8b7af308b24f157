/* Ops that look at one element, or one row of a table, at a time. */
#include "device/ref/ref.h"

#include <math.h>

void haul_ref_fill(haul_stream *stream, const void *args) {
    (void)stream;
    const haul_fill_args *fill = args;
    int64_t count = haul_tensor_count(&fill->y);
    for (int64_t i = 0; i < count; i++) {
        haul_element_set(fill->y.data, fill->y.dtype, i, fill->value);
    }
}

void haul_ref_copy(haul_stream *stream, const void *args) {
    (void)stream;
    const haul_copy_args *copy = args;
    int64_t rows = haul_tensor_rows(&copy->y), columns = haul_tensor_columns(&copy->y);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            double value = haul_element_get(copy->x.data, copy->x.dtype, r * copy->x_stride + c);
            haul_element_set(copy->y.data, copy->y.dtype, r * copy->y_stride + c, value);
        }
    }
}

void haul_ref_add(haul_stream *stream, const void *args) {
    const haul_add_args *add = args;
    const double *a = haul_ref_reals(stream, &add->a, "a");
    const double *b = haul_ref_reals(stream, &add->b, "b");
    double *y = haul_ref_reals(stream, &add->y, "y");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t count = haul_tensor_count(&add->y);
    for (int64_t i = 0; i < count; i++) {
        y[i] = a[i] + b[i];
    }
}

void haul_ref_dropout(haul_stream *stream, const void *args) {
    const haul_dropout_args *dropout = args;
    const double *x = haul_ref_reals(stream, &dropout->x, "x");
    double *y = haul_ref_reals(stream, &dropout->y, "y");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t count = haul_tensor_count(&dropout->y);
    int64_t sample = dropout->sequence_length * haul_tensor_columns(&dropout->y);
    for (int64_t i = 0; i < count; i++) {
        y[i] = x[i] * haul_ref_dropout_factor(&dropout->dropout, i / sample, i % sample);
    }
}

void haul_ref_embed(haul_stream *stream, const void *args) {
    const haul_embed_args *embed = args;
    const int32_t *tokens = haul_ref_indices(stream, &embed->tokens, "tokens");
    const double *table = haul_ref_reals(stream, &embed->table, "table");
    const double *positions = haul_ref_reals(stream, &embed->positions, "positions");
    double *y = haul_ref_reals(stream, &embed->y, "y");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t rows = haul_tensor_rows(&embed->y), hidden = haul_tensor_columns(&embed->y);
    for (int64_t r = 0; r < rows; r++) {
        int64_t position = r % embed->sequence_length + embed->position_offset;
        for (int64_t h = 0; h < hidden; h++) {
            y[r * hidden + h] = table[tokens[r] * hidden + h];
            if (positions != NULL) {
                y[r * hidden + h] += positions[position * hidden + h];
            }
        }
    }
}

static void clear(double *y, const haul_tensor *tensor) {
    int64_t count = haul_tensor_count(tensor);
    for (int64_t i = 0; i < count; i++) {
        y[i] = 0.0;
    }
}

void haul_ref_embed_backward(haul_stream *stream, const void *args) {
    const haul_embed_backward_args *embed = args;
    const int32_t *tokens = haul_ref_indices(stream, &embed->tokens, "tokens");
    const double *dy = haul_ref_reals(stream, &embed->dy, "dy");
    double *d_table = haul_ref_reals(stream, &embed->d_table, "d_table");
    double *d_positions = haul_ref_reals(stream, &embed->d_positions, "d_positions");
    if (stream->status != HAUL_OK) {
        return;
    }
    if (!embed->accumulate_table) {
        clear(d_table, &embed->d_table);
    }
    if (!embed->accumulate_positions) {
        clear(d_positions, &embed->d_positions);
    }
    int64_t rows = haul_tensor_rows(&embed->dy), hidden = haul_tensor_columns(&embed->dy);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t h = 0; h < hidden; h++) {
            d_table[tokens[r] * hidden + h] += dy[r * hidden + h];
            if (d_positions != NULL) {
                d_positions[r % embed->sequence_length * hidden + h] += dy[r * hidden + h];
            }
        }
    }
}

void haul_ref_rope(haul_stream *stream, const void *args) {
    const haul_rope_args *rope = args;
    double *x = haul_ref_reals(stream, &rope->x, "x");
    const double *table = haul_ref_reals(stream, &rope->table, "table");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t rows = haul_tensor_rows(&rope->x), columns = haul_tensor_columns(&rope->x);
    int64_t half = rope->rotary_size / 2;
    for (int64_t r = 0; r < rows; r++) {
        int64_t p = r % rope->sequence_length + rope->position_offset;
        for (int64_t n = 0; n < rope->heads; n++) {
            double *head = x + r * columns + n * rope->head_size;
            for (int64_t i = 0; i < half; i++) {
                double cosine = table[(p * half + i) * 2];
                double sine = table[(p * half + i) * 2 + 1];
                if (rope->inverse) {
                    sine = -sine;
                }
                double first = head[i], second = head[i + half];
                head[i] = first * cosine - second * sine;
                head[i + half] = second * cosine + first * sine;
            }
        }
    }
}

static double sigmoid(double z) {
    return 1.0 / (1.0 + exp(-z));
}

void haul_ref_swiglu(haul_stream *stream, const void *args) {
    const haul_swiglu_args *swiglu = args;
    const double *x = haul_ref_reals(stream, &swiglu->x, "x");
    double *y = haul_ref_reals(stream, &swiglu->y, "y");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t rows = haul_tensor_rows(&swiglu->y), width = haul_tensor_columns(&swiglu->y);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t f = 0; f < width; f++) {
            double gate = x[r * 2 * width + f], up = x[r * 2 * width + width + f];
            y[r * width + f] = gate * sigmoid(gate) * up;
        }
    }
}

void haul_ref_swiglu_backward(haul_stream *stream, const void *args) {
    const haul_swiglu_backward_args *swiglu = args;
    const double *dy = haul_ref_reals(stream, &swiglu->dy, "dy");
    const double *x = haul_ref_reals(stream, &swiglu->x, "x");
    double *dx = haul_ref_reals(stream, &swiglu->dx, "dx");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t rows = haul_tensor_rows(&swiglu->dy), width = haul_tensor_columns(&swiglu->dy);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t f = 0; f < width; f++) {
            int64_t gate_at = r * 2 * width + f, up_at = gate_at + width;
            double gate = x[gate_at], up = x[up_at], s = sigmoid(gate), d = dy[r * width + f];
            dx[gate_at] = d * up * (s + gate * s * (1.0 - s));
            dx[up_at] = d * gate * s;
        }
    }
}

static const double sqrt_half = 0.70710678118654752440; /* sqrt(1 / 2) */
static const double sqrt_2_pi = 0.79788456080286535588; /* sqrt(2 / pi) */
static const double rsqrt_2pi = 0.39894228040143267794; /* 1 / sqrt(2 pi) */
static const double gelu_cubic = 0.044715;

void haul_ref_gelu(haul_stream *stream, const void *args) {
    const haul_gelu_args *gelu = args;
    const double *x = haul_ref_reals(stream, &gelu->x, "x");
    double *y = haul_ref_reals(stream, &gelu->y, "y");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t count = haul_tensor_count(&gelu->y);
    for (int64_t i = 0; i < count; i++) {
        double z = x[i];
        if (gelu->tanh) {
            y[i] = 0.5 * z * (1.0 + tanh(sqrt_2_pi * (z + gelu_cubic * z * z * z)));
        } else {
            y[i] = 0.5 * z * (1.0 + erf(z * sqrt_half));
        }
    }
}

static double gelu_derivative(double z, bool use_tanh) {
    if (!use_tanh) {
        return 0.5 * (1.0 + erf(z * sqrt_half)) + z * rsqrt_2pi * exp(-0.5 * z * z);
    }
    double t = tanh(sqrt_2_pi * (z + gelu_cubic * z * z * z));
    double inner = sqrt_2_pi * (1.0 + 3.0 * gelu_cubic * z * z);
    return 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * inner;
}

void haul_ref_gelu_backward(haul_stream *stream, const void *args) {
    const haul_gelu_backward_args *gelu = args;
    const double *dy = haul_ref_reals(stream, &gelu->dy, "dy");
    const double *x = haul_ref_reals(stream, &gelu->x, "x");
    double *dx = haul_ref_reals(stream, &gelu->dx, "dx");
    if (stream->status != HAUL_OK) {
        return;
    }
    int64_t count = haul_tensor_count(&gelu->dx);
    for (int64_t i = 0; i < count; i++) {
        dx[i] = dy[i] * gelu_derivative(x[i], gelu->tanh);
    }
}
