#include "device/ref/ref.h"

#include "base/memory.h"

#include <math.h>

/* One query head of one query: where its parts lie, in elements. */
typedef struct place {
    int64_t sample;
    int64_t query;       /* of query and d_query */
    int64_t out;         /* of out and d_out */
    int64_t key;         /* of the first key and value (and of their gradients) */
    int64_t statistic;   /* of log_sum_exp */
    int64_t probability; /* the dropout element of key 0 */
    int64_t visible;     /* keys that the query sees */
} place;

static place locate(const haul_attention_shape *shape, int64_t sample, int64_t head, int64_t i) {
    int64_t row = sample * shape->queries + i;
    int64_t group = head / (shape->heads / shape->groups);
    return (place){
        .sample = sample,
        .query = row * shape->query_stride + head * shape->head_size,
        .out = (row * shape->heads + head) * shape->head_size,
        .key = sample * shape->key_capacity * shape->key_stride + group * shape->head_size,
        .statistic = (sample * shape->heads + head) * shape->queries + i,
        .probability = (head * shape->queries + i) * shape->keys,
        .visible = haul_max(0, haul_min(shape->keys, i + shape->query_offset + 1)),
    };
}

static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void attend(const haul_attention_args *attention, place at) {
    const haul_attention_shape *shape = &attention->shape;
    const double *query = (const double *)attention->query.data + at.query;
    const double *key = (const double *)attention->key.data + at.key;
    const double *value = (const double *)attention->value.data + at.key;
    double *out = (double *)attention->out.data + at.out;
    double maximum = -INFINITY, denominator = 0.0;
    for (int64_t j = 0; j < at.visible; j++) {
        double score = shape->scale * dot(query, key + j * shape->key_stride, shape->head_size);
        maximum = fmax(maximum, score);
    }
    for (int64_t d = 0; d < shape->head_size; d++) {
        out[d] = 0.0;
    }
    for (int64_t j = 0; j < at.visible; j++) {
        double score = shape->scale * dot(query, key + j * shape->key_stride, shape->head_size);
        double kept = haul_ref_dropout_factor(&shape->dropout, at.sample, at.probability + j);
        denominator += exp(score - maximum);
        for (int64_t d = 0; d < shape->head_size; d++) {
            out[d] += exp(score - maximum) * kept * value[j * shape->key_stride + d];
        }
    }
    for (int64_t d = 0; d < shape->head_size && at.visible > 0; d++) {
        out[d] /= denominator;
    }
    ((double *)attention->log_sum_exp.data)[at.statistic] = maximum + log(denominator);
}

void haul_ref_attention(haul_stream *stream, const void *args) {
    const haul_attention_args *attention = args;
    haul_ref_reals(stream, &attention->query, "query");
    haul_ref_reals(stream, &attention->key, "key");
    haul_ref_reals(stream, &attention->value, "value");
    haul_ref_reals(stream, &attention->out, "out");
    haul_ref_reals(stream, &attention->log_sum_exp, "log_sum_exp");
    if (stream->status != HAUL_OK) {
        return;
    }
    const haul_attention_shape *shape = &attention->shape;
    for (int64_t b = 0; b < shape->batch; b++) {
        for (int64_t n = 0; n < shape->heads; n++) {
            for (int64_t i = 0; i < shape->queries; i++) {
                attend(attention, locate(shape, b, n, i));
            }
        }
    }
}

/* With P = exp(score - log_sum_exp) and its kept part P' = P * kept: dV += P' dO,
 * dS = P (kept dO.V - dO.O), dQ += scale dS K, dK += scale dS Q. */
static void attend_backward(const haul_attention_backward_args *attention, place at) {
    const haul_attention_shape *shape = &attention->shape;
    int64_t size = shape->head_size;
    const double *query = (const double *)attention->query.data + at.query;
    const double *key = (const double *)attention->key.data + at.key;
    const double *value = (const double *)attention->value.data + at.key;
    const double *out = (const double *)attention->out.data + at.out;
    const double *d_out = (const double *)attention->d_out.data + at.out;
    double log_sum_exp = ((const double *)attention->log_sum_exp.data)[at.statistic];
    double *d_query = (double *)attention->d_query.data + at.query;
    double *d_key = (double *)attention->d_key.data + at.key;
    double *d_value = (double *)attention->d_value.data + at.key;
    for (int64_t d = 0; d < size; d++) {
        d_query[d] = 0.0;
    }
    for (int64_t j = 0; j < at.visible; j++) {
        int64_t row = j * shape->key_stride;
        double probability = exp(shape->scale * dot(query, key + row, size) - log_sum_exp);
        double kept = haul_ref_dropout_factor(&shape->dropout, at.sample, at.probability + j);
        double d_score = shape->scale * probability *
                         (kept * dot(d_out, value + row, size) - dot(d_out, out, size));
        for (int64_t d = 0; d < size; d++) {
            d_query[d] += d_score * key[row + d];
            d_key[row + d] += d_score * query[d];
            d_value[row + d] += probability * kept * d_out[d];
        }
    }
}

static void clear_keys(const haul_attention_shape *shape, double *gradient) {
    for (int64_t b = 0; b < shape->batch; b++) {
        for (int64_t j = 0; j < shape->keys; j++) {
            double *row = gradient + (b * shape->key_capacity + j) * shape->key_stride;
            for (int64_t c = 0; c < shape->groups * shape->head_size; c++) {
                row[c] = 0.0;
            }
        }
    }
}

void haul_ref_attention_backward(haul_stream *stream, const void *args) {
    const haul_attention_backward_args *attention = args;
    haul_ref_reals(stream, &attention->query, "query");
    haul_ref_reals(stream, &attention->key, "key");
    haul_ref_reals(stream, &attention->value, "value");
    haul_ref_reals(stream, &attention->out, "out");
    haul_ref_reals(stream, &attention->d_out, "d_out");
    haul_ref_reals(stream, &attention->log_sum_exp, "log_sum_exp");
    haul_ref_reals(stream, &attention->d_query, "d_query");
    double *d_key = haul_ref_reals(stream, &attention->d_key, "d_key");
    double *d_value = haul_ref_reals(stream, &attention->d_value, "d_value");
    if (stream->status != HAUL_OK) {
        return;
    }
    const haul_attention_shape *shape = &attention->shape;
    clear_keys(shape, d_key);
    clear_keys(shape, d_value);
    for (int64_t b = 0; b < shape->batch; b++) {
        for (int64_t n = 0; n < shape->heads; n++) {
            for (int64_t i = 0; i < shape->queries; i++) {
                attend_backward(attention, locate(shape, b, n, i));
            }
        }
    }
}
