/* What the start of a training says about its settings. */
#include "config/flags.h"
#include "config/validate.h"

#include <string.h>

static bool is_default(const haul_config *config, const char *flag) {
    return haul_config_source_of(config, flag) == HAUL_SOURCE_DEFAULT;
}

static bool decays(const haul_config *config) {
    return config->lr_decay_style != HAUL_LR_CONSTANT;
}

static bool has_decay_length(const haul_config *config) {
    return decays(config) || config->lr_warmup_fraction > 0;
}

static bool is_wsd(const haul_config *config) {
    return config->lr_decay_style == HAUL_LR_WSD;
}

static bool warms_up(const haul_config *config) {
    return config->lr_warmup_iters > 0 || config->lr_warmup_samples > 0 ||
           config->lr_warmup_fraction > 0;
}

static bool is_adam(const haul_config *config) {
    return config->optimizer == HAUL_OPTIMIZER_ADAM;
}

static bool is_sgd(const haul_config *config) {
    return config->optimizer == HAUL_OPTIMIZER_SGD;
}

static bool is_rope(const haul_config *config) {
    return config->position_embedding_type == HAUL_POSITION_ROPE;
}

static bool is_rope_scaled(const haul_config *config) {
    return is_rope(config) && config->use_rope_scaling;
}

static bool groups_queries(const haul_config *config) {
    return config->group_query_attention;
}

static bool lacks_biases(const haul_config *config) {
    return config->disable_bias_linear;
}

static bool reads_data(const haul_config *config) {
    return !config->mock_data;
}

/* A text is cut into data sets for training and for evaluation too, if it is long enough. */
static bool is_split(const haul_config *config) {
    return reads_data(config) && config->valid_data_path.count == 0;
}

static bool reads_text(const haul_config *config) {
    return !is_default(config, "text");
}

/* Made-up data ask a tokenizer for nothing but its size. */
static bool opens_tokenizer(const haul_config *config) {
    return !config->mock_data || is_default(config, "vocab-size");
}

static bool reads_tokenizer_json(const haul_config *config) {
    return opens_tokenizer(config) && (config->tokenizer_type == HAUL_TOKENIZER_AUTO ||
                                       config->tokenizer_type == HAUL_TOKENIZER_HUGGING_FACE);
}

static bool reads_vocab_file(const haul_config *config) {
    bool automatic =
        config->tokenizer_type == HAUL_TOKENIZER_AUTO && config->tokenizer_model == NULL;
    return opens_tokenizer(config) &&
           (automatic || config->tokenizer_type == HAUL_TOKENIZER_GPT2_BPE);
}

static bool evaluates(const haul_config *config) {
    return config->eval_interval > 0;
}

static bool saves(const haul_config *config) {
    return config->save != NULL;
}

static bool names_directory(const haul_config *config) {
    return is_default(config, "run-dir");
}

static bool is_bf16(const haul_config *config) {
    return config->bf16;
}

static bool is_selective(const haul_config *config) {
    return config->recompute_granularity == HAUL_RECOMPUTE_SELECTIVE;
}

static bool is_fp8(const haul_config *config) {
    return config->fp8_format != HAUL_FP8_OFF;
}

static bool is_partly_fp8(const haul_config *config) {
    return is_fp8(config) && config->first_last_layers_bf16;
}

static bool profiles(const haul_config *config) {
    return config->profile;
}

/* Who else would look is a profiler of the card. */
static bool has_profiler(const haul_config *config) {
    return config->use_pytorch_profiler || config->device == HAUL_DEVICE_CUDA ||
           config->device == HAUL_DEVICE_AUTO;
}

/* Flags, separated by blanks, that count only while `counts` holds. */
typedef struct condition {
    const char *flags;
    bool (*counts)(const haul_config *config);
    const char *needs;
} condition;

