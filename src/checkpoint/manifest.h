/* manifest.json says what a checkpoint holds; COMMIT, written last, says that it is whole:
 * 8 bytes "HAULCKPT", the iteration (64 bits, little-endian), the XXH3-128 of the manifest. */
#ifndef HAUL_CHECKPOINT_MANIFEST_H
#define HAUL_CHECKPOINT_MANIFEST_H

#include "checkpoint/hash.h"
#include "checkpoint/layout.h"
#include "checkpoint/shards.h"

#include <jansson.h>

#define HAUL_COMMIT_MAGIC "HAULCKPT"

enum { HAUL_MANIFEST_SCHEMA = 1, HAUL_MANIFEST_FILE_NAME = 64, HAUL_COMMIT_BYTES = 32 };

typedef struct haul_manifest_file {
    char name[HAUL_MANIFEST_FILE_NAME];
    int64_t bytes;
    haul_hash128 hash;
} haul_manifest_file;

typedef struct haul_manifest_tensor {
    haul_checkpoint_tensor tensor; /* global shape; data is NULL */
    int64_t file;                  /* index into files */
} haul_manifest_tensor;

typedef struct haul_manifest {
    int64_t iteration;
    haul_manifest_file *files;
    int64_t file_count;
    haul_manifest_tensor *tensors; /* sorted by name */
    int64_t tensor_count;
    int64_t bytes; /* of all files */
    json_t *json;  /* owns the names and the state */
} haul_manifest;

/* Writes manifest.json into `directory`, synced. The first shard_count of `files` are the shards,
 * in order. `state_json` is a JSON object, or NULL for {}. `hash` is for COMMIT. */
haul_status haul_manifest_write(const char *directory, int64_t iteration, const haul_shards *shards,
                                const haul_manifest_file *files, int64_t file_count,
                                const char *state_json, haul_hash128 *hash);

/* Writes COMMIT into `directory`, synced. */
haul_status haul_commit_write(const char *directory, int64_t iteration, const haul_hash128 *hash);

/* Reads a checkpoint directory and checks all but the content of its files: COMMIT, the hash and
 * form of the manifest, the sizes. HAUL_ERROR_DATA says what is wrong. */
haul_status haul_manifest_read(const char *directory, haul_manifest *out);
void haul_manifest_deinit(haul_manifest *manifest);

/* Reads a file whole and compares size and hash. */
haul_status haul_manifest_check_file(const char *directory, const haul_manifest_file *file);

#endif
