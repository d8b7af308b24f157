#include "checkpoint/shards.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Small enough that a piece is hashed and written from the cache. */
enum { PIECE_BYTES = 1 << 20 };

static int64_t tensor_bytes(const haul_checkpoint_tensor *tensor) {
    int64_t bytes = 0;
    haul_shape_bytes(tensor->ndim, tensor->shape, haul_dtype_size(tensor->dtype), &bytes);
    return bytes;
}

static int compare_names(const void *a, const void *b) {
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

static haul_status check_names(const haul_checkpoint_tensor *tensors, int64_t count) {
    const char **names = haul_calloc(count, sizeof *names);
    if (names == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < count; i++) {
        names[i] = tensors[i].name;
    }
    qsort(names, (size_t)count, sizeof *names, compare_names);
    haul_status status = HAUL_OK;
    for (int64_t i = 1; status == HAUL_OK && i < count; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            status =
                haul_fail(HAUL_ERROR_INTERNAL, "two tensors to save have the name %s", names[i]);
        }
    }
    free(names);
    return status;
}

static haul_status check_tensors(const haul_checkpoint_tensor *tensors, int64_t count,
                                 int64_t *total) {
    for (int64_t i = 0; i < count; i++) {
        const haul_checkpoint_tensor *tensor = &tensors[i];
        if (tensor->name == NULL || tensor->name[0] == '\0' || tensor->dtype >= HAUL_DTYPES ||
            tensor->ndim < 0 || tensor->ndim > HAUL_CHECKPOINT_DIMENSIONS) {
            return haul_fail(HAUL_ERROR_INTERNAL, "tensor %lld to save has no valid description",
                             (long long)i);
        }
        int64_t bytes = 0;
        if (!haul_shape_bytes(tensor->ndim, tensor->shape, haul_dtype_size(tensor->dtype),
                              &bytes) ||
            !haul_size_add(*total, bytes, total)) {
            return haul_fail(HAUL_ERROR_INTERNAL, "the size of tensor %s overflows", tensor->name);
        }
    }
    return check_names(tensors, count);
}

/* Stable, so that equal models give equal files. */
static void sort_by_size(const haul_checkpoint_tensor *tensors, int64_t count,
                         haul_checkpoint_tensor *sorted) {
    int64_t placed = 0;
    for (int64_t size = 8; size >= 1; size /= 2) {
        for (int64_t i = 0; i < count; i++) {
            if (haul_dtype_size(tensors[i].dtype) == size) {
                sorted[placed++] = tensors[i];
            }
        }
    }
}

static void cut(haul_shards *shards, int64_t shard_bytes) {
    int64_t filled = 0;
    shards->shard_count = 1;
    for (int64_t i = 0; i < shards->count; i++) {
        int64_t bytes = tensor_bytes(&shards->tensors[i]);
        if (filled > 0 && bytes > shard_bytes - filled) {
            shards->first[shards->shard_count++] = i;
            filled = 0;
        }
        filled += bytes;
    }
    shards->first[shards->shard_count] = shards->count;
}

haul_status haul_shards_plan(const haul_checkpoint_tensor *tensors, int64_t count,
                             int64_t shard_bytes, haul_shards *out) {
    haul_shards shards = {.count = count};
    HAUL_TRY(check_tensors(tensors, count, &shards.bytes));
    shards.tensors = haul_calloc(count, sizeof *shards.tensors);
    shards.first = haul_calloc(count + 2, sizeof *shards.first);
    if (shards.tensors == NULL || shards.first == NULL) {
        haul_shards_deinit(&shards);
        return HAUL_ERROR_MEMORY;
    }
    sort_by_size(tensors, count, shards.tensors);
    cut(&shards, shard_bytes);
    *out = shards;
    return HAUL_OK;
}

void haul_shards_deinit(haul_shards *shards) {
    free(shards->tensors);
    free(shards->first);
    *shards = (haul_shards){0};
}

/* `staging` has PIECE_BYTES. */
static haul_status write_tensor(const haul_shards *shards, const haul_checkpoint_tensor *tensor,
                                haul_safetensors_writer *writer, void *staging,
                                haul_shards_progress *progress) {
    int64_t bytes = tensor_bytes(tensor);
    for (int64_t at = 0; at < bytes; at += PIECE_BYTES) {
        int64_t piece = haul_min(bytes - at, PIECE_BYTES);
        const void *data = (const char *)tensor->data + at;
        if (tensor->memory != NULL) {
            HAUL_TRY(tensor->memory->copy(tensor->memory->context, staging, data, piece));
            data = staging;
        }
        HAUL_TRY(haul_safetensors_write(writer, data, piece));
        progress->done += piece;
        if (progress->report != NULL) {
            progress->report(progress->context, progress->done, shards->bytes);
        }
    }
    return HAUL_OK;
}

haul_status haul_shards_write(const haul_shards *shards, int64_t shard, const char *path,
                              const haul_safetensors_pair *metadata, int64_t pairs,
                              haul_shards_progress *progress, haul_hash128 *hash, int64_t *bytes) {
    int64_t begin = shards->first[shard], end = shards->first[shard + 1];
    haul_safetensors_writer writer;
    HAUL_TRY(haul_safetensors_create(path, shards->tensors + begin, end - begin, metadata, pairs,
                                     &writer));
    void *staging = haul_calloc(PIECE_BYTES, 1);
    haul_status status = staging != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
    for (int64_t i = begin; status == HAUL_OK && i < end; i++) {
        status = write_tensor(shards, &shards->tensors[i], &writer, staging, progress);
    }
    if (status == HAUL_OK) {
        status = haul_safetensors_finish(&writer, hash);
        *bytes = writer.file.bytes;
    }
    free(staging);
    haul_safetensors_abandon(&writer);
    return status;
}
