/* ctest: golden cuda */
/* Against transformers and torch in float64: loss and every gradient of tiny random models, and
 * their parameters after 20 AdamW steps (tools/reference/model_golden.py). On ref, and on the
 * device that is the first argument, cpu without one. */
#include "device/compare.h"

#include "base/memory.h"
#include "checkpoint/safetensors.h"
#include "config/huggingface.h"
#include "config/validate.h"
#include "train/session.h"
#include "train/state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, LENGTH = 9, STEPS = 20 };

static const char *backend; /* beside ref */

typedef struct parity {
    char directory[512];
    haul_config config;
    haul_session session;
    haul_safetensors *golden;
    int step;
} parity;

static void set(haul_config *config, const char *flag, const char *value) {
    assert_ok(haul_config_set(config, flag, &value, 1, HAUL_SOURCE_COMMAND_LINE));
}

static void parity_open(parity *p, const char *model, const char *device, bool bf16) {
    static const char *const flags[][2] = {{"seq-length", "9"},
                                           {"micro-batch-size", "2"},
                                           {"global-batch-size", "2"},
                                           {"train-iters", "20"},
                                           {"lr", "0.01"},
                                           {"adam-beta2", "0.95"},
                                           {"weight-decay", "0.1"},
                                           {"clip-grad", "1"},
                                           {"mock-data", "true"},
                                           {"threads", "2"}};
    char path[600];
    memset(p, 0, sizeof *p);
    snprintf(p->directory, sizeof p->directory, "%s/train/golden/%s", HAUL_TEST_DIR, model);
    snprintf(path, sizeof path, "%s/config.json", p->directory);
    assert_ok(haul_config_init(&p->config));
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        set(&p->config, flags[i][0], flags[i][1]);
    }
    set(&p->config, "device", device);
    if (bf16) {
        set(&p->config, "bf16", "true");
    }
    assert_ok(haul_config_read_huggingface(&p->config, path));
    assert_ok(haul_config_finalize(&p->config));
    assert_ok(haul_session_plan(&p->session, &p->config, true));
    assert_ok(haul_session_allocate(&p->session));
    assert_ok(haul_state_import(&p->session.store, &p->config, p->directory));
    assert_ok(haul_executor_pack(&p->session.trainer));
    snprintf(path, sizeof path, "%s/golden.safetensors", p->directory);
    assert_ok(haul_safetensors_open(path, &p->golden));
}

static void parity_close(parity *p) {
    haul_safetensors_close(p->golden);
    haul_session_deinit(&p->session);
    haul_config_deinit(&p->config);
}

static haul_status fill(void *context, int micro_batch, const char *value, haul_tensor tensor) {
    parity *p = context;
    (void)micro_batch;
    const haul_safetensors_entry *batches = haul_safetensors_find(p->golden, "batches");
    for (int64_t r = 0; r < BATCH * LENGTH; r++) {
        int64_t sample = p->step * BATCH + r / LENGTH;
        int64_t at = sample * (LENGTH + 1) + r % LENGTH + (strcmp(value, "targets") == 0);
        int32_t token;
        memcpy(&token, batches->data + at * 4, sizeof token);
        if (strcmp(value, "weights") == 0) {
            haul_element_set(tensor.data, tensor.dtype, r, 1.0 / (BATCH * LENGTH));
        } else {
            ((int32_t *)tensor.data)[r] = token;
        }
    }
    return HAUL_OK;
}

static double run_step(parity *p, double learning_rate) {
    haul_verdict verdict;
    haul_step_request request = {.info = {.step = (uint32_t)p->step, .training = true},
                                 .samples = BATCH,
                                 .fill = fill,
                                 .fill_context = p,
                                 .learning_rate = learning_rate};
    assert_ok(haul_executor_run(&p->session.trainer, &request, &verdict));
    haul_tensor losses = haul_executor_output(&p->session.trainer, p->session.values.losses, 0);
    double sum = 0;
    for (int64_t r = 0; r < BATCH * LENGTH; r++) {
        sum += haul_element_get(losses.data, losses.dtype, r);
    }
    p->step++;
    return sum / (BATCH * LENGTH);
}

