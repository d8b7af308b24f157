/* A small run to save: tensors of several dtypes whose every byte depends on the iteration. */
#ifndef HAUL_TESTS_CHECKPOINT_FIXTURE_H
#define HAUL_TESTS_CHECKPOINT_FIXTURE_H

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "testing.h"

#include <stdio.h>
#include <string.h>

enum { FIXTURE_TENSORS = 6, FIXTURE_BYTES = 4096, FIXTURE_PATH = 1024 };

typedef struct fixture {
    haul_checkpoint_tensor tensors[FIXTURE_TENSORS];
    _Alignas(8) unsigned char data[FIXTURE_TENSORS][FIXTURE_BYTES];
} fixture;

static inline int64_t fixture_bytes(const haul_checkpoint_tensor *tensor) {
    int64_t bytes = 0;
    assert_true(
        haul_shape_bytes(tensor->ndim, tensor->shape, haul_dtype_size(tensor->dtype), &bytes));
    assert_true(bytes <= FIXTURE_BYTES);
    return bytes;
}

static inline unsigned char fixture_byte(int64_t iteration, int tensor, int64_t index) {
    return (unsigned char)(iteration * 131 + tensor * 17 + index * 7 + (index >> 8));
}

static inline void fixture_init(fixture *run, int64_t iteration) {
    static const haul_checkpoint_tensor shapes[FIXTURE_TENSORS] = {
        {"embedding.word.weight", HAUL_BF16, 2, {16, 5}, NULL, NULL},
        {"layers.0.norm.weight", HAUL_F32, 1, {5}, NULL, NULL},
        {"layers.0.norm.weight/exp_avg", HAUL_F32, 4, {2, 3, 1, 5}, NULL, NULL},
        {"counters", HAUL_I64, 0, {0}, NULL, NULL},
        {"mask", HAUL_U8, 1, {3}, NULL, NULL},
        {"empty", HAUL_F32, 2, {0, 4}, NULL, NULL},
    };
    memcpy(run->tensors, shapes, sizeof shapes);
    for (int t = 0; t < FIXTURE_TENSORS; t++) {
        run->tensors[t].data = run->data[t];
        for (int64_t i = 0; i < FIXTURE_BYTES; i++) {
            run->data[t][i] = fixture_byte(iteration, t, i);
        }
    }
}

/* Shards of 100 bytes, so that there are several. */
static inline haul_checkpoint_request fixture_request(fixture *run, const char *directory,
                                                      int64_t iteration) {
    fixture_init(run, iteration);
    return (haul_checkpoint_request){.directory = directory,
                                     .iteration = iteration,
                                     .tensors = run->tensors,
                                     .count = FIXTURE_TENSORS,
                                     .shard_bytes = 100,
                                     .config_json = "{\"hidden_size\": 5}",
                                     .state_json = "{\"samples\": 9007199254740993}"};
}

static inline haul_status fixture_save(const char *directory, int64_t iteration, int64_t keep) {
    fixture run;
    haul_checkpoint_request request = fixture_request(&run, directory, iteration);
    request.keep = keep;
    return haul_checkpoint_save(&request);
}

/* Every tensor of an open checkpoint is that of its iteration, to the byte. */
static inline void fixture_check(haul_checkpoint *checkpoint) {
    fixture run, saved;
    fixture_init(&run, -1);
    fixture_init(&saved, haul_checkpoint_iteration(checkpoint));
    for (int t = 0; t < FIXTURE_TENSORS; t++) {
        assert_ok(haul_checkpoint_read(checkpoint, &run.tensors[t]));
        assert_memory_equal(run.data[t], saved.data[t], (size_t)fixture_bytes(&run.tensors[t]));
    }
}

/* The iteration of the newest good checkpoint, after a look at its content. */
static inline int64_t fixture_newest(const char *directory) {
    haul_checkpoint *checkpoint = NULL;
    assert_ok(haul_checkpoint_find(directory, -1, &checkpoint, NULL));
    fixture_check(checkpoint);
    int64_t iteration = haul_checkpoint_iteration(checkpoint);
    haul_checkpoint_close(checkpoint);
    return iteration;
}

static inline const char *fixture_path(char out[FIXTURE_PATH], const char *directory,
                                       const char *name) {
    assert_true(snprintf(out, FIXTURE_PATH, "%s/%s", directory, name) < FIXTURE_PATH);
    return out;
}

/* A fresh directory below that of the test. */
static inline const char *fixture_directory(char out[FIXTURE_PATH], const char *name) {
    return fixture_path(out, haul_test_directory(), name);
}

static inline bool fixture_exists(const char *directory, const char *name) {
    char path[FIXTURE_PATH];
    return haul_file_exists(fixture_path(path, directory, name));
}

/* Replaces a file without any of the care that saves take. The old one goes first, since some file
 * systems sync a file that is cut to nothing and rewritten. */
static inline void fixture_put(const char *path, const void *data, int64_t bytes) {
    remove(path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, (size_t)bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

#endif
