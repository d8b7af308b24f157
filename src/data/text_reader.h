/* Reads text files, plain or gzip, in chunks of whole documents, a few hundred KiB at a time. */
#ifndef HAUL_DATA_TEXT_READER_H
#define HAUL_DATA_TEXT_READER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* A place in the input. */
typedef struct haul_text_place {
    int64_t file;   /* its number in the input */
    int64_t offset; /* in bytes, as they are when unpacked */
} haul_text_place;

/* What to read. Names that end in .json or .jsonl (and .gz) are JSONL: one object a line, whose
 * members json_keys are documents. All other files are text: documents are what stands between
 * lines that equal `separator` ("" for blank lines; NULL: a file is one document). A document
 * without text is no document in a text file. */
typedef struct haul_text_input {
    const char *const *files; /* [file_count], all JSONL or all text */
    int64_t file_count;
    const char *separator;
    haul_text_place cut; /* of text: a document ends here too, inside of one; offset 0: none */
    const char *const *json_keys; /* [json_key_count], at least one for JSONL */
    int64_t json_key_count;
} haul_text_input;

/* Whether the files are JSONL. HAUL_ERROR_USAGE for none, or for a mixture. */
haul_status haul_text_input_check(const haul_text_input *input, bool *json);

typedef struct haul_text_chunk {
    char *text; /* [bytes], not NUL-terminated */
    int64_t bytes, capacity;
    const char *file;
    haul_text_place begin;
    int64_t line;   /* the number of its first line, from 1; JSONL only */
    bool continues; /* its first document began in the chunk before */
    bool open;      /* its last document goes on in the next chunk */
} haul_text_chunk;

void haul_text_chunk_deinit(haul_text_chunk *chunk);

typedef struct haul_text_reader haul_text_reader;

/* With `may_cut`, a file that is one document comes in several chunks. `input` must outlive the
 * reader. The caller closes *out. */
haul_status haul_text_reader_open(const haul_text_input *input, bool may_cut,
                                  haul_text_reader **out);
void haul_text_reader_close(haul_text_reader *reader);

/* Replaces the content of a zeroed or used chunk; *more is false, and the chunk empty, after the
 * last file. */
haul_status haul_text_reader_next(haul_text_reader *reader, haul_text_chunk *chunk, bool *more);

/* Bytes of files, compressed as they are, read so far and in all. */
int64_t haul_text_reader_done(const haul_text_reader *reader);
int64_t haul_text_reader_total(const haul_text_reader *reader);

/* A document, or with `ends` false a part of it. `key` is its number in json_keys, 0 for text. */
typedef haul_status haul_document_function(void *context, int64_t key, const char *text,
                                           int64_t bytes, bool ends);

/* Calls `function` for each document of a chunk, in order. HAUL_ERROR_DATA names FILE:LINE of
 * malformed JSON. Safe to call from several threads. */
haul_status haul_text_chunk_split(const haul_text_input *input, const haul_text_chunk *chunk,
                                  haul_document_function *function, void *context);

/* Calls `function` for each whole document of all files, one after another. */
haul_status haul_text_each(const haul_text_input *input, haul_document_function *function,
                           void *context);

#endif
