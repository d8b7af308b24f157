/* Inside model/: what the parameters are called in Hugging Face files. */
#ifndef HAUL_MODEL_NAMES_H
#define HAUL_MODEL_NAMES_H

#include "config/config.h"

typedef struct haul_model_names {
    const char *embedding;
    const char *positions;
    const char *layer; /* the prefix, before the layer's number and a dot */
    const char *attention_norm;
    const char *qkv[3]; /* qkv[1] NULL: one matrix holds all three */
    const char *attention_out;
    const char *mlp_norm;
    const char *mlp_in[2]; /* gate and up with SwiGLU, else mlp_in[1] alone */
    const char *mlp_out;
    const char *final_norm;
    const char *head;
    bool transposed; /* matrices of the layers are stored as [inputs, outputs] */
} haul_model_names;

/* GPT-2's names for models of its shape, Llama's for all others. */
const haul_model_names *haul_model_names_of(const haul_config *config);

#endif
