/* What training reads: sample number -> seq_length + 1 tokens, in Megatron-LM's order. */
#ifndef HAUL_DATA_DATASET_H
#define HAUL_DATA_DATASET_H

#include "base/status.h"
#include "data/sample_order.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct haul_dataset_options {
    const char *const *data_path; /* the words of --data-path: see data/blend.h */
    int64_t data_path_count;
    const char *split; /* "969,30,1"; NULL: each of the splits is the whole data set */
    int64_t seq_length;
    uint32_t seed;
    int64_t samples[HAUL_SPLITS]; /* wanted of train, valid, test; negative: one epoch */
    int64_t vocab_size;           /* tokens must be below it; 0: not checked */
    bool mock_data;               /* no files; `split` is ignored, each split gets a third */
    int32_t mock_eod;             /* ends a mock document, which counts up to vocab_size */
} haul_dataset_options;

typedef struct haul_dataset haul_dataset;

/* Opens one split (0 train, 1 valid, 2 test). A split that is asked for 0 samples opens empty,
 * without files. The options are not kept. The caller closes *out; close(NULL) is legal.
 * HAUL_ERROR_USAGE, _NO_INPUT, _DATA, _MEMORY; the message names the prefix. */
haul_status haul_dataset_open(const haul_dataset_options *options, int split, haul_dataset **out);
void haul_dataset_close(haul_dataset *dataset);

/* How many samples there are. At least what was wanted, except for several prefixes without
 * weights: these are read once, as in Megatron-LM. */
int64_t haul_dataset_samples(const haul_dataset *dataset);

/* Sample 0 <= index < samples to tokens[seq_length + 1]: inputs are tokens[0 .. T - 1], labels
 * tokens[1 .. T]. Safe to call from several threads. HAUL_ERROR_DATA for a token outside the
 * vocabulary. */
haul_status haul_dataset_sample(const haul_dataset *dataset, int64_t index, int32_t *tokens);

/* All tokens of one split in file order, cut into windows that do not overlap, for evaluation:
 * each token but the first is the label of exactly one window. */
typedef struct haul_windows haul_windows;

/* Of the options, seed, samples and weights do not matter; several prefixes follow one another.
 * HAUL_ERROR_DATA for fewer than two tokens. */
haul_status haul_windows_open(const haul_dataset_options *options, int split, haul_windows **out);
void haul_windows_close(haul_windows *windows);
int64_t haul_windows_count(const haul_windows *windows);

/* Window 0 <= index < count: sets *labels to the number of labels (seq_length, less in the last
 * window) and fills tokens[0 .. *labels]. */
haul_status haul_windows_get(const haul_windows *windows, int64_t index, int32_t *tokens,
                             int64_t *labels);

#endif
