/* Learns the merges of a byte-level BPE from text, with GPT-2's pattern. The result, ties and
 * all, is that of BpeTrainer in Hugging Face's `tokenizers`: the most frequent pair first, of
 * equals the one with the smaller ids. */
#ifndef HAUL_DATA_BPE_TRAIN_H
#define HAUL_DATA_BPE_TRAIN_H

#include "base/status.h"

#include <stdint.h>

typedef struct haul_bpe_trainer haul_bpe_trainer;

enum { HAUL_BPE_SMALLEST_VOCAB = 257 }; /* <|endoftext|> and the bytes */

/* The caller destroys *out; destroy(NULL) is legal. */
haul_status haul_bpe_trainer_create(haul_bpe_trainer **out);
void haul_bpe_trainer_destroy(haul_bpe_trainer *trainer);

/* Counts the pieces of one document. Any bytes are fine. */
haul_status haul_bpe_trainer_add(haul_bpe_trainer *trainer, const char *text, int64_t bytes);

/* Merges until there are vocab_size ids (<|endoftext|> is 0, bytes 1 .. 256) or nothing is left to
 * merge, and writes a tokenizer.json to `path`. Sets *made to the number of ids. Call it once.
 * HAUL_ERROR_USAGE for a vocab_size below 257 or above 2^24. */
haul_status haul_bpe_trainer_write(haul_bpe_trainer *trainer, int64_t vocab_size, const char *path,
                                   int64_t *made);

#endif