/* The tensor `prefix`NAME of the golden file against rows of `tensor` that belong to one view. */
static double view_error(parity *p, const char *prefix, int64_t b, int v,
                         const haul_tensor *tensor) {
    const haul_buffer_plan *plan = &p->session.chunk.buffers[b];
    char name[HAUL_NAME_BYTES + 16];
    snprintf(name, sizeof name, "%s%s", prefix, plan->views[v].name);
    const haul_safetensors_entry *entry = haul_safetensors_find(p->golden, name);
    assert_non_null(entry);
    haul_tensor view = haul_store_view(&p->session.store, b, v, tensor);
    int64_t count = entry->bytes / 8, rows = entry->shape[0];
    int64_t columns = entry->ndim > 1 ? entry->shape[1] : 1;
    bool transposed = plan->transposed && entry->ndim == 2;
    double *ours = haul_calloc(count, sizeof(double));
    double *theirs = haul_calloc(count, sizeof(double));
    void *values = haul_calloc(count, sizeof(double)); /* of the view, from the device */
    assert_non_null(ours);
    assert_non_null(theirs);
    assert_non_null(values);
    haul_stream_copy(&p->session.trainer.stream, values, view.data, haul_tensor_bytes(&view));
    assert_ok(haul_stream_wait(&p->session.trainer.stream));
    memcpy(theirs, entry->data, (size_t)entry->bytes);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = transposed ? i % columns * rows + i / columns : i;
        ours[i] = haul_element_get(values, view.dtype, at);
    }
    free(values);
    double error = haul_test_relative_error(ours, theirs, count);
    free(ours);
    free(theirs);
    return error;
}

/* `except`, when not NULL, is a part of the names that are left out. */
static void assert_close(parity *p, const char *prefix, bool gradients, const char *except,
                         double bound) {
    for (int64_t b = 0; b < p->session.chunk.buffer_count; b++) {
        const haul_store_buffer *buffer = &p->session.store.buffers[b];
        for (int v = 0; v < p->session.chunk.buffers[b].view_count; v++) {
            const char *name = p->session.chunk.buffers[b].views[v].name;
            double error =
                view_error(p, prefix, b, v, gradients ? &buffer->gradient : &buffer->value);
            if (!(error <= bound) && (except == NULL || strstr(name, except) == NULL)) {
                print_error("%s%s: error %.3g, bound %.3g\n", prefix, name, error, bound);
                fail();
            }
        }
    }
}

static double golden_number(const parity *p, const char *name, int64_t index) {
    double value;
    memcpy(&value, haul_safetensors_find(p->golden, name)->data + index * 8, sizeof value);
    return value;
}

static const char *const models[] = {"llama", "llama31", "gpt2"};

static void check_gradients(const char *device, bool bf16, double bound) {
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        parity p;
        parity_open(&p, models[m], device, bf16);
        double loss = run_step(&p, 0), golden = golden_number(&p, "loss", 0);
        assert_true(fabs(loss - golden) <= bound * golden);
        assert_close(&p, "gradient.", true, NULL, bound);
        parity_close(&p);
    }
}

static void check_training(const char *device, const char *except, double bound) {
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        parity p;
        parity_open(&p, models[m], device, false);
        for (int i = 0; i < STEPS; i++) {
            double golden = golden_number(&p, "losses", i);
            assert_true(fabs(run_step(&p, 0.01) - golden) <= bound * golden);
        }
        assert_close(&p, "trained.", false, except, bound);
        parity_close(&p);
    }
}

static void test_gradients_ref(void **state) {
    (void)state;
    check_gradients("ref", false, 1e-10);
}

static void test_training_ref(void **state) {
    (void)state;
    check_training("ref", NULL, 1e-9);
}

static void test_gradients_f32(void **state) {
    (void)state;
    check_gradients(backend, false, 1e-5);
}

/* bf16 keeps 8 bits: each of about ten roundings on the way of a gradient adds at most 2^-9. */
static void test_gradients_bf16(void **state) {
    (void)state;
    check_gradients(backend, true, 10 * ldexp(1, -9) * 2);
}

/* A bias of the keys does not change a softmax, so its gradient is rounding noise, which Adam
 * scales up to whole steps: such biases are left out. The others differ by 20 steps' worth of f32
 * rounding. */
static void test_training_f32(void **state) {
    (void)state;
    check_training(backend, "c_attn.bias", 1e-3);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_ref),  cmocka_unit_test(test_training_ref),
        cmocka_unit_test(test_gradients_f32),  cmocka_unit_test(test_training_f32),
        cmocka_unit_test(test_gradients_bf16),
    };
    backend = haul_test_backend(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
