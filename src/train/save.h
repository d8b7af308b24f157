/* Saving a training and starting from what was saved. */
#ifndef HAUL_TRAIN_SAVE_H
#define HAUL_TRAIN_SAVE_H

#include "checkpoint/checkpoint.h"
#include "train/loop.h"

/* Writes a checkpoint of the present state below --save. `path` receives its directory. */
haul_status haul_train_save(const haul_train *train, const haul_checkpoint_writer *writer,
                            char *path, int64_t capacity, int64_t *bytes);

/* The checkpoint that --load means: the newest good one, *out NULL when there is nothing to load or
 * --load is a Hugging Face directory. The reasons why newer ones were passed over go to `rejected`.
 * A --load directory that is also --save and that is absent or empty is a fresh start; any other
 * without a good checkpoint is an error. */
haul_status haul_train_find(const haul_config *config, haul_checkpoint **out,
                            haul_string *rejected);

/* Makes settings that results depend on, and that the command line leaves open, those of the run
 * that the checkpoint is from: how bf16 matrices are multiplied. Before the session is planned.
 * Appends to `changed` what the finalized config has otherwise than that run, "--seed 1 (now 2)".
 * HAUL_ERROR_CONFIG when it describes another model, and when --use-checkpoint-opt-param-scheduler
 * asks for the schedule of that run and the config has another. */
haul_status haul_train_adopt(haul_config *config, const haul_checkpoint *checkpoint,
                             haul_string *changed);

/* Fills the store: from the checkpoint, with its counters; or from the Hugging Face weights of
 * --load; or with initial values. */
haul_status haul_train_start(haul_train *train, haul_checkpoint *checkpoint);

#endif
