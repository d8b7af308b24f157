/* ctest: golden */
/* Cached generation against transformers in float64 (tools/reference/generate_golden.py): the
 * logits after every start of a text, and the greedy continuation. */
#include "fixture.h"

#include "checkpoint/safetensors.h"
#include "generate/sample.h"

#include <math.h>

enum { TEXT = 32, PROMPT = 13, VOCABULARY = 29 };

static const char *const models[] = {"llama", "llama31", "gpt2"};
enum { MODELS = sizeof models / sizeof models[0] };

typedef struct golden {
    int32_t tokens[TEXT];
    double logits[TEXT][VOCABULARY];
} golden;

static void golden_read(golden *g, const char *model) {
    char path[600];
    haul_safetensors *file;
    snprintf(path, sizeof path, "%s/generate/golden/%s.safetensors", HAUL_TEST_DIR, model);
    assert_ok(haul_safetensors_open(path, &file));
    const haul_safetensors_entry *tokens = haul_safetensors_find(file, "tokens");
    const haul_safetensors_entry *logits = haul_safetensors_find(file, "logits");
    assert_int_equal(tokens->bytes, sizeof g->tokens);
    assert_int_equal(logits->bytes, sizeof g->logits);
    memcpy(g->tokens, tokens->data, sizeof g->tokens);
    memcpy(g->logits, logits->data, sizeof g->logits);
    haul_safetensors_close(file);
}

static void assert_logits(const fixture *f, const golden *g, double bound) {
    int64_t last = f->generator.held - 1;
    double error = haul_test_relative_error(f->generator.logits, g->logits[last], VOCABULARY);
    if (!(error <= bound)) {
        fail_msg("after %d tokens: error %.3g, bound %.3g", (int)last + 1, error, bound);
    }
}

/* From one token on, one token at a time: all by the cache. */
static void check_cached(fixture *f, const golden *g, double bound) {
    assert_ok(haul_generator_start(&f->generator, g->tokens, 1));
    assert_logits(f, g, bound);
    for (int t = 1; t < TEXT; t++) {
        assert_ok(haul_generator_next(&f->generator, g->tokens[t]));
        assert_logits(f, g, bound);
    }
    haul_test_assert_fails(haul_generator_next(&f->generator, 0), HAUL_ERROR_INTERNAL, "full");
}

/* Each start of the text as a prompt, and one token behind it. */
static void check_prompts(fixture *f, const golden *g, double bound) {
    for (int count = TEXT; count >= 1; count--) { /* so that a shorter one meets a full cache */
        assert_ok(haul_generator_start(&f->generator, g->tokens, count));
        assert_logits(f, g, bound);
        if (count < TEXT) {
            assert_ok(haul_generator_next(&f->generator, g->tokens[count]));
            assert_logits(f, g, bound);
        }
    }
}

static void check(const char *device, bool bf16, double bound) {
    for (size_t m = 0; m < MODELS; m++) {
        golden g;
        golden_read(&g, models[m]);
        for (int64_t block = 5; block <= 128; block = block == 5 ? 128 : 129) {
            fixture f = {.bf16 = bf16};
            fixture_open(&f, models[m], device, (haul_generator_options){.block = block});
            check_cached(&f, &g, bound);
            check_prompts(&f, &g, bound);
            fixture_close(&f);
        }
    }
}

static void test_logits_ref(void **state) {
    (void)state;
    check("ref", false, 1e-12);
}

static void test_logits_cpu(void **state) {
    (void)state;
    check("cpu", false, 1e-5);
}

/* bf16 keeps 8 bits: each of about twenty roundings on the way of a logit adds at most 2^-9. */
static void test_logits_cpu_bf16(void **state) {
    (void)state;
    check("cpu", true, 20 * ldexp(1, -9));
}

static void check_greedy(const char *device) {
    for (size_t m = 0; m < MODELS; m++) {
        fixture f = {0};
        golden g;
        haul_sampler sampler;
        golden_read(&g, models[m]);
        fixture_open(&f, models[m], device, (haul_generator_options){0});
        assert_ok(haul_sampler_init(&sampler, (haul_sampling){0}, VOCABULARY));
        assert_ok(haul_generator_start(&f.generator, g.tokens, PROMPT));
        for (int t = PROMPT; t < TEXT; t++) {
            int32_t token = haul_sampler_draw(&sampler, t, f.generator.logits);
            assert_int_equal(token, g.tokens[t]);
            assert_ok(haul_generator_next(&f.generator, token));
        }
        haul_sampler_deinit(&sampler);
        fixture_close(&f);
    }
}

static void test_greedy_ref(void **state) {
    (void)state;
    check_greedy("ref");
}

static void test_greedy_cpu(void **state) {
    (void)state;
    check_greedy("cpu");
}

/* A cache smaller than the model's context gives the same logits while it lasts. */
static void test_small_cache(void **state) {
    (void)state;
    fixture f = {0};
    golden g;
    golden_read(&g, "llama");
    fixture_open(&f, "llama", "ref", (haul_generator_options){.capacity = 9, .block = 4});
    assert_int_equal(f.generator.capacity, 9);
    assert_ok(haul_generator_start(&f.generator, g.tokens, 8));
    assert_ok(haul_generator_next(&f.generator, g.tokens[8]));
    assert_logits(&f, &g, 1e-12);
    haul_test_assert_fails(haul_generator_next(&f.generator, 0), HAUL_ERROR_INTERNAL, "full");
    haul_test_assert_fails(haul_generator_start(&f.generator, g.tokens, 10), HAUL_ERROR_INTERNAL,
                           "1 to 9");
    fixture_close(&f);
}

static void test_wrong_token(void **state) {
    (void)state;
    fixture f = {0};
    const int32_t tokens[] = {1, VOCABULARY};
    fixture_open(&f, "gpt2", "ref", (haul_generator_options){0});
    haul_test_assert_fails(haul_generator_start(&f.generator, tokens, 2), HAUL_ERROR_DATA,
                           "vocabulary of 29");
    haul_test_assert_fails(haul_generator_next(&f.generator, -1), HAUL_ERROR_DATA, "token -1");
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_ref),      cmocka_unit_test(test_logits_cpu),
        cmocka_unit_test(test_greedy_ref),      cmocka_unit_test(test_greedy_cpu),
        cmocka_unit_test(test_small_cache),     cmocka_unit_test(test_wrong_token),
        cmocka_unit_test(test_logits_cpu_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
