#include "config/presets.h"

#include "base/string.h"

#include <string.h>

static const haul_preset table[] = {
    {"tiny",
     "a Llama-style model of 70 thousand parameters; learns letters and short words in seconds",
     {{"num-layers", "2"},
      {"hidden-size", "48"},
      {"num-attention-heads", "2"},
      {"seq-length", "64"},
      {"position-embedding-type", "rope"},
      {"normalization", "RMSNorm"},
      {"swiglu", "true"},
      {"disable-bias-linear", "true"},
      {"make-vocab-size-divisible-by", "1"},
      {"hidden-dropout", "0"},
      {"attention-dropout", "0"},
      {"micro-batch-size", "8"},
      {"train-iters", "300"},
      {"lr", "1e-2"},
      {"min-lr", "1e-3"},
      {"lr-decay-style", "cosine"},
      {"lr-warmup-fraction", "0.05"},
      {"weight-decay", "0.1"},
      {"adam-beta2", "0.95"},
      {"eval-interval", "100"},
      {"eval-iters", "10"},
      {"log-interval", "10"},
      {"save-interval", "100"}}},
    {"quickstart",
     "a Llama-style model of half a million parameters; writes recognizable text after minutes",
     {{"num-layers", "4"},
      {"hidden-size", "96"},
      {"num-attention-heads", "3"},
      {"seq-length", "128"},
      {"position-embedding-type", "rope"},
      {"normalization", "RMSNorm"},
      {"swiglu", "true"},
      {"disable-bias-linear", "true"},
      {"make-vocab-size-divisible-by", "1"},
      {"hidden-dropout", "0"},
      {"attention-dropout", "0"},
      {"micro-batch-size", "8"},
      {"train-iters", "4000"},
      {"lr", "5e-3"},
      {"min-lr", "0"},
      {"lr-decay-style", "cosine"},
      {"lr-warmup-fraction", "0.02"},
      {"weight-decay", "0.1"},
      {"adam-beta2", "0.95"},
      {"eval-interval", "500"},
      {"eval-iters", "48"},
      {"log-interval", "50"},
      {"save-interval", "1000"}}},
    {"gpt2-124m",
     "GPT-2 of 124 million parameters, with the settings of its usual reproductions",
     {{"num-layers", "12"},
      {"hidden-size", "768"},
      {"num-attention-heads", "12"},
      {"vocab-size", "50257"},
      {"seq-length", "1024"},
      {"position-embedding-type", "learned_absolute"},
      {"normalization", "LayerNorm"},
      {"openai-gelu", "true"},
      {"hidden-dropout", "0"},
      {"attention-dropout", "0"},
      {"micro-batch-size", "4"},
      {"global-batch-size", "512"},
      {"train-iters", "19000"},
      {"lr", "6e-4"},
      {"min-lr", "6e-5"},
      {"lr-decay-style", "cosine"},
      {"lr-warmup-iters", "700"},
      {"weight-decay", "0.1"},
      {"adam-beta2", "0.95"},
      {"eval-interval", "250"},
      {"eval-iters", "20"},
      {"log-interval", "10"},
      {"save-interval", "1000"}}},
    {"gpt2-1.5b",
     "GPT-2 of 1.5 billion parameters (XL) in bf16, with the settings of its usual reproductions",
     {{"num-layers", "48"},
      {"hidden-size", "1600"},
      {"num-attention-heads", "25"},
      {"vocab-size", "50257"},
      {"seq-length", "1024"},
      {"position-embedding-type", "learned_absolute"},
      {"normalization", "LayerNorm"},
      {"openai-gelu", "true"},
      {"hidden-dropout", "0"},
      {"attention-dropout", "0"},
      {"bf16", "true"},
      {"micro-batch-size", "8"},
      {"global-batch-size", "512"},
      {"train-iters", "32000"},
      {"lr", "6e-4"},
      {"min-lr", "0"},
      {"lr-decay-style", "cosine"},
      {"lr-warmup-iters", "700"},
      {"weight-decay", "0.1"},
      {"adam-beta2", "0.95"},
      {"eval-interval", "250"},
      {"eval-iters", "20"},
      {"log-interval", "10"},
      {"save-interval", "1000"}}},
    {"llama3-8b",
     "the shape of Llama 3 8B in bf16, with the settings of its Megatron-LM example",
     {{"num-layers", "32"},
      {"hidden-size", "4096"},
      {"ffn-hidden-size", "14336"},
      {"num-attention-heads", "32"},
      {"group-query-attention", "true"},
      {"num-query-groups", "8"},
      {"seq-length", "8192"},
      {"position-embedding-type", "rope"},
      {"rotary-base", "500000"},
      {"normalization", "RMSNorm"},
      {"swiglu", "true"},
      {"disable-bias-linear", "true"},
      {"untie-embeddings-and-output-weights", "true"},
      {"vocab-size", "128256"},
      {"hidden-dropout", "0"},
      {"attention-dropout", "0"},
      {"bf16", "true"},
      {"micro-batch-size", "1"},
      {"global-batch-size", "128"},
      {"train-iters", "100000"},
      {"lr", "1.5e-4"},
      {"min-lr", "1e-5"},
      {"lr-decay-style", "cosine"},
      {"lr-warmup-iters", "1000"},
      {"weight-decay", "0.1"},
      {"adam-beta2", "0.95"},
      {"eval-interval", "1000"},
      {"eval-iters", "20"},
      {"log-interval", "10"},
      {"save-interval", "1000"}}},
    {"llama-1b",
     "the shape of Llama 3.2 1B in bf16",
     {{"num-layers", "16"},
      {"hidden-size", "2048"},
      {"ffn-hidden-size", "8192"},
      {"num-attention-heads", "32"},
      {"group-query-attention", "true"},
      {"num-query-groups", "8"},
      {"seq-length", "8192"},
      {"position-embedding-type", "rope"},
      {"rotary-base", "500000"},
      {"use-rope-scaling", "true"},
      {"rope-scaling-factor", "32"},
      {"normalization", "RMSNorm"},
      {"swiglu", "true"},
      {"disable-bias-linear", "true"},
      {"vocab-size", "128256"},
      {"hidden-dropout", "0"},
      {"attention-dropout", "0"},
      {"bf16", "true"},
      {"micro-batch-size", "2"},
      {"global-batch-size", "128"},
      {"train-iters", "100000"},
      {"lr", "3e-4"},
      {"min-lr", "3e-5"},
      {"lr-decay-style", "cosine"},
      {"lr-warmup-iters", "1000"},
      {"weight-decay", "0.1"},
      {"adam-beta2", "0.95"},
      {"eval-interval", "1000"},
      {"eval-iters", "20"},
      {"log-interval", "10"},
      {"save-interval", "1000"}}},
    {"qwen2.5-7b",
     "the shape of Qwen2.5 7B in bf16, with the short sequences of a fine-tuning",
     {{"num-layers", "28"},
      {"hidden-size", "3584"},
      {"ffn-hidden-size", "18944"},
      {"num-attention-heads", "28"},
      {"group-query-attention", "true"},
      {"num-query-groups", "4"},
      {"seq-length", "1024"},
      {"position-embedding-type", "rope"},
      {"rotary-base", "1000000"},
      {"normalization", "RMSNorm"},
      {"norm-epsilon", "1e-6"},
      {"swiglu", "true"},
      {"disable-bias-linear", "true"},
      {"add-qkv-bias", "true"},
      {"untie-embeddings-and-output-weights", "true"},
      {"vocab-size", "152064"},
      {"hidden-dropout", "0"},
      {"attention-dropout", "0"},
      {"bf16", "true"},
      {"micro-batch-size", "16"},
      {"global-batch-size", "256"},
      {"train-iters", "10000"},
      {"lr", "1e-5"},
      {"min-lr", "1e-6"},
      {"lr-decay-style", "cosine"},
      {"lr-warmup-iters", "100"},
      {"weight-decay", "0.1"},
      {"adam-beta2", "0.95"},
      {"eval-interval", "1000"},
      {"eval-iters", "20"},
      {"log-interval", "10"},
      {"save-interval", "1000"}}},
};

