/* ctest: golden */
#include "data_testing.h"

#include "base/philox.h"
#include "data/byte_alphabet.h"
#include "data/pretokenizer.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

#include <stdlib.h>

static haul_tokenizer *open_golden(const char *name) {
    char path[512];
    haul_tokenizer *tokenizer;
    snprintf(path, sizeof path, "%s/data/%s", HAUL_TEST_DIR, name);
    assert_ok(haul_tokenizer_open("HuggingFaceTokenizer", path, 0, &tokenizer));
    return tokenizer;
}

static void check_texts(const char *file, const char *key, int64_t prefix) {
    haul_tokenizer *tokenizer = open_golden(file);
    check_golden_ids(tokenizer, key, prefix);
    haul_tokenizer_close(tokenizer);
}

static void gpt2_ids_equal_tokenizers(void **state) {
    (void)state;
    check_texts("tokenizer_gpt2.json", "gpt2", 0);
}

static void split_ids_equal_tokenizers(void **state) {
    (void)state;
    check_texts("tokenizer_split.json", "split", 1); /* <|begin|> */
}

static haul_status spell_piece(void *context, const char *piece, int64_t bytes) {
    haul_byte_alphabet_spell(context, piece, bytes);
    haul_string_append_text(context, "\n");
    return HAUL_OK;
}

static void pieces_equal_tokenizers(void **state) {
    (void)state;
    json_t *root = load_golden("tokenizer_ids.json"), *expected, *piece;
    haul_pretokenizer *pretokenizer;
    size_t i, j;
    assert_ok(haul_pretokenizer_create(haul_pretokenizer_gpt2, &pretokenizer));
    json_array_foreach(golden_get(root, "pieces"), i, expected) {
        json_t *text = golden_get(expected, "text");
        haul_string wanted = {0}, got = {0};
        json_array_foreach(golden_get(expected, "pieces"), j, piece) {
            haul_string_append_format(&wanted, "%s\n", json_string_value(piece));
        }
        haul_string_append_text(&wanted, "");
        haul_string_append_text(&got, "");
        assert_ok(haul_pretokenizer_split(pretokenizer, json_string_value(text),
                                          (int64_t)json_string_length(text), spell_piece, &got));
        assert_string_equal(got.data, wanted.data);
        haul_string_deinit(&wanted);
        haul_string_deinit(&got);
    }
    haul_pretokenizer_destroy(pretokenizer);
    json_decref(root);
}

static void properties_come_from_the_file(void **state) {
    (void)state;
    haul_tokenizer *gpt2 = open_golden("tokenizer_gpt2.json");
    haul_tokenizer *split = open_golden("tokenizer_split.json");
    assert_int_equal(haul_tokenizer_vocab_size(gpt2), 1000);
    assert_int_equal(haul_tokenizer_eod(gpt2), 0);
    assert_int_equal(haul_tokenizer_vocab_size(split), 403);
    assert_int_equal(haul_tokenizer_eod(split), 401); /* <|end_of_text|> */
    assert_true(haul_tokenizer_fingerprint(gpt2) != haul_tokenizer_fingerprint(split));
    assert_false(haul_tokenizer_is_bytewise(gpt2));
    haul_tokenizer_close(gpt2);
    haul_tokenizer_close(split);
}

/* Random bytes, most of them no UTF-8, and cut characters: nothing is lost. */
static void any_bytes_survive(void **state) {
    (void)state;
    haul_tokenizer *tokenizer = open_golden("tokenizer_gpt2.json");
    haul_token_list list = {0};
    for (uint32_t seed = 0; seed < 400; seed++) {
        char text[64];
        int64_t bytes = seed % 64;
        for (int64_t i = 0; i < bytes; i++) {
            haul_philox word = haul_philox_4x32((const uint32_t[]){seed, 1},
                                                (const uint32_t[]){(uint32_t)i, 0, 0, 0});
            text[i] = (char)(word.word[0] % 3 == 0 ? 0xc0 + word.word[1] % 64 : word.word[1]);
        }
        list.count = 0;
        assert_ok(haul_tokenizer_encode(tokenizer, text, bytes, &list));
        check_decode(tokenizer, &list, 0, text, bytes);
    }
    haul_token_list_deinit(&list);
    haul_tokenizer_close(tokenizer);
}

static void long_pieces_take_no_square_time(void **state) {
    (void)state;
    haul_tokenizer *tokenizer = open_golden("tokenizer_gpt2.json");
    haul_token_list list = {0};
    haul_string text = {0};
    for (int i = 0; i < 1000000; i++) {
        haul_string_append(&text, "a", 1);
    }
    assert_ok(haul_tokenizer_encode(tokenizer, text.data, text.length, &list));
    check_decode(tokenizer, &list, 0, text.data, text.length);
    haul_string_deinit(&text);
    haul_token_list_deinit(&list);
    haul_tokenizer_close(tokenizer);
}

