/* What the parts of the tokenizer.json loader share. */
#ifndef HAUL_DATA_TOKENIZER_JSON_H
#define HAUL_DATA_TOKENIZER_JSON_H

#include "data/tokenizer_bpe.h"

#include <jansson.h>

enum { HAUL_TOKENIZER_PATH_BYTES = 1024 };

typedef struct haul_tokenizer_loader {
    const haul_tokenizer_class *class;
    char path[HAUL_TOKENIZER_PATH_BYTES]; /* for messages, and what stands beside */
    const char *merges_path;              /* the file with the merges, for messages */
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

/* Opens a tokenizer from the text of a tokenizer.json. `load` has class and paths. */
haul_status haul_tokenizer_load(haul_tokenizer_loader *load, const char *text, int64_t bytes,
                                haul_tokenizer **out);

/* Loads normalizer, pre_tokenizer, post_processor and decoder. The vocabulary is loaded. */
haul_status haul_tokenizer_load_steps(const haul_tokenizer_loader *load);

#endif
