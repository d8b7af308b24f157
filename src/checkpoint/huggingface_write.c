#include "checkpoint/huggingface.h"
#include "checkpoint/path.h"
#include "checkpoint/shards.h"

#include <stdio.h>
#include <string.h>

static const char index_name[] = "model.safetensors.index.json";
static const int64_t default_shard_bytes = 5000000000;

static void weights_name(const haul_shards *shards, int64_t shard, char out[64]) {
    if (shards->shard_count == 1) {
        snprintf(out, 64, "model.safetensors");
    } else {
        snprintf(out, 64, "model-%05lld-of-%05lld.safetensors", (long long)shard + 1,
                 (long long)shards->shard_count);
    }
}

static haul_status write_index(const char *directory, const haul_shards *shards) {
    haul_string text = {0};
    haul_string_append_format(&text,
                              "{\n  \"metadata\": {\"total_size\": %lld},\n  \"weight_map\": {",
                              (long long)shards->bytes);
    for (int64_t shard = 0; shard < shards->shard_count; shard++) {
        char file[64];
        weights_name(shards, shard, file);
        for (int64_t i = shards->first[shard]; i < shards->first[shard + 1]; i++) {
            haul_string_append_text(&text, i > 0 ? ",\n    " : "\n    ");
            haul_string_append_json(&text, shards->tensors[i].name);
            haul_string_append_format(&text, ": \"%s\"", file);
        }
    }
    haul_string_append_text(&text, "\n  }\n}\n");
    haul_status status = haul_string_status(&text);
    if (status == HAUL_OK) {
        status = haul_path_write(directory, index_name, text.data, text.length);
    }
    haul_string_deinit(&text);
    return status;
}

/* Weights of another model beside ours would be loaded in their place. */
static haul_status refuse_weights(void *context, const char *name) {
    const char *directory = context;
    if (strncmp(name, "model", 5) == 0 && strstr(name, ".safetensors") != NULL) {
        haul_fail(HAUL_ERROR_CREATE, "%s already holds a model: %s", directory, name);
        haul_hint("choose another directory, or remove that model");
        return HAUL_ERROR_CREATE;
    }
    return HAUL_OK;
}

static haul_status write_weights(const char *directory, const haul_shards *shards) {
    /* transformers refuses files without this. */
    const haul_safetensors_pair metadata[] = {{"format", "pt"}};
    haul_shards_progress progress = {0};
    for (int64_t i = 0; i < shards->shard_count; i++) {
        char name[64], path[HAUL_PATH_BYTES];
        haul_hash128 hash;
        int64_t bytes = 0;
        weights_name(shards, i, name);
        HAUL_TRY(haul_path_join(path, directory, name));
        HAUL_TRY(haul_shards_write(shards, i, path, metadata, 1, &progress, &hash, &bytes));
    }
    return shards->shard_count > 1 ? write_index(directory, shards) : HAUL_OK;
}

/* Half a model must not look like one. */
static void remove_weights(const char *directory, const haul_shards *shards) {
    char name[64], path[HAUL_PATH_BYTES];
    for (int64_t i = -1; i < shards->shard_count; i++) {
        weights_name(shards, i, name);
        if (haul_path_join(path, directory, i < 0 ? index_name : name) == HAUL_OK) {
            haul_path_clear(path);
        }
    }
}

haul_status haul_huggingface_write(const char *directory, const haul_checkpoint_tensor *tensors,
                                   int64_t count, int64_t shard_bytes, const char *config_json) {
    char context[HAUL_PATH_BYTES];
    haul_shards shards;
    haul_text_copy(context, sizeof context, directory);
    HAUL_TRY(haul_directory_create(directory));
    HAUL_TRY(haul_directory_list(directory, refuse_weights, context));
    HAUL_TRY(haul_shards_plan(tensors, count, shard_bytes > 0 ? shard_bytes : default_shard_bytes,
                              &shards));
    haul_status status = write_weights(directory, &shards);
    if (status == HAUL_OK) {
        status =
            haul_path_write(directory, "config.json", config_json, (int64_t)strlen(config_json));
    }
    if (status == HAUL_OK) {
        status = haul_directory_sync(directory);
    } else {
        remove_weights(directory, &shards);
    }
    haul_shards_deinit(&shards);
    return status;
}
