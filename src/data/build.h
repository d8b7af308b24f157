/* Text to a Megatron-LM data set: what preprocess_data.py does. */
#ifndef HAUL_DATA_BUILD_H
#define HAUL_DATA_BUILD_H

#include "data/text_reader.h"
#include "data/tokenizer.h"

/* Called now and then, by one thread at a time but not always the same: bytes of the input files
 * that are done, and in all. */
typedef void haul_build_progress(void *context, int64_t done, int64_t total);

typedef struct haul_build_options {
    haul_text_input input;     /* json_key_count 0 means the key "text" */
    const char *output_prefix; /* writes PREFIX_KEY_document.bin and .idx, KEY "text" for text */
    const haul_tokenizer *tokenizer;
    bool append_eod; /* an eod id after each document that has tokens */
    int workers;     /* threads, at least 1; the output does not depend on it */
    double holdout;  /* 0 .. 1: this share of the documents, chosen by `seed` and the document's
                        ordinal alone, goes to PREFIX_valid_KEY_document instead; of a text with
                        fewer than 1 / holdout documents the end does (haul_text_find_tail) */
    uint64_t seed;
    haul_build_progress *progress; /* may be NULL */
    void *progress_context;
} haul_build_options;

/* Of all keys together. [0] is the main data set, [1] the held-out one. */
typedef struct haul_build_result {
    int64_t documents[2];
    int64_t tokens[2];
    int64_t text_bytes; /* of all documents, as they were encoded */
    int64_t tail_bytes; /* of the end of a text with few documents, held out; else 0 */
} haul_build_result;

/* Builds the data set. Files appear under their names only when all is done. HAUL_ERROR_USAGE or
 * _CONFIG for the options, _NO_INPUT, _DATA (FILE:LINE for JSONL; no text at all), _CREATE, _IO. */
haul_status haul_build(const haul_build_options *options, haul_build_result *result);

/* The prefix that haul_build writes for a key ("text" for text files), without .bin and .idx, into
 * path[capacity]. HAUL_ERROR_USAGE when it is too long. */
haul_status haul_build_prefix(const char *output_prefix, const char *key, bool held_out, char *path,
                              int64_t capacity);

/* Whether a document is held out. */
bool haul_build_holds_out(uint64_t seed, int64_t document, double share);

#endif