static void bytes_are_ids(void **state) {
    (void)state;
    haul_tokenizer *tokenizer;
    haul_token_list list = {0};
    char text[256];
    for (int i = 0; i < 256; i++) {
        text[i] = (char)i;
    }
    assert_ok(haul_tokenizer_open("ByteTokenizer", NULL, 0, &tokenizer));
    assert_int_equal(haul_tokenizer_vocab_size(tokenizer), 257);
    assert_int_equal(haul_tokenizer_eod(tokenizer), 256);
    assert_true(haul_tokenizer_is_bytewise(tokenizer));
    assert_ok(haul_tokenizer_encode(tokenizer, text, 256, &list));
    for (int i = 0; i < 256; i++) {
        assert_int_equal(list.ids[i], i);
    }
    check_decode(tokenizer, &list, 0, text, 256);
    haul_string decoded = {0};
    haul_test_assert_fails(haul_tokenizer_decode(tokenizer, 257, &decoded), HAUL_ERROR_DATA,
                           "token 257");
    assert_ok(haul_tokenizer_decode(tokenizer, 256, &decoded));
    assert_string_equal(decoded.data, "<|endoftext|>");
    haul_string_deinit(&decoded);
    haul_token_list_deinit(&list);
    haul_tokenizer_close(tokenizer);
}

static void numbers_are_ids(void **state) {
    (void)state;
    static const char *const bad[] = {"5 x", "x", "5x", "101", "99999999999999999999", "-1"};
    haul_tokenizer *tokenizer;
    haul_token_list list = {0};
    assert_ok(haul_tokenizer_open("NullTokenizer", NULL, 100, &tokenizer));
    assert_int_equal(haul_tokenizer_vocab_size(tokenizer), 101);
    assert_int_equal(haul_tokenizer_eod(tokenizer), 100);
    assert_ok(haul_tokenizer_encode(tokenizer, " 5 007\n99 100", 13, &list));
    assert_int_equal(list.count, 4);
    assert_int_equal(list.ids[1], 7);
    assert_int_equal(list.ids[3], 100);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        haul_test_assert_fails(
            haul_tokenizer_encode(tokenizer, bad[i], (int64_t)strlen(bad[i]), &list),
            HAUL_ERROR_DATA, "must be numbers below 101");
    }
    haul_token_list_deinit(&list);
    haul_tokenizer_close(tokenizer);
}

static void wrong_types_are_refused(void **state) {
    (void)state;
    haul_tokenizer *tokenizer;
    haul_test_assert_fails(haul_tokenizer_open("GPT3", NULL, 0, &tokenizer), HAUL_ERROR_USAGE,
                           "\"GPT3\", must be ByteTokenizer");
    haul_test_assert_fails(haul_tokenizer_open("NullTokenizer", NULL, 0, &tokenizer),
                           HAUL_ERROR_USAGE, "--vocab-size 0");
    haul_test_assert_fails(haul_tokenizer_open("HuggingFaceTokenizer", NULL, 0, &tokenizer),
                           HAUL_ERROR_USAGE, "needs a tokenizer.json");
    haul_test_assert_fails(
        haul_tokenizer_open("HuggingFaceTokenizer", scratch(0, "absent"), 0, &tokenizer),
        HAUL_ERROR_NO_INPUT, "absent");
}

