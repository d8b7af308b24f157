#include "step/objects.h"

#include "base/memory.h"
#include "base/string.h"

#include <stdio.h>
#include <stdlib.h>

enum { ALIGNMENT = 256 }; /* what cuBLASLt wants of its workspace */

static haul_status add_object(haul_program *program, haul_memory_class memory, const char *owner,
                              const char *name, const haul_tensor *shape, int *out) {
    HAUL_TRY(haul_grow(&program->objects, &program->object_capacity, program->object_count + 1,
                       sizeof(haul_object)));
    haul_object *object = &program->objects[program->object_count];
    *object = (haul_object){
        .memory = memory, .bytes = haul_round_up(haul_tensor_bytes(shape), ALIGNMENT), .begin = -1};
    snprintf(object->name, sizeof object->name, "%.56s%.30s", owner, name);
    *out = (int)program->object_count++;
    return HAUL_OK;
}

/* An output that a rebuild makes again has a second life. */
static bool remade(const haul_program *program, int value) {
    int producer = program->chunk->values[value].producer;
    if (producer < 0 || !program->nodes[producer].rebuilt) {
        return false;
    }
    const haul_node *node = &program->chunk->nodes[producer];
    for (int i = 0; i < node->plan.output_count; i++) {
        if (node->outputs[i] == value) {
            return node->kind->rebuild == NULL || (node->plan.outputs_rebuilt >> i & 1);
        }
    }
    return false;
}

static haul_status create_values(haul_program *program) {
    const haul_chunk *chunk = program->chunk;
    for (int64_t v = 0; v < chunk->value_count; v++) {
        const haul_value *value = &chunk->values[v];
        haul_value_objects *objects = &program->values[v];
        haul_memory_class memory = value->leaves ? HAUL_MEMORY_STEP : HAUL_MEMORY_SLOT;
        HAUL_TRY(add_object(program, memory, value->name, "", &value->shape, &objects->forward));
        objects->backward = objects->forward;
        objects->gradient = -1;
        if (remade(program, (int)v)) {
            HAUL_TRY(add_object(program, memory, value->name, " rebuilt", &value->shape,
                                &objects->backward));
        }
    }
    return HAUL_OK;
}

static bool sole_consumer(const haul_chunk *chunk, int value) {
    return chunk->values[value].consumers == 1 && haul_chunk_value_has_gradient(chunk, value);
}

/* In the order of B. A value whose gradient another node has written already gets a temporary that
 * is added; one that shares the gradient of input 0 gets that object. */
static haul_status create_node_gradients(haul_program *program, int64_t n) {
    const haul_chunk *chunk = program->chunk;
    const haul_node *node = &chunk->nodes[n];
    for (int i = 0; i < node->plan.input_count; i++) {
        int v = node->inputs[i];
        const haul_value *value = &chunk->values[v];
        if (!haul_chunk_value_has_gradient(chunk, v)) {
            continue;
        }
        int *gradient = &program->values[v].gradient;
        if (*gradient >= 0) {
            HAUL_TRY(add_object(program, HAUL_MEMORY_SCRATCH, value->name, " gradient to add",
                                &value->shape, &program->nodes[n].add[i]));
        } else if (i > 0 && (node->plan.gradients_shared >> i & 1) && sole_consumer(chunk, v) &&
                   sole_consumer(chunk, node->inputs[0])) {
            *gradient = program->values[node->inputs[0]].gradient;
        } else {
            HAUL_TRY(add_object(program, HAUL_MEMORY_SLOT, value->name, " gradient", &value->shape,
                                gradient));
        }
    }
    return HAUL_OK;
}

static haul_status create_node(haul_program *program, int64_t n) {
    const haul_node *node = &program->chunk->nodes[n];
    haul_node_objects *objects = &program->nodes[n];
    for (int i = 0; i < node->plan.saved_count; i++) {
        const haul_tensor *shape = &node->plan.saved[i];
        char name[HAUL_NAME_BYTES];
        snprintf(name, sizeof name, ".%.40s", node->plan.saved_names[i]);
        HAUL_TRY(
            add_object(program, HAUL_MEMORY_SLOT, node->name, name, shape, &objects->saved[i]));
        objects->saved_backward[i] = objects->saved[i];
        if (objects->rebuilt) {
            HAUL_TRY(add_object(program, HAUL_MEMORY_SLOT, node->name, name, shape,
                                &objects->saved_backward[i]));
        }
    }
    for (int i = 0; i < node->plan.scratch_count; i++) {
        HAUL_TRY(add_object(program, HAUL_MEMORY_SCRATCH, node->name, " scratch",
                            &node->plan.scratch[i], &objects->scratch[i]));
    }
    for (int i = 0; i < node->plan.constant_count; i++) {
        HAUL_TRY(add_object(program, HAUL_MEMORY_FOREVER, node->name, " constant",
                            &node->plan.constants[i].shape,
                            &program->constants[node->first_constant + i]));
    }
    for (int i = 0; i < node->plan.state_count; i++) {
        HAUL_TRY(add_object(program, HAUL_MEMORY_FOREVER, node->name, " state",
                            &node->plan.states[i], &program->states[node->first_state + i]));
    }
    return HAUL_OK;
}

