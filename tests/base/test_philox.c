/* ctest: unit */
#include "testing.h"

#include "base/philox.h"

#include <math.h>

/* The vectors of Random123's kat_vectors for philox4x32-10. */
static void known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {UINT32_MAX, UINT32_MAX},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul_philox random = haul_philox_4x32(cases[i].key, cases[i].counter);
        assert_memory_equal(random.word, cases[i].expected, sizeof random.word);
    }
}

static void uniform_stays_inside(void **state) {
    (void)state;
    assert_true(haul_uniform(0) == 0x1p-33);
    assert_true(haul_uniform(UINT32_MAX) == 1 - 0x1p-33);
    assert_true(haul_uniform(0x80000000u) == 0.5 + 0x1p-33);
}

/* Computed in Python from the same definition: initial weights depend on these numbers, so they
 * must never change. */
static void normal_is_pinned(void **state) {
    (void)state;
    static const struct {
        uint64_t seed, stream;
        int64_t index;
        double expected;
    } cases[] = {
        {1, 2, 0, -0.42886274184391626},
        {1, 2, 1, -0.14084635730154693},
        {1, 2, 2, 0.5014969337508548},
        {0x123456789abcdef0, 0xfedcba9876543210, ((int64_t)1 << 40) + 4, -0.1838923699462912},
        {0x123456789abcdef0, 0xfedcba9876543210, ((int64_t)1 << 40) + 5, -0.03340034495468768},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = haul_normal(cases[i].seed, cases[i].stream, cases[i].index);
        assert_true(fabs(value - cases[i].expected) < 1e-14);
    }
}

/* Five standard deviations of each estimate; the seed is fixed, so this passes or fails always. */
static void normal_has_its_moments(void **state) {
    (void)state;
    enum { N = 400000 };
    double sums[5] = {0}, neighbours = 0, streams = 0, previous = 0;
    for (int64_t i = 0; i < N; i++) {
        double value = haul_normal(1234, 5, i);
        for (int power = 1; power < 5; power++) {
            sums[power] += pow(value, power);
        }
        neighbours += value * previous;
        streams += value * haul_normal(1234, 6, i);
        previous = value;
    }
    assert_true(fabs(sums[1] / N) < 5 * sqrt(1.0 / N));
    assert_true(fabs(sums[2] / N - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(sums[3] / N) < 5 * sqrt(15.0 / N));
    assert_true(fabs(sums[4] / N - 3) < 5 * sqrt(96.0 / N));
    assert_true(fabs(neighbours / N) < 5 * sqrt(1.0 / N));
    assert_true(fabs(streams / N) < 5 * sqrt(1.0 / N));
}

/* Published vectors of 64-bit FNV-1a. */
static void names_hash_as_fnv(void **state) {
    (void)state;
    assert_true(haul_hash_name("") == 0xcbf29ce484222325);
    assert_true(haul_hash_name("a") == 0xaf63dc4c8601ec8c);
    assert_true(haul_hash_name("foobar") == 0x85944171f73967e8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),     cmocka_unit_test(uniform_stays_inside),
        cmocka_unit_test(normal_is_pinned),  cmocka_unit_test(normal_has_its_moments),
        cmocka_unit_test(names_hash_as_fnv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
