/* Saving a training and starting from what was saved. */
#ifndef HAUL_TRAIN_SAVE_H
#define HAUL_TRAIN_SAVE_H

#include "checkpoint/checkpoint.h"
#include "train/loop.h"

/* Writes a checkpoint of the present state below --save. `path` receives its directory. */
haul_status haul_train_save(const haul_train *train, const haul_checkpoint_writer *writer,
                            char *path, int64_t capacity, int64_t *bytes);

#endif
