/* The merges of a byte-level BPE (Sennrich et al. 2016, on bytes as in GPT-2). */
#ifndef HAUL_DATA_BPE_H
#define HAUL_DATA_BPE_H

#include "base/status.h"
#include "data/maps.h"
#include "data/tokenizer.h"

#include <stdint.h>

typedef struct haul_bpe {
    int32_t byte_ids[256];
    haul_pair_map ranks; /* pair of ids -> rank, lower merges first */
    int32_t *results;    /* [merges]: rank -> the id that the pair becomes */
    int64_t merges, results_capacity;
} haul_bpe;

void haul_bpe_deinit(haul_bpe *bpe);

/* Adds the next merge in rank. A pair that comes again takes the later rank, as in `tokenizers`. */
haul_status haul_bpe_add_merge(haul_bpe *bpe, int32_t left, int32_t right, int32_t result);

/* Working memory of haul_bpe_encode, kept between pieces. A zeroed one is fine. */
typedef struct haul_bpe_scratch {
    struct haul_bpe_symbol *symbols;
    int64_t symbols_capacity;
    struct haul_bpe_candidate *heap;
    int64_t heap_count, heap_capacity;
} haul_bpe_scratch;

void haul_bpe_scratch_deinit(haul_bpe_scratch *scratch);

/* Appends the ids of one piece: always the merge of lowest rank first, the leftmost of equals.
 * O(n log n) in the bytes of the piece. */
haul_status haul_bpe_encode(const haul_bpe *bpe, const char *piece, int64_t bytes,
                            haul_bpe_scratch *scratch, haul_token_list *out);

#endif
