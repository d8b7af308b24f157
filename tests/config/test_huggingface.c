/* ctest: unit golden */
#include "testing.h"

#include "base/file.h"
#include "config/flags.h"
#include "config/huggingface.h"
#include "config/json.h"
#include "config/validate.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const cases[] = {
    "llama2", "llama3",          "llama3_old_spelling", "llama_bias", "llama_all_defaults",
    "gpt2",   "gpt2_exact_gelu", "gpt2_all_defaults"};

static void case_path(char path[1024], const char *name, const char *suffix) {
    snprintf(path, 1024, "%s/config/huggingface/%s%s", HAUL_TEST_DIR, name, suffix);
}

static void read_case(haul_config *config, const char *name) {
    char path[1024];
    case_path(path, name, ".json");
    assert_ok(haul_config_init(config));
    assert_ok(haul_config_read_huggingface(config, path));
    assert_ok(haul_config_finalize_model(config));
}

static json_t *config_json(const haul_config *config) {
    haul_string text = {0};
    assert_ok(haul_config_to_json(config, &text));
    json_t *json = json_loadb(text.data, (size_t)text.length, 0, NULL);
    assert_non_null(json);
    haul_string_deinit(&text);
    return json;
}

static void same_value(const char *name, const char *key, const json_t *value,
                       const json_t *wanted) {
    bool same = json_is_number(wanted) && json_is_number(value)
                    ? json_number_value(value) >= json_number_value(wanted) &&
                          json_number_value(value) <= json_number_value(wanted)
                    : json_equal(value, wanted) != 0;
    if (!same) {
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        fail_msg("%s: %s is %s", name, key, text);
    }
}

static void test_what_transformers_understands(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul_config config;
        read_case(&config, cases[i]);
        json_t *found = config_json(&config);
        char path[1024];
        case_path(path, cases[i], ".expected.json");
        json_t *expected = json_load_file(path, 0, NULL);
        assert_true(json_object_size(expected) > 20);
        const char *key;
        json_t *wanted;
        json_object_foreach(expected, key, wanted) {
            same_value(cases[i], key, json_object_get(found, key), wanted);
        }
        json_decref(expected);
        json_decref(found);
        haul_config_deinit(&config);
    }
}

static void test_written_and_read_again(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul_config config, back;
        haul_string text = {0};
        read_case(&config, cases[i]);
        assert_ok(haul_config_to_huggingface(&config, &text));
        assert_ok(haul_config_init(&back));
        assert_ok(haul_config_from_huggingface(&back, text.data, text.length, "written"));
        assert_ok(haul_config_finalize_model(&back));
        json_t *first = config_json(&config);
        json_t *second = config_json(&back);
        assert_true(json_equal(first, second));
        json_decref(first);
        json_decref(second);
        haul_string_deinit(&text);
        haul_config_deinit(&config);
        haul_config_deinit(&back);
    }
}

static void refuses(const char *text, haul_status status, const char *message) {
    haul_config config;
    assert_ok(haul_config_init(&config));
    haul_test_assert_fails(
        haul_config_from_huggingface(&config, text, (int64_t)strlen(text), "config.json"), status,
        message);
    haul_config_deinit(&config);
}

static void test_what_cannot_be_computed(void **state) {
    (void)state;
    haul_status no = HAUL_ERROR_UNAVAILABLE;
#define LLAMA "{\"architectures\": [\"LlamaForCausalLM\"], "
#define GPT2  "{\"architectures\": [\"GPT2LMHeadModel\"], "
    refuses("{\"architectures\": [\"MixtralForCausalLM\"], \"model_type\": \"llama\"}", no,
            "MixtralForCausalLM is not supported");
    refuses("{\"model_type\": \"mamba\"}", no, "mamba is not supported");
    refuses(LLAMA "\"hidden_act\": \"gelu\"}", no, "\"hidden_act\" is \"gelu\"");
    refuses(LLAMA "\"sliding_window\": 4096}", no, "\"sliding_window\" is 4096");
    refuses(LLAMA "\"attention_bias\": true}", no, "\"attention_bias\" and \"mlp_bias\" differ");
    refuses(LLAMA "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}}", no,
            "\"rope_scaling\" is {\"type\":\"linear\"");
    refuses(LLAMA "\"rope_parameters\": {\"rope_type\": \"default\", "
                  "\"partial_rotary_factor\": 0.5}}",
            no, "\"partial_rotary_factor\" is 0.5");
    refuses(LLAMA "\"quantization_config\": {\"bits\": 4}}", no, "\"quantization_config\"");
    refuses(GPT2 "\"activation_function\": \"relu\"}", no, "\"activation_function\" is \"relu\"");
    refuses(GPT2 "\"scale_attn_by_inverse_layer_idx\": true}", no,
            "\"scale_attn_by_inverse_layer_idx\" is true");
    refuses(GPT2 "\"embd_pdrop\": 0.0}", no, "\"embd_pdrop\" is 0 and \"resid_pdrop\" 0.1");
}

