#include "config/validate.h"

#include "base/memory.h"
#include "config/flags.h"
#include "config/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MISTAKES_SHOWN = 8, MISTAKE_BYTES = 256 };

/* The mistakes found so far, the first of them in words. */
typedef struct mistakes {
    int count;
    char lines[MISTAKES_SHOWN][MISTAKE_BYTES];
} mistakes;

static void mistake(mistakes *found, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void mistake(mistakes *found, const char *format, ...) {
    if (found->count < MISTAKES_SHOWN) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(found->lines[found->count], MISTAKE_BYTES, format, arguments);
        va_end(arguments);
    }
    found->count++;
}

static haul_status report(const mistakes *found) {
    if (found->count == 0) {
        return HAUL_OK;
    }
    if (found->count == 1) {
        haul_fail(HAUL_ERROR_CONFIG, "%s", found->lines[0]);
    } else {
        haul_string text = {0};
        for (int i = 0; i < found->count && i < MISTAKES_SHOWN; i++) {
            haul_string_append_format(&text, "%s%s", i > 0 ? "; " : "", found->lines[i]);
        }
        haul_fail(HAUL_ERROR_CONFIG, "%d settings are wrong: %s", found->count,
                  text.data != NULL ? text.data : "");
        haul_string_deinit(&text);
    }
    haul_hint("haul train --help explains each flag; haul train --preset NAME gives a whole set");
    return HAUL_ERROR_CONFIG;
}

/* Whether the number field `value` of `flag` is there; its absence is a mistake. */
static bool need(mistakes *found, const char *flag, int64_t value) {
    if (value == 0) {
        mistake(found, "--%s is missing", flag);
    }
    return value != 0;
}

static void need_below_one(mistakes *found, const char *flag, double value) {
    if (value >= 1) {
        mistake(found, "--%s is %g, must be below 1", flag, value);
    }
}

/* The fused qkv matrix is the widest tensor of a model: its width obeys the limit of all sizes. */
static void check_qkv_width(const haul_config *config, mistakes *found) {
    int64_t heads = config->num_attention_heads + 2 * config->num_query_groups;
    if (heads * config->kv_channels > 100000000) {
        mistake(found,
                "query, key and value are %lld wide, must be at most 100000000 (see "
                "--num-attention-heads, --kv-channels)",
                (long long)(heads * config->kv_channels));
    }
}

static void divide_heads(haul_config *config, mistakes *found) {
    int64_t heads = config->num_attention_heads;
    if (config->kv_channels == 0) {
        if (config->hidden_size % heads != 0) {
            mistake(found,
                    "--hidden-size is %lld, must be divisible by --num-attention-heads %lld (or "
                    "give --kv-channels)",
                    (long long)config->hidden_size, (long long)heads);
        }
        config->kv_channels = config->hidden_size / heads;
    }
    if (!config->group_query_attention) {
        config->num_query_groups = heads;
    } else if (heads % config->num_query_groups != 0) {
        mistake(found,
                "--num-attention-heads is %lld, must be divisible by --num-query-groups %lld",
                (long long)heads, (long long)config->num_query_groups);
    }
}

static void check_rotation(const haul_config *config, mistakes *found) {
    if (config->position_embedding_type != HAUL_POSITION_ROPE) {
        return;
    }
    int64_t rotated = (int64_t)((double)config->kv_channels * config->rotary_percent);
    if (rotated < 2 || rotated % 2 != 0) {
        mistake(found,
                "%lld of the %lld channels of a head rotate, must be an even number (see "
                "--rotary-percent, --kv-channels)",
                (long long)rotated, (long long)config->kv_channels);
    }
}

static void derive_widths(haul_config *config, mistakes *found) {
    if (config->ffn_hidden_size == 0 && config->swiglu) {
        config->ffn_hidden_size = 8 * config->hidden_size / 3 / 64 * 64;
        if (config->ffn_hidden_size == 0) {
            mistake(found, "--ffn-hidden-size is missing: 8/3 of --hidden-size %lld is below 64",
                    (long long)config->hidden_size);
        }
    } else if (config->ffn_hidden_size == 0) {
        config->ffn_hidden_size = 4 * config->hidden_size;
    }
    if (config->vocab_size > 0) {
        config->padded_vocab_size =
            haul_round_up(config->vocab_size, config->make_vocab_size_divisible_by);
    }
}

