#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"

#include <stdlib.h>
#include <string.h>

struct haul_checkpoint {
    char path[HAUL_PATH_BYTES];
    haul_manifest manifest;
    bool *checked;             /* file by file: its hash was found right */
    haul_safetensors **shards; /* file by file, opened when needed */
    char *state_json;
    haul_string config_json;
};

static haul_status read_texts(haul_checkpoint *checkpoint) {
    const haul_manifest *manifest = &checkpoint->manifest;
    checkpoint->state_json = json_dumps(json_object_get(manifest->json, "state"), JSON_COMPACT);
    if (checkpoint->state_json == NULL) {
        return haul_fail(HAUL_ERROR_MEMORY, "out of memory: the state of %s", checkpoint->path);
    }
    for (int64_t i = 0; i < manifest->file_count; i++) {
        if (strcmp(manifest->files[i].name, HAUL_CHECKPOINT_CONFIG) == 0) {
            char path[HAUL_PATH_BYTES];
            HAUL_TRY(haul_path_join(path, checkpoint->path, HAUL_CHECKPOINT_CONFIG));
            HAUL_TRY(haul_manifest_check_file(checkpoint->path, &manifest->files[i]));
            checkpoint->checked[i] = true;
            return haul_file_read(path, &checkpoint->config_json);
        }
    }
    return HAUL_OK;
}