static void test_broken_files(void **state) {
    (void)state;
    haul_status wrong = HAUL_ERROR_DATA;
    refuses("{", wrong, "config.json:1");
    refuses("3", wrong, "config.json");
    refuses("[1]", wrong, "must hold one JSON object");
    refuses("{}", wrong, "no \"architectures\"");
    refuses(LLAMA "\"hidden_size\": \"big\"}", wrong, "\"hidden_size\" must be a number");
    refuses(LLAMA "\"hidden_size\": -4}", wrong, "\"hidden_size\": --hidden-size is \"-4\"");
    refuses(LLAMA "\"mlp_bias\": 1}", wrong, "\"mlp_bias\" must be true or false");
    refuses(LLAMA "\"rope_scaling\": 2}", wrong, "\"rope_scaling\" must be an object");
    refuses(LLAMA "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0}}", wrong,
            "has no \"low_freq_factor\"");
}

static void cannot_write(const char *const *settings, const char *message) {
    haul_config config;
    haul_string out = {0};
    assert_ok(haul_config_init(&config));
    const char *const shape[] = {"num-layers", "1", "hidden-size", "8", "num-attention-heads", "2",
                                 "vocab-size", "9", NULL};
    for (int i = 0; shape[i] != NULL; i += 2) {
        assert_ok(haul_config_set(&config, shape[i], &shape[i + 1], 1, HAUL_SOURCE_FILE));
    }
    for (int i = 0; settings[i] != NULL; i += 2) {
        assert_ok(haul_config_set(&config, settings[i], &settings[i + 1], 1, HAUL_SOURCE_FILE));
    }
    assert_ok(haul_config_finalize_model(&config));
    haul_test_assert_fails(haul_config_to_huggingface(&config, &out), HAUL_ERROR_UNAVAILABLE,
                           message);
    haul_string_deinit(&out);
    haul_config_deinit(&config);
}

static void test_models_that_transformers_lacks(void **state) {
    (void)state;
    const char *const gpt2_rms[] = {"normalization", "RMSNorm", NULL};
    const char *const gpt2_swiglu[] = {"swiglu", "true", "ffn-hidden-size", "8", NULL};
    const char *const gpt2_no_bias[] = {"disable-bias-linear", "true", NULL};
    const char *const gpt2_gqa[] = {"group-query-attention", "true", NULL};
    const char *const gpt2_heads[] = {"kv-channels", "8", NULL};
    const char *const no_position[] = {"position-embedding-type", "none", NULL};
    const char *const rope_only[] = {"position-embedding-type", "rope", NULL};
    const char *const rope_gelu[] = {"position-embedding-type", "rope", "normalization", "RMSNorm",
                                     NULL};
    cannot_write(gpt2_rms, "learned positions and RMSNorm");
    cannot_write(gpt2_swiglu, "--swiglu");
    cannot_write(gpt2_no_bias, "--disable-bias-linear");
    cannot_write(gpt2_gqa, "--group-query-attention");
    cannot_write(gpt2_heads, "--kv-channels");
    cannot_write(no_position, "--position-embedding-type none");
    cannot_write(rope_only, "rope and LayerNorm");
    cannot_write(rope_gelu, "without --swiglu");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_transformers_understands),
        cmocka_unit_test(test_written_and_read_again),
        cmocka_unit_test(test_what_cannot_be_computed),
        cmocka_unit_test(test_broken_files),
        cmocka_unit_test(test_models_that_transformers_lacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
