/* A chunk: the part of a model that one pipeline stage runs, as nodes over named values in
 * topological order. The model module builds it; the step module compiles it. */
#ifndef HAUL_LAYERS_CHUNK_H
#define HAUL_LAYERS_CHUNK_H

#include "layers/node.h"

typedef struct haul_value {
    char name[HAUL_NAME_BYTES];
    haul_tensor shape; /* data NULL */
    int producer;      /* node, or -1: the batch brings it */
    int consumers;
    bool overwritten; /* by the forward of its one consumer */
    bool leaves;      /* read after the step: losses, logits */
} haul_value;

typedef struct haul_node {
    const haul_node_kind *kind;
    char name[HAUL_NAME_BYTES];
    int group; /* transformer layer, or -1; recompute works a group at a time */
    void *config;
    haul_node_plan plan;
    int inputs[HAUL_NODE_INPUTS]; /* values */
    int outputs[HAUL_NODE_OUTPUTS];
    int buffers[HAUL_NODE_BUFFERS];
    int first_constant;
    int first_state;
} haul_node;

typedef struct haul_constant {
    int node;
    haul_constant_plan plan;
} haul_constant;

typedef struct haul_chunk {
    haul_numerics numerics;
    haul_value *values;
    haul_node *nodes;
    haul_buffer_plan *buffers;
    haul_constant *constants;
    haul_tensor *states;
    int64_t value_count, value_capacity;
    int64_t node_count, node_capacity;
    int64_t buffer_count, buffer_capacity;
    int64_t constant_count, constant_capacity;
    int64_t state_count, state_capacity;
} haul_chunk;

void haul_chunk_init(haul_chunk *chunk, haul_numerics numerics);
void haul_chunk_deinit(haul_chunk *chunk);

/* A value that each micro-batch brings; its index goes to *out. */
haul_status haul_chunk_add_input(haul_chunk *chunk, const char *name, haul_tensor shape, int *out);

/* Adds a node over `input_count` values, plans it, and makes its outputs, whose value indices go to
 * outputs[]. The config is copied. Fails with HAUL_ERROR_INTERNAL when the plan contradicts the
 * rules of node.h. */
haul_status haul_chunk_add_node(haul_chunk *chunk, const haul_node_kind *kind, const char *name,
                                int group, const void *config, const int *inputs, int input_count,
                                int *outputs);

/* Marks a value as read after the step; it then keeps its memory until the next. */
void haul_chunk_mark_output(haul_chunk *chunk, int value);

/* True for values whose dtype can have a gradient and that a node of this chunk makes. */
bool haul_chunk_value_has_gradient(const haul_chunk *chunk, int value);

/* Elements of all parameters, each once. */
int64_t haul_chunk_parameter_count(const haul_chunk *chunk);

#endif
