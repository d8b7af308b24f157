/* The settings of one command of haul: one field a flag. A field is named as its flag, with '-'
 * replaced by '_'; the flag table (config/flags.h) holds types, defaults, ranges and help.
 *
 * A number that Megatron-LM leaves at None is 0 until haul_config_finalize derives it, a text is
 * NULL, a list is empty. Life cycle: haul_config_init, haul_config_parse (config/parse.h), maybe
 * a config.json (config/json.h, config/huggingface.h), haul_config_finalize (config/validate.h),
 * haul_config_deinit. */
#ifndef HAUL_CONFIG_CONFIG_H
#define HAUL_CONFIG_CONFIG_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct haul_text_list {
    const char **items;
    int64_t count;
} haul_text_list;

/* The choices of a flag, in the order of the flag table. */
typedef enum haul_position_embedding {
    HAUL_POSITION_LEARNED_ABSOLUTE,
    HAUL_POSITION_ROPE,
    HAUL_POSITION_NONE
} haul_position_embedding;

typedef enum haul_normalization {
    HAUL_NORMALIZATION_LAYER_NORM,
    HAUL_NORMALIZATION_RMS_NORM
} haul_normalization;

typedef enum haul_lr_decay_style {
    HAUL_LR_CONSTANT,
    HAUL_LR_LINEAR,
    HAUL_LR_COSINE,
    HAUL_LR_INVERSE_SQUARE_ROOT,
    HAUL_LR_WSD
} haul_lr_decay_style;

typedef enum haul_lr_wsd_decay_style {
    HAUL_WSD_EXPONENTIAL,
    HAUL_WSD_LINEAR,
    HAUL_WSD_COSINE,
    HAUL_WSD_MINUS_SQRT
} haul_lr_wsd_decay_style;

typedef enum haul_optimizer_kind { HAUL_OPTIMIZER_ADAM, HAUL_OPTIMIZER_SGD } haul_optimizer_kind;

typedef enum haul_moment_dtype { HAUL_MOMENT_FP32, HAUL_MOMENT_BF16 } haul_moment_dtype;

/* AUTO: HuggingFaceTokenizer where --tokenizer-model is given, GPT2BPETokenizer where --vocab-file
 * is, else what the data set's files say, else ByteTokenizer. */
typedef enum haul_tokenizer_kind {
    HAUL_TOKENIZER_AUTO,
    HAUL_TOKENIZER_BYTES,
    HAUL_TOKENIZER_NULL,
    HAUL_TOKENIZER_HUGGING_FACE,
    HAUL_TOKENIZER_GPT2_BPE
} haul_tokenizer_kind;

typedef enum haul_recompute_granularity {
    HAUL_RECOMPUTE_NONE,
    HAUL_RECOMPUTE_FULL,
    HAUL_RECOMPUTE_SELECTIVE /* the same as NONE: attention is always computed again */
} haul_recompute_granularity;

typedef enum haul_fp8_format { HAUL_FP8_OFF, HAUL_FP8_E4M3, HAUL_FP8_HYBRID } haul_fp8_format;

typedef enum haul_fp8_recipe { HAUL_FP8_TENSORWISE, HAUL_FP8_BLOCKWISE } haul_fp8_recipe;

typedef enum haul_device_kind {
    HAUL_DEVICE_CPU,
    HAUL_DEVICE_CUDA,
    HAUL_DEVICE_AUTO, /* cuda where it can run, else cpu */
    HAUL_DEVICE_REF,
    HAUL_DEVICE_META
} haul_device_kind;

typedef enum haul_cpu_product_dtype {
    HAUL_CPU_PRODUCT_AUTO,
    HAUL_CPU_PRODUCT_BF16,
    HAUL_CPU_PRODUCT_F32
} haul_cpu_product_dtype;

/* What ends a document of a plain text file. */
typedef enum haul_document_separator {
    HAUL_SEPARATOR_FILE,       /* nothing: a file is one document */
    HAUL_SEPARATOR_BLANK_LINE, /* one or more empty lines */
    HAUL_SEPARATOR_PERCENT     /* a line that is "%", as in fortune files */
} haul_document_separator;

/* Where the value of a field comes from; a stronger source is never overwritten by a weaker
 * one, whatever the order in which they are read. */
typedef enum haul_config_source {
    HAUL_SOURCE_DEFAULT,
    HAUL_SOURCE_PRESET,
    HAUL_SOURCE_FILE,
    HAUL_SOURCE_COMMAND_LINE
} haul_config_source;

enum { HAUL_CONFIG_FLAGS_MAX = 192 };

typedef struct haul_config_block haul_config_block;

