#include "config/huggingface.h"

#include "base/file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A model config being read. */
typedef struct source {
    haul_config *config;
    const json_t *root;
    const char *name; /* of the file, for messages */
} source;

/* A key whose value becomes that of a flag; null and absence mean `initial`. */
typedef struct number_key {
    const char *key;
    const char *flag;
    const char *initial;
} number_key;

/* A key that must have one value, as JSON, or be absent or null. */
typedef struct fixed_key {
    const char *key;
    const char *value;
} fixed_key;

/* The defaults are those of transformers' LlamaConfig and GPT2Config. */
static const number_key llama_numbers[] = {
    {"num_hidden_layers", "num-layers", "32"},
    {"hidden_size", "hidden-size", "4096"},
    {"intermediate_size", "ffn-hidden-size", "11008"},
    {"num_attention_heads", "num-attention-heads", "32"},
    {"head_dim", "kv-channels", NULL},
    {"vocab_size", "vocab-size", "32000"},
    {"max_position_embeddings", "max-position-embeddings", "2048"},
    {"rms_norm_eps", "norm-epsilon", "1e-6"},
    {"initializer_range", "init-method-std", "0.02"},
    {"attention_dropout", "attention-dropout", "0"},
    {NULL, NULL, NULL}};

static const number_key gpt2_numbers[] = {{"n_layer", "num-layers", "12"},
                                          {"n_embd", "hidden-size", "768"},
                                          {"n_inner", "ffn-hidden-size", NULL},
                                          {"n_head", "num-attention-heads", "12"},
                                          {"vocab_size", "vocab-size", "50257"},
                                          {"n_positions", "max-position-embeddings", "1024"},
                                          {"layer_norm_epsilon", "norm-epsilon", "1e-5"},
                                          {"initializer_range", "init-method-std", "0.02"},
                                          {"attn_pdrop", "attention-dropout", "0.1"},
                                          {"resid_pdrop", "hidden-dropout", "0.1"},
                                          {NULL, NULL, NULL}};

static const number_key llama3_rope_numbers[] = {
    {"factor", "rope-scaling-factor", NULL},
    {"low_freq_factor", "rope-low-freq-factor", NULL},
    {"high_freq_factor", "rope-high-freq-factor", NULL},
    {"original_max_position_embeddings", "rope-original-max-position-embeddings", NULL},
    {NULL, NULL, NULL}};

static const fixed_key llama_fixed[] = {{"hidden_act", "\"silu\""},
                                        {"pretraining_tp", "1"},
                                        {"sliding_window", "null"},
                                        {"use_sliding_window", "false"},
                                        {"partial_rotary_factor", "1.0"},
                                        {"quantization_config", "null"},
                                        {NULL, NULL}};

static const fixed_key gpt2_fixed[] = {
    {"scale_attn_weights", "true"},       {"scale_attn_by_inverse_layer_idx", "false"},
    {"reorder_and_upcast_attn", "false"}, {"add_cross_attention", "false"},
    {"quantization_config", "null"},      {NULL, NULL}};

static haul_status set(const source *from, const char *key, const char *flag, const char *text) {
    haul_status status = haul_config_set(from->config, flag, &text, 1, HAUL_SOURCE_FILE);
    if (status == HAUL_ERROR_USAGE) {
        return haul_fail(HAUL_ERROR_DATA, "%s: \"%s\": %s", from->name, key, haul_error_message());
    }
    return status;
}

/* The value of a key, NULL when it is absent or null. */
static const json_t *get(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* An absent `initial` leaves the field to haul_config_finalize_model. */
static haul_status read_numbers(const source *from, const json_t *object, const number_key *keys) {
    for (; keys->key != NULL; keys++) {
        const json_t *value = get(object, keys->key);
        const char *text = keys->initial;
        char number[40];
        if (json_is_integer(value)) {
            snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
            text = number;
        } else if (json_is_real(value)) {
            snprintf(number, sizeof number, "%.17g", json_real_value(value));
            text = number;
        } else if (value != NULL) {
            return haul_fail(HAUL_ERROR_DATA, "%s: \"%s\" must be a number", from->name, keys->key);
        }
        if (text != NULL) {
            HAUL_TRY(set(from, keys->key, keys->flag, text));
        }
    }
    return HAUL_OK;
}

static haul_status refuse(const source *from, const char *key, const json_t *value) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    haul_fail(HAUL_ERROR_UNAVAILABLE, "%s: \"%s\" is %.200s, which haul does not support",
              from->name, key, text != NULL ? text : "something");
    free(text);
    return HAUL_ERROR_UNAVAILABLE;
}

