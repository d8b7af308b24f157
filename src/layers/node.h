/* A node is one unit of work in a model: it declares what it needs (plan) and launches ops on
 * tensors that it is handed (forward, backward_input, backward_weight, rebuild). It holds no
 * pointers, streams or state. To write a new one, see docs/add-a-node.md. */
#ifndef HAUL_LAYERS_NODE_H
#define HAUL_LAYERS_NODE_H

#include "device/device.h"

enum {
    HAUL_NODE_INPUTS = 4,
    HAUL_NODE_OUTPUTS = 2,
    HAUL_NODE_BUFFERS = 4,
    HAUL_NODE_SAVED = 2,
    HAUL_NODE_SCRATCH = 6,
    HAUL_NODE_CONSTANTS = 1,
    HAUL_NODE_STATES = 1,
    HAUL_BUFFER_VIEWS = 4,
    HAUL_NAME_BYTES = 96
};

/* The dtypes of a model: of activations and parameters, and of what must not be rounded to them:
 * statistics, losses, main gradients and moments. */
typedef struct haul_numerics {
    haul_dtype activation;  /* f32, bf16; f64 on ref */
    haul_dtype accumulator; /* f32; f64 on ref */
} haul_numerics;

typedef enum haul_init_kind { HAUL_INIT_NORMAL, HAUL_INIT_ZERO, HAUL_INIT_ONE } haul_init_kind;

/* A view is a parameter as checkpoints and Hugging Face know it: rows [first_row, first_row + rows)
 * of a buffer, under its own name. */
typedef struct haul_view_plan {
    char name[HAUL_NAME_BYTES];
    int64_t rows;
} haul_view_plan;

/* A buffer is the physical matrix or vector that a kernel reads; its views tile its rows. Two nodes
 * that declare a buffer whose first view has the same name share it (tied weights). */
typedef struct haul_buffer_plan {
    haul_tensor shape; /* data NULL */
    haul_init_kind init;
    double init_std;
    bool decay; /* takes part in weight decay */
    int64_t
        product_rows;  /* R of the matrix products that read it, which get packed forms; 0: none */
    bool product_bias; /* the forward product adds a bias */
    haul_fp8 fp8;      /* its products read FP8 codes */
    bool vocabulary;   /* rows are tokens, the last ones padding */
    bool transposed;   /* Hugging Face stores it as [K, N] (GPT-2's Conv1D) */
    haul_view_plan views[HAUL_BUFFER_VIEWS];
    int view_count;
} haul_buffer_plan;

/* A constant is made once before step 0 (a table of angles). `fill` writes count doubles. */
typedef struct haul_constant_plan {
    haul_tensor shape;
    void (*fill)(const void *config, double *values, int64_t count);
} haul_constant_plan;

/* What a node declares. plan() receives the shapes of its inputs and fills the rest; it is pure.
 * Scratch workspace of ops, FLOPs and bytes are not declared: haul runs the node once on a
 * recording stream and counts. */
typedef struct haul_node_plan {
    haul_tensor inputs[HAUL_NODE_INPUTS];
    int input_count;

    haul_tensor outputs[HAUL_NODE_OUTPUTS];
    const char *output_names[HAUL_NODE_OUTPUTS];
    int output_count;
    haul_buffer_plan buffers[HAUL_NODE_BUFFERS];
    int buffer_count;
    haul_tensor saved[HAUL_NODE_SAVED]; /* kept from F to B besides inputs and outputs */
    const char *saved_names[HAUL_NODE_SAVED];
    int saved_count;
    haul_tensor scratch[HAUL_NODE_SCRATCH]; /* dies with the pass */
    int scratch_count;
    haul_constant_plan constants[HAUL_NODE_CONSTANTS];
    int constant_count;
    haul_tensor
        states[HAUL_NODE_STATES]; /* persist from run to run (a key/value cache), zero at first */
    int state_count;

    /* Bit i: input or output i is read by B, by W. */
    uint32_t inputs_for_backward, inputs_for_weight;
    uint32_t outputs_for_backward;
    /* Bit i: forward overwrites input i, which no other node may read. */
    uint32_t inputs_overwritten;
    /* Bit i: the gradient of input i equals that of input 0. Where nothing else would add to
     * either, both are one tensor, and B finds input_gradients[i] absent; else B must write it too.
     */
    uint32_t gradients_shared;
    /* Bit i: rebuild remakes output i from the inputs; the others are kept instead. Only read when
     * the node has a rebuild function; without one, forward remakes all. */
    uint32_t outputs_rebuilt;
    /* B also makes the gradients of the parameters; there is no W. */
    bool weight_in_backward;
} haul_node_plan;

/* What a step tells every node. */
typedef struct haul_step_info {
    uint64_t seed;
    uint32_t step;
    int64_t first_sample;    /* global ordinal of the micro-batch's first sample */
    int64_t position_offset; /* of the first row: how many positions a key/value cache holds */
    bool training;           /* false: dropout is off */
} haul_step_info;

/* A matrix [R, C] in FP8 both ways: see haul_quantize_args. */
typedef struct haul_quantized {
    haul_tensor codes, scales;
    haul_tensor transposed, transposed_scales;
} haul_quantized;

typedef struct haul_node_parameter {
    haul_tensor value;          /* compute form */
    haul_tensor packed_forward; /* absent when the backend has no use for it */
    haul_tensor packed_dgrad;
    haul_quantized codes; /* FP8, as the buffer's plan asks */
    haul_tensor gradient; /* main gradient, in the accumulator dtype */
    bool accumulate;      /* false for the first pass of a step that writes the gradient */
} haul_node_parameter;

/* A call: the tensors bound for one node and one micro-batch. B and W find inputs, outputs and
 * saved tensors only as declared; the data of others is not to be trusted. Gradients that nobody
 * wants are absent; B writes each present input gradient whole, haul adds where a value has several
 * consumers. */
typedef struct haul_node_call {
    const void *config;
    const haul_numerics *numerics;
    haul_stream *stream;
    const haul_step_info *step;
    uint32_t node; /* ordinal in the chunk, a dropout stream */
    haul_tensor inputs[HAUL_NODE_INPUTS];
    haul_tensor outputs[HAUL_NODE_OUTPUTS];
    haul_tensor saved[HAUL_NODE_SAVED];
    haul_tensor scratch[HAUL_NODE_SCRATCH];
    haul_tensor constants[HAUL_NODE_CONSTANTS];
    haul_tensor states[HAUL_NODE_STATES];
    haul_tensor output_gradients[HAUL_NODE_OUTPUTS];
    haul_tensor input_gradients[HAUL_NODE_INPUTS];
    haul_node_parameter parameters[HAUL_NODE_BUFFERS];
} haul_node_call;

typedef struct haul_node_kind {
    const char *name;
    int64_t config_bytes;
    haul_status (*plan)(const void *config, const haul_numerics *numerics, haul_node_plan *plan);
    void (*forward)(const haul_node_call *call);
    void (*backward_input)(const haul_node_call *call);
    void (*backward_weight)(const haul_node_call *call); /* NULL: no parameters, or done in B */
    void (*rebuild)(const haul_node_call *call);         /* NULL: forward */
} haul_node_kind;

#endif
