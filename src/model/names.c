#include "model/names.h"

#include <stddef.h>

static const haul_model_names llama = {
    .embedding = "model.embed_tokens.weight",
    .positions = "model.embed_positions.weight",
    .layer = "model.layers",
    .attention_norm = "input_layernorm",
    .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
    .attention_out = "self_attn.o_proj",
    .mlp_norm = "post_attention_layernorm",
    .mlp_in = {"mlp.gate_proj", "mlp.up_proj"},
    .mlp_out = "mlp.down_proj",
    .final_norm = "model.norm",
    .head = "lm_head.weight"};

static const haul_model_names gpt2 = {.embedding = "transformer.wte.weight",
                                      .positions = "transformer.wpe.weight",
                                      .layer = "transformer.h",
                                      .attention_norm = "ln_1",
                                      .qkv = {"attn.c_attn", NULL, NULL},
                                      .attention_out = "attn.c_proj",
                                      .mlp_norm = "ln_2",
                                      .mlp_in = {NULL, "mlp.c_fc"},
                                      .mlp_out = "mlp.c_proj",
                                      .final_norm = "transformer.ln_f",
                                      .head = "lm_head.weight",
                                      .transposed = true};

const haul_model_names *haul_model_names_of(const haul_config *config) {
    bool like_gpt2 = config->position_embedding_type == HAUL_POSITION_LEARNED_ABSOLUTE &&
                     config->normalization == HAUL_NORMALIZATION_LAYER_NORM && !config->swiglu &&
                     !config->disable_bias_linear;
    return like_gpt2 ? &gpt2 : &llama;
}
