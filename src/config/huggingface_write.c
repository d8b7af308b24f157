#include "config/huggingface.h"

#include "config/number.h"

#include <string.h>

static void append_int(haul_string *out, const char *key, int64_t value) {
    haul_string_append_format(out, ",\n  \"%s\": %lld", key, (long long)value);
}

/* transformers wants numbers that are floats to look like floats. */
static void append_float(haul_string *out, const char *key, double value) {
    haul_string_append_format(out, ",\n  \"%s\": ", key);
    int64_t start = out->length;
    haul_append_float(out, value);
    if (!out->failed && strpbrk(out->data + start, ".e") == NULL) {
        haul_string_append_text(out, ".0");
    }
}

static void append_bool(haul_string *out, const char *key, bool value) {
    haul_string_append_format(out, ",\n  \"%s\": %s", key, value ? "true" : "false");
}

static void append_literal(haul_string *out, const char *key, const char *json) {
    haul_string_append_format(out, ",\n  \"%s\": %s", key, json);
}

static haul_status no_model(const char *setting) {
    haul_fail(HAUL_ERROR_UNAVAILABLE, "transformers has no model with %s", setting);
    haul_hint("only models of the shape of Llama and of GPT-2 can be written for Hugging Face");
    return HAUL_ERROR_UNAVAILABLE;
}

static haul_status check_llama(const haul_config *config) {
    if (config->normalization != HAUL_NORMALIZATION_RMS_NORM) {
        return no_model("rope and LayerNorm");
    }
    if (!config->swiglu) {
        return no_model("rope and without --swiglu");
    }
    if (config->rotary_percent < 1) {
        return no_model("--rotary-percent below 1");
    }
    if (config->disable_bias_linear && config->add_qkv_bias) {
        return no_model("--add-qkv-bias and --disable-bias-linear");
    }
    return HAUL_OK;
}

static haul_status check_gpt2(const haul_config *config) {
    if (config->normalization != HAUL_NORMALIZATION_LAYER_NORM) {
        return no_model("learned positions and RMSNorm");
    }
    if (config->swiglu) {
        return no_model("learned positions and --swiglu");
    }
    if (config->disable_bias_linear) {
        return no_model("learned positions and --disable-bias-linear");
    }
    if (config->num_query_groups != config->num_attention_heads) {
        return no_model("learned positions and --group-query-attention");
    }
    if (config->kv_channels * config->num_attention_heads != config->hidden_size) {
        return no_model("learned positions and --kv-channels other than --hidden-size divided by "
                        "--num-attention-heads");
    }
    return HAUL_OK;
}

static void append_rope(haul_string *out, const haul_config *config) {
    append_float(out, "rope_theta", config->rotary_base);
    if (!config->use_rope_scaling) {
        append_literal(out, "rope_scaling", "null");
        return;
    }
    append_literal(out, "rope_scaling", "{\n  \"rope_type\": \"llama3\"");
    append_float(out, "factor", config->rope_scaling_factor);
    append_float(out, "low_freq_factor", config->rope_low_freq_factor);
    append_float(out, "high_freq_factor", config->rope_high_freq_factor);
    append_int(out, "original_max_position_embeddings",
               config->rope_original_max_position_embeddings);
    haul_string_append_text(out, "}");
}

static void append_llama(haul_string *out, const haul_config *config) {
    haul_string_append_text(out, "{\n  \"architectures\": [\"LlamaForCausalLM\"]");
    append_literal(out, "model_type", "\"llama\"");
    append_int(out, "num_hidden_layers", config->num_layers);
    append_int(out, "hidden_size", config->hidden_size);
    append_int(out, "intermediate_size", config->ffn_hidden_size);
    append_int(out, "num_attention_heads", config->num_attention_heads);
    append_int(out, "num_key_value_heads", config->num_query_groups);
    append_int(out, "head_dim", config->kv_channels);
    append_int(out, "max_position_embeddings", config->max_position_embeddings);
    append_literal(out, "hidden_act", "\"silu\"");
    append_float(out, "rms_norm_eps", config->norm_epsilon);
    append_float(out, "attention_dropout", config->attention_dropout);
    append_bool(out, "attention_bias", !config->disable_bias_linear);
    append_bool(out, "mlp_bias", !config->disable_bias_linear);
    append_rope(out, config);
}

static void append_gpt2(haul_string *out, const haul_config *config) {
    haul_string_append_text(out, "{\n  \"architectures\": [\"GPT2LMHeadModel\"]");
    append_literal(out, "model_type", "\"gpt2\"");
    append_int(out, "n_layer", config->num_layers);
    append_int(out, "n_embd", config->hidden_size);
    append_int(out, "n_inner", config->ffn_hidden_size);
    append_int(out, "n_head", config->num_attention_heads);
    append_int(out, "n_positions", config->max_position_embeddings);
    append_literal(out, "activation_function", config->openai_gelu ? "\"gelu_new\"" : "\"gelu\"");
    append_float(out, "layer_norm_epsilon", config->norm_epsilon);
    append_float(out, "embd_pdrop", config->hidden_dropout);
    append_float(out, "resid_pdrop", config->hidden_dropout);
    append_float(out, "attn_pdrop", config->attention_dropout);
}

haul_status haul_config_to_huggingface(const haul_config *config, haul_string *out) {
    switch (config->position_embedding_type) {
    case HAUL_POSITION_ROPE:
        HAUL_TRY(check_llama(config));
        append_llama(out, config);
        break;
    case HAUL_POSITION_LEARNED_ABSOLUTE:
        HAUL_TRY(check_gpt2(config));
        append_gpt2(out, config);
        break;
    case HAUL_POSITION_NONE:
        return no_model("--position-embedding-type none");
    }
    append_int(out, "vocab_size", config->vocab_size);
    append_float(out, "initializer_range", config->init_method_std);
    append_bool(out, "tie_word_embeddings", !config->untie_embeddings_and_output_weights);
    append_literal(out, "torch_dtype", config->bf16 ? "\"bfloat16\"" : "\"float32\"");
    /* Without these, transformers would take special tokens of Llama 2 and GPT-2. */
    append_literal(out, "bos_token_id", "null");
    append_literal(out, "eos_token_id", "null");
    haul_string_append_text(out, "\n}\n");
    return haul_string_status(out);
}
