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

void haul_ref_adam(haul_stream *stream, const void *args) {
    const haul_adam_args *adam = args;
    const haul_step_scalars *now = adam->scalars;
    double *p = haul_ref_reals(stream, &adam->parameter, "parameter");
    const double *gradient = haul_ref_reals(stream, &adam->gradient, "gradient");
    double *m = haul_ref_reals(stream, &adam->first_moment, "first_moment");
    double *v = haul_ref_reals(stream, &adam->second_moment, "second_moment");
    refuse_low(stream, &adam->low);
    if (stream->status != HAUL_OK || now->skip != 0) {
        return;
    }
    int64_t count = haul_tensor_count(&adam->parameter);
    for (int64_t i = 0; i < count; i++) {
        double g = now->gradient_scale * gradient[i];
        m[i] = adam->beta1 * m[i] + (1.0 - adam->beta1) * g;
        v[i] = adam->beta2 * v[i] + (1.0 - adam->beta2) * g * g;
        double direction =
            m[i] / now->bias_correction1 / (sqrt(v[i] / now->bias_correction2) + adam->epsilon);
        p[i] -= now->learning_rate * (direction + adam->weight_decay * p[i]);
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
