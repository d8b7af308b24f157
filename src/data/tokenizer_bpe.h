/* A byte-level BPE tokenizer as tokenizer.json describes it. */
#ifndef HAUL_DATA_TOKENIZER_BPE_H
#define HAUL_DATA_TOKENIZER_BPE_H

#include "data/bpe.h"
#include "data/pretokenizer.h"
#include "data/tokenizer_class.h"

#include <stdbool.h>
#include <stdint.h>

/* A token that is found in the raw text, before it is cut into pieces. */
typedef struct haul_added_token {
    int32_t id;
    char *content;
    int64_t bytes;
} haul_added_token;

typedef struct haul_tokenizer_bpe {
    haul_tokenizer base;
    haul_bpe bpe;
    haul_pretokenizer *pretokenizer;
    haul_byte_map tokens;    /* the bytes of each distinct token */
    int64_t *token_of_id;    /* [vocab_size] -> number in `tokens`, -1 for an unused id */
    int32_t *id_of_token;    /* [tokens.count], -1 for an added token outside the vocabulary */
    haul_added_token *added; /* [added_count], longest first */
    int64_t added_count;
    bool starts_added[256]; /* first bytes of added tokens */
    haul_token_list prefix; /* put before and after each text */
    haul_token_list suffix;
    bool ignore_merges; /* a piece that is a token as a whole is not merged */
} haul_tokenizer_bpe;

/* The same but for their names. */
extern const haul_tokenizer_class haul_tokenizer_bpe_class;
extern const haul_tokenizer_class haul_tokenizer_gpt2_class;

#endif