/* A product in FP8 takes rows of whole groups of 16 codes. */
static void check_fp8(const haul_config *config, mistakes *found) {
    const struct {
        const char *what;
        int64_t size;
    } widths[] = {
        {"--hidden-size", config->hidden_size},
        {"--ffn-hidden-size", config->ffn_hidden_size},
        {"the width of all queries", config->num_attention_heads * config->kv_channels},
        {"the width of all keys", config->num_query_groups * config->kv_channels},
    };
    int64_t wide = config->num_layers_at_start_in_bf16 + config->num_layers_at_end_in_bf16;
    if (config->fp8_format != HAUL_FP8_OFF && config->first_last_layers_bf16 &&
        wide >= config->num_layers) {
        mistake(found, "--first-last-layers-bf16 leaves none of %lld layers in FP8",
                (long long)config->num_layers);
    }
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        if (config->fp8_format != HAUL_FP8_OFF && widths[i].size % 16 != 0) {
            mistake(found, "%s is %lld, must be a multiple of 16 with --fp8-format", widths[i].what,
                    (long long)widths[i].size);
        }
    }
}

static void finalize_model(haul_config *config, mistakes *found) {
    need(found, "num-layers", config->num_layers);
    bool has_width = need(found, "hidden-size", config->hidden_size);
    bool has_heads = need(found, "num-attention-heads", config->num_attention_heads);
    if (has_width) {
        derive_widths(config, found);
    }
    if (has_width && has_heads) {
        divide_heads(config, found);
        check_qkv_width(config, found);
        check_rotation(config, found);
        check_fp8(config, found);
    }
    if (config->swiglu && config->openai_gelu) {
        mistake(found, "--swiglu and --openai-gelu exclude each other");
    }
    if (!config->disable_bias_linear) {
        config->add_qkv_bias = true;
    }
    need_below_one(found, "hidden-dropout", config->hidden_dropout);
    need_below_one(found, "attention-dropout", config->attention_dropout);
}

static void check_recompute(const haul_config *config, mistakes *found) {
    static const char *const known[] = {"core_attn", "layernorm", "activation"};
    for (int64_t i = 0; i < config->recompute_modules.count; i++) {
        const char *module = config->recompute_modules.items[i];
        bool is_known = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
            is_known |= strcmp(module, known[k]) == 0;
        }
        if (!is_known) {
            mistake(found,
                    "--recompute-modules has %s, must be of core_attn, layernorm, activation",
                    module);
        }
    }
}

bool haul_config_recomputes(const haul_config *config, const char *module) {
    bool found = false;
    for (int64_t i = 0; i < config->recompute_modules.count; i++) {
        found |= strcmp(config->recompute_modules.items[i], module) == 0;
    }
    return found && config->recompute_granularity == HAUL_RECOMPUTE_SELECTIVE;
}

static void finalize_batch(haul_config *config, mistakes *found) {
    check_recompute(config, found);
    if (need(found, "seq-length", config->seq_length)) {
        if (config->max_position_embeddings == 0) {
            config->max_position_embeddings = config->seq_length;
        }
        if (config->seq_length > config->max_position_embeddings) {
            mistake(found, "--seq-length is %lld, must be at most --max-position-embeddings %lld",
                    (long long)config->seq_length, (long long)config->max_position_embeddings);
        }
    }
    if (need(found, "micro-batch-size", config->micro_batch_size)) {
        if (config->global_batch_size == 0) {
            config->global_batch_size = config->micro_batch_size;
        }
        if (config->global_batch_size % config->micro_batch_size != 0) {
            mistake(found,
                    "--global-batch-size is %lld, must be divisible by --micro-batch-size %lld",
                    (long long)config->global_batch_size, (long long)config->micro_batch_size);
        }
    }
}

