/* ctest: unit */
/* A training that is stopped or killed and resumed ends with the very bits of one that was not. */
#include "small_data.h"
#include "testing.h"

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/philox.h"
#include "config/validate.h"
#include "train/corpus.h"
#include "train/save.h"
#include "train/state.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ITERATIONS = 12 };

typedef struct run {
    haul_config config;
    haul_session session;
    haul_corpus corpus;
    haul_train train;
} run;

static const char *const flags[][2] = {{"num-layers", "2"},
                                       {"hidden-size", "16"},
                                       {"num-attention-heads", "2"},
                                       {"seq-length", "8"},
                                       {"max-position-embeddings", "8"},
                                       {"vocab-size", "40"},
                                       {"micro-batch-size", "2"},
                                       {"global-batch-size", "4"},
                                       {"train-iters", "12"},
                                       {"lr", "0.01"},
                                       {"hidden-dropout", "0.1"},
                                       {"attention-dropout", "0.1"},
                                       {"save-interval", "2"},
                                       {"keep-checkpoints", "2"},
                                       {"eval-interval", "5"},
                                       {"eval-iters", "1"},
                                       {"threads", "1"}};

/* What is kept in how many bits. */
typedef enum precision { F32, BF16, BF16_MOMENTS, PRECISIONS } precision;

static haul_status set(haul_config *config, const char *flag, const char *value) {
    return haul_config_set(config, flag, &value, 1, HAUL_SOURCE_COMMAND_LINE);
}

static haul_status run_open(run *r, const char *save, precision kept, const char *exit_interval) {
    memset(r, 0, sizeof *r);
    HAUL_TRY(haul_config_init(&r->config));
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        HAUL_TRY(set(&r->config, flags[i][0], flags[i][1]));
    }
    HAUL_TRY(set(&r->config, "data-path", small_data_prefix()));
    HAUL_TRY(set(&r->config, "save", save));
    HAUL_TRY(set(&r->config, "load", save));
    if (kept != F32) {
        HAUL_TRY(set(&r->config, "bf16", "true"));
    }
    if (kept == BF16_MOMENTS) {
        HAUL_TRY(set(&r->config, "exp-avg-dtype", "bf16"));
        HAUL_TRY(set(&r->config, "exp-avg-sq-dtype", "bf16"));
    }
    if (exit_interval != NULL) {
        HAUL_TRY(set(&r->config, "exit-interval", exit_interval));
    }
    HAUL_TRY(haul_config_finalize(&r->config));
    haul_checkpoint *checkpoint;
    HAUL_TRY(haul_train_find(&r->config, &checkpoint, NULL));
    if (checkpoint != NULL) {
        haul_string changed = {0};
        HAUL_TRY(haul_train_adopt(&r->config, checkpoint, &changed));
        haul_string_deinit(&changed);
    }
    HAUL_TRY(haul_session_plan(&r->session, &r->config, true));
    HAUL_TRY(haul_session_allocate(&r->session));
    HAUL_TRY(haul_corpus_open(&r->config, &r->corpus));
    r->train = (haul_train){.config = &r->config,
                            .session = &r->session,
                            .training = r->corpus.training,
                            .validation = r->corpus.validation};
    haul_status status = haul_train_start(&r->train, checkpoint);
    haul_checkpoint_close(checkpoint);
    return status;
}

static void run_close(run *r) {
    haul_session_deinit(&r->session);
    haul_corpus_close(&r->corpus);
    haul_config_deinit(&r->config);
}

static void save_directory(char *path, const char *name, precision kept) {
    snprintf(path, 512, "%s/%s-%d", haul_test_directory(), name, (int)kept);
}

/* A copy of the persistent forms of all parameters: values, low halves, moments. */
static char *final_bits(const char *save, precision kept, const char *exit_interval,
                        int64_t *bytes) {
    run r;
    assert_ok(run_open(&r, save, kept, exit_interval));
    assert_ok(haul_train_run(&r.train));
    haul_state_list list;
    assert_ok(haul_state_list_init(&r.session.store, &list));
    char *bits = haul_calloc(r.session.store.bytes, 1);
    assert_non_null(bits);
    *bytes = 0;
    for (int64_t i = 0; i < list.count; i++) {
        int64_t size;
        const haul_checkpoint_tensor *tensor = &list.tensors[i];
        assert_true(
            haul_shape_bytes(tensor->ndim, tensor->shape, haul_dtype_size(tensor->dtype), &size));
        memcpy(bits + *bytes, tensor->data, (size_t)size);
        *bytes += size;
    }
    haul_state_list_deinit(&list);
    run_close(&r);
    return bits;
}

