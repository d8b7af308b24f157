/* Checkpoints of a training run: named tensors and two JSON texts, whole or absent after a crash.
 *
 * SAVE/iter_0001200/ holds shard_NNNNN.safetensors, config.json, manifest.json and COMMIT. It is
 * written as iter_0001200.tmp-PID, synced, and renamed; COMMIT comes last and holds the hash of
 * the manifest, which holds the hashes of all other files. No valid COMMIT, no checkpoint.
 * SAVE/latest_checkpointed_iteration.txt is a hint for other programs and never read here. */
#ifndef HAUL_CHECKPOINT_CHECKPOINT_H
#define HAUL_CHECKPOINT_CHECKPOINT_H

#include "base/string.h"
#include "checkpoint/tensor.h"

/* The right to write below one save directory, held by one job at a time. */
typedef struct haul_checkpoint_writer haul_checkpoint_writer;

/* Creates the directory, takes its lock and removes what a killed job left there (unfinished
 * saves and deletions; nothing else). HAUL_ERROR_CREATE when another job holds it or it cannot be
 * written. The lock ends with unlock or with the process. */
haul_status haul_checkpoint_lock(const char *directory, haul_checkpoint_writer **out);
void haul_checkpoint_unlock(haul_checkpoint_writer *writer);

typedef struct haul_checkpoint_request {
    const char *directory; /* the save directory */
    int64_t iteration;
    const haul_checkpoint_tensor *tensors;
    int64_t count;
    int64_t shard_bytes;     /* data a shard at most; 0: 2 GiB */
    const char *config_json; /* the content of config.json, or NULL for none */
    const char *state_json;  /* a JSON object: data position, counters, what the bits depend on;
                                integers above 2^63 - 1 must be strings. NULL: {} */
    int64_t keep;            /* good checkpoints to keep, this one included; 0: all */
    const haul_checkpoint_writer *writer; /* the directory's lock; NULL: taken for this save */
    void (*progress)(void *context, int64_t done, int64_t total); /* bytes; or NULL */
    void *context;
} haul_checkpoint_request;

/* Writes a checkpoint; one of the same iteration is replaced and exists until the new one does.
 * Then older ones beyond `keep` are removed, after the new one was read back and found good;
 * later iterations and what is not a good checkpoint stay. On failure the older checkpoints are
 * intact. HAUL_ERROR_CREATE or HAUL_ERROR_IO (disk full included). */
haul_status haul_checkpoint_save(const haul_checkpoint_request *request);

/* A checkpoint open for reading. */
typedef struct haul_checkpoint haul_checkpoint;

/* Opens the newest checkpoint below a save directory (or that of `iteration`, when it is at least
 * 0; or `path` itself, when that is a checkpoint) whose every byte is good. Each bad one passed
 * over appends one line with the reason to `rejected` (which may be NULL), also on failure.
 * HAUL_ERROR_NO_INPUT: there is none at all. HAUL_ERROR_DATA: there are, but none is good: never
 * a reason to start afresh. */
haul_status haul_checkpoint_find(const char *path, int64_t iteration, haul_checkpoint **out,
                                 haul_string *rejected);

/* Opens one checkpoint directory; shards are checked when a tensor is first read from them. */
haul_status haul_checkpoint_open(const char *path, haul_checkpoint **out);
void haul_checkpoint_close(haul_checkpoint *checkpoint);

/* Views, valid until close. The tensors are sorted by name and have no data; get returns NULL for
 * an unknown name. config_json returns NULL when there is none. */
const char *haul_checkpoint_path(const haul_checkpoint *checkpoint);
int64_t haul_checkpoint_iteration(const haul_checkpoint *checkpoint);
int64_t haul_checkpoint_count(const haul_checkpoint *checkpoint);
const haul_checkpoint_tensor *haul_checkpoint_at(const haul_checkpoint *checkpoint, int64_t index);
const haul_checkpoint_tensor *haul_checkpoint_get(const haul_checkpoint *checkpoint,
                                                  const char *name);
const char *haul_checkpoint_state_json(const haul_checkpoint *checkpoint);
const char *haul_checkpoint_config_json(const haul_checkpoint *checkpoint);

/* Fills tensor->data with the tensor of that name. HAUL_ERROR_CONFIG, naming both shapes, when
 * the checkpoint has none or one of another dtype or shape; HAUL_ERROR_DATA when the shard is
 * damaged. */
haul_status haul_checkpoint_read(haul_checkpoint *checkpoint, const haul_checkpoint_tensor *tensor);

/* What a table of checkpoints shows. */
typedef struct haul_checkpoint_summary {
    char path[1024];
    int64_t iteration; /* -1 when unknown */
    int64_t bytes;     /* of a good one, as are tensors and elements */
    int64_t tensors;
    int64_t elements;
    bool good;
    char reason[1024]; /* why it is not good */
} haul_checkpoint_summary;

/* Looks at every checkpoint below a save directory, newest first; with `whole` every byte is read.
 * `out` is freed with free(). */
haul_status haul_checkpoint_scan(const char *path, bool whole, haul_checkpoint_summary **out,
                                 int64_t *count);

/* The texts of `haul checkpoint list`, `verify` and `show`, appended to `out`. List looks at sizes
 * only. Verify reads every byte and returns HAUL_ERROR_DATA, the text complete, when a checkpoint
 * is bad. Show describes the newest good one, or that of `iteration`, with its tensors. */
haul_status haul_checkpoint_list(const char *path, haul_string *out);
haul_status haul_checkpoint_verify(const char *path, haul_string *out);
haul_status haul_checkpoint_show(const char *path, int64_t iteration, haul_string *out);

#endif
