/* ctest: unit */
/* Every flag of `haul train` has an effect. Most change the parameters after four steps; what the
 * others do is shown by the test named beside them. A new flag without an entry fails. */
#include "small_data.h"
#include "testing.h"

#include "base/hash.h"
#include "config/flags.h"
#include "config/parse.h"
#include "config/validate.h"
#include "train/corpus.h"
#include "train/save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char BASE[] = "--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8 "
                           "--vocab-size 40 --micro-batch-size 2 --global-batch-size 4 --lr 0.01 "
                           "--threads 1 --log-interval 1000 --init-method-std 0.2";

/* A run of BASE + context against one of BASE + context + flag. */
typedef struct effect {
    const char *flag; /* with its value */
    const char *context;
} effect;

#define ITERS   "--train-iters 4 "
#define ROPE    ITERS "--position-embedding-type rope "
#define WSD     ITERS "--lr-decay-style WSD --lr-wsd-decay-iters 2 "
#define FP8     ITERS "--fp8-format e4m3 "
#define FP8_IN  FP8 "--num-layers 3 --first-last-layers-bf16 "
#define SAMPLES "--train-samples 16 "

static const effect effects[] = {
    {"--num-layers 3", ITERS},
    {"--hidden-size 24", ITERS},
    {"--ffn-hidden-size 20", ITERS},
    {"--num-attention-heads 4", ITERS},
    {"--kv-channels 6", ITERS},
    {"--group-query-attention", ITERS},
    {"--num-query-groups 2", ITERS "--group-query-attention"},
    {"--seq-length 7", ITERS "--max-position-embeddings 8"},
    {"--max-position-embeddings 12", ITERS},
    {"--position-embedding-type none", ITERS},
    {"--rotary-base 3", ROPE},
    {"--rotary-percent 0.5", ROPE},
    {"--use-rope-scaling", ROPE "--rotary-base 1e8"},
    {"--rope-scaling-factor 2", ROPE "--rotary-base 1e8 --use-rope-scaling"},
    {"--normalization RMSNorm", ITERS},
    {"--norm-epsilon 0.1", ITERS},
    {"--swiglu", ITERS "--ffn-hidden-size 64"},
    {"--openai-gelu", ITERS},
    {"--disable-bias-linear", ITERS},
    {"--add-qkv-bias", ITERS "--disable-bias-linear"},
    {"--untie-embeddings-and-output-weights", ITERS},
    {"--make-vocab-size-divisible-by 8", ITERS},
    {"--vocab-size 300", ITERS},
    {"--hidden-dropout 0", ITERS},
    {"--attention-dropout 0", ITERS},
    {"--init-method-std 0.1", ITERS},
    {"--bf16", ITERS},
    {"--fp8-format e4m3", ITERS},
    {"--fp8-format hybrid", FP8},
    {"--fp8-recipe blockwise", FP8},
    {"--first-last-layers-bf16", FP8 "--num-layers 3"},
    {"--num-layers-at-start-in-bf16 0", FP8_IN},
    {"--num-layers-at-end-in-bf16 0", FP8_IN},
    {"--micro-batch-size 1", ITERS},
    {"--global-batch-size 2", ITERS},
    {"--train-iters 3", ITERS "--lr-decay-iters 4"},
    {"--train-samples 12", SAMPLES "--lr-decay-samples 16"},
    {"--optimizer sgd", ITERS},
    {"--weight-decay 0.5", ITERS},
    {"--clip-grad 0.01", ITERS "--optimizer sgd"},
    {"--adam-beta1 0.5", ITERS},
    {"--adam-beta2 0.9", ITERS},
    {"--adam-eps 0.01", ITERS},
    {"--exp-avg-dtype bf16", ITERS},
    {"--exp-avg-sq-dtype bf16", ITERS},
    {"--sgd-momentum 0.1", ITERS "--optimizer sgd"},
    {"--seed 5", ITERS},
    {"--exit-interval 3", ITERS},
    {"--lr 0.02", ITERS},
    {"--min-lr 0.005", ITERS},
    {"--lr-decay-style cosine", ITERS},
    {"--lr-decay-iters 8", ITERS},
    {"--lr-decay-samples 32", SAMPLES},
    {"--lr-warmup-iters 2", ITERS},
    {"--lr-warmup-samples 8", SAMPLES},
    {"--lr-warmup-fraction 0.5", ITERS},
    {"--lr-warmup-init 0.005", ITERS "--lr-warmup-iters 2"},
    {"--lr-wsd-decay-style linear", WSD},
    {"--lr-wsd-decay-iters 3", WSD},
    {"--lr-wsd-decay-samples 12", SAMPLES "--lr-decay-style WSD --lr-wsd-decay-samples 4"},
    {"--split 10,0,0", ITERS "--split 1,1,0"},
    {"--mock-data", ITERS},
};

