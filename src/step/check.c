/* The checker: what must hold for any program, whatever made it. */
#include "base/memory.h"
#include "step/objects.h"

#include <stdlib.h>

enum { PASS_ACCESSES = 64, NODE_PASSES = 4 };

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
        return; /* more than the limits of node.h allow */
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

static bool overlap(const access *a, const access *b) {
    return a->begin < b->end && b->begin < a->end;
}

bool haul_program_conflict(const haul_program *program, const haul_pass *a, const haul_pass *b) {
    if (a->node < 0 || b->node < 0) {
        return true; /* VERDICT and COMMIT come after everything */
    }
    access_list x, y;
    collect_pass(program, a, &x);
    collect_pass(program, b, &y);
    for (int i = 0; i < x.count; i++) {
        bool scratch = x.items[i].object < program->object_count &&
                       program->objects[x.items[i].object].memory == HAUL_MEMORY_SCRATCH;
        for (int j = 0; j < y.count && !scratch; j++) {
            if ((x.items[i].write || y.items[j].write) && overlap(&x.items[i], &y.items[j])) {
                return true;
            }
        }
    }
    return false;
}

static haul_status fail_pass(const haul_program *program, int64_t index, const char *subject,
                             const char *what) {
    const haul_pass *pass = &program->passes[index];
    return haul_fail(HAUL_ERROR_INTERNAL, "program, pass %lld, %s of %s, micro-batch %d: %s%s",
                     (long long)index, haul_pass_kind_name(pass->kind),
                     program->chunk->nodes[pass->node].name, pass->micro_batch, subject, what);
}

static haul_status check_place(const haul_object *object, int64_t end) {
    if (object->offset < 0 || object->offset + object->bytes > end) {
        return haul_fail(HAUL_ERROR_INTERNAL, "program: %s lies outside its memory", object->name);
    }
    return HAUL_OK;
}

/* Every object lies in its class, a node's scratch before the workspace of its ops. */
static haul_status check_places(const haul_program *program) {
    for (int64_t i = 0; i < program->object_count; i++) {
        const haul_object *object = &program->objects[i];
        HAUL_TRY(check_place(object, program->class_bytes[object->memory]));
    }
    for (int64_t n = 0; n < program->chunk->node_count; n++) {
        const haul_node_objects *node = &program->nodes[n];
        for (int i = 0; i < HAUL_NODE_SCRATCH; i++) {
            if (node->scratch[i] >= 0) {
                HAUL_TRY(check_place(&program->objects[node->scratch[i]], node->scratch_bytes));
            }
        }
    }
    return HAUL_OK;
}

/* VERDICT and COMMIT end a step that trains, and stand nowhere else. */
static haul_status check_end(const haul_program *program) {
    int64_t work = program->pass_count - (program->options.training ? 2 : 0);
    for (int64_t i = 0; i < program->pass_count; i++) {
        bool ends = program->passes[i].kind == (i == work ? HAUL_PASS_VERDICT : HAUL_PASS_COMMIT);
        if (i < work ? program->passes[i].node < 0 : !ends) {
            return haul_fail(HAUL_ERROR_INTERNAL, "program, pass %lld: %s", (long long)i,
                             "VERDICT and COMMIT must be the last two passes of a training");
        }
    }
    return HAUL_OK;
}

static haul_status check_once(const haul_program *program, bool *seen) {
    for (int64_t i = 0; i < program->pass_count; i++) {
        const haul_pass *pass = &program->passes[i];
        if (pass->node < 0) {
            continue;
        }
        if (pass->node >= program->chunk->node_count || pass->micro_batch < 0 ||
            pass->micro_batch >= program->micro_batches || pass->slot < 0 ||
            pass->slot >= program->slots) {
            return haul_fail(HAUL_ERROR_INTERNAL,
                             "program, pass %lld: no such node, micro-batch or slot", (long long)i);
        }
        int64_t row = (int64_t)pass->micro_batch * program->chunk->node_count + pass->node;
        bool *mine = &seen[row * NODE_PASSES + (int64_t)pass->kind];
        if (*mine || !haul_program_runs(program, pass->kind, pass->node)) {
            return fail_pass(program, i, "", *mine ? "comes twice" : "has nothing to do");
        }
        *mine = true;
    }
    return HAUL_OK;
}

static haul_status check_missing(const haul_program *program, const bool *seen) {
    int64_t nodes = program->chunk->node_count;
    for (int64_t i = 0; i < program->micro_batches * nodes * NODE_PASSES; i++) {
        haul_pass_kind kind = (haul_pass_kind)(i % NODE_PASSES);
        int node = (int)(i / NODE_PASSES % nodes);
        if (!seen[i] && haul_program_runs(program, kind, node)) {
            return haul_fail(HAUL_ERROR_INTERNAL, "program: %s of %s, micro-batch %lld is missing",
                             haul_pass_kind_name(kind), program->chunk->nodes[node].name,
                             (long long)(i / NODE_PASSES / nodes));
        }
    }
    return HAUL_OK;
}

static haul_status check_complete(const haul_program *program) {
    HAUL_TRY(check_end(program));
    bool *seen = haul_calloc(program->micro_batches * program->chunk->node_count, NODE_PASSES);
    haul_status status = seen != NULL ? check_once(program, seen) : HAUL_ERROR_MEMORY;
    if (status == HAUL_OK) {
        status = check_missing(program, seen);
    }
    free(seen);
    return status;
}

