#include "data/blend.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool parse_weight(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && end[strspn(end, " ")] == '\0';
}

static haul_status set_pairs(const char *const *words, int64_t count, haul_blend_paths *paths) {
    paths->weights = haul_calloc(count / 2, sizeof *paths->weights);
    if (paths->weights == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    paths->count = count / 2;
    double sum = 0;
    for (int64_t i = 0; i < paths->count; i++) {
        const char *word = words[2 * i];
        double *weight = &paths->weights[i];
        if (!parse_weight(word, weight) || !isfinite(*weight) || *weight < 0) {
            haul_fail(HAUL_ERROR_USAGE,
                      "--data-path: weight %lld is \"%s\", must be a number of at least 0",
                      (long long)i + 1, word);
            haul_hint("give WEIGHT PREFIX pairs, or prefixes only");
            return HAUL_ERROR_USAGE;
        }
        paths->prefixes[i] = words[2 * i + 1];
        sum += *weight;
    }
    if (!(sum > 0)) {
        return haul_fail(HAUL_ERROR_USAGE, "--data-path: the weights add up to 0");
    }
    return HAUL_OK;
}

static haul_status set_paths(const char *const *words, int64_t count, haul_blend_paths *paths) {
    double ignored;
    bool pairs = false;
    for (int64_t i = 0; count % 2 == 0 && i < count; i += 2) {
        pairs = pairs || parse_weight(words[i], &ignored);
    }
    if (pairs) {
        return set_pairs(words, count, paths);
    }
    for (int64_t i = 0; i < count; i++) {
        paths->prefixes[i] = words[i];
    }
    paths->count = count;
    return HAUL_OK;
}

haul_status haul_blend_paths_init(const char *const *words, int64_t count, haul_blend_paths *out) {
    if (count < 1 || count > HAUL_BLEND_LIMIT) {
        return haul_fail(HAUL_ERROR_USAGE, "--data-path has %lld words, must be 1 to %d",
                         (long long)count, HAUL_BLEND_LIMIT);
    }
    haul_blend_paths paths = {0};
    paths.prefixes = haul_calloc(count, sizeof *paths.prefixes);
    if (paths.prefixes == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_status status = set_paths(words, count, &paths);
    if (status != HAUL_OK) {
        haul_blend_paths_deinit(&paths);
        return status;
    }
    *out = paths;
    return HAUL_OK;
}

void haul_blend_paths_deinit(haul_blend_paths *paths) {
    free(paths->prefixes);
    free(paths->weights);
    *paths = (haul_blend_paths){0};
}

/* numpy adds eight interleaved partial sums in blocks of at most 128. */
static double numpy_sum(const double *values, int64_t count) {
    if (count > 128) {
        int64_t half = count / 2 - count / 2 % 8;
        return numpy_sum(values, half) + numpy_sum(values + half, count - half);
    }
    double sum = 0;
    int64_t done = 0;
    if (count >= 8) {
        double part[8] = {0};
        for (; done + 8 <= count; done += 8) {
            for (int i = 0; i < 8; i++) {
                part[i] += values[done + i];
            }
        }
        sum = ((part[0] + part[1]) + (part[2] + part[3])) +
              ((part[4] + part[5]) + (part[6] + part[7]));
    }
    for (; done < count; done++) {
        sum += values[done];
    }
    return sum;
}

void haul_blend_normalize(double *weights, int64_t count) {
    double sum = numpy_sum(weights, count);
    for (int64_t i = 0; i < count; i++) {
        weights[i] /= sum;
    }
}

int64_t haul_blend_share(double weight, int64_t samples, bool surplus) {
    double share = ceil((double)samples * weight);
    return (int64_t)(surplus ? ceil(share * (1 + 0.005)) : share);
}

haul_status haul_blend_build(const double *weights, const int64_t *limits, int64_t count,
                             int64_t samples, int16_t *dataset, int64_t *dataset_sample) {
    int64_t *given = haul_calloc(count, sizeof *given);
    if (given == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < samples; i++) {
        double position = (double)haul_max(i, 1), most = -(double)INFINITY;
        int64_t chosen = 0;
        for (int64_t d = 0; d < count; d++) {
            double behind = weights[d] * position - (double)given[d];
            if (behind > most && (limits == NULL || given[d] < limits[d])) {
                most = behind;
                chosen = d;
            }
        }
        dataset[i] = (int16_t)chosen;
        dataset_sample[i] = given[chosen]++;
    }
    free(given);
    return HAUL_OK;
}
