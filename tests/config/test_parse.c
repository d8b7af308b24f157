#include "testing.h"

#include "base/fault.h"
#include "base/file.h"
#include "config/megatron_flags.h"
#include "config/parse.h"
#include "config/presets.h"

#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 64 };

/* Parses words separated by '|' into a fresh config. */
static haul_status parse(haul_config *config, haul_command command, const char *line) {
    static char text[1200];
    const char *words[WORDS_MAX];
    int count = 0;
    snprintf(text, sizeof text, "%s", line);
    char *rest = text;
    for (char *word = strtok_r(rest, "|", &rest); word != NULL; word = strtok_r(NULL, "|", &rest)) {
        words[count++] = word;
    }
    assert_ok(haul_config_init(config));
    return haul_config_parse(config, command, count, words);
}

static void parses(haul_config *config, haul_command command, const char *line) {
    assert_ok(parse(config, command, line));
}

static void fails(haul_command command, const char *line, const char *message, const char *hint) {
    haul_config config;
    haul_test_assert_fails(parse(&config, command, line), HAUL_ERROR_USAGE, message);
    if (strstr(haul_error_hint(), hint) == NULL) {
        fail_msg("hint is \"%s\", must contain \"%s\"", haul_error_hint(), hint);
    }
    haul_config_deinit(&config);
}

static haul_command any_command(const haul_flag *flag) {
    int command = 0;
    while ((flag->commands & HAUL_COMMAND_BIT(command)) == 0) {
        command++;
    }
    return (haul_command)command;
}

/* A value unlike the default, and whether the field has it. */
static const char *sample_value(const haul_flag *flag) {
    static char number[40];
    switch (flag->kind->type) {
    case HAUL_FLAG_INT:
        snprintf(number, sizeof number, "%.0f", flag->kind->minimum + 6);
        return number;
    case HAUL_FLAG_FLOAT:
        return flag->kind->maximum > 1 ? "1.25" : "0.625";
    case HAUL_FLAG_CHOICE:
        return flag->kind->choices[1];
    case HAUL_FLAG_BOOL:
    case HAUL_FLAG_TEXT:
    case HAUL_FLAG_LIST:
        break;
    }
    return "some text";
}

static void check_field(const haul_config *config, const haul_flag *flag) {
    const char *field = (const char *)config + flag->offset;
    const haul_text_list *list = (const void *)field;
    double wanted = flag->kind->maximum > 1 ? 1.25 : 0.625;
    int choice;
    switch (flag->kind->type) {
    case HAUL_FLAG_BOOL:
        assert_true(*(const bool *)field);
        break;
    case HAUL_FLAG_INT:
        assert_int_equal(*(const int64_t *)field, (int64_t)flag->kind->minimum + 6);
        break;
    case HAUL_FLAG_FLOAT:
        assert_true(*(const double *)field >= wanted && *(const double *)field <= wanted);
        break;
    case HAUL_FLAG_CHOICE:
        memcpy(&choice, field, sizeof choice);
        assert_int_equal(choice, 1);
        break;
    case HAUL_FLAG_TEXT:
        assert_string_equal(*(const char *const *)field, "some text");
        break;
    case HAUL_FLAG_LIST:
        assert_int_equal(list->count, 1);
        assert_string_equal(list->items[0], "some text");
        break;
    }
}

/* Each flag alone changes its own field and no byte of another. */
static void test_every_flag_lands_in_its_field(void **state) {
    (void)state;
    for (int64_t i = 0; i < haul_flag_count(); i++) {
        const haul_flag *flag = haul_flag_at(i);
        if (flag->commands == 0) {
            continue;
        }
        haul_config config, untouched;
        assert_ok(haul_config_init(&untouched));
        assert_ok(haul_config_init(&config));
        char name[100];
        snprintf(name, sizeof name, "--%s", flag->name);
        const char *words[] = {name, sample_value(flag)};
        const char *command_text = haul_command_at(any_command(flag))->required[0];
        bool is_switch = flag->kind->type == HAUL_FLAG_BOOL;
        /* A command that insists on other flags stops only after it has read this one. */
        haul_status status =
            haul_config_parse(&config, any_command(flag), is_switch ? 1 : 2, words);
        assert_true(status == HAUL_OK || command_text != NULL || config.preset != NULL ||
                    haul_command_at(any_command(flag))->operands_min > 0);
        check_field(&config, flag);
        assert_int_equal(haul_config_source_of(&config, flag->name), HAUL_SOURCE_COMMAND_LINE);
        for (int64_t other = 0; other < haul_flag_count(); other++) {
            const haul_flag *another = haul_flag_at(other);
            if (other != i && another->kind->type != HAUL_FLAG_LIST) {
                size_t bytes = another->kind->type == HAUL_FLAG_BOOL ? 1 : 4;
                assert_memory_equal((char *)&config + another->offset,
                                    (char *)&untouched + another->offset, bytes);
            }
        }
        haul_config_deinit(&config);
        haul_config_deinit(&untouched);
    }
}