static bool makes_parameter_gradients(const haul_program *program, const haul_pass *pass) {
    return pass->kind == HAUL_PASS_WEIGHT ||
           (pass->kind == HAUL_PASS_BACKWARD &&
            program->chunk->nodes[pass->node].plan.weight_in_backward);
}

/* `last` [nodes] and `written` [buffers] are zeroed. */
static haul_status check_sums_in(const haul_program *program, int *last, bool *written) {
    for (int64_t i = 0; i < program->pass_count; i++) {
        const haul_pass *pass = &program->passes[i];
        if (pass->node < 0 || !makes_parameter_gradients(program, pass)) {
            continue;
        }
        const haul_node *node = &program->chunk->nodes[pass->node];
        if (pass->micro_batch < last[pass->node]) {
            return fail_pass(program, i, "", "its micro-batches must run in ascending order");
        }
        last[pass->node] = pass->micro_batch;
        for (int b = 0; b < node->plan.buffer_count; b++) {
            bool adds = pass->accumulate >> b & 1;
            if (adds != written[node->buffers[b]]) {
                return fail_pass(program, i, "the gradient of ",
                                 adds ? "a parameter is added to before it is written"
                                      : "a parameter is written for a second time");
            }
            written[node->buffers[b]] = true;
        }
    }
    return HAUL_OK;
}

/* Gradients of parameters are sums in a fixed order. */
static haul_status check_sums(const haul_program *program) {
    int *last = haul_calloc(program->chunk->node_count, sizeof(int));
    bool *written = haul_calloc(program->chunk->buffer_count, sizeof(bool));
    haul_status status =
        last != NULL && written != NULL ? check_sums_in(program, last, written) : HAUL_ERROR_MEMORY;
    free(last);
    free(written);
    return status;
}

/* Whose content a range of memory holds: that of an object for one micro-batch, -1 for what stays
 * from step to step. */
typedef struct owner {
    access range;
    int micro_batch;
} owner;

typedef struct owner_list {
    const haul_program *program;
    owner *items;
    int64_t count;
} owner_list;

static bool owns(const owner_list *owners, const access *range, int micro_batch) {
    for (int64_t i = 0; i < owners->count; i++) {
        const owner *o = &owners->items[i];
        if (o->range.object == range->object && o->micro_batch == micro_batch &&
            o->range.begin == range->begin) {
            return true;
        }
    }
    return false;
}

/* What stood there is lost. */
static void own(owner_list *owners, const access *range, int micro_batch) {
    int64_t kept = 0;
    for (int64_t i = 0; i < owners->count; i++) {
        if (!overlap(&owners->items[i].range, range)) {
            owners->items[kept++] = owners->items[i];
        }
    }
    owners->items[kept++] = (owner){*range, micro_batch};
    owners->count = kept;
}

static void own_constants_and_states(owner_list *owners) {
    const haul_program *program = owners->program;
    const haul_pass anywhere = {0};
    access_list list = {.program = program, .pass = &anywhere};
    for (int64_t i = 0; i < program->object_count; i++) {
        if (program->objects[i].memory == HAUL_MEMORY_FOREVER) {
            list.count = 0;
            collect(&list, (int)i, true);
            own(owners, &list.items[0], -1);
        }
    }
}

/* In one pass no object may lie over another, scratch included. */
static haul_status check_apart(const access_list *list, int64_t index) {
    for (int i = 0; i < list->count; i++) {
        for (int j = 0; j < i; j++) {
            const access *a = &list->items[i], *b = &list->items[j];
            if (a->object != b->object && overlap(a, b)) {
                return fail_pass(list->program, index, list->program->objects[a->object].name,
                                 " shares memory with another object of this pass");
            }
        }
    }
    return HAUL_OK;
}

static haul_status check_accesses(owner_list *owners, const access_list *list, int64_t index) {
    const haul_program *program = owners->program;
    for (int k = 0; k < list->count; k++) {
        const access *item = &list->items[k];
        if (item->object >= program->object_count) {
            continue;
        }
        const haul_object *object = &program->objects[item->object];
        int micro_batch = object->memory == HAUL_MEMORY_FOREVER ? -1 : list->pass->micro_batch;
        if (item->write) {
            own(owners, item, micro_batch);
        } else if (!owns(owners, item, micro_batch)) {
            return fail_pass(program, index, object->name,
                             " is read but was not written, or was lost");
        }
    }
    return HAUL_OK;
}

static haul_status check_memory(const haul_program *program) {
    owner_list owners = {
        .program = program,
        .items = haul_calloc(program->object_count * (program->micro_batches + 1), sizeof(owner))};
    if (owners.items == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_status status = HAUL_OK;
    own_constants_and_states(&owners);
    for (int64_t i = 0; i < program->pass_count && status == HAUL_OK; i++) {
        access_list list;
        collect_pass(program, &program->passes[i], &list);
        status = check_apart(&list, i);
        if (status == HAUL_OK) {
            status = check_accesses(&owners, &list, i);
        }
    }
    free(owners.items);
    return status;
}

haul_status haul_program_check(const haul_program *program) {
    HAUL_TRY(check_places(program));
    HAUL_TRY(check_complete(program));
    HAUL_TRY(check_sums(program));
    return check_memory(program);
}
