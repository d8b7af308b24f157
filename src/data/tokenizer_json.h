/* What the parts of the tokenizer.json loader share. */
#ifndef HAUL_DATA_TOKENIZER_JSON_H
#define HAUL_DATA_TOKENIZER_JSON_H

#include "data/tokenizer_bpe.h"

#include <jansson.h>

enum { HAUL_TOKENIZER_PATH_BYTES = 1024 };

typedef struct haul_tokenizer_loader {
    char path[HAUL_TOKENIZER_PATH_BYTES];
    json_t *root;
    haul_tokenizer_bpe *tokenizer;
} haul_tokenizer_loader;

/* HAUL_ERROR_DATA: the member `where` has a value that haul cannot honour. */
haul_status haul_tokenizer_unsupported(const haul_tokenizer_loader *load, const char *where,
                                       const json_t *value);

/* Refuses each named member of `object` (a list ended by NULL) that is present and not null,
 * false, "" or 0. */
haul_status haul_tokenizer_require_off(const haul_tokenizer_loader *load, const char *where,
                                       const json_t *object, const char *const *names);

/* Whether object.type is `type`. */
bool haul_tokenizer_is_type(const json_t *object, const char *type);

/* Loads normalizer, pre_tokenizer, post_processor and decoder. The vocabulary is loaded. */
haul_status haul_tokenizer_load_steps(const haul_tokenizer_loader *load);

#endif
