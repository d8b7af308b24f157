/* ctest: unit */
#include "testing.h"

#include "base/hash.h"

#include <string.h>

static void known_answers(void **state) {
    (void)state;
    static const struct {
        const char *content;
        uint64_t narrow;
        const char *wide;
    } cases[] = {
        {"", 0x2d06800538d394c2, "99aa06d3014798d86001c324468d497f"},
        {"abc", 0x78af5f94892f3950, "06b05ab6733a618578af5f94892f3950"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t bytes = (int64_t)strlen(cases[i].content);
        char text[33];
        haul_hash_text(haul_hash_128(cases[i].content, bytes), text);
        assert_string_equal(text, cases[i].wide);
        assert_true(haul_hash_64(cases[i].content, bytes) == cases[i].narrow);
    }
}

/* Every length class of XXH3, with one bit flipped at the end. */
static void every_bit_counts(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 3, 8, 16, 128, 240, 241, 4096};
    unsigned char data[4096] = {0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint64_t narrow = haul_hash_64(data, lengths[i]);
        haul_hash wide = haul_hash_128(data, lengths[i]);
        data[lengths[i] - 1] ^= 0x80;
        haul_hash flipped = haul_hash_128(data, lengths[i]);
        assert_true(haul_hash_64(data, lengths[i]) != narrow);
        assert_true(flipped.high != wide.high && flipped.low != wide.low);
        data[lengths[i] - 1] = 0;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(every_bit_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
