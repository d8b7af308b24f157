/* The config.json of a Hugging Face model. */
#include "config/huggingface.h"
#include "config/validate.h"
#include "config_checks.h"
#include "fuzzing.h"

/* What haul writes for the model it reads itself, with the same shape. */
static void check_export(const haul_config *config) {
    haul_config back;
    haul_string text = {0};
    fuzz_require_ok(haul_config_init(&back));
    if (config->vocab_size > 0 && fuzz_accepted(haul_config_to_huggingface(config, &text))) {
        fuzz_require_ok(haul_config_from_huggingface(&back, text.data, text.length, "export"));
        fuzz_require_ok(haul_config_finalize_model(&back));
        fuzz_require(
            back.num_layers == config->num_layers && back.hidden_size == config->hidden_size &&
                back.ffn_hidden_size == config->ffn_hidden_size &&
                back.num_attention_heads == config->num_attention_heads &&
                back.num_query_groups == config->num_query_groups &&
                back.kv_channels == config->kv_channels && back.vocab_size == config->vocab_size,
            "a model survives its export");
    }
    haul_string_deinit(&text);
    haul_config_deinit(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    haul_config config;
    fuzz_require_ok(haul_config_init(&config));
    if (fuzz_accepted(haul_config_from_huggingface(&config, (const char *)data, (int64_t)size,
                                                   "config.json")) &&
        fuzz_accepted(haul_config_finalize_model(&config))) {
        fuzz_check_model(&config);
        check_export(&config);
    }
    haul_config_deinit(&config);
    return 0;
}
