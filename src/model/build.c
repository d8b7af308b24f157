#include "model/build.h"

#include "base/string.h"
#include "layers/layers.h"
#include "model/names.h"

#include <math.h>
#include <stdio.h>

/* A chunk under construction. `stream` and `block` are the residual stream and what the last block
 * adds to it; the next norm joins them. */
typedef struct builder {
    const haul_config *config;
    const haul_model_options *options;
    const haul_model_names *names;
    haul_chunk *chunk;
    int layer;       /* -1 outside */
    char prefix[48]; /* of parameter names in this layer */
    int stream;
    int block; /* -1: nothing to add yet */
} builder;

static haul_status add_node(builder *b, const haul_node_kind *kind, const char *name,
                            const void *config, const int *inputs, int count, int *outputs) {
    char full[HAUL_NAME_BYTES];
    if (b->layer < 0) {
        snprintf(full, sizeof full, "%s", name);
    } else {
        snprintf(full, sizeof full, "layer%d.%s", b->layer, name);
    }
    return haul_chunk_add_node(b->chunk, kind, full, b->layer, config, inputs, count, outputs);
}

static haul_status add_embedding(builder *b, int tokens) {
    const haul_config *config = b->config;
    haul_embedding_config embedding = {.vocabulary = config->padded_vocab_size,
                                       .hidden = config->hidden_size,
                                       .positions = config->max_position_embeddings,
                                       .sequence_length = b->options->sequence_length,
                                       .init_std = config->init_method_std};
    haul_text_copy(embedding.table_name, HAUL_NAME_BYTES, b->names->embedding);
    if (config->position_embedding_type == HAUL_POSITION_LEARNED_ABSOLUTE) {
        haul_text_copy(embedding.positions_name, HAUL_NAME_BYTES, b->names->positions);
    }
    b->block = -1;
    return add_node(b, &haul_node_embedding, "embedding", &embedding, &tokens, 1, &b->stream);
}

/* Hidden dropout of `value`, in place of which its output stands. */
static haul_status add_dropout(builder *b, const char *name, int *value) {
    haul_dropout_config dropout = {.probability = b->config->hidden_dropout,
                                   .sequence_length = b->options->sequence_length};
    if (dropout.probability <= 0 || b->options->inference) {
        return HAUL_OK;
    }
    return add_node(b, &haul_node_dropout, name, &dropout, value, 1, value);
}

static haul_status add_norm(builder *b, const char *node, const char *name, int *normalised) {
    const haul_config *config = b->config;
    bool rms = config->normalization == HAUL_NORMALIZATION_RMS_NORM;
    haul_norm_config norm = {.kind = rms ? HAUL_NORM_RMS : HAUL_NORM_LAYER,
                             .epsilon = config->norm_epsilon,
                             .bias = !rms};
    snprintf(norm.name, sizeof norm.name, "%s%s", b->prefix, name);
    int inputs[2] = {b->stream, b->block}, outputs[2];
    if (b->block < 0) {
        HAUL_TRY(add_node(b, &haul_node_norm, node, &norm, inputs, 1, outputs));
        *normalised = outputs[0];
    } else {
        HAUL_TRY(add_node(b, &haul_node_norm, node, &norm, inputs, 2, outputs));
        b->stream = outputs[0];
        *normalised = outputs[1];
    }
    return HAUL_OK;
}

static void add_part(const builder *b, haul_linear_config *linear, const char *name, int64_t rows) {
    haul_linear_part *part = &linear->parts[linear->part_count++];
    part->rows = rows;
    snprintf(part->name, sizeof part->name, "%s%s", b->prefix, name);
}

/* Whether and how the linear layers of this layer multiply in FP8. */
static haul_fp8 fp8_of(const builder *b) {
    const haul_config *config = b->config;
    bool first = b->layer < config->num_layers_at_start_in_bf16;
    bool last = b->layer >= config->num_layers - config->num_layers_at_end_in_bf16;
    bool wide = config->first_last_layers_bf16 && (first || last);
    if (config->fp8_format == HAUL_FP8_OFF || wide || b->options->inference) {
        return (haul_fp8){0};
    }
    bool blocks = config->fp8_recipe == HAUL_FP8_BLOCKWISE;
    return (haul_fp8){
        .activations = blocks ? HAUL_SCALING_ROWS : HAUL_SCALING_TENSOR,
        .weights = blocks ? HAUL_SCALING_BLOCKS : HAUL_SCALING_TENSOR,
        .forward = HAUL_E4M3,
        .backward = config->fp8_format == HAUL_FP8_HYBRID ? HAUL_E5M2 : HAUL_E4M3,
    };
}

