/* Megatron-LM's indexed data set: PREFIX.bin holds raw tokens, PREFIX.idx where they are.
 *
 * PREFIX.idx, little endian, arrays unaligned:
 *   "MMIDIDX\0\0", u64 version = 1, u8 dtype code, u64 sequences S, u64 bounds D,
 *   i32 length[S] in tokens, i64 pointer[S] in bytes of .bin, i64 bound[D]: document d is the
 *   sequences bound[d] .. bound[d + 1]; bound[0] = 0, bound[D - 1] = S.
 * A GPT data set has one sequence a document; an empty document has none. */
#ifndef HAUL_DATA_INDEXED_H
#define HAUL_DATA_INDEXED_H

#include "base/dtype.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct haul_indexed haul_indexed;

/* Maps PREFIX.bin and PREFIX.idx and checks every field, so that later reads stay in the files.
 * HAUL_ERROR_NO_INPUT or HAUL_ERROR_DATA. The caller closes *out; close(NULL) is legal. */
haul_status haul_indexed_open(const char *prefix, haul_indexed **out);
void haul_indexed_close(haul_indexed *indexed);

int64_t haul_indexed_sequences(const haul_indexed *indexed);
int64_t haul_indexed_documents(const haul_indexed *indexed);
int64_t haul_indexed_tokens(const haul_indexed *indexed); /* of all sequences */
haul_dtype haul_indexed_dtype(const haul_indexed *indexed);
const char *haul_indexed_prefix(const haul_indexed *indexed);

/* Tokens of a sequence, 0 <= sequence < sequences. */
int64_t haul_indexed_length(const haul_indexed *indexed, int64_t sequence);

/* The sequences [*begin, *end) of a document, 0 <= document < documents. */
void haul_indexed_document(const haul_indexed *indexed, int64_t document, int64_t *begin,
                           int64_t *end);

/* Copies tokens [offset, offset + count) of a sequence to out[count]. HAUL_ERROR_DATA for a token
 * that is negative or above 2^31 - 1; HAUL_ERROR_INTERNAL for a range outside the sequence. */
haul_status haul_indexed_get(const haul_indexed *indexed, int64_t sequence, int64_t offset,
                             int64_t count, int32_t *out);

/* Removes PREFIX.bin and PREFIX.idx. Absent is fine. */
haul_status haul_indexed_remove(const char *prefix);

typedef struct haul_indexed_writer haul_indexed_writer;

/* The token type that Megatron-LM's preprocess_data.py chooses: u16 below 65,500 ids, else i32. */
haul_dtype haul_indexed_best_dtype(int64_t vocab_size);

/* Starts PREFIX.bin under a temporary name. dtype: HAUL_U16 or HAUL_I32. Nothing appears under
 * PREFIX before finish. Destroy removes what was not finished; destroy(NULL) is legal. */
haul_status haul_indexed_writer_create(const char *prefix, haul_dtype dtype,
                                       haul_indexed_writer **out);
void haul_indexed_writer_destroy(haul_indexed_writer *writer);

/* Adds tokens to the current document. HAUL_ERROR_DATA when a token does not fit the dtype or the
 * document passes 2^31 - 1 tokens. */
haul_status haul_indexed_writer_add(haul_indexed_writer *writer, const int32_t *tokens,
                                    int64_t count);

/* Ends the current document. A document without tokens gets no sequence, as in Megatron-LM. */
haul_status haul_indexed_writer_end_document(haul_indexed_writer *writer);

/* The fast path: tokens already in the writer's dtype, lengths[i] of them for document i, the
 * first continuing the current document. The last document stays open unless `complete`. */
haul_status haul_indexed_writer_append(haul_indexed_writer *writer, const void *packed,
                                       const int64_t *lengths, int64_t documents, bool complete);

/* Documents and tokens so far. */
int64_t haul_indexed_writer_documents(const haul_indexed_writer *writer);
int64_t haul_indexed_writer_tokens(const haul_indexed_writer *writer);

/* Ends an open document, writes the index, syncs both files and gives them their names. The writer
 * remains to be destroyed. */
haul_status haul_indexed_writer_finish(haul_indexed_writer *writer);

#endif
