#include "generate/sample.h"

#include "base/memory.h"
#include "base/philox.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

haul_status haul_sampler_init(haul_sampler *sampler, haul_sampling options, int64_t vocabulary) {
    *sampler = (haul_sampler){.options = options,
                              .vocabulary = vocabulary,
                              .weights = haul_calloc(vocabulary, sizeof(double)),
                              .ids = haul_calloc(vocabulary, sizeof(int32_t))};
    if (sampler->weights == NULL || sampler->ids == NULL) {
        haul_sampler_deinit(sampler);
        return HAUL_ERROR_MEMORY;
    }
    return HAUL_OK;
}

void haul_sampler_deinit(haul_sampler *sampler) {
    free(sampler->weights);
    free(sampler->ids);
    *sampler = (haul_sampler){0};
}

static int32_t likeliest(const double *logits, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return (int32_t)best;
}

/* Whether token `a` comes before token `b`: likelier, or of a lower id. */
static bool before(const double *weights, int32_t a, int32_t b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
}

/* Restores the heap ids[0 .. count) whose element `at` may come after its children. */
static void sift(const double *weights, int32_t *ids, int64_t count, int64_t at) {
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && before(weights, ids[child + 1], ids[child])) {
            child++;
        }
        if (!before(weights, ids[child], ids[at])) {
            return;
        }
        int32_t id = ids[at];
        ids[at] = ids[child];
        ids[child] = id;
        at = child;
    }
}

/* Moves the likeliest token of the heap ids[0 .. count) behind it, to ids[count - 1]. */
static void take_likeliest(const double *weights, int32_t *ids, int64_t count) {
    int32_t first = ids[0];
    ids[0] = ids[count - 1];
    ids[count - 1] = first;
    sift(weights, ids, count - 1, 0);
}

/* Orders ids so that the tokens that may be drawn stand last, the likeliest at the very end, and
 * returns how many they are; *mass is the sum of their weights, that of all tokens at first. A heap
 * yields the few that are wanted without sorting the vocabulary. */
static int64_t cut(haul_sampler *sampler, double *mass) {
    const haul_sampling *options = &sampler->options;
    int64_t vocabulary = sampler->vocabulary, left = vocabulary, kept = vocabulary;
    bool by_mass = options->top_p > 0 && options->top_p < 1;
    for (int64_t at = vocabulary / 2 - 1; at >= 0; at--) {
        sift(sampler->weights, sampler->ids, vocabulary, at);
    }
    if (options->top_k > 0) {
        kept = haul_min(options->top_k, vocabulary);
        *mass = 0;
        for (; vocabulary - left < kept; left--) {
            take_likeliest(sampler->weights, sampler->ids, left);
            *mass += sampler->weights[sampler->ids[left - 1]];
        }
    }
    double wanted = *mass * options->top_p, sum = 0;
    for (int64_t i = 0; i < kept && by_mass; i++) {
        if (vocabulary - left <= i) {
            take_likeliest(sampler->weights, sampler->ids, left--);
        }
        sum += sampler->weights[sampler->ids[vocabulary - 1 - i]];
        if (sum >= wanted) {
            *mass = sum;
            return i + 1;
        }
    }
    return kept;
}

static double uniform(uint64_t seed, int64_t position) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)position, (uint32_t)((uint64_t)position >> 32), 0,
                                 0x73616d70}; /* "samp": no other stream uses it */
    return haul_uniform(haul_philox_4x32(key, counter).word[0]);
}

int32_t haul_sampler_draw(haul_sampler *sampler, int64_t position, const double *logits) {
    const haul_sampling *options = &sampler->options;
    int64_t vocabulary = sampler->vocabulary, count = vocabulary;
    int32_t top = likeliest(logits, vocabulary);
    double mass = 0;
    if (options->temperature <= 0) {
        return top;
    }
    for (int64_t i = 0; i < vocabulary; i++) {
        sampler->weights[i] = exp((logits[i] - logits[top]) / options->temperature);
        sampler->ids[i] = (int32_t)i;
        mass += sampler->weights[i];
    }
    if (options->top_k > 0 || (options->top_p > 0 && options->top_p < 1)) {
        count = cut(sampler, &mass);
    }
    double target = mass * uniform(options->seed, position), sum = 0;
    for (int64_t i = vocabulary - 1; i >= vocabulary - count; i--) {
        sum += sampler->weights[sampler->ids[i]];
        if (target < sum) {
            return sampler->ids[i];
        }
    }
    return top; /* the rounding of sums left nothing */
}
