#include "train/session.h"

#include "base/memory.h"
#include "base/process.h"
#include "config/validate.h"

#include <stdio.h>
#include <string.h>

int64_t haul_session_micro_batches(const haul_config *config) {
    return config->global_batch_size / config->micro_batch_size;
}

static haul_product_dtype product_of(const haul_config *config) {
    switch (config->cpu_product_dtype) {
    case HAUL_CPU_PRODUCT_BF16:
        return HAUL_PRODUCT_BF16;
    case HAUL_CPU_PRODUCT_F32:
        return HAUL_PRODUCT_F32;
    default:
        return HAUL_PRODUCT_AUTO;
    }
}

/* What is only counted is counted as the processor would do it. */
static const char *backend_of(const haul_config *config) {
    return config->device == HAUL_DEVICE_META ? "cpu" : haul_config_choice(config, "device");
}

static haul_status compile(haul_session *session, bool training, int micro_batches,
                           haul_program *program) {
    const haul_config *config = session->config;
    haul_program_options options = {
        .training = training,
        .recompute = config->recompute_granularity == HAUL_RECOMPUTE_FULL,
        .recompute_norms = haul_config_recomputes(config, "layernorm"),
        .recompute_activations = haul_config_recomputes(config, "activation")};
    haul_schedule schedule;
    HAUL_TRY(haul_schedule_none(micro_batches, &schedule));
    haul_status status =
        haul_program_compile(&session->chunk, &session->store, &schedule, options, program);
    haul_schedule_deinit(&schedule);
    return status == HAUL_OK ? haul_program_check(program) : status;
}

static haul_update_options update_options(const haul_config *config) {
    bool adam = config->optimizer == HAUL_OPTIMIZER_ADAM;
    return (haul_update_options){.kind = adam ? HAUL_UPDATE_ADAM : HAUL_UPDATE_SGD,
                                 .beta1 = config->adam_beta1,
                                 .beta2 = config->adam_beta2,
                                 .epsilon = config->adam_eps,
                                 .seed = (uint64_t)config->seed,
                                 .momentum = config->sgd_momentum,
                                 .weight_decay = config->weight_decay,
                                 .clip = config->clip_grad};
}

static haul_store_options store_options(const haul_config *config, haul_update_kind kind,
                                        bool train) {
    bool adam = kind == HAUL_UPDATE_ADAM;
    return (haul_store_options){
        .training = train,
        .moments = haul_update_moments(kind),
        .bf16_moments = {adam && config->exp_avg_dtype == HAUL_MOMENT_BF16,
                         adam && config->exp_avg_sq_dtype == HAUL_MOMENT_BF16}};
}

static haul_status plan_programs(haul_session *session, bool train) {
    const haul_update_options update = update_options(session->config);
    haul_store_options store = store_options(session->config, update.kind, train);
    HAUL_TRY(haul_store_plan(&session->chunk, &session->device, store, &session->store));
    HAUL_TRY(compile(session, false, 1, &session->evaluation));
    HAUL_TRY(
        haul_executor_plan(&session->evaluation, &session->store, update, &session->evaluator));
    if (train) {
        int64_t micro_batches = haul_session_micro_batches(session->config);
        if (micro_batches > 1 << 20) {
            return haul_fail(HAUL_ERROR_CONFIG, "%lld micro-batches a step, must be at most %d",
                             (long long)micro_batches, 1 << 20);
        }
        HAUL_TRY(compile(session, true, (int)micro_batches, &session->training));
        HAUL_TRY(
            haul_executor_plan(&session->training, &session->store, update, &session->trainer));
    }
    return HAUL_OK;
}

static haul_status tabulate_process(haul_memory_table *table) {
    return haul_memory_table_add(table, "before the first allocation", "code and libraries",
                                 haul_process_resident_bytes());
}

/* What a device with memory of its own takes beside tensors, there and of the host. */
static haul_status tabulate_apart(haul_session *session) {
    const haul_backend *backend = session->device.backend;
    const char *name;
    int64_t bytes;
    for (int i = 0;
         backend->reserved != NULL && backend->reserved(&session->device, i, &name, &bytes); i++) {
        HAUL_TRY(haul_memory_table_add(&session->memory, name, "code and libraries", bytes));
    }
    bytes = haul_executor_host_bytes(&session->evaluator);
    if (session->training.passes != NULL) {
        bytes += haul_executor_host_bytes(&session->trainer);
    }
    HAUL_TRY(haul_memory_table_add(&session->host_memory, "what batches bring and steps leave",
                                   "page-locked", bytes));
    return tabulate_process(&session->host_memory);
}

