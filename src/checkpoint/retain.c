#include "checkpoint/retain.h"

#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/manifest.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRASH ".trash-"

haul_status haul_checkpoint_discard(const char *directory, const char *path) {
    char trash[HAUL_PATH_BYTES], name[128];
    const char *slash = strrchr(path, '/');
    snprintf(name, sizeof name, TRASH "%s", slash != NULL ? slash + 1 : path);
    HAUL_TRY(haul_path_join(trash, directory, name));
    HAUL_TRY(haul_file_remove(trash));
    HAUL_TRY(haul_file_rename(path, trash));
    return haul_file_remove(trash);
}

/* Lets the next read of a file come from the disk, so that a write which only reached the page
 * cache is noticed. Advice: that it cannot be followed is no failure. */
static void drop_cache(const char *directory, const char *name) {
    char path[HAUL_PATH_BYTES];
    if (haul_path_join(path, directory, name) != HAUL_OK) {
        return;
    }
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) {
        posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
        close(descriptor);
    }
}

static haul_status check_whole(const char *path) {
    haul_manifest manifest;
    drop_cache(path, HAUL_CHECKPOINT_COMMIT);
    drop_cache(path, HAUL_CHECKPOINT_MANIFEST);
    HAUL_TRY(haul_manifest_read(path, &manifest));
    haul_status status = HAUL_OK;
    for (int64_t i = 0; status == HAUL_OK && i < manifest.file_count; i++) {
        drop_cache(path, manifest.files[i].name);
        status = haul_manifest_check_file(path, &manifest.files[i]);
    }
    haul_manifest_deinit(&manifest);
    return status;
}

static bool looks_good(const char *path) {
    haul_manifest manifest;
    if (haul_manifest_read(path, &manifest) != HAUL_OK) {
        return false;
    }
    haul_manifest_deinit(&manifest);
    return true;
}

/* The candidates are newest first; the first one up to `iteration` is the one just saved. */
static haul_status retain_of(const char *directory, const haul_checkpoint_candidate *candidates,
                             int64_t count, int64_t iteration, int64_t keep) {
    int64_t good = 0;
    bool checked = false;
    for (int64_t i = 0; i < count; i++) {
        const char *path = candidates[i].path;
        if (candidates[i].iteration > iteration || !looks_good(path) || ++good <= keep) {
            continue;
        }
        if (!checked) {
            char newest[HAUL_PATH_BYTES];
            HAUL_TRY(haul_layout_path(newest, directory, iteration, ""));
            HAUL_TRY(check_whole(newest));
            checked = true;
        }
        HAUL_TRY(haul_checkpoint_discard(directory, path));
    }
    return HAUL_OK;
}

haul_status haul_checkpoint_retain(const char *directory, int64_t iteration, int64_t keep) {
    haul_checkpoint_candidate *candidates = NULL;
    int64_t count = 0;
    HAUL_TRY(haul_layout_candidates(directory, -1, &candidates, &count));
    haul_status status = retain_of(directory, candidates, count, iteration, keep);
    free(candidates);
    return status;
}

static bool has_prefix(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* A replaced checkpoint that is still there: the new one took its place, or never did. */
static haul_status settle_old(const char *directory, const char *path, int64_t iteration) {
    char current[HAUL_PATH_BYTES];
    HAUL_TRY(haul_layout_path(current, directory, iteration, ""));
    return haul_file_exists(current) ? haul_checkpoint_discard(directory, path)
                                     : haul_file_rename(path, current);
}

static haul_status clean_name(void *context, const char *name) {
    const char *directory = context;
    const char *suffix = NULL;
    int64_t iteration = -1;
    char path[HAUL_PATH_BYTES];
    HAUL_TRY(haul_path_join(path, directory, name));
    if (has_prefix(name, TRASH "iter_") || has_prefix(name, HAUL_CHECKPOINT_HINT ".tmp-")) {
        return haul_file_remove(path);
    }
    if (!haul_layout_parse(name, &iteration, &suffix)) {
        return HAUL_OK;
    }
    if (has_prefix(suffix, ".tmp-")) {
        return haul_file_remove(path);
    }
    return strcmp(suffix, ".old") == 0 ? settle_old(directory, path, iteration) : HAUL_OK;
}

haul_status haul_checkpoint_clean(const char *directory) {
    char copy[HAUL_PATH_BYTES];
    haul_text_copy(copy, sizeof copy, directory);
    return haul_directory_list(directory, clean_name, copy);
}
