/* Every form of --load gives the same model. */
#include "fixture.h"

#include "base/file.h"
#include "config/json.h"
#include "train/state.h"

static const int32_t prompt[] = {3, 1, 4, 1, 5, 9, 2, 6};
enum { PROMPT = sizeof prompt / sizeof prompt[0], VOCABULARY = 29 };

/* Saves the model of a fixture as iteration `iteration` below a directory. */
static void save(const fixture *f, const char *directory, int64_t iteration) {
    haul_state_list list;
    haul_string json = {0};
    assert_ok(haul_state_list_init(&f->session.store, &list));
    assert_ok(haul_config_to_json(&f->model.config, &json));
    haul_checkpoint_request request = {.directory = directory,
                                       .iteration = iteration,
                                       .tensors = list.tensors,
                                       .count = list.count,
                                       .config_json = json.data};
    assert_ok(haul_checkpoint_save(&request));
    haul_string_deinit(&json);
    haul_state_list_deinit(&list);
}

static void check(const char *load, const char *device, const char *directory,
                  const double *logits) {
    fixture f = {0};
    fixture_open_at(&f, load, device, (haul_generator_options){0});
    assert_string_equal(f.model.directory, directory);
    assert_ok(haul_generator_start(&f.generator, prompt, PROMPT));
    double error = haul_test_relative_error(f.generator.logits, logits, VOCABULARY);
    if (!(error <= 1e-5)) {
        fail_msg("%s on %s: error %.3g", load, device, error);
    }
    fixture_close(&f);
}

/* Checkpoints, one of them, and a run directory, on the device that saved them and on another. */
static void test_forms(void **state) {
    (void)state;
    char run[600], checkpoints[700], newest[800];
    double logits[VOCABULARY];
    fixture f = {0};
    snprintf(run, sizeof run, "%s/run", haul_test_directory());
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", run);
    snprintf(newest, sizeof newest, "%s/iter_0000007", checkpoints);
    fixture_open(&f, "llama", "cpu", (haul_generator_options){0});
    assert_ok(haul_generator_start(&f.generator, prompt, PROMPT));
    memcpy(logits, f.generator.logits, sizeof logits);
    save(&f, checkpoints, 5);
    save(&f, checkpoints, 7);
    fixture_close(&f);
    check(run, "cpu", newest, logits);
    check(checkpoints, "cpu", newest, logits);
    check(newest, "cpu", newest, logits);
    check(run, "ref", newest, logits);
}

static haul_status open_path(const char *path, const char *device) {
    haul_config command;
    haul_saved_model model;
    assert_ok(haul_config_init(&command));
    fixture_set(&command, "load", path);
    fixture_set(&command, "device", device);
    haul_status status = haul_saved_model_open(&command, &model, NULL);
    if (status == HAUL_OK) {
        haul_saved_model_close(&model);
    }
    haul_config_deinit(&command);
    return status;
}

static void test_failures(void **state) {
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/none", haul_test_directory());
    haul_test_assert_fails(open_path(path, "cpu"), HAUL_ERROR_NO_INPUT, "none does not exist");
    assert_non_null(strstr(haul_error_hint(), "--load takes"));
    assert_ok(haul_directory_create(path));
    haul_test_assert_fails(open_path(path, "cpu"), HAUL_ERROR_NO_INPUT, "holds no checkpoint");
    snprintf(path, sizeof path, "%s/train/golden/gpt2", HAUL_TEST_DIR);
    haul_test_assert_fails(open_path(path, "meta"), HAUL_ERROR_USAGE, "--device is meta");
}

static void name_golden(haul_config *command) {
    char path[600];
    snprintf(path, sizeof path, "%s/train/golden/gpt2", HAUL_TEST_DIR);
    assert_ok(haul_config_init(command));
    fixture_set(command, "load", path);
    fixture_set(command, "seq-length", "16");
    fixture_set(command, "threads", "1");
}

/* What the command line says stands above what the file says. */
static void test_settings(void **state) {
    (void)state;
    haul_config command;
    haul_saved_model model;
    haul_tokenizer *tokenizer;
    name_golden(&command);
    assert_ok(haul_saved_model_open(&command, &model, NULL));
    assert_int_equal(model.config.num_layers, 2);
    assert_int_equal(model.config.seq_length, 16);
    assert_int_equal(model.config.threads, 1);
    haul_test_assert_fails(haul_saved_model_tokenizer(&model, &tokenizer), HAUL_ERROR_CONFIG,
                           "which tokenizer");
    haul_saved_model_close(&model);
    fixture_set(&command, "tokenizer-type", "ByteTokenizer");
    assert_ok(haul_saved_model_open(&command, &model, NULL));
    assert_ok(haul_saved_model_tokenizer(&model, &tokenizer));
    assert_string_equal(haul_tokenizer_type(tokenizer), "ByteTokenizer");
    haul_tokenizer_close(tokenizer);
    haul_saved_model_close(&model);
    haul_config_deinit(&command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
