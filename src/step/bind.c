#include "step/bind.h"

typedef struct binding {
    const haul_program *program;
    char *memory;
    const haul_pass *pass;
} binding;

static haul_tensor bind(const binding *b, haul_tensor shape, int object) {
    if (object < 0) {
        return (haul_tensor){0};
    }
    shape.data =
        b->memory == NULL ? NULL : b->memory + haul_program_address(b->program, object, b->pass);
    return shape;
}

static haul_tensor bind_value(const binding *b, int value) {
    const haul_value_objects *objects = &b->program->values[value];
    bool forward = b->pass->kind == HAUL_PASS_FORWARD;
    return bind(b, b->program->chunk->values[value].shape,
                forward ? objects->forward : objects->backward);
}

static haul_tensor bind_gradient(const binding *b, int value) {
    return bind(b, b->program->chunk->values[value].shape, b->program->values[value].gradient);
}

static void bind_private(const binding *b, const haul_node *node, haul_node_call *call) {
    const haul_node_objects *objects = &b->program->nodes[b->pass->node];
    bool forward = b->pass->kind == HAUL_PASS_FORWARD;
    for (int i = 0; i < node->plan.saved_count; i++) {
        call->saved[i] =
            bind(b, node->plan.saved[i], forward ? objects->saved[i] : objects->saved_backward[i]);
    }
    for (int i = 0; i < node->plan.scratch_count; i++) {
        call->scratch[i] = bind(b, node->plan.scratch[i], objects->scratch[i]);
    }
    for (int i = 0; i < node->plan.constant_count; i++) {
        call->constants[i] =
            bind(b, node->plan.constants[i].shape, b->program->constants[node->first_constant + i]);
    }
    for (int i = 0; i < node->plan.state_count; i++) {
        call->states[i] = bind(b, node->plan.states[i], b->program->states[node->first_state + i]);
    }
}

static void bind_parameters(const binding *b, const haul_node *node, haul_node_call *call) {
    for (int i = 0; i < node->plan.buffer_count; i++) {
        haul_node_parameter *parameter = &call->parameters[i];
        const haul_store_buffer *buffer = &b->program->store->buffers[node->buffers[i]];
        parameter->value = buffer->value;
        parameter->codes = buffer->codes;
        parameter->gradient = buffer->gradient;
        /* A packed form fits only the number of rows that it was made for. */
        if (b->program->store->chunk == b->program->chunk) {
            parameter->packed_forward = buffer->packed_forward;
            parameter->packed_dgrad = buffer->packed_dgrad;
        }
        parameter->accumulate = b->pass->accumulate >> i & 1;
    }
}

/* Gradients of this node's inputs: where to write them, which nobody else then touches, and which
 * are to be added behind it. */
static void bind_input_gradients(const binding *b, const haul_node *node, haul_node_call *call) {
    const haul_node_objects *objects = &b->program->nodes[b->pass->node];
    for (int i = 0; i < node->plan.input_count; i++) {
        int value = node->inputs[i];
        int gradient = b->program->values[value].gradient;
        if (objects->add[i] >= 0) {
            call->input_gradients[i] =
                bind(b, b->program->chunk->values[value].shape, objects->add[i]);
        } else if (i == 0 || gradient != b->program->values[node->inputs[0]].gradient) {
            call->input_gradients[i] = bind_gradient(b, value);
        }
    }
}

static void add_gradients(const binding *b, const haul_node *node, const haul_node_call *call) {
    const haul_node_objects *objects = &b->program->nodes[b->pass->node];
    for (int i = 0; i < node->plan.input_count; i++) {
        if (objects->add[i] >= 0) {
            haul_tensor sum = bind_gradient(b, node->inputs[i]);
            haul_add_args args = {.a = sum, .b = call->input_gradients[i], .y = sum};
            haul_launch(call->stream, HAUL_OP_ADD, &args);
        }
    }
}

void haul_run_pass(const haul_program *program, char *memory, const haul_pass *pass,
                   haul_stream *stream, const haul_step_info *step) {
    const haul_node *node = &program->chunk->nodes[pass->node];
    binding b = {.program = program, .memory = memory, .pass = pass};
    haul_node_call call = {.config = node->config,
                           .numerics = &program->chunk->numerics,
                           .stream = stream,
                           .step = step,
                           .node = (uint32_t)pass->node};
    for (int i = 0; i < node->plan.input_count; i++) {
        call.inputs[i] = bind_value(&b, node->inputs[i]);
    }
    for (int i = 0; i < node->plan.output_count; i++) {
        call.outputs[i] = bind_value(&b, node->outputs[i]);
        call.output_gradients[i] = bind_gradient(&b, node->outputs[i]);
    }
    bind_private(&b, node, &call);
    bind_parameters(&b, node, &call);
    switch (pass->kind) {
    case HAUL_PASS_FORWARD:
        node->kind->forward(&call);
        break;
    case HAUL_PASS_REBUILD:
        (node->kind->rebuild != NULL ? node->kind->rebuild : node->kind->forward)(&call);
        break;
    case HAUL_PASS_BACKWARD:
        bind_input_gradients(&b, node, &call);
        node->kind->backward_input(&call);
        add_gradients(&b, node, &call);
        break;
    case HAUL_PASS_WEIGHT:
        node->kind->backward_weight(&call);
        break;
    default:
        break;
    }
}
