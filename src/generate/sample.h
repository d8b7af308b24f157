/* Choosing the next token from logits. */
#ifndef HAUL_GENERATE_SAMPLE_H
#define HAUL_GENERATE_SAMPLE_H

#include "base/status.h"

#include <stdint.h>

typedef struct haul_sampling {
    double temperature; /* logits are divided by it; 0: always the likeliest token */
    int64_t top_k;      /* draw from the K likeliest tokens; 0: from all */
    double top_p;       /* then from the fewest of these that hold this share of their probability;
                           0 or 1: from all */
    uint64_t seed;
} haul_sampling;

/* What the draws need, made once for a vocabulary. */
typedef struct haul_sampler {
    haul_sampling options;
    int64_t vocabulary;
    double *weights; /* [V] */
    int32_t *ids;    /* [V] */
} haul_sampler;

haul_status haul_sampler_init(haul_sampler *sampler, haul_sampling options, int64_t vocabulary);
void haul_sampler_deinit(haul_sampler *sampler);

/* The token for `position` (its place in the text) after logits[V]. A function of the arguments
 * alone; of equally likely tokens the lower id comes first. */
int32_t haul_sampler_draw(haul_sampler *sampler, int64_t position, const double *logits);

#endif