static void test_spellings(void **state) {
    (void)state;
    haul_config config;
    parses(&config, HAUL_COMMAND_TRAIN,
           "--num_layers|4|--hidden-size=1_024|--lr|1e-3|--lr=2e-3|--min_lr= 1e-4|--swiglu|--seed"
           "|7|--persistent-save-interval|9");
    assert_int_equal(config.num_layers, 4);
    assert_int_equal(config.hidden_size, 1024);
    assert_true(config.lr > 1.9e-3 && config.min_lr > 0.9e-4 && config.swiglu);
    assert_int_equal(config.save_interval, 9);
    haul_config_deinit(&config);
    parses(&config, HAUL_COMMAND_GENERATE,
           "--load|d|--prompt|-1.5|--stop|a|-b c|.|--prompt=--load|--num-tokens-to-generate|3");
    assert_string_equal(config.prompt, "--load");
    assert_int_equal(config.stop.count, 3);
    assert_string_equal(config.stop.items[1], "-b c");
    assert_int_equal(config.max_new_tokens, 3);
    haul_config_deinit(&config);
    parses(&config, HAUL_COMMAND_TRAIN, "--tokenizer-type|HuggingFaceTokenizer");
    assert_string_equal(haul_config_choice(&config, "tokenizer-type"), "HuggingFaceTokenizer");
    assert_string_equal(haul_config_choice(&config, "optimizer"), "adam");
    haul_config_deinit(&config);
}

static void test_lists(void **state) {
    (void)state;
    haul_config config;
    parses(&config, HAUL_COMMAND_TRAIN, "--data-path|0.3|a|0.7|b|--bf16|--data-path|c");
    assert_int_equal(config.data_path.count, 1);
    assert_string_equal(config.data_path.items[0], "c");
    assert_true(config.bf16);
    haul_config_deinit(&config);
    parses(&config, HAUL_COMMAND_DATA_BUILD, "--input|a b|-|c|--output-prefix|p");
    assert_int_equal(config.input.count, 3);
    assert_string_equal(config.json_keys.items[0], "text");
    haul_config_deinit(&config);
}

static void test_operands(void **state) {
    (void)state;
    haul_config config;
    parses(&config, HAUL_COMMAND_REPORT, "run|--output|x.html");
    assert_string_equal(config.arguments.items[0], "run");
    haul_config_deinit(&config);
    parses(&config, HAUL_COMMAND_DATA_INSPECT, "--|--odd");
    assert_string_equal(config.arguments.items[0], "--odd");
    haul_config_deinit(&config);
    fails(HAUL_COMMAND_REPORT, "", "needs RUN", "haul report");
    fails(HAUL_COMMAND_REPORT, "a|b", "does not know what to do with \"b\"", "--help");
    fails(HAUL_COMMAND_TRAIN, "swiglu", "\"swiglu\"", "did you mean --swiglu?");
}

static void test_refusals(void **state) {
    (void)state;
    haul_command train = HAUL_COMMAND_TRAIN;
    fails(train, "--tensor-model-parallel-size|2",
          "--tensor-model-parallel-size 2 must be 1: haul trains in one process", "");
    fails(train, "--no_position_embedding",
          "--no-position-embedding: it goes with --position-embedding-type rope", "");
    /* All that is wrong, at once. */
    fails(train,
          "--pipeline-model-parallel-size|4|--fp16|--tensor-model-parallel-size|8|--hiden-size|3",
          "4 flags cannot be taken", "did you mean --hidden-size?");
    fails(train, "--pipeline-model-parallel-size|4|--fp16|--tensor-model-parallel-size|8",
          "--pipeline-model-parallel-size 4, --tensor-model-parallel-size 8 must be 1: haul trains "
          "in one process; --fp16: haul trains in f32, --bf16 or --fp8-format",
          "docs/from-megatron.md");
    fails(train, "--group-query-attention|--num-experts|8", "--num-experts 8 must be 0", "");
    fails(train, "--hiden-size|3", "--hiden-size is not a flag", "did you mean --hidden-size?");
    fails(train, "--tensorboard|x", "not a flag", "did you mean --tensorboard-dir?");
    fails(train, "--zzzzzzzzz", "--zzzzzzzzz is not a flag", "haul train --help");
    fails(train, "--prompt|x", "flag of haul generate, not of haul train", "haul train --help");
    fails(train, "--rope-low-freq-factor|2", "is not a flag", "");
    fails(train, "-x", "\"-x\"", "two dashes");
}

