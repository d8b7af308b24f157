/* ctest: fuzz */
/* Seeded mutations of good inputs: nothing may crash, and a failure must say something. */
#include "testing.h"

#include "base/file.h"
#include "base/philox.h"
#include "config/huggingface.h"
#include "config/json.h"
#include "config/number.h"
#include "config/parse.h"
#include "config/validate.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 3000, TEXT_MAX = 8192 };

/* A number in [0, limit) of round `round`, draw `*draw`. */
static uint32_t random_below(uint32_t round, uint32_t *draw, uint32_t limit) {
    const uint32_t key[2] = {20260131, 7};
    const uint32_t counter[4] = {round, (*draw)++, 0, 0};
    return haul_philox_4x32(key, counter).word[0] % limit;
}

/* Changes, removes, doubles or inserts some bytes of `text`; returns the new length. */
static int64_t mutate(char *text, int64_t length, uint32_t round) {
    static const char interesting[] = "\"{}[],:-=_.eE019 \n\\u\xff%n|";
    uint32_t draw = 0;
    uint32_t edits = 1 + random_below(round, &draw, 6);
    for (uint32_t i = 0; i < edits && length > 1 && length < TEXT_MAX - 1; i++) {
        int64_t at = random_below(round, &draw, (uint32_t)length);
        char byte = interesting[random_below(round, &draw, sizeof interesting - 1)];
        switch (random_below(round, &draw, 4)) {
        case 0:
            text[at] = byte;
            break;
        case 1:
            memmove(text + at, text + at + 1, (size_t)(length - at - 1));
            length--;
            break;
        case 2:
            memmove(text + at + 1, text + at, (size_t)(length - at));
            text[at] = byte;
            length++;
            break;
        default:
            text[at] = (char)(text[at] ^ (char)(1 << random_below(round, &draw, 7)));
        }
    }
    text[length] = '\0';
    return length;
}

static void must_explain(haul_status status) {
    assert_true(status == HAUL_OK || strlen(haul_error_message()) > 0);
    assert_true(status != HAUL_ERROR_INTERNAL && status != HAUL_ERROR_MEMORY);
}

/* What was read must survive being written and read again. */
static void must_round_trip(const haul_config *config) {
    haul_string text = {0};
    haul_status status = haul_config_to_json(config, &text);
    if (status == HAUL_OK) {
        haul_config back;
        assert_ok(haul_config_init(&back));
        assert_ok(haul_config_from_json(&back, text.data, text.length, "again"));
        haul_config_deinit(&back);
    }
    must_explain(status);
    haul_string_deinit(&text);
}

static void test_arguments(void **state) {
    (void)state;
    static const char seed[] =
        "--num-layers|4|--hidden-size=96|--num_attention_heads|3|--seq-length|1_28|--lr|1e-2|"
        "--data-path|0.3|a|0.7|b|--no-swiglu|--train-iters| 300|--preset|tiny|--split|9,1|--bf16|"
        "--lr-decay-style|WSD|--sample-prompt=a b|--micro-batch-size|8";
    for (uint32_t round = 0; round < ROUNDS; round++) {
        char text[TEXT_MAX];
        haul_text_copy(text, sizeof text, seed);
        mutate(text, (int64_t)strlen(text), round);
        const char *words[256];
        int count = 0;
        char *rest = text;
        for (char *word = strsep(&rest, "|"); word != NULL; word = strsep(&rest, "|")) {
            words[count++] = word;
        }
        haul_config config;
        assert_ok(haul_config_init(&config));
        haul_command command = (haul_command)(round % 4 == 0 ? round / 4 % HAUL_COMMANDS : 0);
        haul_status status = haul_config_parse(&config, command, count, words);
        must_explain(status);
        if (status == HAUL_OK) {
            must_explain(haul_config_finalize(&config));
            must_round_trip(&config);
        }
        haul_config_deinit(&config);
    }
}

typedef haul_status read_function(haul_config *, const char *, int64_t, const char *);

static void fuzz_json(const char *seed, read_function *read) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        char text[TEXT_MAX];
        haul_text_copy(text, sizeof text, seed);
        int64_t length = mutate(text, (int64_t)strlen(text), round);
        haul_config config;
        assert_ok(haul_config_init(&config));
        haul_status status = read(&config, text, length, "fuzz");
        must_explain(status);
        if (status == HAUL_OK) {
            must_explain(haul_config_finalize_model(&config));
            must_round_trip(&config);
        }
        haul_config_deinit(&config);
    }
}

static void test_config_json(void **state) {
    (void)state;
    haul_config config;
    haul_string text = {0};
    const char *const words[] = {"--preset", "quickstart", "--data-path", "1", "a", "2", "b"};
    assert_ok(haul_config_init(&config));
    assert_ok(haul_config_parse(&config, HAUL_COMMAND_TRAIN, 7, words));
    assert_ok(haul_config_to_json(&config, &text));
    assert_true(text.length < TEXT_MAX - 8);
    fuzz_json(text.data, haul_config_from_json);
    haul_string_deinit(&text);
    haul_config_deinit(&config);
}

static void test_huggingface_json(void **state) {
    (void)state;
    static const char *const names[] = {"llama3", "llama3_old_spelling", "gpt2_exact_gelu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1024];
        haul_string text = {0};
        snprintf(path, sizeof path, "%s/config/huggingface/%s.json", HAUL_TEST_DIR, names[i]);
        assert_ok(haul_file_read(path, &text));
        fuzz_json(text.data, haul_config_from_huggingface);
        haul_string_deinit(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_config_json),
        cmocka_unit_test(test_huggingface_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
