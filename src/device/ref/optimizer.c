#include "base/philox.h"
#include "device/ref/ref.h"

#include <math.h>

/* A master in f64 has no low half. */
static void refuse_low(haul_stream *stream, const haul_tensor *low) {
    if (haul_tensor_present(low)) {
        haul_stream_fail(
            stream, HAUL_ERROR_INTERNAL,
            "the ref backend keeps f64 parameters: tensor low is present, must be absent");
    }
}

/* f64 or bf16. */
static void check_moment(haul_stream *stream, const haul_tensor *moment, const char *name) {
    if (moment->dtype != HAUL_BF16) {
        haul_ref_reals(stream, moment, name);
    }
}

static void set_moment(const haul_tensor *moment, int64_t i, double value, uint32_t random) {
    if (moment->dtype == HAUL_BF16) {
        ((uint16_t *)moment->data)[i] = haul_bf16_round_at_random((float)value, random);
    } else {
        ((double *)moment->data)[i] = value;
    }
}

/* The random word of element i: 16 bits for each moment. */
static uint32_t moment_word(const haul_adam_args *adam, int64_t i) {
    const uint32_t key[2] = {(uint32_t)adam->seed, (uint32_t)(adam->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)(i / 4), (uint32_t)((uint64_t)i / 4 >> 32), adam->stream,
                                 adam->scalars->update};
    return haul_philox_4x32(key, counter).word[i % 4];
}

void haul_ref_adam(haul_stream *stream, const void *args) {
    const haul_adam_args *adam = args;
    const haul_step_scalars *now = adam->scalars;
    const haul_tensor *first = &adam->first_moment, *second = &adam->second_moment;
    double *p = haul_ref_reals(stream, &adam->parameter, "parameter");
    const double *gradient = haul_ref_reals(stream, &adam->gradient, "gradient");
    check_moment(stream, first, "first_moment");
    check_moment(stream, second, "second_moment");
    refuse_low(stream, &adam->low);
    if (stream->status != HAUL_OK || now->skip != 0) {
        return;
    }
    int64_t count = haul_tensor_count(&adam->parameter);
    for (int64_t i = 0; i < count; i++) {
        double g = now->gradient_scale * gradient[i];
        double m = haul_element_get(first->data, first->dtype, i);
        double v = haul_element_get(second->data, second->dtype, i);
        m = adam->beta1 * m + (1.0 - adam->beta1) * g;
        v = adam->beta2 * v + (1.0 - adam->beta2) * g * g;
        double direction =
            m / now->bias_correction1 / (sqrt(v / now->bias_correction2) + adam->epsilon);
        p[i] -= now->learning_rate * (direction + adam->weight_decay * p[i]);
        uint32_t word = moment_word(adam, i);
        set_moment(first, i, m, word & 0xffffu);
        set_moment(second, i, v, word >> 16);
    }
}

void haul_ref_sgd(haul_stream *stream, const void *args) {
    const haul_sgd_args *sgd = args;
    const haul_step_scalars *now = sgd->scalars;
    double *p = haul_ref_reals(stream, &sgd->parameter, "parameter");
    const double *gradient = haul_ref_reals(stream, &sgd->gradient, "gradient");
    double *m = haul_ref_reals(stream, &sgd->momentum_buffer, "momentum_buffer");
    refuse_low(stream, &sgd->low);
    if (stream->status != HAUL_OK || now->skip != 0) {
        return;
    }
    int64_t count = haul_tensor_count(&sgd->parameter);
    for (int64_t i = 0; i < count; i++) {
        double g = now->gradient_scale * gradient[i];
        m[i] = sgd->momentum * m[i] + (g + sgd->weight_decay * p[i]);
        p[i] -= now->learning_rate * m[i];
    }
}
