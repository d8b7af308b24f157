/* ctest: unit golden */
#include "testing.h"

#include "base/file.h"
#include "config/megatron_flops.h"
#include "config/number.h"
#include "config/parse.h"
#include "config/presets.h"
#include "config/validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHAPE  "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 16 "
#define BATCH  "--micro-batch-size 2 --mock-data --lr 1e-3 "
#define ENOUGH SHAPE BATCH "--train-iters 100 "

/* Parses a line of words separated by blanks; `text` is taken apart. */
static haul_status parse_words(haul_config *config, char *text) {
    const char *words[128];
    int count = 0;
    char *rest = text;
    for (char *word = strtok_r(rest, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        words[count++] = word;
    }
    HAUL_TRY(haul_config_init(config));
    return haul_config_parse(config, HAUL_COMMAND_TRAIN, count, words);
}

static haul_status finalize(haul_config *config, const char *line) {
    char text[2048];
    haul_text_copy(text, sizeof text, line);
    assert_ok(parse_words(config, text));
    return haul_config_finalize(config);
}

static void fails(const char *line, const char *message) {
    haul_config config;
    haul_test_assert_fails(finalize(&config, line), HAUL_ERROR_CONFIG, message);
    assert_null(strstr(haul_error_message(), "settings are wrong"));
    haul_config_deinit(&config);
}

static void test_derived(void **state) {
    (void)state;
    haul_config config;
    assert_ok(finalize(&config, ENOUGH "--vocab-size 257 --lr-warmup-fraction 0.1"));
    for (int round = 0; round < 2; round++) {
        assert_int_equal(config.ffn_hidden_size, 256);
        assert_int_equal(config.kv_channels, 16);
        assert_int_equal(config.num_query_groups, 4);
        assert_int_equal(config.max_position_embeddings, 16);
        assert_int_equal(config.global_batch_size, 2);
        assert_int_equal(config.lr_decay_iters, 100);
        assert_int_equal(config.padded_vocab_size, 384);
        assert_string_equal(config.split, "969, 30, 1");
        assert_true(config.add_qkv_bias);
        assert_int_equal(haul_config_iterations(&config), 100);
        assert_ok(haul_config_finalize(&config));
    }
    haul_config_deinit(&config);
    assert_ok(finalize(&config, SHAPE BATCH "--global-batch-size 8 --train-samples 100 --swiglu "
                                            "--disable-bias-linear --group-query-attention"));
    assert_int_equal(config.ffn_hidden_size, 128);
    assert_int_equal(config.num_query_groups, 1);
    assert_int_equal(config.lr_decay_samples, 100);
    assert_int_equal(haul_config_iterations(&config), 12);
    assert_false(config.add_qkv_bias);
    haul_config_deinit(&config);
}

static void test_single_mistakes(void **state) {
    (void)state;
    fails(BATCH "--train-iters 9 --hidden-size 8 --num-attention-heads 2 --seq-length 4",
          "--num-layers is missing");
    fails(ENOUGH "--num-attention-heads 3", "must be divisible by --num-attention-heads 3");
    fails(ENOUGH "--group-query-attention --num-query-groups 3", "divisible by --num-query-groups");
    fails(ENOUGH "--max-position-embeddings 8", "must be at most --max-position-embeddings 8");
    fails(ENOUGH "--global-batch-size 3", "must be divisible by --micro-batch-size 2");
    fails(ENOUGH "--train-samples 9", "--train-iters and --train-samples exclude each other");
    fails(SHAPE BATCH, "--train-iters is missing");
    fails(SHAPE "--micro-batch-size 1 --mock-data --train-iters 1", "--lr is missing");
    fails(ENOUGH "--min-lr 1", "--min-lr is 1, must be at most --lr 0.001");
    fails(ENOUGH "--lr-warmup-init 1", "--lr-warmup-init is 1");
    fails(ENOUGH "--lr-warmup-iters 100", "must be below the 100 of the decay");
    fails(ENOUGH "--lr-warmup-iters 2 --lr-warmup-fraction 0.1", "exclude each other");
    fails(ENOUGH "--lr-warmup-fraction 1", "--lr-warmup-fraction is 1, must be below 1");
    fails(ENOUGH "--lr-decay-samples 5", "does not go with --train-iters, use --lr-decay-iters");
    fails(SHAPE BATCH "--train-samples 9 --lr-warmup-iters 5", "use --lr-warmup-samples");
    fails(ENOUGH "--lr-decay-style WSD", "needs --lr-wsd-decay-iters");
    fails(ENOUGH "--lr-decay-style WSD --lr-wsd-decay-iters 101", "at most the 100");
    fails(ENOUGH "--hidden-dropout 1", "--hidden-dropout is 1, must be below 1");
    fails(ENOUGH "--adam-beta2 1.0", "--adam-beta2 is 1");
    fails(ENOUGH "--swiglu --openai-gelu", "exclude each other");
    fails(ENOUGH "--kv-channels 100000000", "1200000000 wide, must be at most 100000000");
    fails(SHAPE BATCH "--train-iters 1000000000000 --global-batch-size 10000000",
          "the training takes 1.6e+20 tokens");
    fails(ENOUGH "--eval-interval 1 --eval-iters 1000000000000 --global-batch-size 100000",
          "the evaluations take 1.616e+20 tokens");
    fails(ENOUGH "--position-embedding-type rope --kv-channels 5", "must be an even number");
    fails(ENOUGH "--position-embedding-type rope --rotary-percent 0.01", "0 of the 16 channels");
    fails(ENOUGH "--text x", "only one of --data-path, --text and --mock-data");
    fails(ENOUGH "--no-mock-data", "nothing to train on");
    fails(ENOUGH "--split a,b", "--split is \"a,b\"");
    fails(ENOUGH "--tokenizer-type NullTokenizer", "--vocab-size is missing");
    fails(ENOUGH "--tokenizer-type HuggingFaceTokenizer", "--tokenizer-model is missing");
    fails(ENOUGH "--hidden-size 16 --swiglu", "--ffn-hidden-size is missing");
    fails(SHAPE BATCH "--train-samples 1", "must be at least --global-batch-size 2");
}

static void test_all_mistakes_at_once(void **state) {
    (void)state;
    haul_config config;
    haul_test_assert_fails(finalize(&config, ENOUGH "--adam-beta1 1 --min-lr 1 --hidden-size 63"),
                           HAUL_ERROR_CONFIG, "3 settings are wrong");
    assert_non_null(strstr(haul_error_message(), "wrong: --hidden-size is 63"));
    assert_non_null(strstr(haul_error_message(), "--min-lr is 1"));
    assert_non_null(strstr(haul_error_message(), "--adam-beta1 is 1"));
    haul_config_deinit(&config);
    haul_test_assert_fails(finalize(&config, ""), HAUL_ERROR_CONFIG, "--seq-length is missing");
    haul_config_deinit(&config);
}

static void test_presets_are_whole(void **state) {
    (void)state;
    for (int64_t i = 0; haul_preset_at(i) != NULL; i++) {
        haul_config config;
        assert_ok(haul_config_init(&config));
        const char *words[] = {"--preset", haul_preset_at(i)->name, "--text", "my.txt"};
        assert_ok(haul_config_parse(&config, HAUL_COMMAND_TRAIN, 4, words));
        assert_ok(haul_config_finalize(&config));
        haul_config_deinit(&config);
    }
}

static void test_surprises(void **state) {
    (void)state;
    haul_config config;
    haul_string out = {0};
    assert_ok(finalize(&config, ENOUGH "--num-query-groups 2 --use-rope-scaling"));
    assert_ok(haul_config_surprises(&config, &out));
    const char *const wanted[] = {
        "dropout is 0.1",  "positions are learned",   "--save DIR",
        "--eval-interval", "--group-query-attention", "--use-rope-scaling"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        assert_non_null(strstr(out.data, wanted[i]));
    }
    haul_string_deinit(&out);
    haul_config_deinit(&config);
    assert_ok(finalize(&config, ENOUGH "--hidden-dropout 0.1 --attention-dropout 0 --save x "
                                       "--eval-interval 5 --position-embedding-type rope"));
    assert_ok(haul_config_surprises(&config, &out));
    assert_int_equal(out.length, 0);
    haul_string_deinit(&out);
    haul_config_deinit(&config);
}

/* Flags in vain are named in one line, each with what it needs. */
static void test_flags_without_effect(void **state) {
    (void)state;
    static const struct {
        const char *given, *named;
    } cases[] = {
        {"--num-query-groups 2", "--num-query-groups (needs --group-query-attention)"},
        {"--add-qkv-bias", "--add-qkv-bias (needs --disable-bias-linear)"},
        {"--rotary-base 9 --rotary-percent 0.5",
         "--rotary-base --rotary-percent (needs --position-embedding-type rope)"},
        {"--position-embedding-type rope --rope-scaling-factor 9",
         "--rope-scaling-factor (needs --use-rope-scaling)"},
        {"--optimizer sgd --adam-beta1 0.5 --adam-eps 1",
         "--adam-beta1 --adam-eps (needs --optimizer adam)"},
        {"--optimizer sgd --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
         "--exp-avg-dtype --exp-avg-sq-dtype (needs --optimizer adam)"},
        {"--sgd-momentum 0.5", "--sgd-momentum (needs --optimizer sgd)"},
        {"--lr-decay-style constant --min-lr 0 --lr-decay-iters 9",
         "--min-lr (needs a --lr-decay-style other than constant), --lr-decay-iters (needs a "
         "--lr-decay-style other than constant)"},
        {"--lr-wsd-decay-iters 9", "--lr-wsd-decay-iters (needs --lr-decay-style WSD)"},
        {"--lr-warmup-init 1e-4", "--lr-warmup-init (needs a warmup)"},
        {"--split 9,1 --valid-data-path x",
         "--split (needs --data-path alone), --valid-data-path (needs --data-path)"},
        {"--document-separator percent", "--document-separator (needs --text)"},
        {"--vocab-size 9 --tokenizer-type ByteTokenizer --vocab-file x --merge-file y",
         "--vocab-file --merge-file (needs --tokenizer-type GPT2BPETokenizer)"},
        {"--vocab-size 9 --tokenizer-model x",
         "--tokenizer-model (needs --tokenizer-type HuggingFaceTokenizer)"},
        {"--eval-iters 9 --sample-prompt x",
         "--eval-iters --sample-prompt (needs --eval-interval)"},
        {"--save-interval 9 --keep-checkpoints 9",
         "--save-interval --keep-checkpoints (needs --save)"},
        {"--name x --run-dir y", "--name (needs no --run-dir)"},
        {"--cpu-product-dtype f32", "--cpu-product-dtype (needs --bf16)"},
        {"--fp8-recipe blockwise --first-last-layers-bf16",
         "--fp8-recipe --first-last-layers-bf16 (needs --fp8-format)"},
        {"--num-layers-at-end-in-bf16 2",
         "--num-layers-at-end-in-bf16 (needs --fp8-format and --first-last-layers-bf16)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul_config config;
        haul_string out = {0};
        char line[400], wanted[300];
        snprintf(line, sizeof line, ENOUGH "%s", cases[i].given);
        snprintf(wanted, sizeof wanted, "\nno effect here: %s\n", cases[i].named);
        assert_ok(finalize(&config, line));
        assert_ok(haul_config_surprises(&config, &out));
        if (strstr(out.data, wanted) == NULL) {
            fail_msg("%s: \"%s\", must have \"%s\"", cases[i].given, out.data, wanted);
        }
        haul_string_deinit(&out);
        haul_config_deinit(&config);
    }
}

/* So are those of Megatron-LM that were taken; a switch that is turned off asks for nothing. */
static void test_ignored_flags(void **state) {
    (void)state;
    haul_config config;
    haul_string out = {0};
    assert_ok(
        finalize(&config, ENOUGH "--use-flash-attn --sequence-parallel --no-use-rope-scaling"));
    assert_ok(haul_config_surprises(&config, &out));
    assert_non_null(strstr(out.data, "\nflags of Megatron-LM that change nothing here: "
                                     "--use-flash-attn --sequence-parallel\n"));
    assert_null(strstr(out.data, "no effect"));
    haul_string_deinit(&out);
    haul_config_deinit(&config);
}

/* One line of the file: a command line, then the fields that Megatron-LM derived. */
static void check_megatron_row(char *line) {
    char *fields[6];
    char *rest = line;
    for (int i = 0; i < 6; i++) {
        fields[i] = strsep(&rest, "\t");
        assert_non_null(fields[i]);
    }
    haul_config config;
    assert_ok(parse_words(&config, fields[0]));
    assert_ok(haul_config_finalize(&config));
    assert_int_equal(config.ffn_hidden_size, atoll(fields[1]));
    assert_int_equal(config.kv_channels, atoll(fields[2]));
    assert_string_equal(config.add_qkv_bias ? "True" : "False", fields[3]);
    assert_int_equal(config.num_query_groups, atoll(fields[4]));
    if (strcmp(fields[5], "None") != 0) {
        assert_string_equal(config.split, fields[5]);
    }
    haul_config_deinit(&config);
}

/* Command lines of Megatron-LM's own tests and examples, some with words added at their end: name,
 * "ok" or what the refusal says, words. */
static void check_megatron_command(char *line) {
    const char *name = strsep(&line, "\t"), *expected = strsep(&line, "\t");
    haul_config config;
    assert_non_null(line);
    haul_status status = parse_words(&config, line);
    if (strcmp(expected, "ok") == 0) {
        assert_ok(status);
        assert_ok(haul_config_finalize(&config));
        assert_true(config.ignored.count > 10);
    } else if (status != HAUL_ERROR_USAGE || strstr(haul_error_message(), expected) == NULL) {
        fail_msg("%s: \"%s\", must say \"%s\"", name, haul_error_message(), expected);
    }
    haul_config_deinit(&config);
}

static int each_line(const char *file, void check(char *line)) {
    haul_string text = {0};
    assert_ok(haul_file_read(file, &text));
    char *rest = text.data;
    int rows = 0;
    for (char *line = strsep(&rest, "\n"); line != NULL && *line != '\0';
         line = strsep(&rest, "\n")) {
        check(line);
        rows++;
    }
    haul_string_deinit(&text);
    return rows;
}

static void test_commands_of_megatron(void **state) {
    (void)state;
    assert_int_equal(
        each_line(HAUL_TEST_DIR "/config/megatron_commands.tsv", check_megatron_command), 14);
}

static void test_derived_as_megatron(void **state) {
    (void)state;
    assert_true(each_line(HAUL_TEST_DIR "/config/megatron_derived.tsv", check_megatron_row) > 5);
}

/* By hand from num_floating_point_operations: 6 x (layers x (qkv + attention + projection + MLP) +
 * logits). */
static void test_flops_of_megatron(void **state) {
    (void)state;
    const struct {
        const char *preset;
        double masked, whole;
    } models[] = {
        /* 6 x (12 x (1769472 + 786432 + 589824 + 4718592) + 38633472) */
        {"gpt2-124m", 798031872, 854654976},
        /* 6 x (32 x (25165824 + 33554432 + 16777216 + 176160768) + 525336576) */
        {"llama3-8b", 51470401536, 57912852480},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        haul_config config;
        char line[100];
        snprintf(line, sizeof line, "--mock-data --preset %s", models[i].preset);
        assert_ok(finalize(&config, line));
        assert_true(haul_megatron_flops_per_token(&config, false) == models[i].masked);
        assert_true(haul_megatron_flops_per_token(&config, true) == models[i].whole);
        haul_config_deinit(&config);
    }
}

/* Megatron-LM's spellings of a split, as the data set reads them. */
static void test_split(void **state) {
    (void)state;
    static const char *const spellings[][2] = {{"[9,1]", "9,1"},         {"(9,1,0)", "9,1,0"},
                                               {"'99,1,0'", "99,1,0"},   {"\"['9/1']\"", "9/1"},
                                               {"949,50,1", "949,50,1"}, {"1", "1"}};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        haul_config config;
        char line[300];
        snprintf(line, sizeof line, ENOUGH "--split %s", spellings[i][0]);
        for (int round = 0; round < 2; round++) {
            assert_ok(round == 0 ? finalize(&config, line) : haul_config_finalize(&config));
            assert_string_equal(config.split, spellings[i][1]);
        }
        haul_config_deinit(&config);
    }
    static const char *const bad[] = {"a",   "1,2,3,4", "0,0,0", "1..2",   "-1,1",
                                      "1,x", "1e3,1",   "[]",    "'9','1'"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char line[300];
        snprintf(line, sizeof line, ENOUGH "--split=%s", bad[i]);
        fails(line, "must be up to three shares");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_derived),
        cmocka_unit_test(test_single_mistakes),
        cmocka_unit_test(test_all_mistakes_at_once),
        cmocka_unit_test(test_presets_are_whole),
        cmocka_unit_test(test_surprises),
        cmocka_unit_test(test_flags_without_effect),
        cmocka_unit_test(test_ignored_flags),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_flops_of_megatron),
        cmocka_unit_test(test_commands_of_megatron),
        cmocka_unit_test(test_derived_as_megatron),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
