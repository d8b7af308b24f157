#include "train/learning_rate.h"

#include <math.h>

/* A length given in samples, or in iterations of a global batch. */
static double samples(const haul_config *config, int64_t in_samples, int64_t iterations) {
    return in_samples > 0 ? (double)in_samples
                          : (double)iterations * (double)config->global_batch_size;
}

static double warmup_samples(const haul_config *config, double decay) {
    if (config->lr_warmup_fraction > 0) {
        return config->lr_warmup_fraction * decay;
    }
    return samples(config, config->lr_warmup_samples, config->lr_warmup_iters);
}

static double wsd_coefficient(const haul_config *config, double at, double decay) {
    double length = samples(config, config->lr_wsd_decay_samples, config->lr_wsd_decay_iters);
    double start = decay - length, ratio = (at - start) / length;
    if (at <= start) {
        return 1;
    }
    switch (config->lr_wsd_decay_style) {
    case HAUL_WSD_LINEAR:
        return 1 - ratio;
    case HAUL_WSD_COSINE:
        return 0.5 * (cos(3.14159265358979323846 * ratio) + 1);
    case HAUL_WSD_MINUS_SQRT:
        return 1 - sqrt(ratio);
    default:
        return 2 * pow(0.5, ratio) - 1;
    }
}

double haul_learning_rate(const haul_config *config, int64_t consumed) {
    double at = (double)consumed, top = config->lr, bottom = config->min_lr;
    double decay = samples(config, config->lr_decay_samples, config->lr_decay_iters);
    double warmup = warmup_samples(config, decay);
    if (warmup > 0 && at <= warmup) {
        return config->lr_warmup_init + (top - config->lr_warmup_init) * at / warmup;
    }
    if (config->lr_decay_style == HAUL_LR_CONSTANT) {
        return top;
    }
    if (at > decay) {
        return bottom;
    }
    if (config->lr_decay_style == HAUL_LR_INVERSE_SQUARE_ROOT) {
        return fmax(bottom, top * sqrt(fmax(warmup, 1)) / sqrt(fmax(at, 1)));
    }
    double ratio = (at - warmup) / (decay - warmup); /* warmup < decay in a finalized config */
    double coefficient = 1 - ratio;
    if (config->lr_decay_style == HAUL_LR_COSINE) {
        coefficient = 0.5 * (cos(3.14159265358979323846 * ratio) + 1);
    } else if (config->lr_decay_style == HAUL_LR_WSD) {
        coefficient = wsd_coefficient(config, at, decay);
    }
    return bottom + coefficient * (top - bottom);
}
