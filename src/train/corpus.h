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

/* Opens the tokenizer that the settings mean: the named type; HuggingFaceTokenizer with
 * --tokenizer-model; bytes for --text; else none. Sets config->vocab_size when that is open. */
haul_status haul_corpus_open_tokenizer(haul_config *config, haul_tokenizer **out);

/* Writes the tokenizer.json of --tokenizer-model into a directory, so that what is saved there can
 * be used elsewhere. Does nothing without one. */
haul_status haul_corpus_copy_tokenizer(const haul_config *config, const char *directory);

/* With --text: makes its data set below `cache`, unless it is there, named by a hash of all that it
 * depends on, and points --data-path and --valid-data-path at it; one document in twenty is held
 * out. `built` may be NULL; it is told whether the set was there. */
haul_status haul_corpus_prepare_text(haul_config *config, const haul_tokenizer *tokenizer,
                                     const char *cache, haul_build_progress *progress,
                                     void *context, bool *built);

/* Opens the data of a finalized config. */
haul_status haul_corpus_open(const haul_config *config, haul_corpus *corpus);

/* The line that ends a document of a text file: "%" where lines of the file are "%", else "" (blank
 * lines), unless --document-separator says otherwise; NULL: the file is one document. */
haul_status haul_corpus_separator(const haul_config *config, const char *file, const char **out);

#endif
