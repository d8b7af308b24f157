/* What a training reads, from its settings: tokenizer, training and validation data. */
#ifndef HAUL_TRAIN_CORPUS_H
#define HAUL_TRAIN_CORPUS_H

#include "config/config.h"
#include "data/build.h"
#include "data/dataset.h"
#include "data/tokenizer.h"

typedef struct haul_corpus {
    haul_tokenizer *tokenizer; /* NULL when nothing says which */
    haul_dataset *training;
    haul_dataset *validation; /* NULL without evaluation */
} haul_corpus;

void haul_corpus_close(haul_corpus *corpus);

/* The type of tokenizer that the settings name, or the one that its files are of where they give
 * those alone; NULL when they say nothing. */
const char *haul_corpus_tokenizer_type(const haul_config *config);

/* Opens a tokenizer of this type with the files of the settings. */
haul_status haul_corpus_open_type(const haul_config *config, const char *type, int64_t vocab_size,
                                  haul_tokenizer **out);

/* Opens the tokenizer that the settings mean: the type that they name; bytes for --text; else none.
 * Sets config->vocab_size when that is open, HAUL_ERROR_CONFIG where a smaller one was given. With
 * --mock-data *out is NULL: a tokenizer is looked at where --vocab-size is missing. */
haul_status haul_corpus_open_tokenizer(haul_config *config, haul_tokenizer **out);

/* Writes the tokenizer.json of --tokenizer-model, or one that says what --vocab-file and
 * --merge-file do, into a directory, so that what is saved there can be used elsewhere. Does
 * nothing without one. */
haul_status haul_corpus_copy_tokenizer(const haul_config *config, const char *directory);

typedef struct haul_corpus_text {
    bool built;         /* false: it was there */
    int64_t tail_bytes; /* of the end of a text with few documents, held out; else 0 */
} haul_corpus_text;

/* With --text: makes its data set below `cache`, unless it is there, named by a hash of all that it
 * depends on, and points --data-path and --valid-data-path at it; one document in twenty is held
 * out, or the last twentieth of a text that has fewer. */
haul_status haul_corpus_prepare_text(haul_config *config, const haul_tokenizer *tokenizer,
                                     const char *cache, haul_build_progress *progress,
                                     void *context, haul_corpus_text *out);

/* Opens the data of a finalized config. */
haul_status haul_corpus_open(const haul_config *config, haul_corpus *corpus);

/* The line that ends a document of a text file: "%" where lines of the file are "%", else "" (blank
 * lines), unless --document-separator says otherwise; NULL: the file is one document. */
haul_status haul_corpus_separator(const haul_config *config, const char *file, const char **out);

#endif
