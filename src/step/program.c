#include "step/program.h"

#include "base/memory.h"
#include "step/bind.h"
#include "step/objects.h"

#include <stdlib.h>
#include <string.h>

static haul_status append(haul_template *list, haul_pass pass) {
    HAUL_TRY(haul_grow(&list->passes, &list->capacity, list->count + 1, sizeof(haul_pass)));
    list->passes[list->count++] = pass;
    return HAUL_OK;
}

static haul_status append_node(haul_template *list, haul_pass_kind kind, int64_t node) {
    return append(list, (haul_pass){.kind = kind, .node = (int32_t)node});
}

static haul_status append_rebuilds(const haul_program *program, haul_template *list, int group) {
    for (int64_t n = 0; n < program->chunk->node_count; n++) {
        if (program->chunk->nodes[n].group == group &&
            haul_program_runs(program, HAUL_PASS_REBUILD, (int)n)) {
            HAUL_TRY(append_node(list, HAUL_PASS_REBUILD, n));
        }
    }
    return HAUL_OK;
}

/* The passes that a schedule's item means. W right behind its B is woven into it, node by node, so
 * that gradients die early. */
static haul_status append_forwards(const haul_program *program, haul_template *list) {
    for (int64_t n = 0; n < program->chunk->node_count; n++) {
        HAUL_TRY(append_node(list, HAUL_PASS_FORWARD, n));
    }
    return HAUL_OK;
}

static haul_status append_backwards(const haul_program *program, haul_template *list, bool input,
                                    bool weight) {
    const haul_chunk *chunk = program->chunk;
    for (int64_t n = chunk->node_count - 1; n >= 0; n--) {
        const haul_node *node = &chunk->nodes[n];
        bool enters_group = n == chunk->node_count - 1 || chunk->nodes[n + 1].group != node->group;
        if (input && enters_group) {
            HAUL_TRY(append_rebuilds(program, list, node->group));
        }
        if (input && haul_program_runs(program, HAUL_PASS_BACKWARD, (int)n)) {
            HAUL_TRY(append_node(list, HAUL_PASS_BACKWARD, n));
        }
        if (weight && haul_program_runs(program, HAUL_PASS_WEIGHT, (int)n)) {
            HAUL_TRY(append_node(list, HAUL_PASS_WEIGHT, n));
        }
    }
    return HAUL_OK;
}

static haul_status append_item(const haul_program *program, haul_template *list,
                               haul_schedule_op op, bool woven) {
    switch (op) {
    case HAUL_SCHEDULE_FORWARD:
        return append_forwards(program, list);
    case HAUL_SCHEDULE_BACKWARD:
        return append_backwards(program, list, true, woven);
    default:
        return woven ? HAUL_OK : append_backwards(program, list, false, true);
    }
}

/* True when each W follows its B at once. */
static bool is_woven(const haul_schedule_rank *rank) {
    for (int64_t i = 0; i < rank->count; i++) {
        if (rank->items[i].op == HAUL_SCHEDULE_BACKWARD &&
            (i + 1 == rank->count || rank->items[i + 1].op != HAUL_SCHEDULE_WEIGHT ||
             rank->items[i + 1].micro_batch != rank->items[i].micro_batch)) {
            return false;
        }
    }
    return true;
}

/* Runs each pass of one micro-batch on a recording stream, with shapes alone. */
static haul_status record(haul_program *program, const haul_template *sequence) {
    haul_step_info step = {.step = 1,
                           .training = program->options.training,
                           .position_offset = program->options.position_offset};
    for (int64_t i = 0; i < sequence->count; i++) {
        const haul_pass *pass = &sequence->passes[i];
        haul_recording rebuilt = {0};
        haul_recording *recording = &program->forward_cost;
        if (pass->kind == HAUL_PASS_REBUILD) {
            recording = &rebuilt;
        } else if (pass->kind != HAUL_PASS_FORWARD) {
            recording = &program->backward_cost;
        }
        haul_stream stream = {.device = program->store->device, .recording = recording};
        haul_run_pass(program, NULL, pass, &stream, &step);
        HAUL_TRY(haul_stream_status(&stream));
        int64_t *workspace = &program->nodes[pass->node].workspace_bytes;
        *workspace = haul_max(*workspace, recording->workspace);
        recording->workspace = 0;
    }
    return HAUL_OK;
}

haul_status haul_program_observe(const haul_program *program,
                                 void (*observe)(void *context, haul_op op, const void *args),
                                 void *context) {
    haul_step_info step = {.step = 1, .training = program->options.training};
    haul_recording recording = {0};
    haul_stream stream = {.device = program->store->device,
                          .recording = &recording,
                          .observe = observe,
                          .observe_context = context};
    for (int64_t i = 0; i < program->pass_count; i++) {
        if (program->passes[i].node >= 0 && program->passes[i].micro_batch < 2) {
            haul_run_pass(program, NULL, &program->passes[i], &stream, &step);
        }
    }
    return haul_stream_status(&stream);
}

