#include "checkpoint/huggingface.h"

#include "base/memory.h"
#include "checkpoint/convert.h"
#include "checkpoint/path.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct shard {
    char *name;
    haul_safetensors *file;
} shard;

struct haul_huggingface {
    char directory[HAUL_PATH_BYTES];
    shard *shards;
    int64_t shard_count;
    int64_t shard_capacity;
    const haul_safetensors_entry **entries; /* sorted by name */
    int64_t count;
};

static haul_status open_shard(haul_huggingface *model, const char *name,
                              const haul_safetensors **out) {
    /* Neighbours in an index mostly share a shard. */
    for (int64_t i = model->shard_count - 1; i >= 0; i--) {
        if (strcmp(model->shards[i].name, name) == 0) {
            *out = model->shards[i].file;
            return HAUL_OK;
        }
    }
    haul_status status = haul_grow(&model->shards, &model->shard_capacity, model->shard_count + 1,
                                   sizeof *model->shards);
    HAUL_TRY(status);
    char path[HAUL_PATH_BYTES];
    shard *added = &model->shards[model->shard_count];
    HAUL_TRY(haul_path_join(path, model->directory, name));
    HAUL_TRY(haul_safetensors_open(path, &added->file));
    model->shard_count++;
    added->name = haul_strdup(name);
    *out = added->file;
    return added->name != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
}

static int compare_names(const void *a, const void *b) {
    const haul_safetensors_entry *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static haul_status allocate_entries(haul_huggingface *model, int64_t count) {
    model->entries = haul_calloc(count, sizeof *model->entries);
    return model->entries != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
}

static haul_status open_single(haul_huggingface *model) {
    const haul_safetensors *file = NULL;
    HAUL_TRY(open_shard(model, "model.safetensors", &file));
    HAUL_TRY(allocate_entries(model, haul_safetensors_count(file)));
    for (int64_t i = 0; i < haul_safetensors_count(file); i++) {
        model->entries[model->count++] = haul_safetensors_at(file, i);
    }
    return HAUL_OK;
}

static haul_status read_weight_map(haul_huggingface *model, const char *path, json_t *map) {
    if (!json_is_object(map)) {
        return haul_fail(HAUL_ERROR_DATA, "%s has no weight_map", path);
    }
    HAUL_TRY(allocate_entries(model, (int64_t)json_object_size(map)));
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value) {
        const char *file_name = json_string_value(value);
        if (file_name == NULL || !haul_path_is_plain_name(file_name) ||
            !haul_text_is_printable(name)) {
            return haul_fail(HAUL_ERROR_DATA,
                             "%s: weight_map must map names to files of the same directory", path);
        }
        const haul_safetensors *file = NULL;
        HAUL_TRY(open_shard(model, file_name, &file));
        const haul_safetensors_entry *entry = haul_safetensors_find(file, name);
        if (entry == NULL) {
            return haul_fail(HAUL_ERROR_DATA, "%s says that %s holds tensor %s, but it does not",
                             path, file_name, name);
        }
        model->entries[model->count++] = entry;
    }
    return HAUL_OK;
}

static haul_status open_index(haul_huggingface *model, const char *path) {
    haul_string text = {0};
    haul_status status = haul_file_read(path, &text);
    if (status == HAUL_OK) {
        json_error_t error;
        json_t *index = json_loadb(text.data != NULL ? text.data : "", (size_t)text.length,
                                   JSON_REJECT_DUPLICATES, &error);
        status = index != NULL ? read_weight_map(model, path, json_object_get(index, "weight_map"))
                               : haul_fail(HAUL_ERROR_DATA, "%s:%d: %s", path, error.line,
                                           haul_text_for_message(error.text));
        json_decref(index);
    }
    haul_string_deinit(&text);
    return status;
}

