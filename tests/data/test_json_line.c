/* ctest: fuzz */
/* The fast reader of JSON lines against jansson: what it takes must be valid, and the same text. */
#include "data_testing.h"

#include "base/memory.h"
#include "base/philox.h"
#include "data/json_line.h"

enum { KEYS = 2, ROUNDS = 200000, LINE_BYTES = 256 };

static const char *const keys[KEYS] = {"text", "t"};

/* Whether the fast reader takes a line; when it does, jansson must agree. */
static bool takes(const char *line, int64_t bytes) {
    static haul_json_text texts[KEYS];
    if (!haul_json_line_read(line, bytes, keys, KEYS, texts)) {
        return false;
    }
    json_t *object = json_loadb(line, (size_t)bytes, JSON_ALLOW_NUL, NULL);
    if (object == NULL) {
        print_error("taken, but malformed: %.*s\n", (int)bytes, line);
    }
    assert_non_null(object);
    for (int i = 0; i < KEYS; i++) {
        const json_t *value = json_object_get(object, keys[i]);
        assert_true(json_is_string(value));
        assert_int_equal(json_string_length(value), texts[i].bytes);
        assert_memory_equal(json_string_value(value), texts[i].text, (size_t)texts[i].bytes);
    }
    json_decref(object);
    return true;
}

static bool takes_text(const char *line) {
    return takes(line, (int64_t)strlen(line));
}

static void ordinary_lines_are_taken(void **state) {
    (void)state;
    static const char *const lines[] = {
        "{\"text\": \"\", \"t\": \"a\"}",
        "  {\"t\":\"a\",\"text\":\"b\"}\r\n",
        "{\"t\": \"one\", \"text\": \"b\", \"t\": \"two\"}",
        "{\"id\": -12, \"r\": 0.25, \"z\": -0, \"ok\": true, \"no\": false, \"n\": null, "
        "\"meta\": {\"a\": [1, [], {}, {\"text\": 5}], \"b\": \"\\\\\"}, \"text\": \"x\", \"t\": "
        "\"y\"}",
        "{\"text\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u00e9\\u20AC\\ud83d\\ude42\", \"t\": "
        "\"\"}",
        "{\"text\": \"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82 and a run of plain text\", \"t\": "
        "\"1\"}",
        "{\"text\": \"seventeen letters\", \"t\": \"\x7f\"}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (!takes_text(lines[i])) {
            fail_msg("refused: %s", lines[i]);
        }
    }
}

static void other_lines_are_left(void **state) {
    (void)state;
    static const char *const lines[] = {
        "",
        "{}",
        "[\"text\", \"t\"]",
        "{\"text\": \"a\"}",
        "{\"text\": \"a\", \"t\": 5}",
        "{\"text\": \"a\", \"t\": \"b\"} x",
        "{\"text\": \"a\", \"t\": \"b\",}",
        "{\"text\": \"a\" \"t\": \"b\"}",
        "{\"text\": \"a\", \"t\": \"b\"",
        "{\"text\": \"a\tb\", \"t\": \"c\"}",
        "{\"text\": \"a\xff\", \"t\": \"c\"}",
        "{\"text\": \"\\ud83d\", \"t\": \"c\"}",
        "{\"text\": \"\\ude42\", \"t\": \"c\"}",
        "{\"text\": \"\\x\", \"t\": \"c\"}",
        "{\"text\": \"\\u00g0\", \"t\": \"c\"}",
        "{\"text\": \"a\", \"t\": \"b\", \"n\": 01}",
        "{\"text\": \"a\", \"t\": \"b\", \"n\": 1e999}",
        "{\"text\": \"a\", \"t\": \"b\", \"n\": .5}",
        "{\"text\": \"a\", \"t\": \"b\", \"n\": 1.}",
        "{\"text\": \"a\", \"t\": \"b\", \"n\": 99999999999999999999}",
        "{\"text\": \"a\", \"t\": \"b\", \"n\": nul}",
        "{\"text\": \"a\", \"t\": \"b\", \"\\u0000\": 1}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (takes_text(lines[i])) {
            fail_msg("taken: %s", lines[i]);
        }
    }
    haul_string deep = {0};
    haul_string_append_text(&deep, "{\"text\": \"a\", \"t\": \"b\", \"n\": ");
    for (int i = 0; i < 5000; i++) {
        haul_string_append_text(&deep, "[");
    }
    assert_false(takes(deep.data, deep.length));
    haul_string_deinit(&deep);
}

/* Each byte that a string cannot hold as it is, at each place of the blocks that are looked at. */
static void special_bytes_are_seen_everywhere(void **state) {
    (void)state;
    for (int place = 0; place < 20; place++) {
        for (int byte = 0; byte < 256; byte++) {
            char line[] = "{\"text\": \"abcdefghijklmnopqrst\", \"t\": \"\"}";
            line[10 + place] = (char)byte;
            bool plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
            bool taken = takes(line, sizeof line - 1);
            assert_int_equal(taken, plain || (byte == '\\' && taken));
        }
    }
}

/* Damaged lines, in bytes that matter to JSON. */
static void damaged_lines_are_never_misread(void **state) {
    (void)state;
    static const char line[] = "{\"text\": \"a\\u00e9\\ud83d\\ude42 caf\xc3\xa9\", \"n\": -10.5, "
                               "\"m\": [{\"t\": null}, true], \"t\": \"\\n\"} ";
    static const char bytes[] = "{}[]\",:\\u0123-.eE tnd\x1f\xc3\xa9\xed";
    int64_t taken = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        char damaged[LINE_BYTES];
        int64_t length = (int64_t)sizeof line - 1;
        memcpy(damaged, line, (size_t)length);
        for (uint32_t i = 0; i <= round % 3; i++) {
            const uint32_t key[2] = {round, 77}, counter[4] = {i, 0, 0, 0};
            haul_philox word = haul_philox_4x32(key, counter);
            int64_t at = word.word[0] % length;
            int64_t from = word.word[1] % (haul_min(length - at, 9)) + at;
            if (word.word[2] % 3 == 0) { /* a part is lost */
                memmove(damaged + at, damaged + from, (size_t)(length - from));
                length -= from - at;
            } else {
                damaged[at] = bytes[word.word[3] % (sizeof bytes - 1)];
            }
        }
        taken += takes(damaged, length);
    }
    assert_true(taken > ROUNDS / 20 && taken < ROUNDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_lines_are_taken),
        cmocka_unit_test(other_lines_are_left),
        cmocka_unit_test(special_bytes_are_seen_everywhere),
        cmocka_unit_test(damaged_lines_are_never_misread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