/* A training counts in iterations or in samples; flags of the other kind are a mistake. */
static void check_unit(const haul_config *config, mistakes *found) {
    const struct {
        const char *iters, *samples;
        int64_t in_iters, in_samples;
    } pairs[] = {
        {"lr-decay-iters", "lr-decay-samples", config->lr_decay_iters, config->lr_decay_samples},
        {"lr-warmup-iters", "lr-warmup-samples", config->lr_warmup_iters,
         config->lr_warmup_samples},
        {"lr-wsd-decay-iters", "lr-wsd-decay-samples", config->lr_wsd_decay_iters,
         config->lr_wsd_decay_samples},
    };
    bool by_samples = config->train_samples > 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (by_samples && pairs[i].in_iters > 0) {
            mistake(found, "--%s does not go with --train-samples, use --%s", pairs[i].iters,
                    pairs[i].samples);
        } else if (!by_samples && pairs[i].in_samples > 0) {
            mistake(found, "--%s does not go with --train-iters, use --%s", pairs[i].samples,
                    pairs[i].iters);
        }
    }
}

/* Lengths of the learning rate's parts, all in iterations or all in samples. */
static void check_schedule(haul_config *config, mistakes *found) {
    bool by_samples = config->train_samples > 0;
    int64_t *decay = by_samples ? &config->lr_decay_samples : &config->lr_decay_iters;
    int64_t warmup = by_samples ? config->lr_warmup_samples : config->lr_warmup_iters;
    int64_t tail = by_samples ? config->lr_wsd_decay_samples : config->lr_wsd_decay_iters;
    const char *unit = by_samples ? "samples" : "iters";
    if (*decay == 0) {
        *decay = by_samples ? config->train_samples : config->train_iters;
    }
    if (config->lr_warmup_fraction > 0 && warmup > 0) {
        mistake(found, "--lr-warmup-fraction and --lr-warmup-%s exclude each other", unit);
    } else if (warmup >= *decay) {
        mistake(found, "--lr-warmup-%s is %lld, must be below the %lld of the decay", unit,
                (long long)warmup, (long long)*decay);
    }
    need_below_one(found, "lr-warmup-fraction", config->lr_warmup_fraction);
    if (config->lr_decay_style == HAUL_LR_WSD && tail == 0) {
        mistake(found, "--lr-decay-style WSD needs --lr-wsd-decay-%s", unit);
    }
    if (tail > *decay) {
        mistake(found, "--lr-wsd-decay-%s is %lld, must be at most the %lld of the decay", unit,
                (long long)tail, (long long)*decay);
    }
}

/* Samples and their tokens are counted in int64_t. */
static void check_totals(const haul_config *config, mistakes *found) {
    const double most = 1e18;
    double batch = (double)config->global_batch_size, sequence = (double)config->seq_length;
    double samples = (double)config->train_iters * batch + (double)config->train_samples;
    double evaluations = 0;
    if (config->eval_interval > 0) {
        evaluations = samples / batch / (double)config->eval_interval + 1;
    }
    double evaluated = evaluations * (double)config->eval_iters * batch;
    if (samples * sequence > most) {
        mistake(found, "the training takes %g tokens, must be at most %g (see --train-iters)",
                samples * sequence, most);
    }
    if (evaluated * sequence > most) {
        mistake(found, "the evaluations take %g tokens, must be at most %g (see --eval-iters)",
                evaluated * sequence, most);
    }
}

static void finalize_learning(haul_config *config, mistakes *found) {
    if (config->train_iters > 0 && config->train_samples > 0) {
        mistake(found, "--train-iters and --train-samples exclude each other");
    } else if (config->train_iters == 0 && config->train_samples == 0) {
        mistake(found, "--train-iters is missing (or --train-samples)");
    } else {
        check_unit(config, found);
        check_schedule(config, found);
    }
    if (config->global_batch_size > 0) {
        check_totals(config, found);
    }
    if (config->train_samples > 0 && config->train_samples < config->global_batch_size) {
        mistake(found, "--train-samples is %lld, must be at least --global-batch-size %lld",
                (long long)config->train_samples, (long long)config->global_batch_size);
    }
    if (haul_config_source_of(config, "lr") == HAUL_SOURCE_DEFAULT) {
        mistake(found, "--lr is missing");
    } else if (config->min_lr > config->lr) {
        mistake(found, "--min-lr is %g, must be at most --lr %g", config->min_lr, config->lr);
    } else if (config->lr_warmup_init > config->lr) {
        mistake(found, "--lr-warmup-init is %g, must be at most --lr %g", config->lr_warmup_init,
                config->lr);
    }
    need_below_one(found, "adam-beta1", config->adam_beta1);
    need_below_one(found, "adam-beta2", config->adam_beta2);
    need_below_one(found, "sgd-momentum", config->sgd_momentum);
}