typedef struct haul_config {
    /* model */
    int64_t num_layers;
    int64_t hidden_size;
    int64_t ffn_hidden_size; /* derived: 4H, or int(8H / 3 / 64) * 64 with swiglu */
    int64_t num_attention_heads;
    int64_t kv_channels; /* derived: hidden_size / num_attention_heads */
    bool group_query_attention;
    int64_t num_query_groups; /* derived: num_attention_heads without group_query_attention */
    int64_t seq_length;
    int64_t max_position_embeddings;
    haul_position_embedding position_embedding_type;
    double rotary_base;
    double rotary_percent;
    bool use_rope_scaling; /* Llama 3.1 */
    double rope_scaling_factor;
    double rope_low_freq_factor;                   /* of config.json, no flag */
    double rope_high_freq_factor;                  /* of config.json, no flag */
    int64_t rope_original_max_position_embeddings; /* of config.json, no flag */
    haul_normalization normalization;
    double norm_epsilon;
    bool swiglu;
    bool openai_gelu; /* tanh form of GELU; without it the exact one (erf) */
    bool disable_bias_linear;
    bool add_qkv_bias; /* derived: true unless disable_bias_linear */
    bool untie_embeddings_and_output_weights;
    int64_t make_vocab_size_divisible_by;
    int64_t vocab_size;        /* 0: of the tokenizer */
    int64_t padded_vocab_size; /* rows of the embedding; derived from vocab_size; no flag */
    double hidden_dropout;
    double attention_dropout;
    double init_method_std;
    bool bf16;
    haul_fp8_format fp8_format; /* of the products of linear layers; the head stays as it is */
    haul_fp8_recipe fp8_recipe;
    bool first_last_layers_bf16; /* with fp8_format: these layers stay as they are */
    int64_t num_layers_at_start_in_bf16;
    int64_t num_layers_at_end_in_bf16;

    /* training */
    int64_t micro_batch_size;
    int64_t global_batch_size; /* derived: micro_batch_size */
    int64_t train_iters;
    int64_t train_samples;
    haul_optimizer_kind optimizer;
    double lr;
    double min_lr;
    haul_lr_decay_style lr_decay_style;
    int64_t lr_decay_iters;   /* derived: train_iters, when that is given */
    int64_t lr_decay_samples; /* derived: train_samples, when that is given */
    int64_t lr_warmup_iters;
    int64_t lr_warmup_samples;
    double lr_warmup_fraction; /* of the decay steps; 0: warmup_iters or _samples count */
    double lr_warmup_init;
    haul_lr_wsd_decay_style lr_wsd_decay_style;
    int64_t lr_wsd_decay_iters;
    int64_t lr_wsd_decay_samples;
    bool use_checkpoint_opt_param_scheduler; /* resume with the checkpoint's schedule alone */
    double weight_decay;
    double clip_grad; /* 0: no clipping */
    double adam_beta1;
    double adam_beta2;
    double adam_eps;
    haul_moment_dtype exp_avg_dtype;
    haul_moment_dtype exp_avg_sq_dtype;
    double sgd_momentum;
    int64_t seed;
    int64_t exit_interval;         /* 0: never */
    int64_t exit_duration_in_mins; /* 0: never */
    haul_recompute_granularity recompute_granularity;
    haul_text_list recompute_modules; /* of selective: core_attn, layernorm, activation */

    /* data */
    haul_text_list data_path; /* prefixes, or weight and prefix in turn */
    haul_text_list valid_data_path;
    const char *split; /* "969, 30, 1" when not given */
    bool mock_data;
    const char *text; /* a text file to train on or to evaluate */
    haul_tokenizer_kind tokenizer_type;
    const char *tokenizer_model;
    const char *vocab_file; /* of GPT-2's pair of files */
    const char *merge_file;

    /* checkpoints, evaluation, logs */
    const char *save;
    const char *load;
    int64_t save_interval; /* iterations; 0: at the end alone */
    int64_t keep_checkpoints;
    int64_t eval_interval; /* iterations; 0: never */
    int64_t eval_iters;
    int64_t log_interval;
    const char *tensorboard_dir;
    const char *run_dir;
    const char *name;
    const char *sample_prompt;
    bool profile;
    bool use_pytorch_profiler;
    int64_t profile_step_start; /* the first iteration that is profiled */
    int64_t profile_step_end;   /* the first behind it that is not */
    haul_text_list profile_ranks;

    /* machine */
    const char *preset;
    haul_device_kind device;
    int64_t threads; /* 0: all cores */
    haul_cpu_product_dtype cpu_product_dtype;
    bool dry_run;

    /* bench */
    int64_t bench_steps;
    const char *json; /* a file */

    /* generate */
    const char *prompt;
    int64_t max_new_tokens;
    double temperature; /* 0: always the likeliest token */
    int64_t top_k;      /* 0: all tokens */
    double top_p;       /* 0: all tokens */
    haul_text_list stop;

    /* data build, data tokenizer train */
    haul_text_list input;
    haul_text_list json_keys;
    const char *output_prefix;
    const char *output; /* a file: tokenizer.json, report.html */
    bool append_eod;
    int64_t workers;
    haul_document_separator document_separator;
    double holdout; /* the fraction of documents held out */

    bool help; /* --help was given: nothing else was checked */

    haul_text_list arguments; /* what is no flag: directories, prefixes, command names */
    haul_text_list ignored;   /* names of Megatron-LM's flags that were given and change nothing */

    /* Of this module: haul_config_source by the index of a flag, and the owned strings. */
    unsigned char sources[HAUL_CONFIG_FLAGS_MAX];
    haul_config_block *blocks;
} haul_config;

/* Fills `config` with Megatron-LM's defaults. On failure there is nothing to deinit. */
haul_status haul_config_init(haul_config *config);

/* Frees what the config owns: every text and list in it. */
void haul_config_deinit(haul_config *config);

/* Where the value of the flag `name` ("num-layers") comes from; DEFAULT for an unknown name. */
haul_config_source haul_config_source_of(const haul_config *config, const char *name);

/* The word that a CHOICE flag stands at, as "HuggingFaceTokenizer" for "tokenizer-type". */
const char *haul_config_choice(const haul_config *config, const char *name);

/* Zeroed memory, or a copy of a text, that lives as long as the config. NULL when memory is out,
 * with the message set. */
void *haul_config_allocate(haul_config *config, int64_t bytes);
const char *haul_config_keep(haul_config *config, const char *text);

/* Sets the field of flag `name` from `count` values spelled as on a command line (a switch takes
 * "true" or "false"), unless a stronger source has set it. HAUL_ERROR_USAGE names the flag and
 * what it must be. */
haul_status haul_config_set(haul_config *config, const char *name, const char *const *values,
                            int64_t count, haul_config_source source);

#endif
