#include "layers/chunk.h"

#include "base/memory.h"
#include "base/string.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void haul_chunk_init(haul_chunk *chunk, haul_numerics numerics) {
    *chunk = (haul_chunk){.numerics = numerics};
}

void haul_chunk_deinit(haul_chunk *chunk) {
    for (int64_t i = 0; i < chunk->node_count; i++) {
        free(chunk->nodes[i].config);
    }
    free(chunk->values);
    free(chunk->nodes);
    free(chunk->buffers);
    free(chunk->constants);
    free(chunk->states);
    *chunk = (haul_chunk){0};
}

static haul_status add_value(haul_chunk *chunk, const char *name, haul_tensor shape, int producer,
                             int *out) {
    HAUL_TRY(haul_grow(&chunk->values, &chunk->value_capacity, chunk->value_count + 1,
                       sizeof(haul_value)));
    haul_value *value = &chunk->values[chunk->value_count];
    *value = (haul_value){.shape = shape, .producer = producer};
    haul_text_copy(value->name, sizeof value->name, name);
    *out = (int)chunk->value_count++;
    return HAUL_OK;
}

haul_status haul_chunk_add_input(haul_chunk *chunk, const char *name, haul_tensor shape, int *out) {
    return add_value(chunk, name, shape, -1, out);
}

/* Finds the buffer whose first view has the same name, or adds one. */
static haul_status add_buffer(haul_chunk *chunk, const haul_buffer_plan *plan, int *out) {
    for (int64_t i = 0; i < chunk->buffer_count; i++) {
        haul_buffer_plan *buffer = &chunk->buffers[i];
        if (strcmp(buffer->views[0].name, plan->views[0].name) == 0) {
            if (memcmp(buffer->shape.shape, plan->shape.shape, sizeof plan->shape.shape) != 0) {
                return haul_fail(HAUL_ERROR_INTERNAL, "parameter %s is declared in two shapes",
                                 plan->views[0].name);
            }
            buffer->product_rows = haul_max(buffer->product_rows, plan->product_rows);
            *out = (int)i;
            return HAUL_OK;
        }
    }
    HAUL_TRY(haul_grow(&chunk->buffers, &chunk->buffer_capacity, chunk->buffer_count + 1,
                       sizeof(haul_buffer_plan)));
    chunk->buffers[chunk->buffer_count] = *plan;
    *out = (int)chunk->buffer_count++;
    return HAUL_OK;
}

static haul_status add_constants_and_states(haul_chunk *chunk, haul_node *node, int index) {
    const haul_node_plan *plan = &node->plan;
    HAUL_TRY(haul_grow(&chunk->constants, &chunk->constant_capacity,
                       chunk->constant_count + plan->constant_count, sizeof(haul_constant)));
    node->first_constant = (int)chunk->constant_count;
    for (int i = 0; i < plan->constant_count; i++) {
        chunk->constants[chunk->constant_count++] =
            (haul_constant){.node = index, .plan = plan->constants[i]};
    }
    HAUL_TRY(haul_grow(&chunk->states, &chunk->state_capacity,
                       chunk->state_count + plan->state_count, sizeof(haul_tensor)));
    node->first_state = (int)chunk->state_count;
    for (int i = 0; i < plan->state_count; i++) {
        chunk->states[chunk->state_count++] = plan->states[i];
    }
    return HAUL_OK;
}

static void connect_inputs(haul_chunk *chunk, haul_node *node, const int *inputs, int count) {
    node->plan.input_count = count;
    for (int i = 0; i < count; i++) {
        node->inputs[i] = inputs[i];
        node->plan.inputs[i] = chunk->values[inputs[i]].shape;
        chunk->values[inputs[i]].consumers++;
    }
}

/* A value that a node overwrites has that one consumer, whichever comes first. */
static haul_status mark_overwritten(haul_chunk *chunk, const haul_node *node) {
    for (int i = 0; i < node->plan.input_count; i++) {
        haul_value *value = &chunk->values[node->inputs[i]];
        value->overwritten |= node->plan.inputs_overwritten >> i & 1;
        if (value->overwritten && value->consumers > 1) {
            return haul_fail(HAUL_ERROR_INTERNAL,
                             "%s reads %s, which has several consumers and is overwritten by one",
                             node->name, value->name);
        }
    }
    return HAUL_OK;
}

static haul_status check_views(const haul_node *node) {
    for (int i = 0; i < node->plan.buffer_count; i++) {
        const haul_buffer_plan *buffer = &node->plan.buffers[i];
        int64_t rows = 0;
        for (int v = 0; v < buffer->view_count; v++) {
            rows += buffer->views[v].rows;
        }
        if (rows != buffer->shape.shape[0]) {
            return haul_fail(HAUL_ERROR_INTERNAL, "%s: the views of parameter %s do not tile it",
                             node->name, buffer->views[0].name);
        }
    }
    return HAUL_OK;
}

haul_status haul_chunk_add_node(haul_chunk *chunk, const haul_node_kind *kind, const char *name,
                                int group, const void *config, const int *inputs, int input_count,
                                int *outputs) {
    HAUL_TRY(
        haul_grow(&chunk->nodes, &chunk->node_capacity, chunk->node_count + 1, sizeof(haul_node)));
    int index = (int)chunk->node_count;
    haul_node *node = &chunk->nodes[index];
    *node = (haul_node){.kind = kind, .group = group};
    haul_text_copy(node->name, sizeof node->name, name);
    node->config = haul_calloc(kind->config_bytes, 1);
    if (node->config == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    chunk->node_count++;
    memcpy(node->config, config, (size_t)kind->config_bytes);
    connect_inputs(chunk, node, inputs, input_count);
    HAUL_TRY(kind->plan(node->config, &chunk->numerics, &node->plan));
    HAUL_TRY(mark_overwritten(chunk, node));
    HAUL_TRY(check_views(node));
    for (int i = 0; i < node->plan.output_count; i++) {
        char value_name[HAUL_NAME_BYTES];
        snprintf(value_name, sizeof value_name, "%.60s.%.30s", name, node->plan.output_names[i]);
        HAUL_TRY(add_value(chunk, value_name, node->plan.outputs[i], index, &node->outputs[i]));
        outputs[i] = node->outputs[i];
    }
    for (int i = 0; i < node->plan.buffer_count; i++) {
        HAUL_TRY(add_buffer(chunk, &node->plan.buffers[i], &node->buffers[i]));
    }
    return add_constants_and_states(chunk, node, index);
}

void haul_chunk_mark_output(haul_chunk *chunk, int value) {
    chunk->values[value].leaves = true;
}

bool haul_chunk_value_has_gradient(const haul_chunk *chunk, int index) {
    const haul_value *value = &chunk->values[index];
    haul_dtype dtype = value->shape.dtype;
    return value->producer >= 0 && value->consumers > 0 &&
           (dtype == HAUL_F64 || dtype == HAUL_F32 || dtype == HAUL_BF16);
}

int64_t haul_chunk_parameter_count(const haul_chunk *chunk) {
    int64_t count = 0;
    for (int64_t i = 0; i < chunk->buffer_count; i++) {
        count += haul_tensor_count(&chunk->buffers[i].shape);
    }
    return count;
}
