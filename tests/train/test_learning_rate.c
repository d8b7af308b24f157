/* ctest: golden */
/* Every style, warmup and edge against learning_rate.tsv, by tools/reference/learning_rate.py. */
#include "testing.h"

#include "base/file.h"
#include "config/parse.h"
#include "config/validate.h"
#include "train/learning_rate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 64 };

static const char *const common[] = {"--num-layers",
                                     "2",
                                     "--hidden-size",
                                     "16",
                                     "--seq-length",
                                     "8",
                                     "--max-position-embeddings",
                                     "8",
                                     "--vocab-size",
                                     "50",
                                     "--num-attention-heads",
                                     "2",
                                     "--mock-data",
                                     "--lr",
                                     "3e-4",
                                     "--min-lr",
                                     "1e-5",
                                     "--micro-batch-size",
                                     "2",
                                     "--global-batch-size",
                                     "4"};

enum { COMMON = sizeof common / sizeof common[0] };

static void configure(haul_config *config, char *flags) {
    const char *words[WORDS];
    int count = COMMON;
    memcpy(words, common, sizeof common);
    for (char *word = strsep(&flags, " "); word != NULL; word = strsep(&flags, " ")) {
        assert_true(count < WORDS);
        words[count++] = word;
    }
    assert_ok(haul_config_init(config));
    assert_ok(haul_config_parse(config, HAUL_COMMAND_TRAIN, count, words));
    assert_ok(haul_config_finalize(config));
}

/* `rates` is "samples=rate samples=rate ...". A few roundings of the top rate are allowed. */
static int check_rates(const haul_config *config, char *rates) {
    int count = 0;
    for (char *pair = strsep(&rates, " "); pair != NULL; pair = strsep(&rates, " ")) {
        char *rate = strchr(pair, '=');
        assert_non_null(rate);
        double expected = strtod(rate + 1, NULL);
        double actual = haul_learning_rate(config, strtoll(pair, NULL, 10));
        assert_true(fabs(actual - expected) <= 8 * 0x1p-53 * config->lr);
        count++;
    }
    return count;
}

static void test_golden(void **state) {
    (void)state;
    haul_string text = {0};
    assert_ok(haul_file_read(HAUL_TEST_DIR "/train/learning_rate.tsv", &text));
    char *rest = text.data, *line = strsep(&rest, "\n"); /* skips the header */
    int count = 0;
    while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
        haul_config config;
        char *flags = strsep(&line, "\t");
        configure(&config, flags);
        count += check_rates(&config, line);
        haul_config_deinit(&config);
    }
    assert_true(count > 900);
    haul_string_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
