#include "data/dataset_sources.h"

#include "base/memory.h"
#include "data/blend.h"

#include <stdlib.h>

static haul_status set_range(const char *split_text, int split, haul_split_source *part) {
    int64_t begin[HAUL_SPLITS], end[HAUL_SPLITS];
    int64_t sequences = haul_source_sequences(&part->source);
    part->begin = 0;
    part->end = sequences;
    if (split_text != NULL) {
        HAUL_TRY(haul_split_parse(split_text, sequences, begin, end));
        part->begin = begin[split];
        part->end = end[split];
    }
    return HAUL_OK;
}

static haul_status open_files(const haul_dataset_options *options, int split,
                              const haul_blend_paths *paths, haul_sources *sources) {
    sources->items = haul_calloc(paths->count, sizeof *sources->items);
    if (sources->items == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    sources->count = paths->count;
    for (int64_t i = 0; i < paths->count; i++) {
        HAUL_TRY(haul_source_open(paths->prefixes[i], &sources->items[i].source));
        HAUL_TRY(set_range(options->split, split, &sources->items[i]));
    }
    return HAUL_OK;
}

static haul_status open_mock(const haul_dataset_options *options, int split,
                             haul_sources *sources) {
    sources->items = haul_calloc(1, sizeof *sources->items);
    if (sources->items == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    sources->count = 1;
    HAUL_TRY(
        haul_source_open_mock(options->vocab_size, options->mock_eod, &sources->items[0].source));
    return set_range("1,1,1", split, &sources->items[0]);
}

haul_status haul_sources_open(const haul_dataset_options *options, int split, haul_sources *out,
                              double **weights) {
    haul_sources sources = {0};
    haul_blend_paths paths = {0};
    haul_status status;
    if (options->mock_data) {
        status = open_mock(options, split, &sources);
    } else {
        status = haul_blend_paths_init(options->data_path, options->data_path_count, &paths);
        if (status == HAUL_OK) {
            status = open_files(options, split, &paths, &sources);
        }
    }
    if (status == HAUL_OK) {
        if (paths.weights != NULL) {
            haul_blend_normalize(paths.weights, paths.count);
        }
        *weights = paths.weights;
        paths.weights = NULL;
        *out = sources;
    } else {
        haul_sources_close(&sources);
    }
    haul_blend_paths_deinit(&paths);
    return status;
}

void haul_sources_close(haul_sources *sources) {
    for (int64_t i = 0; i < sources->count; i++) {
        haul_source_close(&sources->items[i].source);
    }
    free(sources->items);
    *sources = (haul_sources){0};
}

haul_status haul_tokens_check(const int32_t *tokens, int64_t count, int64_t vocab_size,
                              const haul_source *source) {
    for (int64_t i = 0; vocab_size > 0 && i < count; i++) {
        if (tokens[i] >= vocab_size) {
            haul_fail(HAUL_ERROR_DATA, "%s holds token %d, must be below the vocabulary size %lld",
                      haul_source_name(source), tokens[i], (long long)vocab_size);
            haul_hint("use the tokenizer that the data was built with");
            return HAUL_ERROR_DATA;
        }
    }
    return HAUL_OK;
}