/* What does not change parameters, and the test that shows what it does. */
static const char *const elsewhere[][2] = {
    {"exit-duration-in-mins", "test_exit_duration below"},
    {"recompute-granularity", "step/test_executor.c: less memory, the same bits"},
    {"recompute-modules", "step/test_executor.c: likewise"},
    {"data-path", "all runs here"},
    {"valid-data-path", "cli/commands"},
    {"text", "cli/commands"},
    {"tokenizer-type", "data/test_tokenizer.c"},
    {"tokenizer-model", "data/test_tokenizer.c, cli/commands"},
    {"vocab-file", "data/test_tokenizer_gpt2.c, cli/commands"},
    {"merge-file", "data/test_tokenizer_gpt2.c, cli/commands"},
    {"document-separator", "data/test_build.c"},
    {"use-checkpoint-opt-param-scheduler", "train/test_resume.c"},
    {"load", "train/test_resume.c"},
    {"save", "train/test_resume.c"},
    {"save-interval", "train/test_resume.c"},
    {"keep-checkpoints", "checkpoint/test_save_load.c"},
    {"eval-interval", "test_intervals below"},
    {"eval-iters", "test_intervals below"},
    {"log-interval", "test_intervals below"},
    {"tensorboard-dir", "report/test_tensorboard.c"},
    {"run-dir", "cli/commands"},
    {"name", "cli/commands"},
    {"sample-prompt", "cli/commands"},
    {"profile", "train/test_profile.c"},
    {"use-pytorch-profiler", "train/test_profile.c"},
    {"profile-step-start", "train/test_profile.c"},
    {"profile-step-end", "train/test_profile.c"},
    {"profile-ranks", "train/test_profile.c"},
    {"preset", "config/test_parse.c"},
    {"device", "train/test_parity.c"},
    {"threads", "device/test_cpu_*.c: the same bits"},
    {"cpu-product-dtype", "device/test_cpu_matmul.c"},
    {"dry-run", "cli/commands"},
    {"help", "cli/commands"},
};

/* The config of a command line that is one text, words apart by blanks. */
static void configure(haul_config *config, char *line) {
    const char *words[128];
    int count = 0;
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
        words[count++] = word;
    }
    assert_ok(haul_config_init(config));
    assert_ok(haul_config_parse(config, HAUL_COMMAND_TRAIN, count, words));
    assert_ok(haul_config_finalize(config));
}

typedef struct outcome {
    uint64_t parameters; /* a hash */
    int intervals, evaluations;
    int64_t evaluated;
    int64_t iterations;
    haul_train_end end;
    haul_train *train; /* while it runs */
} outcome;

/* As if every step had taken forty seconds. */
static void on_step(void *context, const haul_train *train, double loss, double seconds) {
    (void)train;
    (void)loss;
    (void)seconds;
    ((outcome *)context)->train->started -= 40;
}

static void on_interval(void *context, const haul_train *train, const haul_iteration *means) {
    (void)train;
    (void)means;
    ((outcome *)context)->intervals++;
}

static void on_evaluation(void *context, const haul_train *train,
                          const haul_evaluation *evaluation) {
    (void)train;
    ((outcome *)context)->evaluations++;
    ((outcome *)context)->evaluated += evaluation->labels;
}