static haul_status tabulate(haul_session *session, bool train) {
    const haul_program *program = train ? &session->training : &session->evaluation;
    haul_memory_table *table = &session->memory;
    for (int64_t i = 0; i < session->store.table.count; i++) {
        const haul_memory_line *line = &session->store.table.lines[i];
        HAUL_TRY(haul_memory_table_add(table, line->name, line->category, line->bytes));
    }
    HAUL_TRY(haul_program_memory(program, table));
    int64_t work = haul_max(session->trainer.bytes, session->evaluator.bytes) - program->bytes;
    HAUL_TRY(
        haul_memory_table_add(table, "what evaluation and COMMIT need beyond", "scratch", work));
    return haul_device_in_host_memory(&session->device) ? tabulate_process(table)
                                                        : tabulate_apart(session);
}

/* With the limits of the flags this keeps the size of each tensor below 2^63 bytes. */
static haul_status check_tokens(const haul_config *config) {
    int64_t tokens = config->micro_batch_size * config->seq_length;
    if (tokens > INT32_MAX) {
        haul_fail(HAUL_ERROR_CONFIG, "a micro-batch has %lld tokens, must have at most %d",
                  (long long)tokens, INT32_MAX);
        haul_hint("lower --micro-batch-size or --seq-length");
        return HAUL_ERROR_CONFIG;
    }
    return HAUL_OK;
}

haul_status haul_session_plan(haul_session *session, const haul_config *config, bool train) {
    *session = (haul_session){.config = config};
    HAUL_TRY(check_tokens(config));
    bool reference = config->device == HAUL_DEVICE_REF;
    HAUL_TRY(haul_device_init(&session->device, backend_of(config), (int)config->threads,
                              product_of(config)));
    haul_model_options model = {.numerics = haul_model_numerics(config, reference),
                                .batch = config->micro_batch_size,
                                .sequence_length = config->seq_length,
                                .fast_products = !haul_device_in_host_memory(&session->device)};
    HAUL_TRY(haul_model_build(config, &model, &session->chunk, &session->values));
    HAUL_TRY(plan_programs(session, train));
    return tabulate(session, train);
}

typedef struct tuning {
    haul_device *device;
    haul_status status;
    int64_t measured;
} tuning;

static void tune(void *context, haul_op op, const void *args) {
    tuning *t = context;
    bool measured = false;
    if (t->status == HAUL_OK) {
        t->status = t->device->backend->tuner->tune(t->device, op, args, &measured);
        t->measured += measured;
    }
}

haul_status haul_session_tune(haul_session *session, const char *path, int64_t *measured) {
    const haul_backend *backend = session->device.backend;
    tuning t = {.device = &session->device};
    *measured = 0;
    if (backend->tuner == NULL || (backend->ready != NULL && !backend->ready(&session->device))) {
        return HAUL_OK;
    }
    HAUL_TRY(backend->tuner->load(&session->device, path));
    if (session->training.passes != NULL) {
        HAUL_TRY(haul_program_observe(&session->training, tune, &t));
    }
    HAUL_TRY(haul_program_observe(&session->evaluation, tune, &t));
    HAUL_TRY(t.status);
    *measured = t.measured;
    return backend->tuner->save(&session->device, path);
}

static haul_status explain_memory(const haul_session *session) {
    haul_string text = {0};
    haul_string reason = {0};
    haul_string_append_text(&reason, haul_error_message());
    if (haul_memory_table_summarize(&session->memory, &text) == HAUL_OK && reason.data != NULL) {
        haul_fail(HAUL_ERROR_MEMORY, "%s; the run takes %s", reason.data, text.data);
    }
    haul_string_deinit(&reason);
    haul_string_deinit(&text);
    haul_hint("lower --micro-batch-size or --seq-length, or add --recompute-granularity full");
    return HAUL_ERROR_MEMORY;
}

haul_status haul_session_allocate(haul_session *session) {
    bool train = session->training.passes != NULL;
    haul_executor *first = &session->evaluator;
    if (train) {
        first = &session->trainer;
        first->bytes = haul_max(first->bytes, session->evaluator.bytes);
    }
    haul_status status = haul_store_allocate(&session->store);
    if (status == HAUL_OK) {
        status = haul_executor_allocate(first);
    }
    if (status == HAUL_OK && train) {
        status = haul_executor_share(&session->evaluator, first);
    }
    return status == HAUL_ERROR_MEMORY ? explain_memory(session) : status;
}

void haul_session_deinit(haul_session *session) {
    haul_executor_deinit(&session->evaluator);
    haul_executor_deinit(&session->trainer);
    haul_program_deinit(&session->training);
    haul_program_deinit(&session->evaluation);
    haul_store_deinit(&session->store);
    haul_chunk_deinit(&session->chunk);
    haul_device_deinit(&session->device);
    haul_memory_table_deinit(&session->memory);
    haul_memory_table_deinit(&session->host_memory);
    *session = (haul_session){0};
}
