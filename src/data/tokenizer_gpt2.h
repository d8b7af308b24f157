/* tokenizer.json of GPT-2's kind: byte-level BPE, GPT-2's pattern, one special token. */
#ifndef HAUL_DATA_TOKENIZER_GPT2_H
#define HAUL_DATA_TOKENIZER_GPT2_H

#include "base/string.h"

#include <stdint.h>

extern const char *const haul_tokenizer_end_of_text; /* <|endoftext|> */

/* Appends the file up to its vocabulary. What follows is an object of tokens and their ids, that
 * of <|endoftext|> being `end_of_text`; ,"merges": ; an array of merges; and }} */
void haul_tokenizer_append_head(haul_string *out, int64_t end_of_text);

#endif
