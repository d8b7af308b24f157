#include "step/executor.h"

#include "base/memory.h"
#include "step/bind.h"

#include <stdlib.h>

haul_status haul_executor_plan(const haul_program *program, haul_store *store,
                               haul_update_options update, haul_executor *out) {
    haul_executor executor = {.program = program, .store = store, .update = update};
    int64_t workspace = 0;
    if (program->options.training) {
        HAUL_TRY(haul_update_workspace(store, &update, &workspace));
    }
    int64_t scratch = program->class_bytes[HAUL_MEMORY_SCRATCH];
    executor.bytes = program->bytes + haul_max(0, haul_round_up(workspace, 64) - scratch);
    *out = executor;
    return HAUL_OK;
}

static haul_status fill_constant(haul_executor *executor, const haul_constant *constant,
                                 int object) {
    haul_pass anywhere = {0};
    haul_device *device = executor->store->device;
    haul_dtype dtype = constant->plan.shape.dtype;
    int64_t count = haul_tensor_count(&constant->plan.shape);
    double *values = haul_calloc(count, sizeof(double));
    void *staging = NULL;
    haul_status status =
        values == NULL
            ? HAUL_ERROR_MEMORY
            : haul_device_allocate_host(device, count * haul_dtype_size(dtype), &staging);
    if (status == HAUL_OK) {
        constant->plan.fill(executor->program->chunk->nodes[constant->node].config, values, count);
        for (int64_t k = 0; k < count; k++) {
            haul_element_set(staging, dtype, k, values[k]);
        }
        char *to = executor->memory + haul_program_address(executor->program, object, &anywhere);
        haul_stream_copy(&executor->stream, to, staging, count * haul_dtype_size(dtype));
        status = haul_stream_wait(&executor->stream);
    }
    haul_device_release_host(device, staging);
    free(values);
    return status;
}

static haul_status fill_constants(haul_executor *executor) {
    const haul_chunk *chunk = executor->program->chunk;
    for (int64_t i = 0; i < chunk->constant_count; i++) {
        HAUL_TRY(fill_constant(executor, &chunk->constants[i], executor->program->constants[i]));
    }
    return HAUL_OK;
}

static bool brought_by_batch(const haul_value *value) {
    return value->producer < 0;
}

/* Gives a place in host memory to each value that the host fills or reads, and behind them to the
 * norms; `offsets` may be NULL. Returns the place of the norms. */
static int64_t place_on_host(const haul_executor *executor, int64_t *offsets) {
    const haul_program *program = executor->program;
    int64_t end = 0;
    for (int64_t v = 0; v < program->chunk->value_count; v++) {
        const haul_value *value = &program->chunk->values[v];
        bool seen = brought_by_batch(value) || value->leaves;
        if (offsets != NULL) {
            offsets[v] = seen ? end : -1;
        }
        end += seen ? haul_tensor_bytes(&value->shape) * program->micro_batches : 0;
    }
    return haul_round_up(end, (int64_t)sizeof(double));
}

int64_t haul_executor_depth(const haul_executor *executor) {
    return haul_device_in_host_memory(executor->store->device) ? 1 : HAUL_EXECUTOR_DEPTH;
}

int64_t haul_executor_host_bytes(const haul_executor *executor) {
    if (haul_device_in_host_memory(executor->store->device)) {
        return 0;
    }
    int64_t step = place_on_host(executor, NULL) + haul_tensor_bytes(&executor->store->norms);
    return HAUL_EXECUTOR_DEPTH * haul_round_up(step, 64);
}

