/* model.safetensors.index.json beside two small shards. */
#include "checkpoint/huggingface.h"
#include "fuzzing.h"

#include <stdio.h>
#include <string.h>

static void put_shard(const char *name, const char *header, int64_t data_bytes) {
    char bytes[256] = {0}, path[FUZZ_PATH_BYTES];
    int64_t length = (int64_t)strlen(header);
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + sizeof length, header, (size_t)length);
    fuzz_put(name, bytes, sizeof length + (size_t)(length + data_bytes), path);
}

static void put_shards(void) {
    static bool done;
    if (!done) {
        put_shard("a.safetensors",
                  "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                  "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[8,12]}}",
                  12);
        put_shard("b.safetensors", "{\"c\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
                  1);
        done = true;
    }
}

static void check_model(const haul_huggingface *model) {
    for (int64_t i = 0; i < haul_huggingface_count(model); i++) {
        const haul_safetensors_entry *entry = haul_huggingface_at(model, i);
        fuzz_require(i == 0 || strcmp(haul_huggingface_at(model, i - 1)->name, entry->name) < 0,
                     "tensors are sorted by name, each once");
        fuzz_require(haul_huggingface_find(model, entry->name) == entry, "a tensor is found");
    }
    float values[2];
    const haul_checkpoint_tensor target = {
        .name = "a", .dtype = HAUL_F32, .ndim = 1, .shape = {2}, .data = values};
    fuzz_accepted(haul_huggingface_read(model, false, &target));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[FUZZ_PATH_BYTES];
    haul_huggingface *model;
    put_shards();
    fuzz_put("model.safetensors.index.json", data, size, path);
    *strrchr(path, '/') = '\0';
    if (fuzz_accepted(haul_huggingface_open(path, &model))) {
        check_model(model);
        haul_huggingface_close(model);
    }
    return 0;
}
