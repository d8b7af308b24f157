/* ctest: unit */
/* Texts of few documents: what is held out of them is their end. */
#include "testing.h"

#include "base/file.h"
#include "config/validate.h"
#include "data/indexed.h"
#include "train/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 400 };

/* A text of `LINES` numbered lines, a blank one after every `lines_of_document`, as a set. */
static void prepare(int lines_of_document, haul_config *config, haul_tokenizer **tokenizer) {
    char path[600], cache[600];
    const char *value = path, *iterations = "1";
    haul_string text = {0};
    haul_corpus_text made;
    snprintf(path, sizeof path, "%s/text-%d.txt", haul_test_directory(), lines_of_document);
    snprintf(cache, sizeof cache, "%s/cache", haul_test_directory());
    for (int i = 0; i < LINES; i++) {
        haul_string_append_format(&text, "line %d\n%s", i,
                                  (i + 1) % lines_of_document == 0 ? "\n" : "");
    }
    assert_ok(haul_file_replace(path, text.data, text.length));
    haul_string_deinit(&text);
    assert_ok(haul_config_init(config));
    assert_ok(haul_config_set(config, "text", &value, 1, HAUL_SOURCE_COMMAND_LINE));
    assert_ok(haul_config_set(config, "train-iters", &iterations, 1, HAUL_SOURCE_COMMAND_LINE));
    assert_ok(haul_corpus_open_tokenizer(config, tokenizer));
    assert_ok(haul_corpus_prepare_text(config, *tokenizer, cache, NULL, NULL, &made));
    assert_true(made.built);
    assert_ok(haul_corpus_prepare_text(config, *tokenizer, cache, NULL, NULL, &made));
    assert_false(made.built);
    assert_int_equal(made.tail_bytes > 0, lines_of_document > LINES / 20);
    assert_int_equal(config->data_path.count, 1);
    assert_int_equal(config->valid_data_path.count, 1);
}

/* All text of a data set, without the ends of documents. */
static void read_set(const char *prefix, const haul_tokenizer *tokenizer, haul_string *out) {
    haul_indexed *set;
    assert_ok(haul_indexed_open(prefix, &set));
    for (int64_t s = 0; s < haul_indexed_sequences(set); s++) {
        int64_t count = haul_indexed_length(set, s);
        int32_t *tokens = calloc((size_t)count + 1, sizeof *tokens);
        assert_non_null(tokens);
        assert_ok(haul_indexed_get(set, s, 0, count, tokens));
        for (int64_t t = 0; t < count; t++) {
            if (tokens[t] != haul_tokenizer_eod(tokenizer)) {
                assert_ok(haul_tokenizer_decode(tokenizer, tokens[t], out));
            }
        }
        free(tokens);
    }
    haul_indexed_close(set);
}

static void test_tail(void **state) {
    (void)state;
    static const int lines[] = {LINES + 1, 100}; /* one document, four */
    for (int i = 0; i < 2; i++) {
        haul_config config;
        haul_tokenizer *tokenizer;
        haul_string training = {0}, held_out = {0};
        prepare(lines[i], &config, &tokenizer);
        read_set(config.data_path.items[0], tokenizer, &training);
        read_set(config.valid_data_path.items[0], tokenizer, &held_out);
        /* The last lines, whole, and nothing of them in training. */
        assert_true(strncmp(held_out.data, "line ", 5) == 0);
        int first = atoi(held_out.data + 5);
        assert_in_range(first, LINES * 94 / 100, LINES * 96 / 100);
        char last[32], next[32];
        snprintf(last, sizeof last, "line %d\n", first - 1);
        snprintf(next, sizeof next, "line %d\n", first);
        assert_non_null(strstr(training.data, last));
        assert_null(strstr(training.data, next));
        haul_string_deinit(&training);
        haul_string_deinit(&held_out);
        haul_tokenizer_close(tokenizer);
        haul_config_deinit(&config);
    }
}

/* Forty documents: some are held out, the last one not because it is the last. */
static void test_documents(void **state) {
    (void)state;
    haul_config config;
    haul_tokenizer *tokenizer;
    haul_string held_out = {0};
    prepare(10, &config, &tokenizer);
    read_set(config.valid_data_path.items[0], tokenizer, &held_out);
    assert_true(held_out.length > 0);
    assert_true(atoi(held_out.data + 5) < LINES * 94 / 100);
    haul_string_deinit(&held_out);
    haul_tokenizer_close(tokenizer);
    haul_config_deinit(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tail),
        cmocka_unit_test(test_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