haul_status haul_checkpoint_open(const char *path, haul_checkpoint **out) {
    haul_checkpoint *checkpoint = haul_calloc(1, sizeof *checkpoint);
    if (checkpoint == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_text_copy(checkpoint->path, sizeof checkpoint->path, path);
    haul_status status = haul_manifest_read(path, &checkpoint->manifest);
    if (status == HAUL_OK) {
        int64_t files = checkpoint->manifest.file_count;
        checkpoint->checked = haul_calloc(files, sizeof *checkpoint->checked);
        checkpoint->shards = haul_calloc(files, sizeof *checkpoint->shards);
        bool allocated = checkpoint->checked != NULL && checkpoint->shards != NULL;
        status = allocated ? read_texts(checkpoint) : HAUL_ERROR_MEMORY;
    }
    if (status != HAUL_OK) {
        haul_checkpoint_close(checkpoint);
        return status;
    }
    *out = checkpoint;
    return HAUL_OK;
}

void haul_checkpoint_close(haul_checkpoint *checkpoint) {
    if (checkpoint == NULL) {
        return;
    }
    for (int64_t i = 0; checkpoint->shards != NULL && i < checkpoint->manifest.file_count; i++) {
        haul_safetensors_close(checkpoint->shards[i]);
    }
    free(checkpoint->checked);
    free(checkpoint->shards);
    free(checkpoint->state_json);
    haul_string_deinit(&checkpoint->config_json);
    haul_manifest_deinit(&checkpoint->manifest);
    free(checkpoint);
}

static haul_status check_file(haul_checkpoint *checkpoint, int64_t index) {
    if (!checkpoint->checked[index]) {
        HAUL_TRY(haul_manifest_check_file(checkpoint->path, &checkpoint->manifest.files[index]));
        checkpoint->checked[index] = true;
    }
    return HAUL_OK;
}

static haul_status open_whole(const char *path, haul_checkpoint **out) {
    haul_checkpoint *checkpoint = NULL;
    HAUL_TRY(haul_checkpoint_open(path, &checkpoint));
    for (int64_t i = 0; i < checkpoint->manifest.file_count; i++) {
        haul_status status = check_file(checkpoint, i);
        if (status != HAUL_OK) {
            haul_checkpoint_close(checkpoint);
            return status;
        }
    }
    *out = checkpoint;
    return HAUL_OK;
}

static haul_status fail_all_bad(const char *path, int64_t count, const char *newest) {
    if (count == 1) {
        haul_fail(HAUL_ERROR_DATA, "%s", newest);
    } else {
        haul_fail(HAUL_ERROR_DATA, "none of the %lld checkpoints in %s is good; the newest: %s",
                  (long long)count, path, newest);
    }
    haul_hint("haul checkpoint verify %s", path);
    return HAUL_ERROR_DATA;
}

haul_status haul_checkpoint_find(const char *path, int64_t iteration, haul_checkpoint **out,
                                 haul_string *rejected) {
    haul_checkpoint_candidate *candidates = NULL;
    int64_t count = 0;
    char newest[512] = "";
    HAUL_TRY(haul_layout_candidates(path, iteration, &candidates, &count));
    haul_status status = HAUL_ERROR_DATA;
    for (int64_t i = 0; i < count && status != HAUL_OK && status != HAUL_ERROR_MEMORY; i++) {
        status = open_whole(candidates[i].path, out);
        if (status != HAUL_OK && i == 0) {
            haul_text_copy(newest, sizeof newest, haul_error_message());
        }
        if (status != HAUL_OK && rejected != NULL) {
            haul_string_append_text(rejected, haul_error_message());
            haul_string_append_text(rejected, "\n");
        }
    }
    free(candidates);
    if (status == HAUL_OK || status == HAUL_ERROR_MEMORY) {
        return status;
    }
    return fail_all_bad(path, count, newest);
}

const char *haul_checkpoint_path(const haul_checkpoint *checkpoint) {
    return checkpoint->path;
}

int64_t haul_checkpoint_iteration(const haul_checkpoint *checkpoint) {
    return checkpoint->manifest.iteration;
}

int64_t haul_checkpoint_count(const haul_checkpoint *checkpoint) {
    return checkpoint->manifest.tensor_count;
}

const haul_checkpoint_tensor *haul_checkpoint_at(const haul_checkpoint *checkpoint, int64_t index) {
    return &checkpoint->manifest.tensors[index].tensor;
}

static int compare_name(const void *key, const void *element) {
    const haul_manifest_tensor *tensor = element;
    return strcmp(key, tensor->tensor.name);
}

static const haul_manifest_tensor *find_tensor(const haul_checkpoint *checkpoint,
                                               const char *name) {
    const haul_manifest *manifest = &checkpoint->manifest;
    return bsearch(name, manifest->tensors, (size_t)manifest->tensor_count,
                   sizeof *manifest->tensors, compare_name);
}

const haul_checkpoint_tensor *haul_checkpoint_get(const haul_checkpoint *checkpoint,
                                                  const char *name) {
    const haul_manifest_tensor *found = find_tensor(checkpoint, name);
    return found != NULL ? &found->tensor : NULL;
}

const char *haul_checkpoint_state_json(const haul_checkpoint *checkpoint) {
    return checkpoint->state_json;
}

const char *haul_checkpoint_config_json(const haul_checkpoint *checkpoint) {
    return checkpoint->config_json.data;
}

static haul_status fail_missing(const haul_checkpoint *checkpoint,
                                const haul_checkpoint_tensor *wanted) {
    char shape[HAUL_SHAPE_TEXT];
    haul_shape_print(wanted->dtype, wanted->ndim, wanted->shape, shape);
    haul_fail(HAUL_ERROR_CONFIG, "%s has no tensor %s (%s)", checkpoint->path, wanted->name, shape);
    haul_hint("use the model and optimizer settings of %s/config.json", checkpoint->path);
    return HAUL_ERROR_CONFIG;
}

/* Parameters are f64 with --device ref, bf16 with --bf16, else f32. */
static void hint_dtype(const haul_checkpoint *checkpoint, haul_dtype is, haul_dtype must_be) {
    if (is == HAUL_F64 || must_be == HAUL_F64) {
        haul_hint("%s --device ref; the settings are in %s/config.json",
                  is == HAUL_F64 ? "add" : "leave out", checkpoint->path);
    } else {
        haul_hint("%s --bf16; the settings are in %s/config.json",
                  is == HAUL_BF16 ? "add" : "leave out", checkpoint->path);
    }
}

static haul_status check_same(const haul_checkpoint *checkpoint,
                              const haul_checkpoint_tensor *wanted,
                              const haul_checkpoint_tensor *found) {
    if (wanted->dtype == found->dtype &&
        haul_shape_equal(wanted->ndim, wanted->shape, found->ndim, found->shape)) {
        return HAUL_OK;
    }
    char is[HAUL_SHAPE_TEXT], must_be[HAUL_SHAPE_TEXT];
    haul_shape_print(found->dtype, found->ndim, found->shape, is);
    haul_shape_print(wanted->dtype, wanted->ndim, wanted->shape, must_be);
    haul_fail(HAUL_ERROR_CONFIG, "%s: tensor %s is %s, must be %s", checkpoint->path, wanted->name,
              is, must_be);
    if (haul_shape_equal(wanted->ndim, wanted->shape, found->ndim, found->shape)) {
        hint_dtype(checkpoint, found->dtype, wanted->dtype);
    } else {
        haul_hint("use the model and optimizer settings of %s/config.json", checkpoint->path);
    }
    return HAUL_ERROR_CONFIG;
}

static haul_status open_shard(haul_checkpoint *checkpoint, int64_t index) {
    if (checkpoint->shards[index] != NULL) {
        return HAUL_OK;
    }
    char path[HAUL_PATH_BYTES];
    HAUL_TRY(check_file(checkpoint, index));
    HAUL_TRY(haul_path_join(path, checkpoint->path, checkpoint->manifest.files[index].name));
    return haul_safetensors_open(path, &checkpoint->shards[index]);
}

haul_status haul_checkpoint_read(haul_checkpoint *checkpoint,
                                 const haul_checkpoint_tensor *tensor) {
    const haul_manifest_tensor *found = find_tensor(checkpoint, tensor->name);
    if (found == NULL) {
        return fail_missing(checkpoint, tensor);
    }
    HAUL_TRY(check_same(checkpoint, tensor, &found->tensor));
    HAUL_TRY(open_shard(checkpoint, found->file));
    const haul_safetensors_entry *entry =
        haul_safetensors_find(checkpoint->shards[found->file], tensor->name);
    if (entry == NULL || entry->dtype != tensor->dtype ||
        !haul_shape_equal(entry->ndim, entry->shape, tensor->ndim, tensor->shape)) {
        return haul_fail(HAUL_ERROR_DATA, "%s: the manifest and %s disagree about tensor %s",
                         checkpoint->path, checkpoint->manifest.files[found->file].name,
                         tensor->name);
    }
    if (tensor->memory != NULL) {
        return tensor->memory->copy(tensor->memory->context, tensor->data, entry->data,
                                    entry->bytes);
    }
    if (entry->bytes > 0) {
        memcpy(tensor->data, entry->data, (size_t)entry->bytes);
    }
    return HAUL_OK;
}