static haul_status check_fixed(const source *from, const json_t *object, const fixed_key *keys) {
    for (; keys->key != NULL; keys++) {
        const json_t *value = get(object, keys->key);
        if (value == NULL) {
            continue;
        }
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        bool same = text != NULL && strcmp(text, keys->value) == 0;
        free(text);
        if (!same) {
            return refuse(from, keys->key, value);
        }
    }
    return HAUL_OK;
}

static haul_status get_bool(const source *from, const char *key, bool initial, bool *out) {
    const json_t *value = get(from->root, key);
    if (value != NULL && !json_is_boolean(value)) {
        return haul_fail(HAUL_ERROR_DATA, "%s: \"%s\" must be true or false", from->name, key);
    }
    *out = value != NULL ? json_is_true(value) : initial;
    return HAUL_OK;
}

static haul_status set_bool(const source *from, const char *key, const char *flag, bool value) {
    return set(from, key, flag, value ? "true" : "false");
}

/* Rotary settings stand in "rope_parameters" (transformers 5), or else in "rope_theta" and
 * "rope_scaling". */
static haul_status read_rope(const source *from) {
    static const fixed_key whole_head[] = {{"partial_rotary_factor", "1.0"}, {NULL, NULL}};
    static const number_key theta[] = {{"rope_theta", "rotary-base", NULL}, {NULL, NULL, NULL}};
    HAUL_TRY(read_numbers(from, from->root, theta));
    const char *key =
        get(from->root, "rope_parameters") != NULL ? "rope_parameters" : "rope_scaling";
    const json_t *rope = get(from->root, key);
    if (rope == NULL) {
        return HAUL_OK;
    }
    if (!json_is_object(rope)) {
        return haul_fail(HAUL_ERROR_DATA, "%s: \"%s\" must be an object", from->name, key);
    }
    HAUL_TRY(read_numbers(from, rope, theta));
    HAUL_TRY(check_fixed(from, rope, whole_head));
    const json_t *type =
        get(rope, "rope_type") != NULL ? get(rope, "rope_type") : get(rope, "type");
    const char *type_name = type != NULL ? json_string_value(type) : "default";
    if (type_name != NULL && strcmp(type_name, "default") == 0) {
        return HAUL_OK;
    }
    if (type_name == NULL || strcmp(type_name, "llama3") != 0) {
        return refuse(from, key, rope);
    }
    for (const number_key *needed = llama3_rope_numbers; needed->key != NULL; needed++) {
        if (get(rope, needed->key) == NULL) {
            return haul_fail(HAUL_ERROR_DATA, "%s: \"%s\" has no \"%s\"", from->name, key,
                             needed->key);
        }
    }
    HAUL_TRY(read_numbers(from, rope, llama3_rope_numbers));
    return set_bool(from, key, "use-rope-scaling", true);
}

/* A number of the file itself, where the command line may have set another. */
static double number_of(const source *from, const char *key, double initial) {
    const json_t *value = get(from->root, key);
    return value != NULL ? json_number_value(value) : initial;
}

static haul_status read_llama_groups(const source *from) {
    static const number_key groups_key[] = {{"num_key_value_heads", "num-query-groups", NULL},
                                            {NULL, NULL, NULL}};
    HAUL_TRY(read_numbers(from, from->root, groups_key));
    double heads = number_of(from, "num_attention_heads", 32);
    double groups = number_of(from, "num_key_value_heads", heads);
    return set_bool(from, "num_key_value_heads", "group-query-attention",
                    groups < heads || groups > heads);
}

static haul_status read_llama_biases(const source *from) {
    bool attention, mlp;
    HAUL_TRY(get_bool(from, "attention_bias", false, &attention));
    HAUL_TRY(get_bool(from, "mlp_bias", false, &mlp));
    if (attention != mlp) {
        return haul_fail(HAUL_ERROR_UNAVAILABLE,
                         "%s: \"attention_bias\" and \"mlp_bias\" differ, must be equal",
                         from->name);
    }
    return set_bool(from, "mlp_bias", "disable-bias-linear", !mlp);
}

static haul_status read_llama(const source *from) {
    HAUL_TRY(check_fixed(from, from->root, llama_fixed));
    HAUL_TRY(read_numbers(from, from->root, llama_numbers));
    HAUL_TRY(read_llama_groups(from));
    HAUL_TRY(read_rope(from));
    HAUL_TRY(read_llama_biases(from));
    bool tied;
    HAUL_TRY(get_bool(from, "tie_word_embeddings", false, &tied));
    const char *key = "architectures";
    HAUL_TRY(set_bool(from, key, "untie-embeddings-and-output-weights", !tied));
    HAUL_TRY(set_bool(from, key, "swiglu", true));
    HAUL_TRY(set(from, key, "normalization", "RMSNorm"));
    HAUL_TRY(set(from, key, "position-embedding-type", "rope"));
    HAUL_TRY(set(from, key, "hidden-dropout", "0"));
    return set(from, key, "make-vocab-size-divisible-by", "1");
}

