/* The names below a save directory, and which of them are checkpoints. */
#ifndef HAUL_CHECKPOINT_LAYOUT_H
#define HAUL_CHECKPOINT_LAYOUT_H

#include "checkpoint/path.h"

#include <stdint.h>

#define HAUL_CHECKPOINT_COMMIT   "COMMIT"
#define HAUL_CHECKPOINT_MANIFEST "manifest.json"
#define HAUL_CHECKPOINT_CONFIG   "config.json"
#define HAUL_CHECKPOINT_HINT     "latest_checkpointed_iteration.txt"
#define HAUL_CHECKPOINT_LOCK     "LOCK"

/* "DIRECTORY/iter_0001200" followed by `suffix`. */
haul_status haul_layout_path(char out[HAUL_PATH_BYTES], const char *directory, int64_t iteration,
                             const char *suffix);

/* Splits "iter_0001200SUFFIX"; false for any other name. */
bool haul_layout_parse(const char *name, int64_t *iteration, const char **suffix);

/* A directory that may hold a checkpoint. While a checkpoint of the same iteration replaces it,
 * one is named iter_N.old; it counts until the new one is in place. */
typedef struct haul_checkpoint_candidate {
    int64_t iteration; /* -1 when the name does not say */
    bool old;
    char path[HAUL_PATH_BYTES];
} haul_checkpoint_candidate;

/* The candidates below a save directory, newest first, or the one that `path` itself is. An
 * iteration of at least 0 restricts them to it. `out` is freed with free(). HAUL_ERROR_NO_INPUT
 * when there is none. */
haul_status haul_layout_candidates(const char *path, int64_t iteration,
                                   haul_checkpoint_candidate **out, int64_t *count);

#endif
