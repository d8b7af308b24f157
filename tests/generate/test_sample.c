/* Draws against the probabilities that they must have. */
#include "testing.h"

#include "generate/sample.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { VOCABULARY = 7, DRAWS = 200000 };

/* Tokens 3 and 5 are equally likely; in order of probability: 1, 3, 5, 0, 6, 2, 4. */
static const double logits[VOCABULARY] = {0.5, 2.25, -0.75, 1.5, -3, 1.5, 0.25};

typedef struct expected {
    haul_sampling options;
    bool kept[VOCABULARY];
} expected;

static void exact(const expected *e, double probabilities[VOCABULARY]) {
    double sum = 0;
    for (int i = 0; i < VOCABULARY; i++) {
        probabilities[i] = e->kept[i] ? exp(logits[i] / e->options.temperature) : 0;
        sum += probabilities[i];
    }
    for (int i = 0; i < VOCABULARY; i++) {
        probabilities[i] /= sum;
    }
}

/* Counts are within five standard deviations of the exact expectation, and 0 where it is 0. */
static void check(const expected *e) {
    haul_sampler sampler;
    double probabilities[VOCABULARY];
    int64_t counts[VOCABULARY] = {0};
    exact(e, probabilities);
    assert_ok(haul_sampler_init(&sampler, e->options, VOCABULARY));
    for (int64_t i = 0; i < DRAWS; i++) {
        counts[haul_sampler_draw(&sampler, i, logits)]++;
    }
    for (int i = 0; i < VOCABULARY; i++) {
        double p = probabilities[i], deviation = sqrt(DRAWS * p * (1 - p));
        assert_true(fabs((double)counts[i] - DRAWS * p) <= 5 * deviation);
    }
    haul_sampler_deinit(&sampler);
}

static void test_distribution(void **state) {
    (void)state;
    const expected all[] = {
        {{.temperature = 1, .seed = 1}, {1, 1, 1, 1, 1, 1, 1}},
        {{.temperature = 0.5, .seed = 2}, {1, 1, 1, 1, 1, 1, 1}},
        {{.temperature = 3, .seed = 3}, {1, 1, 1, 1, 1, 1, 1}},
        {{.temperature = 1, .top_p = 1, .seed = 4}, {1, 1, 1, 1, 1, 1, 1}},
        {{.temperature = 1, .top_k = 100, .seed = 5}, {1, 1, 1, 1, 1, 1, 1}},
        {{.temperature = 1, .top_k = 1, .seed = 6}, {0, 1, 0, 0, 0, 0, 0}},
        {{.temperature = 1, .top_k = 2, .seed = 7}, {0, 1, 0, 1, 0, 0, 0}}, /* not 5: higher id */
        {{.temperature = 0.7, .top_k = 4, .seed = 8}, {1, 1, 0, 1, 0, 1, 0}},
        /* At temperature 1: 0.424, 0.200, 0.200, 0.074, 0.057, 0.021, ... */
        {{.temperature = 1, .top_p = 0.40, .seed = 9}, {0, 1, 0, 0, 0, 0, 0}},
        {{.temperature = 1, .top_p = 0.50, .seed = 10}, {0, 1, 0, 1, 0, 0, 0}},
        {{.temperature = 1, .top_p = 0.80, .seed = 11}, {0, 1, 0, 1, 0, 1, 0}},
        {{.temperature = 1, .top_p = 0.95, .seed = 12}, {1, 1, 0, 1, 0, 1, 1}},
        /* Of the three likeliest, 1 has 0.514 and 1 with 3 has 0.757. */
        {{.temperature = 1, .top_k = 3, .top_p = 0.50, .seed = 13}, {0, 1, 0, 0, 0, 0, 0}},
        {{.temperature = 1, .top_k = 3, .top_p = 0.75, .seed = 14}, {0, 1, 0, 1, 0, 0, 0}},
        {{.temperature = 1, .top_k = 3, .top_p = 0.80, .seed = 15}, {0, 1, 0, 1, 0, 1, 0}},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        check(&all[i]);
    }
}

static int32_t draw(haul_sampling options, int64_t position, const double *of, int64_t count) {
    haul_sampler sampler;
    assert_ok(haul_sampler_init(&sampler, options, count));
    int32_t token = haul_sampler_draw(&sampler, position, of);
    haul_sampler_deinit(&sampler);
    return token;
}

static void test_greedy(void **state) {
    (void)state;
    const double tie[] = {1, 3, 2, 3, 3};
    assert_int_equal(draw((haul_sampling){0}, 0, tie, 5), 1);
    assert_int_equal(draw((haul_sampling){.top_k = 2, .top_p = 0.1}, 9, logits, VOCABULARY), 1);
}

static void test_repeats(void **state) {
    (void)state;
    haul_sampling options = {.temperature = 1, .top_p = 0.9, .seed = 42};
    haul_sampler sampler;
    int64_t other_seed = 0, other_position = 0;
    assert_ok(haul_sampler_init(&sampler, options, VOCABULARY));
    for (int64_t i = 0; i < 100; i++) {
        int32_t token = haul_sampler_draw(&sampler, i, logits);
        assert_int_equal(token, draw(options, i, logits, VOCABULARY));
        haul_sampling seeded = options;
        seeded.seed += (uint64_t)1 << 32;
        other_seed += token != draw(seeded, i, logits, VOCABULARY);
        other_position += token != draw(options, i + 1000, logits, VOCABULARY);
    }
    assert_in_range(other_seed, 30, 90);
    assert_in_range(other_position, 30, 90);
    haul_sampler_deinit(&sampler);
}

/* Logits as large as they come do not overflow; one far above the others always wins. */
static void test_extremes(void **state) {
    (void)state;
    const double far[] = {-1e30, 1e30, 0};
    const double one[] = {5};
    for (int64_t i = 0; i < 100; i++) {
        assert_int_equal(draw((haul_sampling){.temperature = 1, .top_p = 0.5}, i, far, 3), 1);
        assert_int_equal(draw((haul_sampling){.temperature = 1}, i, far, 3), 1);
        assert_int_equal(draw((haul_sampling){.temperature = 1, .top_k = 5}, i, one, 1), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