static outcome run(const char *context, const char *flag) {
    char line[2048];
    outcome seen = {0};
    haul_config config;
    haul_session session;
    haul_corpus corpus = {0};
    bool mock = strcmp(flag, "--mock-data") == 0;
    snprintf(line, sizeof line, "%s%s%s %s %s", BASE, mock ? "" : " --data-path ",
             mock ? "" : small_data_prefix(), context, flag);
    configure(&config, line);
    assert_ok(haul_session_plan(&session, &config, true));
    assert_ok(haul_session_allocate(&session));
    assert_ok(haul_corpus_open(&config, &corpus));
    haul_train train = {.config = &config,
                        .session = &session,
                        .training = corpus.training,
                        .validation = corpus.validation,
                        .observer = {.context = &seen,
                                     .step = on_step,
                                     .interval = on_interval,
                                     .evaluation = on_evaluation}};
    assert_ok(haul_train_start(&train, NULL));
    seen.train = &train;
    assert_ok(haul_train_run(&train));
    seen.iterations = train.progress.iteration;
    seen.end = train.end;
    for (int64_t b = 0; b < session.chunk.buffer_count; b++) {
        const haul_tensor *value = &session.store.buffers[b].value;
        uint64_t both[2] = {seen.parameters, haul_hash_64(value->data, haul_tensor_bytes(value))};
        seen.parameters = haul_hash_64(both, (int64_t)sizeof both);
    }
    haul_session_deinit(&session);
    haul_corpus_close(&corpus);
    haul_config_deinit(&config);
    return seen;
}

static void test_flags_change_parameters(void **state) {
    (void)state;
    int without = 0;
    for (size_t i = 0; i < sizeof effects / sizeof effects[0]; i++) {
        outcome plain = run(effects[i].context, ""), again = run(effects[i].context, "");
        outcome changed = run(effects[i].context, effects[i].flag);
        assert_true(plain.parameters == again.parameters);
        if (plain.parameters == changed.parameters) {
            print_error("%s changes nothing\n", effects[i].flag);
            without++;
        }
    }
    assert_int_equal(without, 0);
}

static void test_intervals(void **state) {
    (void)state;
    const char *evaluates = ITERS "--split 1,1,0 --eval-interval 2 --eval-iters 1";
    outcome plain = run(evaluates, "");
    assert_int_equal(plain.evaluations, 2);
    assert_int_equal(plain.evaluated, 2 * 4 * 8);
    assert_int_equal(plain.intervals, 1); /* at the end */
    assert_int_equal(run(evaluates, "--eval-interval 1").evaluations, 4);
    assert_int_equal(run(evaluates, "--eval-iters 2").evaluated, 2 * 2 * 4 * 8);
    assert_int_equal(run(evaluates, "--log-interval 1").intervals, 4);
}

static void test_exit_duration(void **state) {
    (void)state;
    outcome whole = run(ITERS, ""), cut = run(ITERS, "--exit-duration-in-mins 1");
    assert_int_equal(whole.iterations, 4);
    assert_int_equal(whole.end, HAUL_TRAIN_FINISHED);
    assert_int_equal(cut.iterations, 2);
    assert_int_equal(cut.end, HAUL_TRAIN_EXIT_DURATION);
}

static bool has_entry(const char *name) {
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof effects / sizeof effects[0]; i++) {
        const char *flag = effects[i].flag + 2;
        if (strncmp(flag, name, length) == 0 && (flag[length] == ' ' || flag[length] == '\0')) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        if (strcmp(elsewhere[i][0], name) == 0) {
            return true;
        }
    }
    return false;
}

static void test_every_flag_has_an_entry(void **state) {
    (void)state;
    int missing = 0;
    for (int64_t i = 0; i < haul_flag_count(); i++) {
        const haul_flag *flag = haul_flag_at(i);
        if (flag->commands & HAUL_COMMAND_BIT(HAUL_COMMAND_TRAIN) && !has_entry(flag->name)) {
            print_error("--%s has no entry\n", flag->name);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags_change_parameters),
        cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_exit_duration),
        cmocka_unit_test(test_every_flag_has_an_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
