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

static void fill_constants(haul_executor *executor, double *values) {
    const haul_program *program = executor->program;
    haul_pass anywhere = {0};
    for (int64_t i = 0; i < program->chunk->constant_count; i++) {
        const haul_constant *constant = &program->chunk->constants[i];
        int64_t count = haul_tensor_count(&constant->plan.shape);
        char *data =
            executor->memory + haul_program_address(program, program->constants[i], &anywhere);
        constant->plan.fill(program->chunk->nodes[constant->node].config, values, count);
        for (int64_t k = 0; k < count; k++) {
            haul_element_set(data, constant->plan.shape.dtype, k, values[k]);
        }
    }
}

haul_status haul_executor_allocate(haul_executor *executor) {
    haul_device *device = executor->store->device;
    const haul_program *program = executor->program;
    int64_t largest = 0;
    for (int64_t i = 0; i < program->chunk->constant_count; i++) {
        largest = haul_max(largest, haul_tensor_count(&program->chunk->constants[i].plan.shape));
    }
    double *values = haul_calloc(largest, sizeof(double));
    if (values == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    void *memory = NULL;
    haul_status status = device->backend->allocate(device, executor->bytes, &memory);
    if (status == HAUL_OK) {
        executor->memory = memory;
        fill_constants(executor, values);
        executor->stream = (haul_stream){.device = device};
    }
    free(values);
    return status;
}

void haul_executor_share(haul_executor *executor, const haul_executor *owner) {
    executor->memory = owner->memory;
    executor->shares_memory = true;
    executor->stream = (haul_stream){.device = executor->store->device};
}

void haul_executor_deinit(haul_executor *executor) {
    if (executor->memory != NULL && !executor->shares_memory) {
        haul_device *device = executor->store->device;
        device->backend->release(device, executor->memory, executor->bytes);
    }
    *executor = (haul_executor){0};
}

/* Scratch is the last class: a pass finds its workspace behind the node's own scratch, VERDICT and
 * COMMIT have all of it. */
static void give_scratch(haul_executor *executor, bool whole) {
    const haul_program *program = executor->program;
    int64_t begin =
        program->class_offset[HAUL_MEMORY_SCRATCH] + (whole ? 0 : program->workspace_offset);
    executor->stream.scratch = executor->memory + begin;
    executor->stream.scratch_bytes = executor->bytes - begin;
}

haul_status haul_executor_pack(haul_executor *executor) {
    give_scratch(executor, true);
    haul_store_pack(executor->store, &executor->stream);
    return haul_stream_status(&executor->stream);
}

static haul_status fill_batch(haul_executor *executor, const haul_step_request *request,
                              const haul_pass *pass) {
    const haul_program *program = executor->program;
    for (int64_t v = 0; v < program->chunk->value_count; v++) {
        const haul_value *value = &program->chunk->values[v];
        if (value->producer < 0) {
            haul_tensor tensor = value->shape;
            tensor.data =
                executor->memory + haul_program_address(program, program->values[v].forward, pass);
            HAUL_TRY(request->fill(request->fill_context, pass->micro_batch, value->name, tensor));
        }
    }
    return HAUL_OK;
}

static haul_status run_pass(haul_executor *executor, const haul_step_request *request,
                            const haul_pass *pass, haul_verdict *verdict) {
    give_scratch(executor, pass->node < 0);
    if (pass->kind == HAUL_PASS_VERDICT) {
        haul_update_verdict(executor->store, &executor->update, request->learning_rate,
                            request->update, &executor->stream, verdict);
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

haul_status haul_executor_run_in_order(haul_executor *executor, const haul_step_request *request,
                                       const int64_t *order, haul_verdict *verdict) {
    const haul_program *program = executor->program;
    for (int64_t i = 0; i < program->pass_count; i++) {
        const haul_pass *pass = &program->passes[order != NULL ? order[i] : i];
        HAUL_TRY(run_pass(executor, request, pass, verdict));
    }
    return haul_stream_status(&executor->stream);
}

haul_status haul_executor_run(haul_executor *executor, const haul_step_request *request,
                              haul_verdict *verdict) {
    return haul_executor_run_in_order(executor, request, NULL, verdict);
}

haul_tensor haul_executor_output(const haul_executor *executor, int value, int micro_batch) {
    const haul_program *program = executor->program;
    haul_pass pass = {.micro_batch = micro_batch};
    haul_tensor tensor = program->chunk->values[value].shape;
    tensor.data =
        executor->memory + haul_program_address(program, program->values[value].forward, &pass);
    return tensor;
}
