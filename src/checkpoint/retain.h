/* Removes old checkpoints. The caller holds the lock of the directory. */
#ifndef HAUL_CHECKPOINT_RETAIN_H
#define HAUL_CHECKPOINT_RETAIN_H

#include "base/status.h"

#include <stdint.h>

/* Leaves the newest `keep` good checkpoints of those up to `iteration`, which was just saved: it is
 * read back from the disk before the first removal, and when it is damaged nothing is removed. */
haul_status haul_checkpoint_retain(const char *directory, int64_t iteration, int64_t keep);

/* Moves a directory out of the way under a name that a later lock cleans up, and removes it. */
haul_status haul_checkpoint_discard(const char *directory, const char *path);

/* What a killed job left: unfinished saves, deletions and replacements. */
haul_status haul_checkpoint_clean(const char *directory);

#endif
