/* What a pass touches. */
#include "step/objects.h"

static bool bit(uint32_t set, int i) {
    return set >> i & 1;
}

/* B has work when a gradient of its is wanted. */
static bool runs_backward(const haul_program *program, const haul_node *node) {
    bool wanted = node->plan.weight_in_backward;
    for (int i = 0; i < node->plan.input_count; i++) {
        wanted |= haul_chunk_value_has_gradient(program->chunk, node->inputs[i]);
    }
    return wanted && node->kind->backward_input != NULL;
}

bool haul_program_runs(const haul_program *program, haul_pass_kind kind, int n) {
    const haul_node *node = &program->chunk->nodes[n];
    switch (kind) {
    case HAUL_PASS_FORWARD:
        return true;
    case HAUL_PASS_REBUILD:
        return program->nodes[n].rebuilt;
    case HAUL_PASS_BACKWARD:
        return program->options.training && runs_backward(program, node);
    case HAUL_PASS_WEIGHT:
        return program->options.training && node->kind->backward_weight != NULL;
    default:
        return false;
    }
}

/* An object that a node may lack. */
static void visit_some(int object, bool write, haul_access_function *visit, void *context) {
    if (object >= 0) {
        visit(context, object, write);
    }
}

/* What belongs to the node alone, whatever the pass. */
static void visit_private(const haul_program *program, int n, haul_access_function *visit,
                          void *context) {
    const haul_node *node = &program->chunk->nodes[n];
    for (int i = 0; i < HAUL_NODE_SCRATCH; i++) {
        visit_some(program->nodes[n].scratch[i], true, visit, context);
    }
    for (int i = 0; i < node->plan.constant_count; i++) {
        visit(context, program->constants[node->first_constant + i], false);
    }
    for (int i = 0; i < node->plan.state_count; i++) {
        visit(context, program->states[node->first_state + i], true);
    }
}

/* A micro-batch begins with the first node's forward: what the batch brings is written then. */
static void visit_batch(const haul_program *program, haul_access_function *visit, void *context) {
    for (int64_t v = 0; v < program->chunk->value_count; v++) {
        if (program->chunk->values[v].producer < 0) {
            visit(context, program->values[v].forward, true);
        }
    }
}

/* A rebuild that has a kept output works from that and reads no input. */
static void visit_forward(const haul_program *program, bool rebuild, int n,
                          haul_access_function *visit, void *context) {
    const haul_node *node = &program->chunk->nodes[n];
    const haul_node_objects *objects = &program->nodes[n];
    bool kept[HAUL_NODE_OUTPUTS] = {false}, from_outputs = false;
    if (n == 0 && !rebuild) {
        visit_batch(program, visit, context);
    }
    for (int i = 0; i < node->plan.output_count; i++) {
        const haul_value_objects *value = &program->values[node->outputs[i]];
        kept[i] = rebuild && value->backward == value->forward;
        from_outputs |= kept[i];
        visit_some(kept[i] ? value->backward : -1, false, visit, context);
    }
    for (int i = 0; i < node->plan.input_count && !from_outputs; i++) {
        const haul_value_objects *value = &program->values[node->inputs[i]];
        int object = rebuild ? value->backward : value->forward;
        visit(context, object, false);
        visit_some(bit(node->plan.inputs_overwritten, i) ? object : -1, true, visit, context);
    }
    for (int i = 0; i < node->plan.output_count; i++) {
        const haul_value_objects *value = &program->values[node->outputs[i]];
        int object = rebuild ? value->backward : value->forward;
        visit_some(kept[i] ? -1 : object, true, visit, context);
    }
    for (int i = 0; i < node->plan.saved_count; i++) {
        visit(context, rebuild ? objects->saved_backward[i] : objects->saved[i], true);
    }
}

static void visit_parameter_gradients(const haul_program *program, int n,
                                      haul_access_function *visit, void *context) {
    const haul_node *node = &program->chunk->nodes[n];
    for (int i = 0; i < node->plan.buffer_count; i++) {
        visit(context, (int)program->object_count + node->buffers[i], true);
    }
}

static void visit_inputs(const haul_program *program, int n, uint32_t inputs,
                         haul_access_function *visit, void *context) {
    const haul_node *node = &program->chunk->nodes[n];
    for (int i = 0; i < node->plan.input_count; i++) {
        int object = program->values[node->inputs[i]].backward;
        visit_some(bit(inputs, i) ? object : -1, false, visit, context);
    }
}

static void visit_output_gradients(const haul_program *program, int n, haul_access_function *visit,
                                   void *context) {
    const haul_node *node = &program->chunk->nodes[n];
    for (int i = 0; i < node->plan.output_count; i++) {
        visit_some(program->values[node->outputs[i]].gradient, false, visit, context);
    }
}

static void visit_backward(const haul_program *program, int n, haul_access_function *visit,
                           void *context) {
    const haul_node *node = &program->chunk->nodes[n];
    const haul_node_objects *objects = &program->nodes[n];
    visit_inputs(program, n, node->plan.inputs_for_backward, visit, context);
    visit_output_gradients(program, n, visit, context);
    for (int i = 0; i < node->plan.output_count; i++) {
        const haul_value_objects *value = &program->values[node->outputs[i]];
        bool read = bit(node->plan.outputs_for_backward, i);
        bool made = program->chunk->values[node->outputs[i]].leaves; /* a head makes losses in B */
        visit_some(read ? value->backward : -1, false, visit, context);
        visit_some(made ? value->forward : -1, true, visit, context);
    }
    for (int i = 0; i < node->plan.saved_count; i++) {
        visit(context, objects->saved_backward[i], false);
    }
    for (int i = 0; i < node->plan.input_count; i++) {
        int gradient = program->values[node->inputs[i]].gradient;
        visit_some(objects->add[i], true, visit, context);
        visit_some(objects->add[i] >= 0 ? gradient : -1, false, visit, context);
        visit_some(gradient, true, visit, context);
    }
    if (node->plan.weight_in_backward) {
        visit_parameter_gradients(program, n, visit, context);
    }
}

static void visit_weight(const haul_program *program, int n, haul_access_function *visit,
                         void *context) {
    visit_inputs(program, n, program->chunk->nodes[n].plan.inputs_for_weight, visit, context);
    visit_output_gradients(program, n, visit, context);
    visit_parameter_gradients(program, n, visit, context);
}

void haul_program_accesses(const haul_program *program, haul_pass_kind kind, int node,
                           haul_access_function *visit, void *context) {
    switch (kind) {
    case HAUL_PASS_FORWARD:
    case HAUL_PASS_REBUILD:
        visit_forward(program, kind == HAUL_PASS_REBUILD, node, visit, context);
        break;
    case HAUL_PASS_BACKWARD:
        visit_backward(program, node, visit, context);
        break;
    case HAUL_PASS_WEIGHT:
        visit_weight(program, node, visit, context);
        break;
    default:
        return;
    }
    visit_private(program, node, visit, context);
}

int64_t haul_program_address(const haul_program *program, int index, const haul_pass *pass) {
    const haul_object *object = &program->objects[index];
    int64_t copy = 0;
    if (object->memory == HAUL_MEMORY_STEP) {
        copy = pass->micro_batch;
    } else if (object->memory == HAUL_MEMORY_SLOT) {
        copy = pass->slot;
    }
    return program->class_offset[object->memory] + copy * program->class_bytes[object->memory] +
           object->offset;
}