static char *uninterrupted(precision kept, int64_t *bytes) {
    char save[512];
    save_directory(save, "whole", kept);
    assert_ok(haul_file_remove(save));
    return final_bits(save, kept, NULL, bytes);
}

static void test_stop_and_resume(void **state) {
    (void)state;
    for (precision kept = F32; kept < PRECISIONS; kept++) {
        int64_t expected_bytes, bytes;
        char *expected = uninterrupted(kept, &expected_bytes), save[512];
        save_directory(save, "stopped", kept);
        free(final_bits(save, kept, "5", &bytes)); /* stops at 5 */
        free(final_bits(save, kept, "5", &bytes)); /* resumes, stops at 10 */
        char *bits = final_bits(save, kept, NULL, &bytes);
        assert_int_equal(bytes, expected_bytes);
        assert_memory_equal(bits, expected, (size_t)bytes);
        free(bits);
        free(expected);
    }
}

/* In a child process: train until killed or done. */
static void train_in_child(const char *save, precision kept, haul_fault_kind fault, long nth) {
    run r;
    haul_status status = run_open(&r, save, kept, NULL);
    haul_fault_arm(fault, nth, true);
    if (status == HAUL_OK) {
        status = haul_train_run(&r.train);
    }
    _exit(status == HAUL_OK ? 0 : 1);
}

/* Killed at ten seeded moments: the n-th write, sync or rename of a save, which with a save every
 * other step falls before, inside and behind saves. */
static void test_kill_and_resume(void **state) {
    (void)state;
    for (precision kept = F32; kept < PRECISIONS; kept++) {
        int64_t expected_bytes, bytes;
        char *expected = uninterrupted(kept, &expected_bytes), save[512];
        int killed = 0;
        save_directory(save, "killed", kept);
        for (uint32_t kill = 0; kill < 10; kill++) {
            uint32_t key[2] = {(uint32_t)kept, 1}, counter[4] = {kill, 0, 0, 0};
            haul_philox random = haul_philox_4x32(key, counter);
            haul_fault_kind kinds[] = {HAUL_FAULT_WRITE, HAUL_FAULT_SYNC, HAUL_FAULT_RENAME};
            haul_fault_kind kind = kinds[random.word[0] % 3];
            long limit = kind == HAUL_FAULT_WRITE ? 60 : 6;
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                train_in_child(save, kept, kind, 1 + (long)(random.word[1] % (uint32_t)limit));
            }
            int result;
            assert_int_equal(waitpid(child, &result, 0), child);
            killed += WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL;
            assert_true(WIFSIGNALED(result) || WEXITSTATUS(result) == 0);
        }
        assert_true(killed >= 4);
        char *bits = final_bits(save, kept, NULL, &bytes);
        assert_int_equal(bytes, expected_bytes);
        assert_memory_equal(bits, expected, (size_t)bytes);
        free(bits);
        free(expected);
    }
}

/* Values are the same, moments within `roundoff`. */
static void assert_continues(const run *before, const run *after, double roundoff) {
    for (int64_t b = 0; b < after->session.chunk.buffer_count; b++) {
        const haul_store_buffer *was = &before->session.store.buffers[b];
        const haul_store_buffer *is = &after->session.store.buffers[b];
        assert_memory_equal(is->value.data, was->value.data, (size_t)haul_tensor_bytes(&is->value));
        for (int m = 0; m < HAUL_STORE_MOMENTS; m++) {
            const haul_tensor *x = &was->moments[m], *y = &is->moments[m];
            for (int64_t i = 0; i < haul_tensor_count(x); i++) {
                double wanted = haul_element_get(x->data, x->dtype, i);
                double error = haul_element_get(y->data, y->dtype, i) - wanted;
                assert_true(fabs(error) <= roundoff * fabs(wanted));
            }
        }
    }
}

/* A checkpoint goes on with moments of the other dtype: from bf16 exactly, to bf16 rounded. */
static void test_other_moments(void **state) {
    (void)state;
    static const precision written[] = {BF16, BF16_MOMENTS}, wanted[] = {BF16_MOMENTS, BF16};
    for (int way = 0; way < 2; way++) {
        char save[512];
        run before, after;
        haul_checkpoint *checkpoint;
        save_directory(save, "other", written[way]);
        assert_ok(run_open(&before, save, written[way], "5"));
        assert_ok(haul_train_run(&before.train));
        assert_ok(haul_train_find(&before.config, &checkpoint, NULL));
        assert_false(haul_state_converts(&before.session.store, checkpoint));
        assert_ok(run_open(&after, save, wanted[way], NULL));
        assert_true(haul_state_converts(&after.session.store, checkpoint));
        haul_checkpoint_close(checkpoint);
        assert_continues(&before, &after, wanted[way] == BF16_MOMENTS ? 0x1p-8 : 0);
        assert_ok(haul_train_run(&after.train));
        run_close(&before);
        run_close(&after);
    }
}