static haul_status add_linear(builder *b, const char *name, haul_linear_config *linear,
                              int *value) {
    linear->fp8 = fp8_of(b);
    bool scaled = linear->fp8.weights != HAUL_SCALING_NONE;
    return add_node(b, scaled ? &haul_node_linear_fp8 : &haul_node_linear, name, linear, value, 1,
                    value);
}

static double output_init_std(const haul_config *config) {
    return config->init_method_std / sqrt(2.0 * (double)config->num_layers);
}

static haul_attention_config attention_config(const builder *b) {
    const haul_config *config = b->config;
    bool rotary = config->position_embedding_type == HAUL_POSITION_ROPE;
    int64_t rotary_size = (int64_t)((double)config->kv_channels * config->rotary_percent);
    return (haul_attention_config){
        .sequence_length = b->options->sequence_length,
        .heads = config->num_attention_heads,
        .groups = config->num_query_groups,
        .head_size = config->kv_channels,
        .rotary_size = rotary ? rotary_size / 2 * 2 : 0,
        .positions = config->max_position_embeddings,
        .rotary_base = config->rotary_base,
        .scaling_factor = config->use_rope_scaling ? config->rope_scaling_factor : 1,
        .low_frequency_factor = config->rope_low_freq_factor,
        .high_frequency_factor = config->rope_high_freq_factor,
        .original_positions = config->rope_original_max_position_embeddings,
        .dropout = config->attention_dropout,
        .cache_capacity = b->options->cache_capacity};
}

static haul_status add_attention_block(builder *b) {
    const haul_config *config = b->config;
    const haul_model_names *names = b->names;
    int64_t query = config->num_attention_heads * config->kv_channels;
    int64_t key = config->num_query_groups * config->kv_channels;
    haul_linear_config qkv = {.input_size = config->hidden_size,
                              .bias = config->add_qkv_bias,
                              .transposed = names->transposed,
                              .init_std = config->init_method_std};
    if (names->qkv[1] == NULL) {
        add_part(b, &qkv, names->qkv[0], query + 2 * key);
    } else {
        add_part(b, &qkv, names->qkv[0], query);
        add_part(b, &qkv, names->qkv[1], key);
        add_part(b, &qkv, names->qkv[2], key);
    }
    haul_linear_config out = {.input_size = query,
                              .bias = !config->disable_bias_linear,
                              .transposed = names->transposed,
                              .init_std = output_init_std(config)};
    add_part(b, &out, names->attention_out, config->hidden_size);
    haul_attention_config attention = attention_config(b);
    int value;
    HAUL_TRY(add_norm(b, "attention_norm", names->attention_norm, &value));
    HAUL_TRY(add_linear(b, "qkv", &qkv, &value));
    HAUL_TRY(add_node(b, b->options->inference ? &haul_node_attention_cached : &haul_node_attention,
                      "attention", &attention, &value, 1, &value));
    HAUL_TRY(add_linear(b, "attention_out", &out, &value));
    HAUL_TRY(add_dropout(b, "attention_dropout", &value));
    b->block = value;
    return HAUL_OK;
}

static haul_activation_kind activation_of(const haul_config *config) {
    if (config->swiglu) {
        return HAUL_ACTIVATION_SWIGLU;
    }
    return config->openai_gelu ? HAUL_ACTIVATION_GELU_TANH : HAUL_ACTIVATION_GELU;
}

static haul_status add_mlp_block(builder *b) {
    const haul_config *config = b->config;
    const haul_model_names *names = b->names;
    haul_linear_config in = {.input_size = config->hidden_size,
                             .bias = !config->disable_bias_linear,
                             .transposed = names->transposed,
                             .init_std = config->init_method_std};
    haul_linear_config out = in;
    out.input_size = config->ffn_hidden_size;
    out.init_std = output_init_std(config);
    if (config->swiglu) {
        add_part(b, &in, names->mlp_in[0], config->ffn_hidden_size);
    }
    add_part(b, &in, names->mlp_in[1], config->ffn_hidden_size);
    add_part(b, &out, names->mlp_out, config->hidden_size);
    haul_activation_config activation = {.kind = activation_of(config)};
    int value;
    HAUL_TRY(add_norm(b, "mlp_norm", names->mlp_norm, &value));
    HAUL_TRY(add_linear(b, "mlp_in", &in, &value));
    HAUL_TRY(add_node(b, &haul_node_activation, "activation", &activation, &value, 1, &value));
    HAUL_TRY(add_linear(b, "mlp_out", &out, &value));
    HAUL_TRY(add_dropout(b, "mlp_dropout", &value));
    b->block = value;
    return HAUL_OK;
}

