/* From settings to a chunk: which nodes a model has, and what its parameters are called. */
#ifndef HAUL_MODEL_BUILD_H
#define HAUL_MODEL_BUILD_H

#include "config/config.h"
#include "layers/chunk.h"

typedef struct haul_model_options {
    haul_numerics numerics;
    int64_t batch;           /* sequences of a micro-batch */
    int64_t sequence_length; /* T */
    bool inference;          /* cached attention and logits of the last row, instead of losses */
    int64_t cache_capacity;  /* positions, for inference */
    bool fast_products;      /* a GPU's: the head works on larger chunks */
} haul_model_options;

/* The values that a caller of the program touches; -1 where the model has none. */
typedef struct haul_model_values {
    int tokens;
    int targets;
    int weights;
    int losses;
    int logits;
} haul_model_values;

/* The dtypes that --bf16, and the `ref` device, mean. */
haul_numerics haul_model_numerics(const haul_config *config, bool reference);

/* Builds the whole model of a finalized config. The same config gives the same buffers in the same
 * order, whatever the options. */
haul_status haul_model_build(const haul_config *config, const haul_model_options *options,
                             haul_chunk *out, haul_model_values *values);

/* Model FLOPs of one training token: 6 for each weight of a product (the output matrix once, the
 * input embedding never), and the causal half of attention, 6 L N D T. */
double haul_model_flops_per_token(const haul_config *config);

#endif
