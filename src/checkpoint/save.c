#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/retain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const int64_t default_shard_bytes = (int64_t)2 << 30;
enum { SPARE_BYTES = 1 << 20, HEADER_BYTES_PER_TENSOR = 1024 };

static haul_status check_state(const char *state_json) {
    json_error_t error;
    json_t *state = json_loads(state_json, JSON_REJECT_DUPLICATES, &error);
    haul_status status = HAUL_OK;
    if (!json_is_object(state)) {
        status = haul_fail(HAUL_ERROR_INTERNAL, "the state to save is not a JSON object: %s",
                           state != NULL ? "another type" : error.text);
    }
    json_decref(state);
    return status;
}

/* Whatever else lies under the name of this iteration, Megatron-LM's checkpoint for one, is not
 * ours to replace. */
static haul_status check_name_free(const haul_checkpoint_request *request) {
    char final[HAUL_PATH_BYTES], commit[HAUL_PATH_BYTES], manifest[HAUL_PATH_BYTES];
    HAUL_TRY(haul_layout_path(final, request->directory, request->iteration, ""));
    HAUL_TRY(haul_path_join(commit, final, HAUL_CHECKPOINT_COMMIT));
    HAUL_TRY(haul_path_join(manifest, final, HAUL_CHECKPOINT_MANIFEST));
    if (haul_file_exists(final) && !haul_file_exists(commit) && !haul_file_exists(manifest)) {
        haul_fail(HAUL_ERROR_CREATE, "%s exists and is no haul checkpoint", final);
        haul_hint("move it away, or give another directory with --save");
        return HAUL_ERROR_CREATE;
    }
    return HAUL_OK;
}

/* A full disk is better found before hours of writing than after. */
static haul_status check_space(const haul_checkpoint_request *request, const haul_shards *shards) {
    struct statvfs disk;
    if (statvfs(request->directory, &disk) != 0) {
        return haul_fail(HAUL_ERROR_CREATE, "cannot ask for the free space of %s: %s",
                         request->directory, strerror(errno));
    }
    double free_bytes = (double)disk.f_bavail * (double)disk.f_frsize;
    double needed = 1.02 * (double)shards->bytes + SPARE_BYTES +
                    HEADER_BYTES_PER_TENSOR * (double)shards->count;
    if (free_bytes < needed) {
        haul_fail(HAUL_ERROR_IO,
                  "not enough space for checkpoint %lld: %s has %.0f MiB free, must be %.0f MiB",
                  (long long)request->iteration, request->directory, free_bytes / 0x1p20,
                  needed / 0x1p20);
        haul_hint("free some space, or keep fewer checkpoints");
        return HAUL_ERROR_IO;
    }
    return HAUL_OK;
}

static haul_status write_shards(const haul_checkpoint_request *request, const haul_shards *shards,
                                const char *temporary, haul_manifest_file *files) {
    char iteration[24];
    snprintf(iteration, sizeof iteration, "%lld", (long long)request->iteration);
    const haul_safetensors_pair metadata[] = {{"format", "pt"}, {"iteration", iteration}};
    haul_shards_progress progress = {.report = request->progress, .context = request->context};
    for (int64_t i = 0; i < shards->shard_count; i++) {
        char path[HAUL_PATH_BYTES];
        snprintf(files[i].name, sizeof files[i].name, "shard_%05lld.safetensors", (long long)i);
        HAUL_TRY(haul_path_join(path, temporary, files[i].name));
        HAUL_TRY(haul_shards_write(shards, i, path, metadata, 2, &progress, &files[i].hash,
                                   &files[i].bytes));
    }
    return HAUL_OK;
}

static haul_status write_config(const char *config, const char *temporary,
                                haul_manifest_file *file) {
    int64_t bytes = (int64_t)strlen(config);
    haul_text_copy(file->name, sizeof file->name, HAUL_CHECKPOINT_CONFIG);
    file->bytes = bytes;
    file->hash = haul_hash128_of(config, bytes);
    return haul_path_write(temporary, HAUL_CHECKPOINT_CONFIG, config, bytes);
}