/* A disk that fills up ends the run with one clear error and leaves the older checkpoint. */
static void test_full_disk(void **state) {
    (void)state;
    char save[512];
    save_directory(save, "full", F32);
    run r;
    assert_ok(run_open(&r, save, F32, "2"));
    assert_ok(haul_train_run(&r.train));
    run_close(&r);
    assert_ok(run_open(&r, save, F32, NULL));
    haul_fault_arm(HAUL_FAULT_WRITE, 3, false);
    haul_test_assert_fails(haul_train_run(&r.train), HAUL_ERROR_IO, "cannot write");
    run_close(&r);
    assert_ok(run_open(&r, save, F32, NULL));
    assert_int_equal(r.train.progress.iteration, 2);
    run_close(&r);
}

/* --use-checkpoint-opt-param-scheduler goes on only where both schedules are one. */
static void test_schedule_of_the_checkpoint(void **state) {
    (void)state;
    char save[512];
    run r;
    haul_checkpoint *checkpoint;
    save_directory(save, "schedule", F32);
    assert_ok(run_open(&r, save, F32, "2"));
    assert_ok(haul_train_run(&r.train));
    assert_ok(haul_train_find(&r.config, &checkpoint, NULL));
    assert_ok(set(&r.config, "use-checkpoint-opt-param-scheduler", "true"));
    assert_ok(set(&r.config, "train-iters", "20"));
    haul_string changed = {0};
    assert_ok(haul_train_adopt(&r.config, checkpoint, &changed));
    assert_int_equal(changed.length, 0);
    assert_ok(set(&r.config, "lr", "0.02"));
    assert_ok(set(&r.config, "lr-decay-style", "cosine"));
    assert_ok(set(&r.config, "lr-decay-iters", "20"));
    haul_test_assert_fails(haul_train_adopt(&r.config, checkpoint, &changed), HAUL_ERROR_CONFIG,
                           "is another: --lr 0.01 (now 0.02), --lr-decay-style \"linear\" (now "
                           "\"cosine\"), --lr-decay-iters 12 (now 20)");
    assert_ok(set(&r.config, "use-checkpoint-opt-param-scheduler", "false"));
    haul_string_deinit(&changed);
    assert_ok(haul_train_adopt(&r.config, checkpoint, &changed));
    assert_non_null(strstr(changed.data, "--lr 0.01 (now 0.02)"));
    haul_string_deinit(&changed);
    haul_checkpoint_close(checkpoint);
    run_close(&r);
}

/* Tensors of other shapes are refused when they are read; these would fit. */
static void test_another_model(void **state) {
    (void)state;
    static const char *const changes[][3] = {
        {"num-layers", "1", "of another model: --num-layers "},
        {"norm-epsilon", "0.5", "of another model: --norm-epsilon "},
        {"position-embedding-type", "none", "of another model: --position-embedding-type "},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char save[512];
        run r;
        haul_checkpoint *checkpoint;
        haul_string changed = {0};
        save_directory(save, changes[i][0], F32);
        assert_ok(run_open(&r, save, F32, "2"));
        assert_ok(haul_train_run(&r.train));
        assert_ok(haul_train_find(&r.config, &checkpoint, NULL));
        assert_ok(set(&r.config, changes[i][0], changes[i][1]));
        haul_test_assert_fails(haul_train_adopt(&r.config, checkpoint, &changed), HAUL_ERROR_CONFIG,
                               changes[i][2]);
        haul_string_deinit(&changed);
        haul_checkpoint_close(checkpoint);
        run_close(&r);
    }
}

static void test_missing_load_is_an_error(void **state) {
    (void)state;
    char save[512], other[512];
    save_directory(save, "fresh", F32);
    save_directory(other, "missing", F32);
    run r;
    assert_ok(run_open(&r, save, F32, NULL)); /* --load equals --save: a fresh start */
    run_close(&r);
    assert_ok(run_open(&r, save, F32, NULL));
    assert_ok(set(&r.config, "load", other));
    haul_checkpoint *checkpoint;
    haul_test_assert_fails(haul_train_find(&r.config, &checkpoint, NULL), HAUL_ERROR_NO_INPUT,
                           "missing");
    run_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_and_resume),
        cmocka_unit_test(test_kill_and_resume),
        cmocka_unit_test(test_other_moments),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_schedule_of_the_checkpoint),
        cmocka_unit_test(test_another_model),
        cmocka_unit_test(test_missing_load_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