static haul_status allocate_host(haul_executor *executor) {
    const haul_program *program = executor->program;
    haul_device *device = executor->store->device;
    if (haul_device_in_host_memory(device)) {
        return HAUL_OK;
    }
    executor->host_offsets = haul_calloc(program->chunk->value_count, sizeof(int64_t));
    if (executor->host_offsets == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    executor->host_norms = place_on_host(executor, executor->host_offsets);
    void *host = NULL;
    HAUL_TRY(haul_device_allocate_host(device, haul_executor_host_bytes(executor), &host));
    executor->host = host;
    executor->host_bytes = haul_executor_host_bytes(executor) / HAUL_EXECUTOR_DEPTH;
    return HAUL_OK;
}

haul_status haul_executor_allocate(haul_executor *executor) {
    haul_device *device = executor->store->device;
    void *memory = NULL;
    HAUL_TRY(device->backend->allocate(device, executor->bytes, &memory));
    executor->memory = memory;
    executor->stream = (haul_stream){.device = device};
    HAUL_TRY(fill_constants(executor));
    return allocate_host(executor);
}

haul_status haul_executor_share(haul_executor *executor, const haul_executor *owner) {
    executor->memory = owner->memory;
    executor->shares_memory = true;
    executor->stream = (haul_stream){.device = executor->store->device};
    return allocate_host(executor);
}

void haul_executor_deinit(haul_executor *executor) {
    if (executor->host != NULL) {
        haul_device_release_host(executor->store->device, executor->host);
    }
    free(executor->host_offsets);
    if (executor->memory != NULL && !executor->shares_memory) {
        haul_device *device = executor->store->device;
        device->backend->release(device, executor->memory, executor->bytes);
    }
    *executor = (haul_executor){0};
}

/* Scratch is the last class: a pass finds its workspace behind the node's own scratch, VERDICT and
 * COMMIT (node -1) have all of it. */
static void give_scratch(haul_executor *executor, int node) {
    const haul_program *program = executor->program;
    int64_t begin = program->class_offset[HAUL_MEMORY_SCRATCH] +
                    (node < 0 ? 0 : program->nodes[node].scratch_bytes);
    executor->stream.scratch = executor->memory + begin;
    executor->stream.scratch_bytes = executor->bytes - begin;
}

haul_status haul_executor_pack(haul_executor *executor) {
    give_scratch(executor, -1);
    haul_store_pack(executor->store, &executor->stream);
    return haul_stream_status(&executor->stream);
}

static haul_tensor device_tensor(const haul_executor *executor, int64_t value,
                                 const haul_pass *pass) {
    const haul_program *program = executor->program;
    haul_tensor tensor = program->chunk->values[value].shape;
    tensor.data =
        executor->memory + haul_program_address(program, program->values[value].forward, pass);
    return tensor;
}

/* The host's memory of one step. */
static char *host_of(const haul_executor *executor, int64_t step) {
    return executor->host + step % HAUL_EXECUTOR_DEPTH * executor->host_bytes;
}

/* The host's place of a value; the device's own when the host can reach it. */
static haul_tensor host_tensor(const haul_executor *executor, int64_t step, int64_t value,
                               const haul_pass *pass) {
    haul_tensor tensor = device_tensor(executor, value, pass);
    if (executor->host != NULL) {
        tensor.data = host_of(executor, step) + executor->host_offsets[value] +
                      pass->micro_batch * haul_tensor_bytes(&tensor);
    }
    return tensor;
}

static haul_status fill_batch(haul_executor *executor, const haul_step_request *request,
                              const haul_pass *pass) {
    const haul_chunk *chunk = executor->program->chunk;
    for (int64_t v = 0; v < chunk->value_count; v++) {
        if (brought_by_batch(&chunk->values[v])) {
            haul_tensor from = host_tensor(executor, executor->started, v, pass);
            haul_tensor to = device_tensor(executor, v, pass);
            HAUL_TRY(request->fill(request->fill_context, pass->micro_batch, chunk->values[v].name,
                                   from));
            if (from.data != to.data) {
                haul_stream_copy(&executor->stream, to.data, from.data, haul_tensor_bytes(&to));
            }
        }
    }
    return HAUL_OK;
}

/* Outputs and norms go to the host's places. */
static void fetch(haul_executor *executor) {
    const haul_program *program = executor->program;
    const haul_tensor *norms = &executor->store->norms;
    if (executor->host == NULL) {
        return;
    }
    for (int64_t v = 0; v < program->chunk->value_count; v++) {
        haul_pass pass = {0};
        for (; program->chunk->values[v].leaves && pass.micro_batch < program->micro_batches;
             pass.micro_batch++) {
            haul_tensor from = device_tensor(executor, v, &pass);
            haul_tensor to = host_tensor(executor, executor->started, v, &pass);
            haul_stream_copy(&executor->stream, to.data, from.data, haul_tensor_bytes(&to));
        }
    }
    haul_stream_copy(&executor->stream, host_of(executor, executor->started) + executor->host_norms,
                     norms->data, haul_tensor_bytes(norms));
}

static const double *host_norms(const haul_executor *executor) {
    if (executor->host == NULL) {
        return executor->store->norms.data;
    }
    const char *host = host_of(executor, executor->finished) + executor->host_norms;
    return (const double *)(const void *)host;
}

static void show(const haul_executor *executor, const haul_pass *pass) {
    if (executor->observe != NULL) {
        executor->observe(executor->observe_context, pass);
    }
}

static haul_status run_pass(haul_executor *executor, const haul_step_request *request,
                            const haul_pass *pass) {
    show(executor, pass);
    give_scratch(executor, pass->node);
    if (pass->kind == HAUL_PASS_VERDICT) {
        haul_update_verdict(executor->store, &executor->update, request->learning_rate,
                            &executor->stream);
        return HAUL_OK;
    }
    if (pass->kind == HAUL_PASS_COMMIT) {
        haul_update_commit(executor->store, &executor->update, &executor->stream);
        return HAUL_OK;
    }
    if (pass->kind == HAUL_PASS_FORWARD && pass->node == 0) {
        HAUL_TRY(fill_batch(executor, request, pass));
    }
    haul_step_info info = request->info;
    info.first_sample += pass->micro_batch * request->samples;
    haul_run_pass(executor->program, executor->memory, pass, &executor->stream, &info);
    return HAUL_OK;
}

static haul_status start_in_order(haul_executor *executor, const haul_step_request *request,
                                  const int64_t *order) {
    const haul_program *program = executor->program;
    executor->started++;
    for (int64_t i = 0; i < program->pass_count; i++) {
        const haul_pass *pass = &program->passes[order != NULL ? order[i] : i];
        HAUL_TRY(run_pass(executor, request, pass));
    }
    show(executor, NULL);
    fetch(executor);
    haul_stream_mark(&executor->stream, (int)(executor->started % HAUL_EXECUTOR_DEPTH));
    return haul_stream_status(&executor->stream);
}

haul_status haul_executor_start(haul_executor *executor, const haul_step_request *request) {
    return start_in_order(executor, request, NULL);
}

haul_status haul_executor_finish(haul_executor *executor, haul_verdict *verdict) {
    executor->finished++;
    HAUL_TRY(
        haul_stream_wait_mark(&executor->stream, (int)(executor->finished % HAUL_EXECUTOR_DEPTH)));
    if (verdict != NULL) {
        *verdict = haul_update_read_verdict(executor->store, host_norms(executor));
    }
    return HAUL_OK;
}

haul_status haul_executor_run_in_order(haul_executor *executor, const haul_step_request *request,
                                       const int64_t *order, haul_verdict *verdict) {
    HAUL_TRY(start_in_order(executor, request, order));
    return haul_executor_finish(executor, verdict);
}

haul_status haul_executor_run(haul_executor *executor, const haul_step_request *request,
                              haul_verdict *verdict) {
    return haul_executor_run_in_order(executor, request, NULL, verdict);
}

haul_tensor haul_executor_output(const haul_executor *executor, int value, int micro_batch) {
    haul_pass pass = {.micro_batch = micro_batch};
    return host_tensor(executor, executor->finished, value, &pass);
}
