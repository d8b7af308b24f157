/* A tiny model with a made-up batch, compiled and ready to run. */
#ifndef HAUL_TESTS_STEP_FIXTURE_H
#define HAUL_TESTS_STEP_FIXTURE_H

#include "testing.h"

#include "base/memory.h"
#include "base/philox.h"
#include "config/validate.h"
#include "model/build.h"
#include "step/executor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIXTURE_BATCH = 2, FIXTURE_LENGTH = 6, FIXTURE_VOCABULARY = 13 };

typedef struct fixture_options {
    const char *device;
    bool gpt2;
    bool bf16;
    bool recompute, recompute_cheap;
    double dropout;
    int micro_batches;
    int stages; /* > 1: the first rank's order of 1F1B, with several slots */
} fixture_options;

typedef struct fixture {
    haul_config config;
    haul_device device;
    haul_chunk chunk;
    haul_model_values values;
    haul_store store;
    haul_schedule schedule;
    haul_program program;
    haul_executor executor;
    double learning_rate;
    int64_t update;
} fixture;

static inline void set(haul_config *config, const char *flag, const char *value) {
    assert_ok(haul_config_set(config, flag, &value, 1, HAUL_SOURCE_COMMAND_LINE));
}

static inline void fixture_configure(haul_config *config, fixture_options options) {
    static const char *const common[][2] = {{"num-layers", "2"},
                                            {"hidden-size", "12"},
                                            {"num-attention-heads", "2"},
                                            {"seq-length", "6"},
                                            {"max-position-embeddings", "8"},
                                            {"make-vocab-size-divisible-by", "4"},
                                            {"vocab-size", "13"},
                                            {"micro-batch-size", "2"},
                                            {"global-batch-size", "8"},
                                            {"train-iters", "10"},
                                            {"mock-data", "true"},
                                            {"init-method-std", "0.1"},
                                            {"lr", "0.01"}};
    static const char *const llama[][2] = {{"swiglu", "true"},
                                           {"normalization", "RMSNorm"},
                                           {"position-embedding-type", "rope"},
                                           {"disable-bias-linear", "true"},
                                           {"group-query-attention", "true"},
                                           {"num-query-groups", "1"},
                                           {"ffn-hidden-size", "16"},
                                           {"untie-embeddings-and-output-weights", "true"}};
    char dropout[32];
    snprintf(dropout, sizeof dropout, "%g", options.dropout);
    assert_ok(haul_config_init(config));
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++) {
        set(config, common[i][0], common[i][1]);
    }
    for (size_t i = 0; i < sizeof llama / sizeof llama[0] && !options.gpt2; i++) {
        set(config, llama[i][0], llama[i][1]);
    }
    set(config, "hidden-dropout", dropout);
    set(config, "attention-dropout", dropout);
    if (options.bf16) {
        set(config, "bf16", "true");
    }
    assert_ok(haul_config_finalize(config));
}

/* The second half of fixture_open: compiles f->chunk, whose values are in f->values. */
static inline void fixture_compile(fixture *f, fixture_options options) {
    haul_store_options store = {.training = true, .moments = 2};
    assert_ok(haul_store_plan(&f->chunk, &f->device, store, &f->store));
    int stages = options.stages > 0 ? options.stages : 1;
    assert_ok(haul_schedule_1f1b(stages, options.micro_batches, &f->schedule));
    haul_program_options program = {.training = true,
                                    .recompute = options.recompute,
                                    .recompute_norms = options.recompute_cheap,
                                    .recompute_activations = options.recompute_cheap};
    assert_ok(haul_program_compile(&f->chunk, &f->store, &f->schedule, program, &f->program));
    assert_ok(haul_program_check(&f->program));
    haul_update_options update = {.kind = HAUL_UPDATE_ADAM,
                                  .beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .epsilon = 1e-8,
                                  .weight_decay = 0.1,
                                  .clip = 1};
    assert_ok(haul_executor_plan(&f->program, &f->store, update, &f->executor));
    assert_ok(haul_store_allocate(&f->store));
    assert_ok(haul_executor_allocate(&f->executor));
    assert_ok(haul_store_initialize(&f->store, 1234));
    assert_ok(haul_executor_pack(&f->executor));
    f->learning_rate = 0.01;
}

static inline void fixture_open(fixture *f, fixture_options options) {
    memset(f, 0, sizeof *f);
    fixture_configure(&f->config, options);
    assert_ok(haul_device_init(&f->device, options.device, 1, HAUL_PRODUCT_F32));
    bool reference = strcmp(options.device, "ref") == 0;
    haul_model_options model = {.numerics = haul_model_numerics(&f->config, reference),
                                .batch = FIXTURE_BATCH,
                                .sequence_length = FIXTURE_LENGTH};
    assert_ok(haul_model_build(&f->config, &model, &f->chunk, &f->values));
    fixture_compile(f, options);
}

static inline void fixture_close(fixture *f) {
    haul_executor_deinit(&f->executor);
    haul_program_deinit(&f->program);
    haul_schedule_deinit(&f->schedule);
    haul_store_deinit(&f->store);
    haul_chunk_deinit(&f->chunk);
    haul_device_deinit(&f->device);
    haul_config_deinit(&f->config);
}

/* Sequences that count upwards from a start that depends on the micro-batch. */
static inline haul_status fixture_fill(void *context, int micro_batch, const char *value,
                                       haul_tensor tensor) {
    fixture *f = context;
    int64_t rows = haul_tensor_count(&tensor);
    for (int64_t r = 0; r < rows; r++) {
        int64_t token = r % FIXTURE_LENGTH + 3 * (r / FIXTURE_LENGTH) + 5 * micro_batch;
        if (strcmp(value, "tokens") == 0) {
            ((int32_t *)tensor.data)[r] = (int32_t)(token % FIXTURE_VOCABULARY);
        } else if (strcmp(value, "targets") == 0) {
            ((int32_t *)tensor.data)[r] = (int32_t)((token + 1) % FIXTURE_VOCABULARY);
        } else {
            double weight = 1.0 / (double)(rows * f->program.micro_batches);
            haul_element_set(tensor.data, tensor.dtype, r, weight);
        }
    }
    return HAUL_OK;
}

/* One step; returns the mean loss. */
static inline double fixture_step(fixture *f, const int64_t *order, haul_verdict *verdict) {
    haul_verdict ignored;
    f->update++;
    haul_step_request request = {.info = {.seed = 7, .step = (uint32_t)f->update, .training = true},
                                 .samples = FIXTURE_BATCH,
                                 .fill = fixture_fill,
                                 .fill_context = f,
                                 .learning_rate = f->learning_rate};
    assert_ok(haul_executor_run_in_order(&f->executor, &request, order,
                                         verdict != NULL ? verdict : &ignored));
    double sum = 0;
    for (int m = 0; m < f->program.micro_batches; m++) {
        haul_tensor losses = haul_executor_output(&f->executor, f->values.losses, m);
        for (int64_t r = 0; r < haul_tensor_count(&losses); r++) {
            sum += haul_element_get(losses.data, losses.dtype, r);
        }
    }
    return sum / (FIXTURE_BATCH * FIXTURE_LENGTH * f->program.micro_batches);
}

#endif
