/* Cuts text into the pieces within which a byte-level BPE merges. */
#ifndef HAUL_DATA_PRETOKENIZER_H
#define HAUL_DATA_PRETOKENIZER_H

#include "base/status.h"

#include <stdint.h>

typedef struct haul_pretokenizer haul_pretokenizer;

/* The pattern of GPT-2: contractions, words, numbers, punctuation, blanks. */
extern const char *const haul_pretokenizer_gpt2;

/* Compiles a pattern as tokenizer.json has it. HAUL_ERROR_DATA with PCRE2's reason. */
haul_status haul_pretokenizer_create(const char *pattern, haul_pretokenizer **out);
void haul_pretokenizer_destroy(haul_pretokenizer *pretokenizer);

typedef haul_status haul_piece_function(void *context, const char *piece, int64_t bytes);

/* Calls `function` for each match and for the text between matches, in order; no byte is lost.
 * A run of bytes that is no UTF-8 is a piece of its own. Safe to call from several threads. */
haul_status haul_pretokenizer_split(const haul_pretokenizer *pretokenizer, const char *text,
                                    int64_t bytes, haul_piece_function *function, void *context);

#endif
