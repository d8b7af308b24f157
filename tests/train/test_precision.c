/* ctest: unit */
/* What trains in fewer bits trains as well: moments of adam in bf16, at half the memory, and
 * products in FP8, which keep half of the activations. */
#include "testing.h"

#include "base/philox.h"
#include "config/validate.h"
#include "data/indexed.h"
#include "train/corpus.h"
#include "train/save.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const flags[][2] = {{"num-layers", "2"},
                                       {"hidden-size", "32"},
                                       {"num-attention-heads", "2"},
                                       {"seq-length", "16"},
                                       {"max-position-embeddings", "16"},
                                       {"vocab-size", "40"},
                                       {"micro-batch-size", "8"},
                                       {"global-batch-size", "8"},
                                       {"train-iters", "200"},
                                       {"log-interval", "20"},
                                       {"lr", "0.003"},
                                       {"lr-decay-style", "cosine"},
                                       {"adam-beta2", "0.999"},
                                       {"hidden-dropout", "0"},
                                       {"attention-dropout", "0"},
                                       {"threads", "1"}};

enum { VOCABULARY = 40, DOCUMENTS = 40, TOKENS = 1000 };

/* Three of four tokens follow from the one before, the others are drawn: a model that has learned
 * this has a loss of 0.25 log 40 + 0.56. */
static void write_data(const char *prefix) {
    haul_indexed_writer *writer;
    assert_ok(haul_indexed_writer_create(prefix, HAUL_U16, &writer));
    for (uint32_t document = 0; document < DOCUMENTS; document++) {
        int32_t tokens[TOKENS] = {0};
        for (uint32_t t = 1; t < TOKENS; t++) {
            uint32_t key[2] = {document, 9}, counter[4] = {t, 0, 0, 0};
            haul_philox random = haul_philox_4x32(key, counter);
            tokens[t] = random.word[0] % 4 > 0 ? (tokens[t - 1] * 7 + 3) % VOCABULARY
                                               : (int32_t)(random.word[1] % VOCABULARY);
        }
        assert_ok(haul_indexed_writer_add(writer, tokens, TOKENS));
        assert_ok(haul_indexed_writer_end_document(writer));
    }
    assert_ok(haul_indexed_writer_finish(writer));
    haul_indexed_writer_destroy(writer);
}

typedef struct outcome {
    double loss; /* mean of the last interval */
    int64_t moment_bytes, activation_bytes, parameters;
} outcome;

static void set(haul_config *config, const char *flag, const char *value) {
    assert_ok(haul_config_set(config, flag, &value, 1, HAUL_SOURCE_COMMAND_LINE));
}

static void on_interval(void *context, const haul_train *train, const haul_iteration *means) {
    (void)train;
    ((outcome *)context)->loss = means->loss;
}

/* What the memory table lists in categories that end so. */
static int64_t bytes_of(const haul_memory_table *table, const char *category) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < table->count; i++) {
        if (strstr(table->lines[i].category, category) != NULL) {
            bytes += table->lines[i].bytes;
        }
    }
    return bytes;
}

/* `extra` are more flags, with their values. */
static outcome train(const char *data, const char *const extra[][2], size_t count) {
    outcome seen = {0};
    haul_config config;
    haul_session session;
    haul_corpus corpus = {0};
    assert_ok(haul_config_init(&config));
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        set(&config, flags[i][0], flags[i][1]);
    }
    for (size_t i = 0; i < count; i++) {
        set(&config, extra[i][0], extra[i][1]);
    }
    set(&config, "data-path", data);
    assert_ok(haul_config_finalize(&config));
    assert_ok(haul_session_plan(&session, &config, true));
    assert_ok(haul_session_allocate(&session));
    assert_ok(haul_corpus_open(&config, &corpus));
    haul_train run = {.config = &config,
                      .session = &session,
                      .training = corpus.training,
                      .observer = {.context = &seen, .interval = on_interval}};
    assert_ok(haul_train_start(&run, NULL));
    assert_ok(haul_train_run(&run));
    seen.moment_bytes = bytes_of(&session.memory, " moments");
    seen.activation_bytes = bytes_of(&session.memory, "activations");
    seen.parameters = haul_chunk_parameter_count(&session.chunk);
    haul_session_deinit(&session);
    haul_corpus_close(&corpus);
    haul_config_deinit(&config);
    return seen;
}

typedef struct fixture {
    char data[512];
    outcome wide; /* all in f32 */
} fixture;

static int open_fixture(void **state) {
    static fixture f;
    snprintf(f.data, sizeof f.data, "%s/follows", haul_test_directory());
    write_data(f.data);
    f.wide = train(f.data, NULL, 0);
    *state = &f;
    return 0;
}

/* After 200 steps, in which the loss falls to less than half of that of guessing. */
static void test_moments(void **state) {
    const fixture *f = *state;
    static const char *const bf16[][2] = {{"exp-avg-dtype", "bf16"}, {"exp-avg-sq-dtype", "bf16"}};
    outcome narrow = train(f->data, bf16, 2);
    print_message("loss %.4f with moments in f32, %.4f in bf16\n", f->wide.loss, narrow.loss);
    assert_true(f->wide.loss < 0.5 * log(VOCABULARY));
    assert_true(fabs(narrow.loss - f->wide.loss) < 0.01 * f->wide.loss);
    assert_true(narrow.loss != f->wide.loss);
    assert_true(f->wide.moment_bytes >= 8 * f->wide.parameters);
    assert_true(narrow.moment_bytes < f->wide.moment_bytes * 51 / 100);
}

static void test_fp8(void **state) {
    const fixture *f = *state;
    static const char *const recipes[][2][2] = {
        {{"fp8-format", "e4m3"}, {"fp8-recipe", "tensorwise"}},
        {{"fp8-format", "hybrid"}, {"fp8-recipe", "tensorwise"}},
        {{"fp8-format", "e4m3"}, {"fp8-recipe", "blockwise"}},
    };
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++) {
        outcome fp8 = train(f->data, recipes[i], 2);
        print_message("loss %.4f in f32, %.4f in FP8 %s %s\n", f->wide.loss, fp8.loss,
                      recipes[i][0][1], recipes[i][1][1]);
        assert_true(fabs(fp8.loss - f->wide.loss) < 0.02 * f->wide.loss);
        assert_true(fp8.loss != f->wide.loss);
        assert_true(fp8.activation_bytes < f->wide.activation_bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_fp8),
    };
    return cmocka_run_group_tests(tests, open_fixture, NULL);
}