/* One member of a good file is replaced by another value; the message must name it. */
static void unsupported_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *object, *key, *value, *message;
    } cases[] = {
        {"", "normalizer", "{\"type\":\"NFC\"}", "normalizer is {\"type\":\"NFC\"}"},
        {"", "truncation", "{\"max_length\":5}", "truncation"},
        {"", "decoder", "{\"type\":\"WordPiece\"}", "decoder"},
        {"", "pre_tokenizer", "{\"type\":\"Whitespace\"}", "pre_tokenizer"},
        {"", "pre_tokenizer", "null", "pre_tokenizer"},
        {"", "pre_tokenizer", "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}",
         "add_prefix_space"},
        {"", "pre_tokenizer",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
         "\"(\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]}",
         "pattern \"(\""},
        {"", "pre_tokenizer",
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
         "\"a\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\"}]}",
         "pre_tokenizer is"},
        {"", "post_processor", "{\"type\":\"BertProcessing\"}", "post_processor"},
        {"", "added_tokens", "[{\"id\":0,\"content\":\"x\",\"lstrip\":true}]", "lstrip"},
        {"", "added_tokens", "[{\"id\":-1,\"content\":\"x\"}]", "needs an id"},
        {"", "model", "7", "no model"},
        {"model", "type", "\"Unigram\"", "model.type is \"Unigram\""},
        {"model", "byte_fallback", "true", "byte_fallback"},
        {"model", "dropout", "0.1", "dropout"},
        {"model", "vocab", "{\"a\":1}", "no token stands for byte 0x00"},
        {"model", "vocab", "{\"a\":1,\"b\":1}", "id 1 stands for two tokens"},
        {"model", "vocab", "{\"\xe4\xb8\x96\":1}", "is not byte-level"},
        {"model", "merges", "[\"a zzz\"]", "merge 0"},
        {"model", "merges", "[[\"a\"]]", "merge 0"},
        {"model", "merges", "3", "must be an object and an array"},
    };
    haul_tokenizer *tokenizer;
    const char *path = scratch(0, "tokenizer.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *root = load_golden("tokenizer_gpt2.json");
        json_t *object = cases[i].object[0] != '\0' ? golden_get(root, cases[i].object) : root;
        json_t *value = json_loads(cases[i].value, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        json_object_set_new(object, cases[i].key, value);
        assert_int_equal(json_dump_file(root, path, 0), 0);
        haul_test_assert_fails(
            haul_tokenizer_open("HuggingFaceTokenizer", haul_test_directory(), 0, &tokenizer),
            HAUL_ERROR_DATA, cases[i].message);
        json_decref(root);
    }
    assert_ok(haul_file_replace(path, "{\"a\":\n!", 7));
    haul_test_assert_fails(haul_tokenizer_open("HuggingFaceTokenizer", path, 0, &tokenizer),
                           HAUL_ERROR_DATA, "tokenizer.json:2:");
    assert_ok(haul_file_replace(path, "", 0));
    haul_test_assert_fails(haul_tokenizer_open("HuggingFaceTokenizer", path, 0, &tokenizer),
                           HAUL_ERROR_DATA, "expected");
}

static void the_configuration_beside_names_eod(void **state) {
    (void)state;
    json_t *root = load_golden("tokenizer_split.json");
    haul_tokenizer *tokenizer;
    static const char string[] = "{\"eos_token\": \"<|end\"}";
    static const char object[] = "{\"eos_token\": {\"content\": \"<|begin|>\"}}";
    assert_int_equal(json_dump_file(root, scratch(0, "tokenizer.json"), 0), 0);
    assert_ok(haul_file_replace(scratch(1, "tokenizer_config.json"), string, sizeof string - 1));
    assert_ok(
        haul_tokenizer_open("HuggingFaceTokenizer", scratch(0, "tokenizer.json"), 0, &tokenizer));
    assert_int_equal(haul_tokenizer_eod(tokenizer), 402);
    haul_tokenizer_close(tokenizer);
    assert_ok(haul_file_replace(scratch(1, "tokenizer_config.json"), object, sizeof object - 1));
    assert_ok(haul_tokenizer_open("HuggingFaceTokenizer", haul_test_directory(), 0, &tokenizer));
    assert_int_equal(haul_tokenizer_eod(tokenizer), 400);
    haul_tokenizer_close(tokenizer);
    json_decref(root);
}

static void utf8_runs_end_at_malformed_bytes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes, valid, invalid;
    } cases[] = {
        {"abc", 3, 3, 0},
        {"a\xc3\xa9z", 4, 4, 0},
        {"\xf4\x8f\xbf\xbf", 4, 4, 0},
        {"\xf4\x90\x80\x80z", 5, 0, 4},
        {"\xed\x9f\xbf\xed\xa0\x80", 6, 3, 0},
        {"\xed\xa0\x80", 3, 0, 3},
        {"\xc0\x80z", 3, 0, 2},
        {"\xe0\x9f\xbfz", 4, 0, 3},
        {"\xf0\x8f\xbf\xbfz", 5, 0, 4},
        {"\xe4\xb8", 2, 0, 2},
        {"\x80\xffz", 3, 0, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(haul_utf8_valid_run(cases[i].text, cases[i].bytes), cases[i].valid);
        assert_int_equal(haul_utf8_invalid_run(cases[i].text, cases[i].bytes), cases[i].invalid);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_ids_equal_tokenizers),
        cmocka_unit_test(split_ids_equal_tokenizers),
        cmocka_unit_test(pieces_equal_tokenizers),
        cmocka_unit_test(properties_come_from_the_file),
        cmocka_unit_test(any_bytes_survive),
        cmocka_unit_test(long_pieces_take_no_square_time),
        cmocka_unit_test(bytes_are_ids),
        cmocka_unit_test(numbers_are_ids),
        cmocka_unit_test(wrong_types_are_refused),
        cmocka_unit_test(unsupported_files_are_refused),
        cmocka_unit_test(the_configuration_beside_names_eod),
        cmocka_unit_test(utf8_runs_end_at_malformed_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