/* A slot is taken at F and given back at the end of W. */
static haul_status expand(haul_program *program, const haul_schedule_rank *rank, bool woven) {
    int *slot_of = haul_calloc(program->micro_batches, sizeof(int));
    bool *taken = haul_calloc(program->slots, sizeof(bool));
    haul_template list = {0};
    haul_status status = slot_of != NULL && taken != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
    for (int64_t i = 0; i < rank->count && status == HAUL_OK; i++) {
        haul_schedule_item item = rank->items[i];
        int slot = slot_of[item.micro_batch];
        if (item.op == HAUL_SCHEDULE_FORWARD) {
            for (slot = 0; taken[slot];) {
                slot++;
            }
        }
        slot_of[item.micro_batch] = slot;
        taken[slot] = item.op != HAUL_SCHEDULE_WEIGHT && program->options.training;
        int64_t first = list.count;
        if (program->options.training || item.op == HAUL_SCHEDULE_FORWARD) {
            status = append_item(program, &list, item.op, woven);
        }
        for (int64_t p = first; p < list.count; p++) {
            list.passes[p].micro_batch = item.micro_batch;
            list.passes[p].slot = slot;
        }
    }
    if (status == HAUL_OK && program->options.training) {
        status = append_node(&list, HAUL_PASS_VERDICT, -1);
    }
    if (status == HAUL_OK && program->options.training) {
        status = append_node(&list, HAUL_PASS_COMMIT, -1);
    }
    program->passes = list.passes;
    program->pass_count = list.count;
    free(slot_of);
    free(taken);
    return status;
}

/* The first pass of the step that makes a parameter's gradient writes it, the others add. */
static haul_status mark_accumulation(haul_program *program) {
    bool *written = haul_calloc(program->chunk->buffer_count, sizeof(bool));
    if (written == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t p = 0; p < program->pass_count; p++) {
        haul_pass *pass = &program->passes[p];
        if (pass->kind != HAUL_PASS_BACKWARD && pass->kind != HAUL_PASS_WEIGHT) {
            continue;
        }
        const haul_node *node = &program->chunk->nodes[pass->node];
        if (pass->kind == HAUL_PASS_BACKWARD && !node->plan.weight_in_backward) {
            continue;
        }
        for (int i = 0; i < node->plan.buffer_count; i++) {
            pass->accumulate |= (uint32_t)written[node->buffers[i]] << i;
            written[node->buffers[i]] = true;
        }
    }
    free(written);
    return HAUL_OK;
}

static haul_status create_tables(haul_program *program) {
    const haul_chunk *chunk = program->chunk;
    program->values = haul_calloc(chunk->value_count, sizeof *program->values);
    program->nodes = haul_calloc(chunk->node_count, sizeof *program->nodes);
    program->constants = haul_calloc(chunk->constant_count, sizeof *program->constants);
    program->states = haul_calloc(chunk->state_count, sizeof *program->states);
    if (program->values == NULL || program->nodes == NULL || program->constants == NULL ||
        program->states == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_node_objects none;
    memset(&none, -1, sizeof none); /* every object */
    none.rebuilt = false;
    none.scratch_bytes = none.workspace_bytes = 0;
    for (int64_t n = 0; n < chunk->node_count; n++) {
        program->nodes[n] = none;
    }
    return HAUL_OK;
}

static haul_status one_micro_batch(const haul_program *program, bool woven,
                                   haul_template *sequence) {
    HAUL_TRY(append_item(program, sequence, HAUL_SCHEDULE_FORWARD, woven));
    if (program->options.training) {
        HAUL_TRY(append_item(program, sequence, HAUL_SCHEDULE_BACKWARD, woven));
        HAUL_TRY(append_item(program, sequence, HAUL_SCHEDULE_WEIGHT, woven));
    }
    return HAUL_OK;
}

static haul_status compile(haul_program *program, const haul_schedule *schedule,
                           haul_template *sequence) {
    const haul_schedule_rank *rank = &schedule->ranks[0];
    bool woven = is_woven(rank);
    HAUL_TRY(haul_schedule_check(schedule));
    HAUL_TRY(create_tables(program));
    haul_recompute_choose(program);
    HAUL_TRY(haul_objects_create(program));
    HAUL_TRY(one_micro_batch(program, woven, sequence));
    HAUL_TRY(record(program, sequence));
    HAUL_TRY(haul_objects_place(program, sequence));
    HAUL_TRY(expand(program, rank, woven));
    return mark_accumulation(program);
}

haul_status haul_program_compile(const haul_chunk *chunk, const haul_store *store,
                                 const haul_schedule *schedule, haul_program_options options,
                                 haul_program *out) {
    haul_program program = {.chunk = chunk,
                            .store = store,
                            .options = options,
                            .micro_batches = schedule->micro_batches,
                            .slots = options.training ? haul_schedule_in_flight(schedule, 0) : 1};
    haul_template sequence = {0};
    haul_status status = compile(&program, schedule, &sequence);
    free(sequence.passes);
    if (status != HAUL_OK) {
        haul_program_deinit(&program);
        return status;
    }
    *out = program;
    return HAUL_OK;
}

void haul_program_deinit(haul_program *program) {
    free(program->passes);
    free(program->objects);
    free(program->values);
    free(program->nodes);
    free(program->constants);
    free(program->states);
    *program = (haul_program){0};
}
