#include "testing.h"

#include "config/json.h"
#include "config/parse.h"

#include <string.h>

static haul_status read_text(haul_config *config, const char *text) {
    assert_ok(haul_config_init(config));
    return haul_config_from_json(config, text, (int64_t)strlen(text), "run/config.json");
}

static void fails(const char *text, const char *message) {
    haul_config config;
    haul_test_assert_fails(read_text(&config, text), HAUL_ERROR_DATA, message);
    haul_config_deinit(&config);
}

static void test_round_trip(void **state) {
    (void)state;
    const char *const words[] = {"--preset",    "llama3-8b",
                                 "--lr",        "0.30000000000000004",
                                 "--data-path", "0.5",
                                 "a \"b\"",     "--seed",
                                 "4294967295",  "--save",
                                 "caf\xc3\xa9", "--norm-epsilon",
                                 "1e-6",        "--sample-prompt",
                                 "x\ny",        "--optimizer",
                                 "sgd"};
    haul_config config, back;
    haul_string first = {0}, second = {0};
    assert_ok(haul_config_init(&config));
    assert_ok(haul_config_parse(&config, HAUL_COMMAND_TRAIN, sizeof words / sizeof *words, words));
    assert_ok(haul_config_to_json(&config, &first));
    assert_ok(read_text(&back, first.data));
    assert_ok(haul_config_to_json(&back, &second));
    assert_string_equal(first.data, second.data);
    assert_int_equal(back.num_layers, 32);
    assert_int_equal(back.optimizer, HAUL_OPTIMIZER_SGD);
    assert_true(back.lr >= config.lr && back.lr <= config.lr && back.group_query_attention);
    assert_string_equal(back.data_path.items[1], "a \"b\"");
    assert_string_equal(back.sample_prompt, "x\ny");
    assert_null(back.load);
    assert_non_null(strstr(first.data, "\"num_layers\": 32,"));
    assert_null(strstr(first.data, "\"help\""));
    haul_string_deinit(&first);
    haul_string_deinit(&second);
    haul_config_deinit(&config);
    haul_config_deinit(&back);
}

static void test_command_line_is_stronger(void **state) {
    (void)state;
    const char *const words[] = {"--seq-length", "64", "--load", "dir"};
    haul_config config;
    assert_ok(haul_config_init(&config));
    assert_ok(haul_config_parse(&config, HAUL_COMMAND_EVAL, 4, words));
    const char *text = "{\"seq_length\": 32, \"num_layers\": 3}";
    assert_ok(haul_config_from_json(&config, text, (int64_t)strlen(text), "x"));
    assert_int_equal(config.seq_length, 64);
    assert_int_equal(config.num_layers, 3);
    assert_int_equal(haul_config_source_of(&config, "num-layers"), HAUL_SOURCE_FILE);
    haul_config_deinit(&config);
}

static void test_wrong_files(void **state) {
    (void)state;
    fails("", "run/config.json:1");
    fails("[]", "must hold one JSON object");
    fails("{\"num_layers\": 3", "run/config.json:1");
    fails("{\"num_layers\": 3, \"num_layers\": 4}", "duplicate");
    fails("{\"layers\": 3}", "\"layers\" is not a setting");
    fails("{\"num_layers\": \"3\"}", "\"num-layers\" must be a whole number");
    fails("{\"num_layers\": 3.5}", "\"num-layers\" must be a whole number");
    fails("{\"num_layers\": -3}", "--num-layers is \"-3\"");
    fails("{\"lr\": true}", "\"lr\" must be a number");
    fails("{\"swiglu\": 1}", "\"swiglu\" must be true or false");
    fails("{\"optimizer\": \"lion\"}", "must be one of adam, sgd");
    fails("{\"split\": 3}", "\"split\" must be a text");
    fails("{\"data_path\": \"x\"}", "\"data-path\" must be a list");
    fails("{\"data_path\": [1]}", "\"data-path\" must be a list of texts");
}

static void test_text_that_is_no_utf8(void **state) {
    (void)state;
    haul_config config;
    haul_string out = {0};
    const char *const words[] = {"--save", "\xff"};
    assert_ok(haul_config_init(&config));
    assert_ok(haul_config_parse(&config, HAUL_COMMAND_TRAIN, 2, words));
    haul_test_assert_fails(haul_config_to_json(&config, &out), HAUL_ERROR_USAGE, "must be UTF-8");
    haul_string_deinit(&out);
    haul_config_deinit(&config);
}

static void test_missing_file(void **state) {
    (void)state;
    haul_config config;
    assert_ok(haul_config_init(&config));
    haul_test_assert_fails(haul_config_read_json(&config, "/nowhere/config.json"),
                           HAUL_ERROR_NO_INPUT, "/nowhere/config.json");
    haul_config_deinit(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_command_line_is_stronger),
        cmocka_unit_test(test_wrong_files),  cmocka_unit_test(test_text_that_is_no_utf8),
        cmocka_unit_test(test_missing_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