static haul_status add_head(builder *b, haul_model_values *values) {
    const haul_config *config = b->config;
    bool untied = config->untie_embeddings_and_output_weights;
    haul_head_config head = {.vocabulary = config->vocab_size,
                             .padded_vocabulary = config->padded_vocab_size,
                             .hidden = config->hidden_size,
                             .chunk_elements = INT64_C(1) << (b->options->fast_products ? 29 : 26),
                             .init_std = config->init_method_std};
    haul_text_copy(head.name, HAUL_NAME_BYTES, untied ? b->names->head : b->names->embedding);
    int inputs[3] = {-1, values->targets, values->weights};
    HAUL_TRY(add_norm(b, "final_norm", b->names->final_norm, &inputs[0]));
    if (b->options->inference) {
        HAUL_TRY(add_node(b, &haul_node_logits, "logits", &head, inputs, 1, &values->logits));
        haul_chunk_mark_output(b->chunk, values->logits);
    } else {
        HAUL_TRY(add_node(b, &haul_node_head, "head", &head, inputs, 3, &values->losses));
        haul_chunk_mark_output(b->chunk, values->losses);
    }
    return HAUL_OK;
}

static haul_status add_inputs(builder *b, haul_model_values *values) {
    int64_t rows = b->options->batch * b->options->sequence_length;
    haul_tensor integers = haul_tensor_1d(NULL, HAUL_I32, rows);
    haul_tensor weights = haul_tensor_1d(NULL, b->options->numerics.accumulator, rows);
    HAUL_TRY(haul_chunk_add_input(b->chunk, "tokens", integers, &values->tokens));
    if (!b->options->inference) {
        HAUL_TRY(haul_chunk_add_input(b->chunk, "targets", integers, &values->targets));
        HAUL_TRY(haul_chunk_add_input(b->chunk, "weights", weights, &values->weights));
    }
    return HAUL_OK;
}

static haul_status build(builder *b, haul_model_values *values) {
    HAUL_TRY(add_inputs(b, values));
    HAUL_TRY(add_embedding(b, values->tokens));
    HAUL_TRY(add_dropout(b, "embedding_dropout", &b->stream));
    for (int layer = 0; layer < b->config->num_layers; layer++) {
        b->layer = layer;
        snprintf(b->prefix, sizeof b->prefix, "%s.%d.", b->names->layer, layer);
        HAUL_TRY(add_attention_block(b));
        HAUL_TRY(add_mlp_block(b));
    }
    b->layer = -1;
    b->prefix[0] = '\0';
    return add_head(b, values);
}

haul_numerics haul_model_numerics(const haul_config *config, bool reference) {
    if (reference) {
        return (haul_numerics){HAUL_F64, HAUL_F64};
    }
    return (haul_numerics){config->bf16 ? HAUL_BF16 : HAUL_F32, HAUL_F32};
}

haul_status haul_model_build(const haul_config *config, const haul_model_options *options,
                             haul_chunk *out, haul_model_values *values) {
    haul_chunk chunk;
    builder b = {.config = config,
                 .options = options,
                 .names = haul_model_names_of(config),
                 .chunk = &chunk,
                 .layer = -1};
    *values = (haul_model_values){-1, -1, -1, -1, -1};
    haul_chunk_init(&chunk, options->numerics);
    haul_status status = build(&b, values);
    if (status != HAUL_OK) {
        haul_chunk_deinit(&chunk);
        return status;
    }
    *out = chunk;
    return HAUL_OK;
}

double haul_model_flops_per_token(const haul_config *config) {
    double hidden = (double)config->hidden_size, ffn = (double)config->ffn_hidden_size;
    double query = (double)(config->num_attention_heads * config->kv_channels);
    double key = (double)(config->num_query_groups * config->kv_channels);
    double layer = hidden * (query + 2 * key) + query * hidden;
    layer += hidden * ffn * (config->swiglu ? 3 : 2);
    double weights =
        (double)config->num_layers * layer + hidden * (double)config->padded_vocab_size;
    return 6 * weights + 6 * (double)config->num_layers * query * (double)config->seq_length;
}
