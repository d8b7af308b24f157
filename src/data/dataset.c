#include "data/dataset.h"

#include "base/memory.h"
#include "data/blend.h"
#include "data/dataset_sources.h"

#include <stdlib.h>

struct haul_dataset {
    haul_sources sources;
    haul_sample_order *orders; /* [sources] */
    int64_t seq_length;
    int64_t vocab_size;
    int64_t samples;
    int16_t *blend_source; /* [samples], NULL for one source without a weight */
    int64_t *blend_sample;
};

static int64_t source_length(const void *context, int64_t sequence) {
    return haul_source_length(context, sequence);
}

/* The samples that source i is built with. Without weights, several sources are read once. */
static int64_t wanted_of_source(const haul_dataset *dataset, const double *weights, int64_t i,
                                int64_t wanted) {
    if (weights == NULL) {
        return dataset->sources.count == 1 ? wanted : -1;
    }
    return haul_blend_share(weights[i], wanted, true);
}

static haul_status build_orders(haul_dataset *dataset, const haul_dataset_options *options,
                                const double *weights, int64_t wanted) {
    dataset->orders = haul_calloc(dataset->sources.count, sizeof *dataset->orders);
    if (dataset->orders == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < dataset->sources.count; i++) {
        const haul_split_source *part = &dataset->sources.items[i];
        haul_status status = haul_sample_order_init(
            source_length, &part->source, part->begin, part->end, options->seq_length,
            wanted_of_source(dataset, weights, i, wanted), options->seed, &dataset->orders[i]);
        if (status != HAUL_OK) {
            haul_fail_context("%s", haul_source_name(&part->source));
            return status;
        }
    }
    return HAUL_OK;
}

/* A blend must not ask a source for more than it has; the surplus makes that rare. */
static haul_status check_blend(const haul_dataset *dataset) {
    for (int64_t i = 0; i < dataset->samples; i++) {
        int64_t d = dataset->blend_source[i];
        if (dataset->blend_sample[i] >= dataset->orders[d].samples) {
            haul_fail(HAUL_ERROR_DATA, "%s has %lld samples; the blend asks for more",
                      haul_source_name(&dataset->sources.items[d].source),
                      (long long)dataset->orders[d].samples);
            haul_hint("give --data-path a weight before each prefix");
            return HAUL_ERROR_DATA;
        }
    }
    return HAUL_OK;
}

/* `weights` is NULL when none were given: then sizes are the weights. */
static haul_status build_blend(haul_dataset *dataset, double *weights, int64_t wanted) {
    int64_t count = dataset->sources.count, total = 0;
    double *shares = haul_calloc(count, sizeof *shares);
    int64_t *sizes = haul_calloc(count, sizeof *sizes);
    haul_status status = shares == NULL || sizes == NULL ? HAUL_ERROR_MEMORY : HAUL_OK;
    for (int64_t i = 0; status == HAUL_OK && i < count; i++) {
        sizes[i] = dataset->orders[i].samples;
        shares[i] = weights != NULL ? weights[i] : (double)sizes[i];
        total += weights != NULL ? haul_blend_share(weights[i], wanted, false) : sizes[i];
    }
    if (status == HAUL_OK) {
        dataset->samples = weights == NULL && wanted >= 0 ? haul_min(wanted, total) : total;
        dataset->blend_source = haul_calloc(dataset->samples, sizeof *dataset->blend_source);
        dataset->blend_sample = haul_calloc(dataset->samples, sizeof *dataset->blend_sample);
        if (dataset->blend_source == NULL || dataset->blend_sample == NULL) {
            status = HAUL_ERROR_MEMORY;
        }
    }
    if (status == HAUL_OK) {
        haul_blend_normalize(shares, count);
        status = haul_blend_build(shares, wanted < 0 ? sizes : NULL, count, dataset->samples,
                                  dataset->blend_source, dataset->blend_sample);
    }
    free(shares);
    free(sizes);
    return status == HAUL_OK ? check_blend(dataset) : status;
}

static haul_status check_options(const haul_dataset_options *options, const double *weights,
                                 int64_t wanted) {
    if (options->seq_length < 1) {
        return haul_fail(HAUL_ERROR_CONFIG, "--seq-length is %lld, must be at least 1",
                         (long long)options->seq_length);
    }
    if (weights != NULL && wanted < 0) {
        return haul_fail(HAUL_ERROR_CONFIG,
                         "weights in --data-path need a number of samples to share out");
    }
    return HAUL_OK;
}

static haul_status open_with(const haul_dataset_options *options, int split, double *weights,
                             haul_dataset *dataset) {
    int64_t wanted = options->samples[split];
    HAUL_TRY(check_options(options, weights, wanted));
    if (wanted == 0) {
        return HAUL_OK;
    }
    HAUL_TRY(build_orders(dataset, options, weights, wanted));
    if (dataset->sources.count == 1 && weights == NULL) {
        dataset->samples = dataset->orders[0].samples;
        return HAUL_OK;
    }
    return build_blend(dataset, weights, wanted);
}

haul_status haul_dataset_open(const haul_dataset_options *options, int split, haul_dataset **out) {
    haul_dataset *dataset = haul_calloc(1, sizeof *dataset);
    if (dataset == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    dataset->seq_length = options->seq_length;
    dataset->vocab_size = options->vocab_size;
    double *weights = NULL;
    haul_status status = HAUL_OK;
    if (options->samples[split] != 0) {
        status = haul_sources_open(options, split, &dataset->sources, &weights);
    }
    if (status == HAUL_OK) {
        status = open_with(options, split, weights, dataset);
    }
    free(weights);
    if (status != HAUL_OK) {
        haul_dataset_close(dataset);
        return status;
    }
    *out = dataset;
    return HAUL_OK;
}

void haul_dataset_close(haul_dataset *dataset) {
    if (dataset == NULL) {
        return;
    }
    for (int64_t i = 0; dataset->orders != NULL && i < dataset->sources.count; i++) {
        haul_sample_order_deinit(&dataset->orders[i]);
    }
    haul_sources_close(&dataset->sources);
    free(dataset->orders);
    free(dataset->blend_source);
    free(dataset->blend_sample);
    free(dataset);
}

int64_t haul_dataset_samples(const haul_dataset *dataset) {
    return dataset->samples;
}

haul_status haul_dataset_sample(const haul_dataset *dataset, int64_t index, int32_t *tokens) {
    if (index < 0 || index >= dataset->samples) {
        return haul_fail(HAUL_ERROR_INTERNAL, "sample %lld of %lld was asked for", (long long)index,
                         (long long)dataset->samples);
    }
    int64_t d = 0;
    if (dataset->blend_source != NULL) {
        d = dataset->blend_source[index];
        index = dataset->blend_sample[index];
    }
    const haul_source *source = &dataset->sources.items[d].source;
    const haul_sample_order *order = &dataset->orders[d];
    haul_sample_start at = order->starts[order->shuffle[index]];
    int64_t filled = 0;
    while (filled < dataset->seq_length + 1) {
        int64_t sequence = order->documents[at.position++];
        int64_t left = haul_source_length(source, sequence) - at.offset;
        int64_t count = haul_min(left, dataset->seq_length + 1 - filled);
        HAUL_TRY(haul_source_get(source, sequence, at.offset, count, tokens + filled));
        filled += count;
        at.offset = 0;
    }
    return haul_tokens_check(tokens, filled, dataset->vocab_size, source);
}