/* Everything, synced, below the temporary name; COMMIT is the last thing written. */
static haul_status write_temporary(const haul_checkpoint_request *request,
                                   const haul_shards *shards, const char *temporary,
                                   haul_manifest_file *files) {
    int64_t file_count = shards->shard_count;
    haul_hash128 hash;
    HAUL_TRY(haul_directory_create(temporary));
    HAUL_TRY(write_shards(request, shards, temporary, files));
    if (request->config_json != NULL) {
        HAUL_TRY(write_config(request->config_json, temporary, &files[file_count++]));
    }
    HAUL_TRY(haul_manifest_write(temporary, request->iteration, shards, files, file_count,
                                 request->state_json, &hash));
    HAUL_TRY(haul_directory_sync(temporary));
    HAUL_TRY(haul_commit_write(temporary, request->iteration, &hash));
    return haul_directory_sync(temporary);
}

/* A rename cannot replace a directory that has files, so an older save of the same iteration
 * steps aside first. Until the new one is in place it is found as iter_N.old. */
static haul_status move_into_place(const haul_checkpoint_request *request, const char *temporary) {
    char final[HAUL_PATH_BYTES], old[HAUL_PATH_BYTES];
    HAUL_TRY(haul_layout_path(final, request->directory, request->iteration, ""));
    HAUL_TRY(haul_layout_path(old, request->directory, request->iteration, ".old"));
    if (haul_file_exists(final)) {
        HAUL_TRY(haul_file_remove(old));
        HAUL_TRY(haul_file_rename(final, old));
    }
    HAUL_TRY(haul_file_rename(temporary, final));
    return haul_file_exists(old) ? haul_checkpoint_discard(request->directory, old) : HAUL_OK;
}

static haul_status write_hint(const haul_checkpoint_request *request) {
    char path[HAUL_PATH_BYTES], text[24];
    HAUL_TRY(haul_path_join(path, request->directory, HAUL_CHECKPOINT_HINT));
    int length = snprintf(text, sizeof text, "%lld", (long long)request->iteration);
    return haul_file_replace(path, text, length);
}

static haul_status write_and_commit(const haul_checkpoint_request *request,
                                    const haul_shards *shards) {
    char temporary[HAUL_PATH_BYTES], suffix[32];
    snprintf(suffix, sizeof suffix, ".tmp-%ld", (long)getpid());
    HAUL_TRY(haul_layout_path(temporary, request->directory, request->iteration, suffix));
    haul_manifest_file *files = haul_calloc(shards->shard_count + 1, sizeof *files);
    if (files == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_status status = write_temporary(request, shards, temporary, files);
    if (status == HAUL_OK) {
        status = move_into_place(request, temporary);
    }
    if (status != HAUL_OK) {
        haul_path_clear(temporary);
    }
    free(files);
    return status;
}

static haul_status save_locked(const haul_checkpoint_request *request) {
    haul_shards shards;
    int64_t shard_bytes = request->shard_bytes > 0 ? request->shard_bytes : default_shard_bytes;
    if (request->state_json != NULL) {
        HAUL_TRY(check_state(request->state_json));
    }
    if (request->iteration < 0) {
        return haul_fail(HAUL_ERROR_INTERNAL, "the iteration to save is %lld, must be at least 0",
                         (long long)request->iteration);
    }
    HAUL_TRY(check_name_free(request));
    HAUL_TRY(haul_shards_plan(request->tensors, request->count, shard_bytes, &shards));
    haul_status status = check_space(request, &shards);
    if (status == HAUL_OK) {
        status = write_and_commit(request, &shards);
    }
    haul_shards_deinit(&shards);
    HAUL_TRY(status);
    status = write_hint(request);
    if (status == HAUL_OK && request->keep > 0) {
        status = haul_checkpoint_retain(request->directory, request->iteration, request->keep);
    }
    if (status != HAUL_OK) {
        haul_fail_context("checkpoint %lld is saved, but", (long long)request->iteration);
    }
    return status;
}

haul_status haul_checkpoint_save(const haul_checkpoint_request *request) {
    if (request->writer != NULL) {
        return save_locked(request);
    }
    haul_checkpoint_writer *writer = NULL;
    HAUL_TRY(haul_checkpoint_lock(request->directory, &writer));
    haul_status status = save_locked(request);
    haul_checkpoint_unlock(writer);
    return status;
}
