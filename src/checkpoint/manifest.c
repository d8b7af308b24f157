#include "checkpoint/manifest.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static haul_status read_commit(const char *directory, int64_t *iteration, haul_hash128 *hash) {
    char path[HAUL_PATH_BYTES];
    HAUL_TRY(haul_path_join(path, directory, HAUL_CHECKPOINT_COMMIT));
    if (!haul_file_exists(path)) {
        return haul_fail(HAUL_ERROR_DATA,
                         "%s has no COMMIT file: not a haul checkpoint, or not "
                         "finished",
                         directory);
    }
    haul_file_map map;
    HAUL_TRY(haul_file_map_open(path, &map));
    const unsigned char *bytes = map.data;
    haul_status status = HAUL_OK;
    if (map.bytes != HAUL_COMMIT_BYTES || memcmp(bytes, HAUL_COMMIT_MAGIC, 8) != 0) {
        status = haul_fail(HAUL_ERROR_DATA, "%s is damaged: it must be %d bytes that start with %s",
                           path, HAUL_COMMIT_BYTES, HAUL_COMMIT_MAGIC);
    } else {
        uint64_t value = 0;
        for (int i = 7; i >= 0; i--) {
            value = value << 8 | bytes[8 + i];
        }
        *iteration = (int64_t)value;
        memcpy(hash->bytes, bytes + 16, sizeof hash->bytes);
    }
    haul_file_map_close(&map);
    return status;
}

/* Every complaint about the form of a manifest whose hash is right. */
static haul_status fail_form(const char *directory, const char *what) {
    return haul_fail(HAUL_ERROR_DATA, "%s/%s: %s", directory, HAUL_CHECKPOINT_MANIFEST, what);
}

static bool get_integer(const json_t *object, const char *key, int64_t *out) {
    const json_t *value = json_object_get(object, key);
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0;
}

static haul_status parse_files(const char *directory, haul_manifest *manifest) {
    const json_t *list = json_object_get(manifest->json, "files");
    int64_t count = (int64_t)json_array_size(list);
    manifest->files = haul_calloc(count, sizeof *manifest->files);
    if (manifest->files == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, (size_t)i);
        haul_manifest_file *file = &manifest->files[i];
        const char *name = json_string_value(json_object_get(item, "name"));
        const char *hash = json_string_value(json_object_get(item, "xxh3_128"));
        if (name == NULL || strlen(name) >= sizeof file->name || !haul_path_is_plain_name(name) ||
            !haul_hash128_parse(hash, &file->hash) || !get_integer(item, "bytes", &file->bytes) ||
            !haul_size_add(manifest->bytes, file->bytes, &manifest->bytes)) {
            return fail_form(directory, "a file entry must have a plain name, bytes and xxh3_128");
        }
        haul_text_copy(file->name, sizeof file->name, name);
    }
    manifest->file_count = count;
    return HAUL_OK;
}

/* Reads a list of as many sizes as the tensor has dimensions (at most 4 for a negative ndim,
 * which is then set). */
static bool parse_sizes(const json_t *item, const char *key, int *ndim, int64_t *sizes) {
    const json_t *list = json_object_get(item, key);
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > HAUL_CHECKPOINT_DIMENSIONS ||
        (*ndim >= 0 && count != (size_t)*ndim)) {
        return false;
    }
    *ndim = (int)count;
    for (size_t i = 0; i < count; i++) {
        const json_t *size = json_array_get(list, i);
        sizes[i] = json_integer_value(size);
        if (!json_is_integer(size) || sizes[i] < 0) {
            return false;
        }
    }
    return true;
}

static haul_status parse_tensor(const char *directory, const haul_manifest *manifest,
                                const json_t *item, haul_manifest_tensor *out) {
    haul_checkpoint_tensor *tensor = &out->tensor;
    int64_t offsets[HAUL_CHECKPOINT_DIMENSIONS], extents[HAUL_CHECKPOINT_DIMENSIONS], bytes = 0;
    const char *dtype = json_string_value(json_object_get(item, "dtype"));
    tensor->name = json_string_value(json_object_get(item, "name"));
    tensor->ndim = -1;
    if (tensor->name == NULL || !haul_text_is_printable(tensor->name) || dtype == NULL ||
        !haul_dtype_from_safetensors(dtype, &tensor->dtype) ||
        !parse_sizes(item, "global_shape", &tensor->ndim, tensor->shape) ||
        !parse_sizes(item, "offsets", &tensor->ndim, offsets) ||
        !parse_sizes(item, "extents", &tensor->ndim, extents) ||
        !haul_shape_bytes(tensor->ndim, tensor->shape, haul_dtype_size(tensor->dtype), &bytes) ||
        !get_integer(item, "file", &out->file) || out->file >= manifest->file_count) {
        return fail_form(directory, "a tensor entry must have name, dtype, global_shape, offsets, "
                                    "extents and file");
    }
    for (int i = 0; i < tensor->ndim; i++) {
        if (offsets[i] != 0 || extents[i] != tensor->shape[i]) {
            return haul_fail(HAUL_ERROR_DATA,
                             "%s: tensor %s is saved in parts, which this version cannot read",
                             directory, tensor->name);
        }
    }
    return HAUL_OK;
}

