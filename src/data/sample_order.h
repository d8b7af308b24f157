/* Which tokens sample i consists of: the three indices of Megatron-LM's GPTDataset.
 *
 * Documents (.idx sequences) of a split are repeated for E epochs and shuffled; the resulting
 * stream of tokens is cut into samples of seq_length + 1 tokens that overlap by one; the samples
 * are shuffled. One MT19937 generator serves both shuffles. When the last epoch is used for less
 * than 80 % of its samples, it is shuffled apart, so that it comes last. */
#ifndef HAUL_DATA_SAMPLE_ORDER_H
#define HAUL_DATA_SAMPLE_ORDER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { HAUL_SPLITS = 3 }; /* train, valid, test */

/* "969,30,1" -> the range [begin[s], end[s]) of `sequences` for each split s, rounded as Python's
 * round does. An empty or malformed text is HAUL_ERROR_USAGE. */
haul_status haul_split_parse(const char *text, int64_t sequences, int64_t begin[HAUL_SPLITS],
                             int64_t end[HAUL_SPLITS]);

/* Where a sample begins: the position in `documents` and the offset there. */
typedef struct haul_sample_start {
    int64_t position;
    int64_t offset;
} haul_sample_start;

typedef struct haul_sample_order {
    uint32_t *documents; /* [document_count], sequence numbers */
    int64_t document_count;
    haul_sample_start *starts; /* [samples + 1] */
    uint32_t *shuffle;         /* [samples] -> index into starts */
    int64_t samples;
    int64_t tokens_per_epoch;
    int64_t epochs;
    bool separate_final_epoch;
} haul_sample_order;

/* Tokens of a sequence. */
typedef int64_t haul_sequence_length(const void *context, int64_t sequence);

/* The order of at least `wanted` samples of seq_length tokens from sequences [begin, end); one
 * epoch when wanted is negative. HAUL_ERROR_DATA when the range has too few tokens for a sample,
 * HAUL_ERROR_UNAVAILABLE above 2^32 - 3 documents or samples. The caller deinits. */
haul_status haul_sample_order_init(haul_sequence_length *length, const void *context, int64_t begin,
                                   int64_t end, int64_t seq_length, int64_t wanted, uint32_t seed,
                                   haul_sample_order *out);
void haul_sample_order_deinit(haul_sample_order *order);

#endif