/* Megatron-LM takes a split in quotes or brackets too; the data set reads bare numbers. */
static haul_status bare_split(haul_config *config) {
    static const char around[] = " '\"[]()";
    const char *first = config->split + strspn(config->split, around);
    size_t length = strlen(first);
    while (length > 0 && strchr(around, first[length - 1]) != NULL) {
        length--;
    }
    if (strlen(config->split) == length) {
        return HAUL_OK;
    }
    char *bare = haul_config_allocate(config, (int64_t)length + 1);
    if (bare == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    memcpy(bare, first, length);
    bare[length] = '\0';
    config->split = bare;
    return HAUL_OK;
}

/* The rule of haul_split_parse, which reads the split when the data are open. */
static bool is_split(const char *text) {
    double sum = 0;
    int numbers = 0;
    while (*text != '\0') {
        size_t digits = strspn(text, ".0123456789");
        char *end;
        sum += strtod(text, &end);
        if (digits == 0 || end != text + digits) {
            return false;
        }
        text += digits;
        text += strspn(text, ", /");
        numbers++;
    }
    return numbers >= 1 && numbers <= 3 && sum > 0 && isfinite(sum);
}

static void check_profile(const haul_config *config, mistakes *found) {
    for (int64_t i = 0; i < config->profile_ranks.count; i++) {
        int64_t rank;
        if (!haul_parse_int(config->profile_ranks.items[i], &rank) || rank < 0) {
            mistake(found, "--profile-ranks is \"%s\", must be whole numbers from 0",
                    config->profile_ranks.items[i]);
        }
    }
    if (config->profile && config->profile_step_end <= config->profile_step_start) {
        mistake(found, "--profile-step-end is %lld, must be above --profile-step-start %lld",
                (long long)config->profile_step_end, (long long)config->profile_step_start);
    }
}

static haul_status finalize_data(haul_config *config, mistakes *found) {
    int sources = (config->data_path.count > 0) + (config->text != NULL) + config->mock_data;
    if (sources > 1) {
        mistake(found, "only one of --data-path, --text and --mock-data can be used");
    } else if (sources == 0 && !config->dry_run) {
        mistake(found,
                "there is nothing to train on: --data-path, --text or --mock-data is missing");
    }
    if (config->name != NULL && strchr(config->name, '/') != NULL) {
        mistake(found, "--name is \"%.100s\", must have no '/': it names one directory below runs",
                config->name);
    }
    if (config->split == NULL) {
        config->split = "969, 30, 1";
    }
    HAUL_TRY(bare_split(config));
    if (!is_split(config->split)) {
        mistake(found, "--split is \"%s\", must be up to three shares, as 969,30,1", config->split);
    }
    if (config->tokenizer_type == HAUL_TOKENIZER_NULL) {
        need(found, "vocab-size", config->vocab_size);
    }
    if (config->tokenizer_type == HAUL_TOKENIZER_HUGGING_FACE && config->tokenizer_model == NULL) {
        mistake(found, "--tokenizer-model is missing, the file of the HuggingFaceTokenizer");
    }
    if (config->tokenizer_type == HAUL_TOKENIZER_GPT2_BPE &&
        (config->vocab_file == NULL || config->merge_file == NULL)) {
        mistake(found, "--%s is missing, one of the two files of the GPT2BPETokenizer",
                config->vocab_file == NULL ? "vocab-file" : "merge-file");
    }
    return HAUL_OK;
}

haul_status haul_config_finalize_model(haul_config *config) {
    mistakes found = {0};
    finalize_model(config, &found);
    return report(&found);
}

haul_status haul_config_finalize(haul_config *config) {
    mistakes found = {0};
    finalize_model(config, &found);
    finalize_batch(config, &found);
    finalize_learning(config, &found);
    check_profile(config, &found);
    HAUL_TRY(finalize_data(config, &found));
    return report(&found);
}

int64_t haul_config_iterations(const haul_config *config) {
    return config->train_samples > 0 ? config->train_samples / config->global_batch_size
                                     : config->train_iters;
}