/* No sum of places can overflow when the sum of all objects does not. */
static haul_status check_sum(const haul_program *program) {
    int64_t sum = 0;
    for (int64_t i = 0; i < program->object_count; i++) {
        if (!haul_size_add(sum, program->objects[i].bytes, &sum)) {
            return haul_fail(HAUL_ERROR_CONFIG, "this model and batch need more than 2^63 bytes");
        }
    }
    return HAUL_OK;
}

haul_status haul_objects_create(haul_program *program) {
    HAUL_TRY(create_values(program));
    for (int64_t n = program->chunk->node_count - 1; n >= 0; n--) {
        HAUL_TRY(create_node(program, n));
        if (program->options.training) {
            HAUL_TRY(create_node_gradients(program, n));
        }
    }
    return check_sum(program);
}

typedef struct visit_context {
    haul_program *program;
    int position;
} visit_context;

static void extend_life(void *context, int object, bool write) {
    visit_context *visit = context;
    (void)write;
    if (object < visit->program->object_count) {
        haul_object *touched = &visit->program->objects[object];
        touched->begin = touched->begin < 0 ? visit->position : touched->begin;
        touched->end = visit->position;
    }
}

static int larger_first(const void *a, const void *b) {
    const haul_object *x = *(haul_object *const *)a, *y = *(haul_object *const *)b;
    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes ? 1 : -1;
    }
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin) : (x > y) - (x < y);
}

/* The lowest offset where `object` overlaps none of the placed ones that live at the same time.
 * These are sorted by offset, so the first gap that is wide enough is the lowest. */
static int64_t lowest_offset(haul_object *const *placed, int64_t count, const haul_object *object) {
    int64_t offset = 0;
    for (int64_t i = 0; i < count; i++) {
        const haul_object *other = placed[i];
        bool together = other->begin <= object->end && object->begin <= other->end;
        if (together && other->offset >= offset + object->bytes) {
            break;
        }
        offset = together ? haul_max(offset, other->offset + other->bytes) : offset;
    }
    return offset;
}

static void insert_sorted(haul_object **placed, int64_t count, haul_object *object) {
    int64_t at = count;
    for (; at > 0 && placed[at - 1]->offset > object->offset; at--) {
        placed[at] = placed[at - 1];
    }
    placed[at] = object;
}

haul_status haul_objects_pack(haul_object *objects, int64_t object_count, int64_t *bytes) {
    haul_object **order = haul_calloc(2 * object_count, sizeof(haul_object *));
    if (order == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_object **placed = order + object_count;
    int64_t count = 0;
    for (int64_t i = 0; i < object_count; i++) {
        if (objects[i].memory == HAUL_MEMORY_SLOT && objects[i].begin >= 0) {
            order[count++] = &objects[i];
        }
    }
    qsort(order, (size_t)count, sizeof(haul_object *), larger_first);
    *bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        order[i]->offset = lowest_offset(placed, i, order[i]);
        insert_sorted(placed, i, order[i]);
        *bytes = haul_max(*bytes, order[i]->offset + order[i]->bytes);
    }
    free(order);
    return HAUL_OK;
}

/* Scratch of a node starts at 0 again for each node; STEP and FOREVER objects stand in a row. */
static void place_others(haul_program *program) {
    for (int64_t i = 0; i < program->object_count; i++) {
        haul_object *object = &program->objects[i];
        if (object->memory == HAUL_MEMORY_FOREVER || object->memory == HAUL_MEMORY_STEP) {
            object->offset = program->class_bytes[object->memory];
            program->class_bytes[object->memory] += object->bytes;
        }
    }
    for (int64_t n = 0; n < program->chunk->node_count; n++) {
        haul_node_objects *node = &program->nodes[n];
        int64_t *end = &node->scratch_bytes;
        for (int i = 0; i < HAUL_NODE_SCRATCH + HAUL_NODE_INPUTS; i++) {
            int index = i < HAUL_NODE_SCRATCH ? node->scratch[i] : node->add[i - HAUL_NODE_SCRATCH];
            if (index >= 0) {
                program->objects[index].offset = *end;
                *end += program->objects[index].bytes;
            }
        }
        int64_t *bytes = &program->class_bytes[HAUL_MEMORY_SCRATCH];
        node->workspace_bytes = haul_round_up(node->workspace_bytes, ALIGNMENT);
        *bytes = haul_max(*bytes, *end + node->workspace_bytes);
    }
}

haul_status haul_objects_place(haul_program *program, const haul_template *sequence) {
    visit_context visit = {.program = program};
    for (int64_t i = 0; i < sequence->count; i++) {
        visit.position = (int)i;
        haul_program_accesses(program, sequence->passes[i].kind, sequence->passes[i].node,
                              extend_life, &visit);
    }
    HAUL_TRY(haul_objects_pack(program->objects, program->object_count,
                               &program->class_bytes[HAUL_MEMORY_SLOT]));
    place_others(program);
    int64_t copies[HAUL_MEMORY_CLASSES] = {1, program->micro_batches, program->slots, 1};
    for (int c = 0; c < HAUL_MEMORY_CLASSES; c++) {
        int64_t bytes;
        program->class_offset[c] = program->bytes;
        if (!haul_size_multiply(program->class_bytes[c], copies[c], &bytes) ||
            !haul_size_add(program->bytes, bytes, &program->bytes)) {
            return haul_fail(HAUL_ERROR_CONFIG, "this model and batch need more than 2^63 bytes");
        }
    }
    return HAUL_OK;
}