static void test_bad_values(void **state) {
    (void)state;
    haul_command train = HAUL_COMMAND_TRAIN;
    fails(train, "--num-layers|1.5", "--num-layers is \"1.5\", must be a whole number", "");
    fails(train, "--num-layers|-2", "must be a whole number from 1", "");
    fails(train, "--num-layers|999999999999999999999", "must be a whole number", "");
    fails(train, "--seq-length|0", "--seq-length is \"0\", must be a whole number from 1", "");
    fails(train, "--threads|0", "--threads is \"0\", must be a whole number from 1 to 4096", "");
    fails(train, "--lr|nan", "--lr is \"nan\", must be a number", "");
    fails(train, "--lr|fast", "--lr is \"fast\"", "haul train --help");
    fails(train, "--hidden-dropout|1.5", "must be a number from 0 to 1", "");
    fails(train, "--optimizer|lion", "must be one of adam, sgd", "");
    fails(train, "--exp-avg-dtype|fp16", "must be one of fp32, bf16", "haul train --help");
    fails(train, "--exp-avg-sq-dtype|fp8", "must be one of fp32, bf16", "haul train --help");
    fails(train, "--num-layers", "--num-layers needs a value", "");
    fails(train, "--num-layers|--swiglu", "--num-layers needs a value", "--num-layers=--swiglu");
    fails(train, "--swiglu=1", "takes no value", "--no-swiglu");
    fails(train, "--data-path|--swiglu", "--data-path needs a value", "");
    fails(HAUL_COMMAND_GENERATE, "--prompt|x", "haul generate needs --load", "--prompt");
}

/* Zero stands for "not given", so nobody may give it. */
static void test_zero_is_refused_where_it_means_nothing(void **state) {
    (void)state;
    for (int64_t i = 0; i < haul_flag_count(); i++) {
        const haul_flag *flag = haul_flag_at(i);
        if (flag->kind->type == HAUL_FLAG_INT && flag->initial == NULL && flag->commands != 0) {
            assert_true(flag->kind->minimum >= 1);
        }
    }
}

static void test_devices(void **state) {
    (void)state;
    static const struct {
        const char *line;
        haul_device_kind kind;
    } devices[] = {{"--device|cpu", HAUL_DEVICE_CPU},   {"--device|cuda", HAUL_DEVICE_CUDA},
                   {"--device|auto", HAUL_DEVICE_AUTO}, {"--device|ref", HAUL_DEVICE_REF},
                   {"--device|meta", HAUL_DEVICE_META}, {"", HAUL_DEVICE_CPU}};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        haul_config config;
        parses(&config, HAUL_COMMAND_TRAIN, devices[i].line);
        assert_int_equal(config.device, devices[i].kind);
        haul_config_deinit(&config);
    }
    fails(HAUL_COMMAND_TRAIN, "--device|gpu", "must be one of cpu, cuda, auto, ref, meta", "");
}

