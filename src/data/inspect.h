/* What is in a data set, for people. */
#ifndef HAUL_DATA_INSPECT_H
#define HAUL_DATA_INSPECT_H

#include "base/string.h"
#include "data/tokenizer.h"

#include <stdint.h>

/* Appends a summary of PREFIX.bin and PREFIX.idx: counts, token type, lengths of documents, and
 * the beginnings of the first `shown` documents, as text when `tokenizer` is not NULL, else as
 * ids. Errors are those of haul_indexed_open and haul_tokenizer_decode. */
haul_status haul_inspect(const char *prefix, const haul_tokenizer *tokenizer, int64_t shown,
                         haul_string *out);

#endif
