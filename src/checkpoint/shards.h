/* Cuts a list of tensors into safetensors files. */
#ifndef HAUL_CHECKPOINT_SHARDS_H
#define HAUL_CHECKPOINT_SHARDS_H

#include "checkpoint/safetensors.h"

/* Shard s holds tensors [first[s], first[s + 1]). There is always at least one shard. */
typedef struct haul_shards {
    haul_checkpoint_tensor *tensors; /* copies of the caller's views, larger dtypes first */
    int64_t count;
    int64_t *first; /* shard_count + 1 */
    int64_t shard_count;
    int64_t bytes; /* of all data */
} haul_shards;

/* Checks the tensors (shapes, dtypes, names that differ) and fills shards of at most
 * `shard_bytes` of data each; a larger tensor has a shard of its own. HAUL_ERROR_INTERNAL for
 * tensors that cannot be written. */
haul_status haul_shards_plan(const haul_checkpoint_tensor *tensors, int64_t count,
                             int64_t shard_bytes, haul_shards *out);
void haul_shards_deinit(haul_shards *shards);

/* Told after each piece that is written; total is that of all shards. */
typedef struct haul_shards_progress {
    void (*report)(void *context, int64_t done, int64_t total); /* or NULL */
    void *context;
    int64_t done;
} haul_shards_progress;

/* Writes one shard, synced. */
haul_status haul_shards_write(const haul_shards *shards, int64_t shard, const char *path,
                              const haul_safetensors_pair *metadata, int64_t pairs,
                              haul_shards_progress *progress, haul_hash128 *hash, int64_t *bytes);

#endif