/* To ignore one of these would train another model, or the same one otherwise. */
static void test_what_changes_numbers_is_refused(void **state) {
    (void)state;
    static const char *const lines[] = {
        "--fp16",
        "--fp8-format|hybrid|--no-fp8-wgrad",
        "--fp4-format|e2m1",
        "--fp32-residual-connection",
        "--grad-reduce-in-bf16",
        "--main-grads-dtype|bf16",
        "--main-params-dtype|fp16",
        "--loss-scale|8",
        "--num-experts|8",
        "--mtp-num-layers|1",
        "--multi-latent-attention",
        "--softmax-type|learnable",
        "--window-size|128,0",
        "--qk-layernorm",
        "--qk-l2-norm",
        "--rotary-interleaved",
        "--rotary-seq-len-interpolation-factor|2",
        "--no-rope-freq|4",
        "--apply-layernorm-1p",
        "--apply-residual-connection-post-layernorm",
        "--squared-relu",
        "--quick-geglu",
        "--glu-linear-offset|1",
        "--use-mup",
        "--embedding-init-method-std|0.1",
        "--init-method-xavier-uniform",
        "--reset-position-ids",
        "--reset-attention-mask",
        "--eod-mask-loss",
        "--dataloader-type|cyclic",
        "--fim-data",
        "--rampup-batch-size|8|8|800",
        "--step-batch-size-schedule|0:8",
        "--iterations-to-skip|3",
        "--start-weight-decay|0.1",
        "--weight-decay-incr-style|cosine",
        "--decoupled-lr|0.1",
        "--context-parallel-size|2",
        "--load|x|--ckpt-step|3",
        "--pretrained-checkpoint|x",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        fails(HAUL_COMMAND_TRAIN, lines[i], ": ", "docs/from-megatron.md");
    }
}

/* `flags` with --save and --load of one directory. */
static haul_status parse_load(haul_config *config, const char *directory, const char *flags) {
    char line[1200];
    snprintf(line, sizeof line, "--save|%s|%s|--load|%s", directory, flags, directory);
    return parse(config, HAUL_COMMAND_TRAIN, line);
}

static void make_directory(char path[512], const char *name) {
    snprintf(path, 512, "%s/%s", haul_test_directory(), name);
    assert_ok(haul_directory_create(path));
}

/* What Megatron-LM would do with a checkpoint in another way than haul: harmless while there is
 * none, refused where there is one or something like it. */
static void test_settings_of_a_checkpoint(void **state) {
    (void)state;
    static const struct {
        const char *flags, *reason;
    } cases[] = {{"--finetune", "haul loads everything"},
                 {"--no-load-optim|--no-load-rng", "haul loads everything"},
                 {"--use-checkpoint-args", "from the command line"}};
    char absent[512], empty[512], run[512], path[600];
    snprintf(absent, sizeof absent, "%s/absent", haul_test_directory());
    make_directory(empty, "empty/tensorboard");
    make_directory(empty, "empty");
    make_directory(run, "run/checkpoints/iter_0000002");
    const char *const saved[] = {"run", "run/checkpoints", "run/checkpoints/iter_0000002"};
    snprintf(path, sizeof path, "%s/COMMIT", run);
    assert_ok(haul_file_replace(path, "", 0));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul_config config;
        assert_ok(parse(&config, HAUL_COMMAND_TRAIN, cases[i].flags));
        haul_config_deinit(&config);
        assert_ok(parse_load(&config, absent, cases[i].flags));
        haul_config_deinit(&config);
        assert_ok(parse_load(&config, empty, cases[i].flags));
        assert_true(config.ignored.count > 0);
        haul_config_deinit(&config);
        for (int s = 0; s < 3; s++) {
            make_directory(run, saved[s]);
            haul_test_assert_fails(parse_load(&config, run, cases[i].flags), HAUL_ERROR_USAGE,
                                   cases[i].reason);
            haul_config_deinit(&config);
        }
    }
}

/* As large models are trained with Megatron-LM. */
static void test_moments(void **state) {
    (void)state;
    haul_config config;
    parses(&config, HAUL_COMMAND_TRAIN,
           "--use-precision-aware-optimizer|--main-grads-dtype|fp32|--main-params-dtype|fp32|"
           "--exp-avg-dtype|bf16");
    assert_int_equal(config.exp_avg_dtype, HAUL_MOMENT_BF16);
    assert_int_equal(config.exp_avg_sq_dtype, HAUL_MOMENT_FP32);
    assert_int_equal(config.ignored.count, 3);
    haul_config_deinit(&config);
}

static void test_presets(void **state) {
    (void)state;
    haul_config config;
    parses(&config, HAUL_COMMAND_TRAIN,
           "--num-layers|7|--no-swiglu|--preset|quickstart|--train-samples|99");
    assert_int_equal(config.num_layers, 7);
    assert_int_equal(config.hidden_size, 96);
    assert_false(config.swiglu);
    assert_int_equal(config.train_iters, 0);
    assert_int_equal(haul_config_source_of(&config, "hidden-size"), HAUL_SOURCE_PRESET);
    haul_config_deinit(&config);
    fails(HAUL_COMMAND_TRAIN, "--preset|huge", "--preset is \"huge\"", "tiny, quickstart");
}

