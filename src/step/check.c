/* The checker: what must hold for any program, whatever made it. */
#include "base/memory.h"
#include "step/program.h"

#include <stdlib.h>

enum { PASS_ACCESSES = 64 };

/* The bytes that a pass touches: [begin, end) of the program's memory, or of an imaginary region
 * behind it for gradients of parameters. */
typedef struct access {
    int object;
    bool write;
    int64_t begin, end;
} access;

typedef struct access_list {
    const haul_program *program;
    const haul_pass *pass;
    access items[PASS_ACCESSES];
    int count;
} access_list;

static void collect(void *context, int object, bool write) {
    access_list *list = context;
    if (list->count == PASS_ACCESSES) {
        return;
    }
    access *item = &list->items[list->count++];
    *item = (access){.object = object, .write = write};
    if (object >= list->program->object_count) {
        item->begin = list->program->bytes + object;
        item->end = item->begin + 1;
    } else {
        item->begin = haul_program_address(list->program, object, list->pass);
        item->end = item->begin + list->program->objects[object].bytes;
    }
}

static void collect_pass(const haul_program *program, const haul_pass *pass, access_list *list) {
    list->program = program;
    list->pass = pass;
    list->count = 0;
    haul_program_accesses(program, pass->kind, pass->node, collect, list);
}

bool haul_program_conflict(const haul_program *program, const haul_pass *a, const haul_pass *b) {
    if (a->node < 0 || b->node < 0) {
        return true; /* VERDICT and COMMIT come after everything */
    }
    access_list x, y;
    collect_pass(program, a, &x);
    collect_pass(program, b, &y);
    for (int i = 0; i < x.count; i++) {
        for (int j = 0; j < y.count; j++) {
            bool scratch = x.items[i].object < program->object_count &&
                           program->objects[x.items[i].object].memory == HAUL_MEMORY_SCRATCH;
            if (!scratch && (x.items[i].write || y.items[j].write) &&
                x.items[i].begin < y.items[j].end && y.items[j].begin < x.items[i].end) {
                return true;
            }
        }
    }
    return false;
}

/* Which object (and whose micro-batch) last wrote each place: a read must find its own. */
typedef struct owner {
    int object;
    int micro_batch;
    int64_t begin, end;
} owner;

static haul_status fail_pass(const haul_program *program, int64_t index, int object,
                             const char *what) {
    const haul_pass *pass = &program->passes[index];
    return haul_fail(HAUL_ERROR_INTERNAL, "program, pass %lld (%s, micro-batch %d): %s %s",
                     (long long)index, program->chunk->nodes[pass->node].name, pass->micro_batch,
                     program->objects[object].name, what);
}

static haul_status check_access(const haul_program *program, int64_t index, const access *item,
                                owner *owners, int64_t *count) {
    const haul_pass *pass = &program->passes[index];
    haul_memory_class memory = program->objects[item->object].memory;
    if (memory == HAUL_MEMORY_FOREVER || memory == HAUL_MEMORY_SCRATCH) {
        return HAUL_OK;
    }
    bool found = false;
    for (int64_t i = 0; i < *count;) {
        owner *o = &owners[i];
        if (o->begin < item->end && item->begin < o->end) {
            bool same = o->object == item->object && o->micro_batch == pass->micro_batch;
            found |= same;
            if (!same && item->write) {
                *o = owners[--*count];
                continue;
            }
        }
        i++;
    }
    if (!found && !item->write) {
        return fail_pass(program, index, item->object, "is read but was not written, or was lost");
    }
    if (!found) {
        owners[(*count)++] = (owner){item->object, pass->micro_batch, item->begin, item->end};
    }
    return HAUL_OK;
}

static bool writes_gradient(const haul_program *program, const haul_pass *pass) {
    return pass->kind == HAUL_PASS_WEIGHT ||
           (pass->kind == HAUL_PASS_BACKWARD &&
            program->chunk->nodes[pass->node].plan.weight_in_backward);
}

static haul_status check_weight_order(const haul_program *program) {
    int *last = haul_calloc(program->chunk->node_count, sizeof(int));
    if (last == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_status status = HAUL_OK;
    for (int64_t i = 0; i < program->pass_count && status == HAUL_OK; i++) {
        const haul_pass *pass = &program->passes[i];
        if (pass->node >= 0 && writes_gradient(program, pass)) {
            if (pass->micro_batch < last[pass->node]) {
                status = haul_fail(HAUL_ERROR_INTERNAL,
                                   "program, pass %lld: W of %s runs for micro-batch %d after %d",
                                   (long long)i, program->chunk->nodes[pass->node].name,
                                   pass->micro_batch, last[pass->node]);
            }
            last[pass->node] = pass->micro_batch;
        }
    }
    free(last);
    return status;
}

/* The batch is there from the start of its micro-batch's first pass. */
static void own_inputs(const haul_program *program, const haul_pass *pass, owner *owners,
                       int64_t *count) {
    for (int64_t v = 0; v < program->chunk->value_count; v++) {
        if (program->chunk->values[v].producer < 0) {
            int object = program->values[v].forward;
            int64_t begin = haul_program_address(program, object, pass);
            owners[(*count)++] =
                (owner){object, pass->micro_batch, begin, begin + program->objects[object].bytes};
        }
    }
}

haul_status haul_program_check(const haul_program *program) {
    HAUL_TRY(check_weight_order(program));
    owner *owners = haul_calloc(program->object_count * (program->micro_batches + 1) +
                                    program->chunk->value_count * program->micro_batches,
                                sizeof *owners);
    if (owners == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    int64_t count = 0;
    haul_status status = HAUL_OK;
    for (int64_t i = 0; i < program->pass_count && status == HAUL_OK; i++) {
        const haul_pass *pass = &program->passes[i];
        access_list list;
        if (pass->node < 0) {
            continue;
        }
        if (pass->kind == HAUL_PASS_FORWARD && pass->node == 0) {
            own_inputs(program, pass, owners, &count);
        }
        collect_pass(program, pass, &list);
        /* Reads first: a pass may write over what it reads. */
        for (int write = 0; write < 2; write++) {
            for (int k = 0; k < list.count && status == HAUL_OK; k++) {
                if (list.items[k].write == write && list.items[k].object < program->object_count) {
                    status = check_access(program, i, &list.items[k], owners, &count);
                }
            }
        }
    }
    free(owners);
    return status;
}
