/* Text to token ids and back. A tokenizer does not change once open: any number of threads may
 * use it at once. */
#ifndef HAUL_DATA_TOKENIZER_H
#define HAUL_DATA_TOKENIZER_H

#include "base/status.h"
#include "base/string.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct haul_tokenizer haul_tokenizer;

/* A growing list of ids. A zeroed one is empty; deinit frees and zeroes. */
typedef struct haul_token_list {
    int32_t *ids; /* [count] */
    int64_t count;
    int64_t capacity;
} haul_token_list;

void haul_token_list_deinit(haul_token_list *list);
haul_status haul_token_list_append(haul_token_list *list, const int32_t *ids, int64_t count);

/* Opens a tokenizer by Megatron-LM's --tokenizer-type:
 *   ByteTokenizer         ids 0 .. 255 are bytes, 256 is <|endoftext|>
 *   NullTokenizer         the text is numbers below vocab_size; id vocab_size is eod
 *   HuggingFaceTokenizer  a byte-level BPE from `model`, a tokenizer.json or its directory
 * `model` and `vocab_size` are ignored where a type has no use for them. HAUL_ERROR_USAGE for an
 * unknown type, HAUL_ERROR_DATA for a tokenizer.json that is malformed or has a feature that is
 * not supported. The caller closes *out; close(NULL) is legal. */
haul_status haul_tokenizer_open(const char *type, const char *model, int64_t vocab_size,
                                haul_tokenizer **out);

/* Opens a GPT2BPETokenizer from GPT-2's pair of files: vocab.json, an object of tokens and their
 * ids with <|endoftext|>, which ends documents; merges.txt, a pair of tokens a line. The ids are
 * those of a tokenizer.json of the same tokenizer. HAUL_ERROR_DATA for files that are malformed or
 * do not belong together. */
haul_status haul_tokenizer_open_gpt2(const char *vocab_file, const char *merge_file,
                                     haul_tokenizer **out);

/* Appends the tokenizer.json that says the same as the pair. */
haul_status haul_tokenizer_gpt2_json(const char *vocab_file, const char *merge_file,
                                     haul_string *out);

void haul_tokenizer_close(haul_tokenizer *tokenizer);

const char *haul_tokenizer_type(const haul_tokenizer *tokenizer);
int64_t haul_tokenizer_vocab_size(const haul_tokenizer *tokenizer); /* the largest id + 1 */

/* The id that ends a document, -1 when the tokenizer has none. */
int32_t haul_tokenizer_eod(const haul_tokenizer *tokenizer);

/* A hash of all that decides the ids, for manifests. */
uint64_t haul_tokenizer_fingerprint(const haul_tokenizer *tokenizer);

/* True when the ids of a text are those of its parts one after another, wherever it is cut. */
bool haul_tokenizer_is_bytewise(const haul_tokenizer *tokenizer);

/* Appends the ids of text[bytes], which may hold any bytes. On failure `out` may have grown. */
haul_status haul_tokenizer_encode(const haul_tokenizer *tokenizer, const char *text, int64_t bytes,
                                  haul_token_list *out);

/* Appends the bytes of one id. Bytes of several ids may make up one UTF-8 character, so a stream
 * holds back an unfinished one: see haul_utf8_character. HAUL_ERROR_DATA for an unknown id. */
haul_status haul_tokenizer_decode(const haul_tokenizer *tokenizer, int32_t id, haul_string *out);

#endif