static haul_status open_weights(haul_huggingface *model) {
    char single[HAUL_PATH_BYTES], index[HAUL_PATH_BYTES];
    HAUL_TRY(haul_path_join(single, model->directory, "model.safetensors"));
    HAUL_TRY(haul_path_join(index, model->directory, "model.safetensors.index.json"));
    if (haul_file_exists(single)) {
        return open_single(model);
    }
    if (haul_file_exists(index)) {
        return open_index(model, index);
    }
    haul_fail(HAUL_ERROR_NO_INPUT,
              "%s holds neither model.safetensors nor model.safetensors.index.json",
              model->directory);
    haul_hint("save the model with save_pretrained(..., safe_serialization=True)");
    return HAUL_ERROR_NO_INPUT;
}

haul_status haul_huggingface_open(const char *directory, haul_huggingface **out) {
    haul_huggingface *model = haul_calloc(1, sizeof *model);
    if (model == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_text_copy(model->directory, sizeof model->directory, directory);
    haul_status status = open_weights(model);
    if (status != HAUL_OK) {
        haul_huggingface_close(model);
        return status;
    }
    qsort(model->entries, (size_t)model->count, sizeof *model->entries, compare_names);
    *out = model;
    return HAUL_OK;
}

void haul_huggingface_close(haul_huggingface *model) {
    if (model == NULL) {
        return;
    }
    for (int64_t i = 0; i < model->shard_count; i++) {
        free(model->shards[i].name);
        haul_safetensors_close(model->shards[i].file);
    }
    free(model->shards);
    free(model->entries);
    free(model);
}

int64_t haul_huggingface_count(const haul_huggingface *model) {
    return model->count;
}

const haul_safetensors_entry *haul_huggingface_at(const haul_huggingface *model, int64_t index) {
    return model->entries[index];
}

static int compare_key(const void *key, const void *element) {
    const haul_safetensors_entry *const *entry = element;
    return strcmp(key, (*entry)->name);
}

const haul_safetensors_entry *haul_huggingface_find(const haul_huggingface *model,
                                                    const char *name) {
    const haul_safetensors_entry **found =
        bsearch(name, model->entries, (size_t)model->count, sizeof *model->entries, compare_key);
    return found != NULL ? *found : NULL;
}

static haul_status check_entry(const haul_huggingface *model, const haul_safetensors_entry *entry,
                               bool transposed, const haul_checkpoint_tensor *target) {
    int64_t shape[HAUL_CHECKPOINT_DIMENSIONS];
    memcpy(shape, target->shape, sizeof shape);
    if (transposed) {
        shape[0] = target->shape[1];
        shape[1] = target->shape[0];
    }
    char is[HAUL_SHAPE_TEXT], must_be[HAUL_SHAPE_TEXT];
    haul_shape_print(target->dtype, target->ndim, shape, must_be);
    if (entry == NULL) {
        return haul_fail(HAUL_ERROR_DATA, "%s has no tensor %s (%s)", model->directory,
                         target->name, must_be);
    }
    haul_shape_print(entry->dtype, entry->ndim, entry->shape, is);
    if (!haul_shape_equal(entry->ndim, entry->shape, target->ndim, shape)) {
        return haul_fail(HAUL_ERROR_DATA, "%s: tensor %s is %s, must have the shape of %s",
                         model->directory, target->name, is, must_be);
    }
    if (!haul_convert_reads(entry->dtype)) {
        return haul_fail(HAUL_ERROR_DATA, "%s: tensor %s is %s, must be f64, f32, bf16 or f16",
                         model->directory, target->name, is);
    }
    return HAUL_OK;
}

haul_status haul_huggingface_read(const haul_huggingface *model, bool transposed,
                                  const haul_checkpoint_tensor *target) {
    if (transposed && target->ndim != 2) {
        return haul_fail(HAUL_ERROR_INTERNAL, "tensor %s must be a matrix to be transposed",
                         target->name);
    }
    const haul_safetensors_entry *entry = haul_huggingface_find(model, target->name);
    HAUL_TRY(check_entry(model, entry, transposed, target));
    if (transposed) {
        haul_convert_transposed(entry->data, entry->dtype, entry->shape[0], entry->shape[1],
                                target->data, target->dtype);
    } else {
        int64_t count = entry->bytes / haul_dtype_size(entry->dtype);
        haul_convert(entry->data, entry->dtype, target->data, target->dtype, count);
    }
    return HAUL_OK;
}
