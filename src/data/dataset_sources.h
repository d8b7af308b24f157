/* The files behind a data set, each with the sequences that one split may use. */
#ifndef HAUL_DATA_DATASET_SOURCES_H
#define HAUL_DATA_DATASET_SOURCES_H

#include "data/dataset.h"
#include "data/source.h"

typedef struct haul_split_source {
    haul_source source;
    int64_t begin, end; /* sequences */
} haul_split_source;

typedef struct haul_sources {
    haul_split_source *items; /* [count] */
    int64_t count;
} haul_sources;

/* Opens what --data-path or --mock-data names. *weights: normalized, the caller's to free, NULL
 * when none were given. On failure nothing stays open. */
haul_status haul_sources_open(const haul_dataset_options *options, int split, haul_sources *out,
                              double **weights);
void haul_sources_close(haul_sources *sources);

/* HAUL_ERROR_DATA when a token is not below vocab_size (0: no check). */
haul_status haul_tokens_check(const int32_t *tokens, int64_t count, int64_t vocab_size,
                              const haul_source *source);

#endif