enum { PRESETS = sizeof table / sizeof *table };

/* Two ways to say the same thing: the right one, chosen by the user, drops the preset's left one.
 */
static const char *const rivals[][2] = {
    {"train-iters", "train-samples"},
    {"lr-warmup-fraction", "lr-warmup-iters"},
    {"lr-warmup-fraction", "lr-warmup-samples"},
    {"lr-warmup-iters", "lr-warmup-fraction"},
    {"lr-warmup-iters", "lr-warmup-samples"},
    {"lr-warmup-iters", "train-samples"},
};

const haul_preset *haul_preset_at(int64_t index) {
    return index < PRESETS ? &table[index] : NULL;
}

static bool rival_chosen(const haul_config *config, const char *flag) {
    for (size_t i = 0; i < sizeof rivals / sizeof *rivals; i++) {
        if (strcmp(rivals[i][0], flag) == 0 &&
            haul_config_source_of(config, rivals[i][1]) > HAUL_SOURCE_PRESET) {
            return true;
        }
    }
    return false;
}

static haul_status unknown_preset(const char *name) {
    haul_fail(HAUL_ERROR_USAGE, "--preset is \"%s\", which does not exist", name);
    haul_string names = {0};
    for (int i = 0; i < PRESETS; i++) {
        haul_string_append_format(&names, i == 0 ? "%s" : ", %s", table[i].name);
    }
    haul_hint("use one of %s", names.data != NULL ? names.data : "");
    haul_string_deinit(&names);
    return HAUL_ERROR_USAGE;
}

haul_status haul_preset_apply(haul_config *config, const char *name) {
    int found = 0;
    while (found < PRESETS && strcmp(table[found].name, name) != 0) {
        found++;
    }
    if (found == PRESETS) {
        return unknown_preset(name);
    }
    const haul_preset_setting *setting = table[found].settings;
    for (; setting->flag != NULL; setting++) {
        if (!rival_chosen(config, setting->flag)) {
            HAUL_TRY(
                haul_config_set(config, setting->flag, &setting->value, 1, HAUL_SOURCE_PRESET));
        }
    }
    return HAUL_OK;
}
