/* Mixing several data sets by weight, as Megatron-LM's BlendedDataset does. */
#ifndef HAUL_DATA_BLEND_H
#define HAUL_DATA_BLEND_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { HAUL_BLEND_LIMIT = 32767 }; /* data sets */

/* --data-path as prefixes and weights. An odd number of words is a list of prefixes; an even
 * number is weight-prefix pairs, unless none of the weights is a number. */
typedef struct haul_blend_paths {
    const char **prefixes; /* [count], pointing into the caller's words */
    double *weights;       /* [count], as given; NULL for a list of prefixes */
    int64_t count;
} haul_blend_paths;

/* HAUL_ERROR_USAGE when only some weights are numbers, or one is negative. The caller deinits. */
haul_status haul_blend_paths_init(const char *const *words, int64_t count, haul_blend_paths *out);
void haul_blend_paths_deinit(haul_blend_paths *paths);

/* Divides count weights by their sum, which is added up in numpy's order. */
void haul_blend_normalize(double *weights, int64_t count);

/* Samples that a source of (normalized) weight is asked for out of `samples`: the share that the
 * blend uses, and with `surplus` the 0.5 % more that the source is built with. */
int64_t haul_blend_share(double weight, int64_t samples, bool surplus);

/* For each of `samples` blended samples its data set and its number there: at sample i the data set
 * that is furthest behind weight * i comes next, the first of equals. A data set that has given
 * limits[d] samples is passed over; limits NULL means none is. `weights` are normalized.
 * HAUL_ERROR_MEMORY. */
haul_status haul_blend_build(const double *weights, const int64_t *limits, int64_t count,
                             int64_t samples, int16_t *dataset, int64_t *dataset_sample);

#endif