/* haul has one probability for both kinds of dropout. */
static haul_status check_gpt2_dropout(const source *from) {
    double embedding = number_of(from, "embd_pdrop", 0.1);
    double residual = number_of(from, "resid_pdrop", 0.1);
    if (embedding < residual || embedding > residual) {
        haul_fail(HAUL_ERROR_UNAVAILABLE,
                  "%s: \"embd_pdrop\" is %g and \"resid_pdrop\" %g, must be equal", from->name,
                  embedding, residual);
        haul_hint("edit them in the file; dropout does not change the weights");
        return HAUL_ERROR_UNAVAILABLE;
    }
    return HAUL_OK;
}

static haul_status read_gpt2_activation(const source *from) {
    const json_t *value = get(from->root, "activation_function");
    const char *name = value != NULL ? json_string_value(value) : "gelu_new";
    bool exact = name != NULL && strcmp(name, "gelu") == 0;
    bool by_tanh =
        name != NULL && (strcmp(name, "gelu_new") == 0 || strcmp(name, "gelu_pytorch_tanh") == 0);
    if (!exact && !by_tanh) {
        return refuse(from, "activation_function", value);
    }
    return set_bool(from, "activation_function", "openai-gelu", by_tanh);
}

static haul_status read_gpt2(const source *from) {
    HAUL_TRY(check_fixed(from, from->root, gpt2_fixed));
    HAUL_TRY(read_numbers(from, from->root, gpt2_numbers));
    HAUL_TRY(check_gpt2_dropout(from));
    HAUL_TRY(read_gpt2_activation(from));
    bool tied;
    HAUL_TRY(get_bool(from, "tie_word_embeddings", true, &tied));
    const char *key = "architectures";
    HAUL_TRY(set_bool(from, key, "untie-embeddings-and-output-weights", !tied));
    HAUL_TRY(set_bool(from, key, "swiglu", false));
    HAUL_TRY(set_bool(from, key, "disable-bias-linear", false));
    HAUL_TRY(set_bool(from, key, "group-query-attention", false));
    HAUL_TRY(set(from, key, "normalization", "LayerNorm"));
    HAUL_TRY(set(from, key, "position-embedding-type", "learned_absolute"));
    return set(from, key, "make-vocab-size-divisible-by", "1");
}

/* The architecture by its first name, or by the model type where no name is given. */
static haul_status read_model(const source *from) {
    static const struct {
        const char *architecture;
        const char *model_type;
        haul_status (*read)(const source *);
    } families[] = {{"LlamaForCausalLM", "llama", read_llama},
                    {"GPT2LMHeadModel", "gpt2", read_gpt2}};
    if (!json_is_object(from->root)) {
        return haul_fail(HAUL_ERROR_DATA, "%s: must hold one JSON object", from->name);
    }
    const json_t *architecture = json_array_get(json_object_get(from->root, "architectures"), 0);
    const char *name = json_string_value(architecture);
    const char *type = json_string_value(json_object_get(from->root, "model_type"));
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        bool same = name != NULL ? strcmp(name, families[i].architecture) == 0
                                 : type != NULL && strcmp(type, families[i].model_type) == 0;
        if (same) {
            return families[i].read(from);
        }
    }
    const char *shown = name != NULL ? name : type;
    if (shown == NULL) {
        return haul_fail(HAUL_ERROR_DATA, "%s: has no \"architectures\" and no \"model_type\"",
                         from->name);
    }
    haul_fail(HAUL_ERROR_UNAVAILABLE, "%s: the architecture %.100s is not supported", from->name,
              shown);
    haul_hint("haul reads LlamaForCausalLM and GPT2LMHeadModel");
    return HAUL_ERROR_UNAVAILABLE;
}

haul_status haul_config_from_huggingface(haul_config *config, const char *text, int64_t length,
                                         const char *name) {
    json_error_t error;
    json_t *root = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        return haul_fail(HAUL_ERROR_DATA, "%s:%d: %s", name, error.line, error.text);
    }
    haul_status status = read_model(&(source){config, root, name});
    json_decref(root);
    return status;
}

bool haul_config_is_huggingface(const char *directory) {
    char single[1100], sharded[1100];
    snprintf(single, sizeof single, "%s/model.safetensors", directory);
    snprintf(sharded, sizeof sharded, "%s/model.safetensors.index.json", directory);
    return haul_file_exists(single) || haul_file_exists(sharded);
}

haul_status haul_config_read_huggingface(haul_config *config, const char *path) {
    haul_string text = {0};
    haul_status status = haul_file_read(path, &text);
    if (status == HAUL_OK) {
        status = haul_config_from_huggingface(config, text.data, text.length, path);
    }
    haul_string_deinit(&text);
    return status;
}
