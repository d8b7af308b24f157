#include "checkpoint/manifest.h"

#include <string.h>

static void append_sizes(haul_string *text, const char *key, const haul_checkpoint_tensor *tensor,
                         bool zero) {
    haul_string_append_format(text, ",\"%s\":[", key);
    for (int i = 0; i < tensor->ndim; i++) {
        haul_string_append_format(text, "%s%lld", i > 0 ? "," : "",
                                  zero ? 0LL : (long long)tensor->shape[i]);
    }
    haul_string_append_text(text, "]");
}

/* The box [offsets, offsets + extents) is this file's part of the global tensor. */
static void append_tensor(haul_string *text, const haul_checkpoint_tensor *tensor, int64_t file) {
    haul_string_append_text(text, "{\"name\":");
    haul_string_append_json(text, tensor->name);
    haul_string_append_format(text, ",\"dtype\":\"%s\"",
                              haul_dtype_safetensors_name(tensor->dtype));
    append_sizes(text, "global_shape", tensor, false);
    append_sizes(text, "offsets", tensor, true);
    append_sizes(text, "extents", tensor, false);
    haul_string_append_format(text, ",\"file\":%lld}", (long long)file);
}

static void append_files(haul_string *text, const haul_manifest_file *files, int64_t count) {
    haul_string_append_text(text, "\"files\": [");
    for (int64_t i = 0; i < count; i++) {
        char hash[HAUL_HASH_TEXT];
        haul_hash128_print(&files[i].hash, hash);
        haul_string_append_text(text, i > 0 ? ",\n  {\"name\":" : "\n  {\"name\":");
        haul_string_append_json(text, files[i].name);
        haul_string_append_format(text, ",\"bytes\":%lld,\"xxh3_128\":\"%s\"}",
                                  (long long)files[i].bytes, hash);
    }
    haul_string_append_text(text, "\n]");
}

static void append_tensors(haul_string *text, const haul_shards *shards) {
    haul_string_append_text(text, "\"tensors\": [");
    for (int64_t shard = 0; shard < shards->shard_count; shard++) {
        for (int64_t i = shards->first[shard]; i < shards->first[shard + 1]; i++) {
            haul_string_append_text(text, i > 0 ? ",\n  " : "\n  ");
            append_tensor(text, &shards->tensors[i], shard);
        }
    }
    haul_string_append_text(text, "\n]");
}

haul_status haul_manifest_write(const char *directory, int64_t iteration, const haul_shards *shards,
                                const haul_manifest_file *files, int64_t file_count,
                                const char *state_json, haul_hash128 *hash) {
    haul_string text = {0};
    haul_string_append_format(&text, "{\"format\": \"haul checkpoint\",\n\"schema\": %d,\n",
                              HAUL_MANIFEST_SCHEMA);
    haul_string_append_format(&text, "\"iteration\": %lld,\n", (long long)iteration);
    append_files(&text, files, file_count);
    haul_string_append_text(&text, ",\n\"state\": ");
    haul_string_append_text(&text, state_json != NULL ? state_json : "{}");
    haul_string_append_text(&text, ",\n");
    append_tensors(&text, shards);
    haul_string_append_text(&text, "}\n");
    haul_status status = haul_string_status(&text);
    if (status == HAUL_OK) {
        *hash = haul_hash128_of(text.data, text.length);
        status = haul_path_write(directory, HAUL_CHECKPOINT_MANIFEST, text.data, text.length);
    }
    haul_string_deinit(&text);
    return status;
}

haul_status haul_commit_write(const char *directory, int64_t iteration, const haul_hash128 *hash) {
    unsigned char commit[HAUL_COMMIT_BYTES];
    memcpy(commit, HAUL_COMMIT_MAGIC, 8);
    for (int i = 0; i < 8; i++) {
        commit[8 + i] = (unsigned char)((uint64_t)iteration >> (8 * i));
    }
    memcpy(commit + 16, hash->bytes, sizeof hash->bytes);
    return haul_path_write(directory, HAUL_CHECKPOINT_COMMIT, commit, sizeof commit);
}
