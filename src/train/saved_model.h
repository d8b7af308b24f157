/* A trained model on disk, in any of the forms that --load takes: a directory of checkpoints, one
 * checkpoint, a run directory with checkpoints/ in it, or a Hugging Face directory. */
#ifndef HAUL_TRAIN_SAVED_MODEL_H
#define HAUL_TRAIN_SAVED_MODEL_H

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "data/tokenizer.h"
#include "step/store.h"

typedef struct haul_saved_model {
    haul_config config; /* what the file says, finalized; device and threads of `command` */
    haul_checkpoint *checkpoint; /* NULL: a Hugging Face directory */
    char directory[1024];        /* where it was found */
} haul_saved_model;

/* Opens command->load, the newest good one of several checkpoints; bad ones that are passed over
 * leave a line each in `rejected`, which may be NULL. Device, threads and product dtype are those
 * of `command`, and so are sequence length, micro-batch size and tokenizer where the command line
 * gives them. HAUL_ERROR_NO_INPUT, HAUL_ERROR_DATA. On failure there is nothing to close. */
haul_status haul_saved_model_open(const haul_config *command, haul_saved_model *out,
                                  haul_string *rejected);
void haul_saved_model_close(haul_saved_model *model);

/* Fills the values of a store that was planned for model->config. Numbers are rounded to the
 * store's dtype. */
haul_status haul_saved_model_read(haul_saved_model *model, haul_store *store);

/* Opens the tokenizer that the model was trained with: the one that the command line named, a
 * tokenizer.json in the directory, or what the settings of the training say. HAUL_ERROR_CONFIG when
 * none of these is there. */
haul_status haul_saved_model_tokenizer(const haul_saved_model *model, haul_tokenizer **out);

/* Where the checkpoints of a run directory are: `path`/checkpoints when that exists, else `path`.
 */
void haul_saved_model_checkpoints(const char *path, char *out, int64_t capacity);

#endif
