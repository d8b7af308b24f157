/* What each kind of tokenizer provides. */
#ifndef HAUL_DATA_TOKENIZER_CLASS_H
#define HAUL_DATA_TOKENIZER_CLASS_H

#include "data/tokenizer.h"

typedef struct haul_tokenizer_class {
    const char *type;
    bool bytewise;
    haul_status (*encode)(const haul_tokenizer *tokenizer, const char *text, int64_t bytes,
                          haul_token_list *out);
    /* 0 <= id < vocab_size */
    haul_status (*decode)(const haul_tokenizer *tokenizer, int32_t id, haul_string *out);
    void (*destroy)(haul_tokenizer *tokenizer);
} haul_tokenizer_class;

/* The first member of every kind's own struct. */
struct haul_tokenizer {
    const haul_tokenizer_class *class;
    int64_t vocab_size;
    int32_t eod;
    uint64_t fingerprint;
};

haul_status haul_tokenizer_open_bpe(const char *model, haul_tokenizer **out);

#endif