static const condition conditions[] = {
    {"num-query-groups", groups_queries, "--group-query-attention"},
    {"add-qkv-bias", lacks_biases, "--disable-bias-linear"},
    {"rotary-base rotary-percent use-rope-scaling", is_rope, "--position-embedding-type rope"},
    {"rope-scaling-factor", is_rope_scaled, "--use-rope-scaling"},
    {"adam-beta1 adam-beta2 adam-eps exp-avg-dtype exp-avg-sq-dtype", is_adam, "--optimizer adam"},
    {"sgd-momentum", is_sgd, "--optimizer sgd"},
    {"min-lr", decays, "a --lr-decay-style other than constant"},
    {"lr-decay-iters lr-decay-samples", has_decay_length, "a --lr-decay-style other than constant"},
    {"lr-wsd-decay-style lr-wsd-decay-iters lr-wsd-decay-samples", is_wsd, "--lr-decay-style WSD"},
    {"lr-warmup-init", warms_up, "a warmup"},
    {"split", is_split, "--data-path alone"},
    {"valid-data-path", reads_data, "--data-path"},
    {"document-separator", reads_text, "--text"},
    {"tokenizer-model", reads_tokenizer_json, "--tokenizer-type HuggingFaceTokenizer"},
    {"vocab-file merge-file", reads_vocab_file, "--tokenizer-type GPT2BPETokenizer"},
    {"eval-iters sample-prompt", evaluates, "--eval-interval"},
    {"save-interval keep-checkpoints", saves, "--save"},
    {"name", names_directory, "no --run-dir"},
    {"use-pytorch-profiler profile-step-start profile-step-end profile-ranks", profiles,
     "--profile"},
    {"profile", has_profiler, "--use-pytorch-profiler or --device cuda"},
    {"cpu-product-dtype", is_bf16, "--bf16"},
    {"recompute-modules", is_selective, "--recompute-granularity selective"},
    {"fp8-recipe first-last-layers-bf16", is_fp8, "--fp8-format"},
    {"num-layers-at-start-in-bf16 num-layers-at-end-in-bf16", is_partly_fp8,
     "--fp8-format and --first-last-layers-bf16"},
};

/* Whether the command line asks for something by this flag; a switch turned off does not. */
static bool is_asked(const haul_config *config, const char *name) {
    const haul_flag *flag = haul_flag_at(haul_flag_find(name));
    const char *field = (const char *)config + flag->offset;
    return haul_config_source_of(config, name) == HAUL_SOURCE_COMMAND_LINE &&
           (flag->kind->type != HAUL_FLAG_BOOL || *(const bool *)field);
}

/* The flags of one condition that were given in vain. */
static void append_vain(haul_string *out, const haul_config *config, const condition *rule) {
    int64_t start = out->length;
    for (const char *word = rule->flags; *word != '\0';) {
        char name[64] = "";
        size_t length = strcspn(word, " ");
        memcpy(name, word, length);
        word += length + (word[length] == ' ');
        if (is_asked(config, name)) {
            haul_string_append_format(out, out->length > start ? " --%s" : ", --%s", name);
        }
    }
    if (out->length > start) {
        haul_string_append_format(out, " (needs %s)", rule->needs);
    }
}

static haul_status append_without_effect(const haul_config *config, haul_string *out) {
    haul_string vain = {0};
    for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
        if (!conditions[i].counts(config)) {
            append_vain(&vain, config, &conditions[i]);
        }
    }
    if (vain.length > 0) {
        haul_string_append_format(out, "no effect here: %s\n", vain.data + strlen(", "));
    }
    haul_status status = haul_string_status(&vain);
    haul_string_deinit(&vain);
    return status;
}

static void append_ignored(const haul_config *config, haul_string *out) {
    for (int64_t i = 0; i < config->ignored.count; i++) {
        haul_string_append_format(
            out, i == 0 ? "flags of Megatron-LM that change nothing here: --%s" : " --%s",
            config->ignored.items[i]);
    }
    haul_string_append_text(out, config->ignored.count > 0 ? "\n" : "");
}

haul_status haul_config_surprises(const haul_config *config, haul_string *out) {
    if (is_default(config, "hidden-dropout") || is_default(config, "attention-dropout")) {
        haul_string_append_format(
            out,
            "dropout is %g (hidden) and %g (attention); most models today are trained with "
            "--hidden-dropout 0 --attention-dropout 0\n",
            config->hidden_dropout, config->attention_dropout);
    }
    if (is_default(config, "position-embedding-type")) {
        haul_string_append_text(out, "positions are learned; Llama and most models today have "
                                     "--position-embedding-type rope\n");
    }
    if (is_fp8(config) && is_default(config, "fp8-recipe")) {
        haul_string_append_text(out, "FP8 scales follow each tensor's present largest value, "
                                     "--fp8-recipe tensorwise; Megatron-LM's default, delayed, "
                                     "would take them from earlier steps\n");
    }
    if (config->save == NULL) {
        haul_string_append_text(out, "no checkpoint is written without --save DIR\n");
    }
    if (config->eval_interval == 0) {
        haul_string_append_text(out, "nothing is evaluated without --eval-interval N\n");
    }
    if (config->profile && config->profile_step_start > haul_config_iterations(config)) {
        haul_string_append_text(out, "nothing is profiled: --profile-step-start is behind the last "
                                     "iteration\n");
    }
    append_ignored(config, out);
    HAUL_TRY(append_without_effect(config, out));
    return haul_string_status(out);
}