static void test_help_wins(void **state) {
    (void)state;
    haul_config config;
    parses(&config, HAUL_COMMAND_GENERATE, "--top-k|4|-h|--nonsense");
    assert_true(config.help);
    haul_config_deinit(&config);
}

/* A word of Megatron-LM's is never called unknown: haul takes it, lacks its value, or says why it
 * is refused. */
static void test_every_megatron_flag_is_recognised(void **state) {
    (void)state;
    for (const char *const *line = haul_megatron_flag_lines; *line != NULL; line++) {
        char words[200];
        snprintf(words, sizeof words, "%s", *line);
        char *rest = words;
        for (char *name = strtok_r(rest, " ", &rest); name != NULL;
             name = strtok_r(NULL, " ", &rest)) {
            char word[200];
            snprintf(word, sizeof word, "--%.*s", (int)strcspn(name, "="), name);
            const char *argv[] = {word};
            haul_config config;
            assert_ok(haul_config_init(&config));
            haul_status status = haul_config_parse(&config, HAUL_COMMAND_TRAIN, 1, argv);
            if (status != HAUL_OK) {
                assert_int_equal(status, HAUL_ERROR_USAGE);
                assert_null(strstr(haul_error_message(), "is not a flag"));
                bool lacks = strstr(haul_error_message(), "needs a value") != NULL;
                assert_true(lacks || strstr(haul_error_message(), ": ") != NULL);
            }
            haul_config_deinit(&config);
        }
    }
}

/* Lines as people have them: what changes nothing here is taken and kept by name. */
static void test_megatron_command_lines(void **state) {
    (void)state;
    haul_config config;
    parses(&config, HAUL_COMMAND_TRAIN,
           "--use-mcore-models|--tensor-model-parallel-size|1|--pipeline-model-parallel-size|1|"
           "--context-parallel-size|1|--sequence-parallel|--use-distributed-optimizer|"
           "--overlap-grad-reduce|--overlap-param-gather|--transformer-impl|transformer_engine|"
           "--use-flash-attn|--attention-backend|auto|--no-gradient-accumulation-fusion|"
           "--distributed-backend|nccl|--num-workers|2|--log-throughput|--timing-log-level|2|"
           "--ckpt-format|torch_dist|--use-rotary-position-embeddings|--num-layers|2|"
           "--hidden-size|64|--num-attention-heads|4|--seq-length|128|--bf16");
    assert_int_equal(config.position_embedding_type, HAUL_POSITION_ROPE);
    assert_int_equal(config.num_layers, 2);
    assert_true(config.bf16);
    assert_int_equal(config.ignored.count, 17);
    assert_string_equal(config.ignored.items[0], "use-mcore-models");
    haul_config_deinit(&config);
    /* The last mention counts; an experiment's flags are harmless while it is off. */
    parses(&config, HAUL_COMMAND_TRAIN,
           "--tensor-model-parallel-size|8|--tensor_model_parallel_size=1|--moe-router-topk|2");
    assert_int_equal(config.ignored.count, 2);
    haul_config_deinit(&config);
}

static void test_out_of_memory(void **state) {
    (void)state;
    const char *const words[] = {"--data-path", "a", "b", "--preset", "tiny", "--save", "x"};
    haul_status status = HAUL_ERROR_MEMORY;
    for (long nth = 1; status != HAUL_OK; nth++) {
        haul_config config;
        haul_fault_arm(HAUL_FAULT_ALLOC, nth, false);
        status = haul_config_init(&config);
        if (status == HAUL_OK) {
            status = haul_config_parse(&config, HAUL_COMMAND_TRAIN, 7, words);
            haul_config_deinit(&config);
        }
        haul_fault_arm(HAUL_FAULT_ALLOC, 0, false);
        assert_true(status == HAUL_OK || status == HAUL_ERROR_MEMORY);
        assert_true(nth < 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_flag_lands_in_its_field),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_zero_is_refused_where_it_means_nothing),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_what_changes_numbers_is_refused),
        cmocka_unit_test(test_settings_of_a_checkpoint),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_help_wins),
        cmocka_unit_test(test_every_megatron_flag_is_recognised),
        cmocka_unit_test(test_megatron_command_lines),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
