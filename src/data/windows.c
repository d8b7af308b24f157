#include "data/dataset.h"

#include "base/memory.h"
#include "data/dataset_sources.h"

#include <stdlib.h>

/* A run of tokens of the stream: one sequence of one source. */
typedef struct run {
    const haul_source *source;
    int64_t sequence;
    int64_t begin; /* the position of its first token in the stream */
} run;

struct haul_windows {
    haul_sources sources;
    run *runs; /* [run_count] */
    int64_t run_count;
    int64_t tokens;
    int64_t seq_length;
    int64_t vocab_size;
};

static haul_status build_runs(haul_windows *windows) {
    for (int64_t i = 0; i < windows->sources.count; i++) {
        windows->run_count += windows->sources.items[i].end - windows->sources.items[i].begin;
    }
    windows->runs = haul_calloc(windows->run_count, sizeof *windows->runs);
    if (windows->runs == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    run *next = windows->runs;
    for (int64_t i = 0; i < windows->sources.count; i++) {
        const haul_split_source *part = &windows->sources.items[i];
        for (int64_t s = part->begin; s < part->end; s++) {
            *next++ = (run){&part->source, s, windows->tokens};
            windows->tokens += haul_source_length(&part->source, s);
        }
    }
    if (windows->tokens < 2) {
        return haul_fail(HAUL_ERROR_DATA, "%s: this split holds %lld tokens, must be at least 2",
                         haul_source_name(&windows->sources.items[0].source),
                         (long long)windows->tokens);
    }
    return HAUL_OK;
}

haul_status haul_windows_open(const haul_dataset_options *options, int split, haul_windows **out) {
    if (options->seq_length < 1) {
        return haul_fail(HAUL_ERROR_CONFIG, "--seq-length is %lld, must be at least 1",
                         (long long)options->seq_length);
    }
    haul_windows *windows = haul_calloc(1, sizeof *windows);
    if (windows == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    windows->seq_length = options->seq_length;
    windows->vocab_size = options->vocab_size;
    double *weights = NULL;
    haul_status status = haul_sources_open(options, split, &windows->sources, &weights);
    free(weights);
    if (status == HAUL_OK) {
        status = build_runs(windows);
    }
    if (status != HAUL_OK) {
        haul_windows_close(windows);
        return status;
    }
    *out = windows;
    return HAUL_OK;
}

void haul_windows_close(haul_windows *windows) {
    if (windows != NULL) {
        haul_sources_close(&windows->sources);
        free(windows->runs);
        free(windows);
    }
}

int64_t haul_windows_count(const haul_windows *windows) {
    return (windows->tokens - 2) / windows->seq_length + 1;
}

/* The last run that begins at or before `position`. */
static int64_t find_run(const haul_windows *windows, int64_t position) {
    int64_t low = 0, high = windows->run_count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (windows->runs[middle].begin <= position) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

haul_status haul_windows_get(const haul_windows *windows, int64_t index, int32_t *tokens,
                             int64_t *labels) {
    if (index < 0 || index >= haul_windows_count(windows)) {
        return haul_fail(HAUL_ERROR_INTERNAL, "window %lld of %lld was asked for", (long long)index,
                         (long long)haul_windows_count(windows));
    }
    int64_t begin = index * windows->seq_length;
    int64_t wanted = haul_min(windows->seq_length + 1, windows->tokens - begin);
    int64_t r = find_run(windows, begin);
    for (int64_t filled = 0; filled < wanted; r++) {
        const run *from = &windows->runs[r];
        int64_t offset = haul_max(begin - from->begin, 0);
        int64_t left = haul_source_length(from->source, from->sequence) - offset;
        int64_t count = haul_min(left, wanted - filled);
        HAUL_TRY(haul_source_get(from->source, from->sequence, offset, count, tokens + filled));
        HAUL_TRY(haul_tokens_check(tokens + filled, count, windows->vocab_size, from->source));
        filled += count;
    }
    *labels = wanted - 1;
    return HAUL_OK;
}