static int compare_tensors(const void *a, const void *b) {
    const haul_manifest_tensor *left = a, *right = b;
    return strcmp(left->tensor.name, right->tensor.name);
}

static haul_status parse_tensors(const char *directory, haul_manifest *manifest) {
    const json_t *list = json_object_get(manifest->json, "tensors");
    int64_t count = (int64_t)json_array_size(list);
    manifest->tensors = haul_calloc(count, sizeof *manifest->tensors);
    if (manifest->tensors == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < count; i++) {
        HAUL_TRY(parse_tensor(directory, manifest, json_array_get(list, (size_t)i),
                              &manifest->tensors[i]));
    }
    manifest->tensor_count = count;
    qsort(manifest->tensors, (size_t)count, sizeof *manifest->tensors, compare_tensors);
    for (int64_t i = 1; i < count; i++) {
        if (compare_tensors(&manifest->tensors[i - 1], &manifest->tensors[i]) == 0) {
            return fail_form(directory, "two tensors have the same name");
        }
    }
    return HAUL_OK;
}

static haul_status parse(const char *directory, const haul_file_map *map, haul_manifest *manifest) {
    json_error_t error;
    manifest->json = json_loadb(map->data, (size_t)map->bytes, JSON_REJECT_DUPLICATES, &error);
    if (manifest->json == NULL) {
        return fail_form(directory, haul_text_for_message(error.text));
    }
    int64_t schema = -1, iteration = -1;
    if (!get_integer(manifest->json, "schema", &schema) || schema != HAUL_MANIFEST_SCHEMA) {
        return haul_fail(HAUL_ERROR_DATA, "%s/%s: the schema is %lld, this version reads %d",
                         directory, HAUL_CHECKPOINT_MANIFEST, (long long)schema,
                         HAUL_MANIFEST_SCHEMA);
    }
    if (!get_integer(manifest->json, "iteration", &iteration) || iteration != manifest->iteration) {
        return fail_form(directory, "the iteration differs from that in COMMIT");
    }
    if (!json_is_object(json_object_get(manifest->json, "state"))) {
        return fail_form(directory, "the state must be an object");
    }
    HAUL_TRY(parse_files(directory, manifest));
    return parse_tensors(directory, manifest);
}

static haul_status parse_hashed(const char *directory, const haul_hash128 *hash,
                                haul_manifest *manifest) {
    char path[HAUL_PATH_BYTES];
    haul_file_map map;
    HAUL_TRY(haul_path_join(path, directory, HAUL_CHECKPOINT_MANIFEST));
    HAUL_TRY(haul_file_map_open(path, &map));
    haul_hash128 own = haul_hash128_of(map.data, map.bytes);
    haul_status status = HAUL_OK;
    if (map.bytes == 0 || !haul_hash128_equal(&own, hash)) {
        status =
            haul_fail(HAUL_ERROR_DATA, "%s is damaged: its hash differs from that in COMMIT", path);
    } else {
        status = parse(directory, &map, manifest);
    }
    haul_file_map_close(&map);
    return status;
}

static haul_status check_sizes(const char *directory, const haul_manifest *manifest) {
    for (int64_t i = 0; i < manifest->file_count; i++) {
        char path[HAUL_PATH_BYTES];
        struct stat info;
        const haul_manifest_file *file = &manifest->files[i];
        HAUL_TRY(haul_path_join(path, directory, file->name));
        if (stat(path, &info) != 0) {
            return haul_fail(HAUL_ERROR_DATA, "%s is missing: %s", path, strerror(errno));
        }
        if (info.st_size != file->bytes) {
            return haul_fail(HAUL_ERROR_DATA, "%s is %lld bytes, must be %lld", path,
                             (long long)info.st_size, (long long)file->bytes);
        }
    }
    return HAUL_OK;
}

haul_status haul_manifest_read(const char *directory, haul_manifest *out) {
    haul_manifest manifest = {0};
    haul_hash128 hash;
    HAUL_TRY(read_commit(directory, &manifest.iteration, &hash));
    haul_status status = parse_hashed(directory, &hash, &manifest);
    if (status == HAUL_OK) {
        status = check_sizes(directory, &manifest);
    }
    if (status != HAUL_OK) {
        haul_manifest_deinit(&manifest);
        return status;
    }
    *out = manifest;
    return HAUL_OK;
}

void haul_manifest_deinit(haul_manifest *manifest) {
    free(manifest->files);
    free(manifest->tensors);
    json_decref(manifest->json);
    *manifest = (haul_manifest){0};
}

haul_status haul_manifest_check_file(const char *directory, const haul_manifest_file *file) {
    char path[HAUL_PATH_BYTES];
    haul_file_map map;
    HAUL_TRY(haul_path_join(path, directory, file->name));
    HAUL_TRY(haul_file_map_open(path, &map));
    haul_hash128 hash = haul_hash128_of(map.data, map.bytes);
    bool same = map.bytes == file->bytes && haul_hash128_equal(&hash, &file->hash);
    haul_file_map_close(&map);
    if (!same) {
        return haul_fail(HAUL_ERROR_DATA, "%s is damaged: its hash differs from the manifest's",
                         path);
    }
    return HAUL_OK;
}
