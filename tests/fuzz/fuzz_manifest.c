/* manifest.json of a checkpoint, with a COMMIT that agrees, beside one shard and a config.json. */
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "fuzzing.h"

#include <stdlib.h>
#include <string.h>

enum { ITERATION = 1, LARGEST_READ = 1 << 20 };

static void put_files(void) {
    static const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    static bool done;
    char bytes[256] = {0}, path[FUZZ_PATH_BYTES];
    int64_t length = sizeof header - 1;
    if (!done) {
        memcpy(bytes, &length, sizeof length);
        memcpy(bytes + sizeof length, header, sizeof header - 1);
        fuzz_put("shard_00000.safetensors", bytes, sizeof length + sizeof header - 1 + 8, path);
        fuzz_put("config.json", "{}", 2, path);
        done = true;
    }
}

static void put_commit(const void *manifest, size_t size) {
    char path[FUZZ_PATH_BYTES];
    unsigned char commit[HAUL_COMMIT_BYTES] = HAUL_COMMIT_MAGIC;
    haul_hash128 hash = haul_hash128_of(manifest, (int64_t)size);
    commit[8] = ITERATION;
    memcpy(commit + 16, hash.bytes, sizeof hash.bytes);
    fuzz_put("COMMIT", commit, sizeof commit, path);
}

/* Reads every tensor that the manifest promises, as it promises it. */
static void check_checkpoint(haul_checkpoint *checkpoint) {
    fuzz_require(haul_checkpoint_state_json(checkpoint)[0] == '{', "the state is an object");
    for (int64_t i = 0; i < haul_checkpoint_count(checkpoint); i++) {
        haul_checkpoint_tensor tensor = *haul_checkpoint_at(checkpoint, i);
        int64_t bytes = 0;
        fuzz_require(
            haul_shape_bytes(tensor.ndim, tensor.shape, haul_dtype_size(tensor.dtype), &bytes),
            "the shape fits");
        fuzz_require(haul_checkpoint_get(checkpoint, tensor.name) != NULL, "a tensor is found");
        if (bytes <= LARGEST_READ) {
            tensor.data = haul_calloc(bytes, 1);
            fuzz_require(tensor.data != NULL, "there is memory");
            fuzz_accepted(haul_checkpoint_read(checkpoint, &tensor));
            free(tensor.data);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[FUZZ_PATH_BYTES];
    haul_checkpoint *checkpoint;
    put_files();
    put_commit(data, size);
    fuzz_put("manifest.json", data, size, path);
    *strrchr(path, '/') = '\0';
    if (fuzz_accepted(haul_checkpoint_open(path, &checkpoint))) {
        check_checkpoint(checkpoint);
        haul_checkpoint_close(checkpoint);
    }
    return 0;
}
