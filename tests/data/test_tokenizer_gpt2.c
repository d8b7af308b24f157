/* ctest: golden */
/* GPT-2's pair of files: the ids of transformers, the tokenizer.json of the same tokenizer, and one
 * line for each way in which the files can be wrong. */
#include "data_testing.h"

static const char *golden_path(int slot, const char *name) {
    static char paths[2][512];
    snprintf(paths[slot], sizeof paths[slot], "%s/data/%s", HAUL_TEST_DIR, name);
    return paths[slot];
}

static const char *vocab_path(void) {
    return golden_path(0, "gpt2_vocab.json");
}

static const char *merges_path(void) {
    return golden_path(1, "gpt2_merges.txt");
}

static void ids_equal_transformers(void **state) {
    (void)state;
    haul_tokenizer *tokenizer;
    assert_ok(haul_tokenizer_open_gpt2(vocab_path(), merges_path(), &tokenizer));
    assert_string_equal(haul_tokenizer_type(tokenizer), "GPT2BPETokenizer");
    assert_int_equal(haul_tokenizer_vocab_size(tokenizer), 601);
    assert_int_equal(haul_tokenizer_eod(tokenizer), 600);
    check_golden_ids(tokenizer, "pair", 0);
    haul_tokenizer_close(tokenizer);
}

/* What is written beside checkpoints is the same tokenizer to every reader. */
static void tokenizer_json_is_the_same(void **state) {
    (void)state;
    haul_tokenizer *pair, *one;
    haul_string json = {0};
    const char *path = scratch(0, "same.json");
    assert_ok(haul_tokenizer_gpt2_json(vocab_path(), merges_path(), &json));
    assert_ok(haul_file_replace(path, json.data, json.length));
    assert_ok(haul_tokenizer_open_gpt2(vocab_path(), merges_path(), &pair));
    assert_ok(haul_tokenizer_open("HuggingFaceTokenizer", path, 0, &one));
    check_golden_ids(one, "pair", 0);
    assert_int_equal(haul_tokenizer_eod(one), 600);
    assert_true(haul_tokenizer_fingerprint(one) == haul_tokenizer_fingerprint(pair));
    haul_tokenizer_close(pair);
    haul_tokenizer_close(one);
    haul_string_deinit(&json);
}

static void read_golden(const char *path, haul_string *out) {
    haul_string_clear(out);
    assert_ok(haul_file_read(path, out));
}

/* Lines that end in CR LF, a last line without an end, no line for the version. */
static void merges_may_be_written_otherwise(void **state) {
    (void)state;
    haul_string text = {0}, other = {0};
    haul_tokenizer *tokenizer;
    const char *path = scratch(0, "other.txt");
    read_golden(merges_path(), &text);
    const char *first = strchr(text.data, '\n') + 1;
    for (const char *at = first; at + 1 < text.data + text.length; at++) {
        haul_string_append(&other, *at == '\n' ? "\r\n" : at, *at == '\n' ? 2 : 1);
    }
    assert_ok(haul_file_replace(path, other.data, other.length));
    assert_ok(haul_tokenizer_open_gpt2(vocab_path(), path, &tokenizer));
    check_golden_ids(tokenizer, "pair", 0);
    haul_tokenizer_close(tokenizer);
    haul_string_deinit(&text);
    haul_string_deinit(&other);
}

/* Opens a pair of which one file or both hold other text; NULL stands for the golden file. */
static haul_status open_texts(const char *vocab, const char *merges) {
    haul_tokenizer *tokenizer = NULL;
    const char *vocab_file = vocab_path(), *merge_file = merges_path();
    if (vocab != NULL) {
        vocab_file = scratch(0, "vocab.json");
        assert_ok(haul_file_replace(vocab_file, vocab, (int64_t)strlen(vocab)));
    }
    if (merges != NULL) {
        merge_file = scratch(1, "merges.txt");
        assert_ok(haul_file_replace(merge_file, merges, (int64_t)strlen(merges)));
    }
    haul_status status = haul_tokenizer_open_gpt2(vocab_file, merge_file, &tokenizer);
    haul_tokenizer_close(tokenizer);
    return status;
}

static void wrong_files_are_refused(void **state) {
    (void)state;
    static const char pair[] = "one tokenizer", model[] = "--tokenizer-model";
    static const struct {
        const char *vocab, *merges, *message, *hint;
    } cases[] = {
        {"", NULL, "vocab.json:", pair},
        {"{\"a\":\n!", NULL, "vocab.json:2:", pair},
        {"[1]", NULL, "vocab.json has no token <|endoftext|>", pair},
        {"{\"a\": 0}", NULL, "vocab.json has no token <|endoftext|>", pair},
        {"{\"<|endoftext|>\": 0}", NULL, "no token stands for byte 0x00", pair},
        {"{\"<|endoftext|>\": -1}", NULL, "needs an id", pair},
        {"{\"<|endoftext|>\": 0, \"a\": \"b\"}", NULL, "token \"a\" needs an id", pair},
        {"{\"<|endoftext|>\": 0, \"a\": 0}", NULL, "id 0 stands for two tokens", pair},
        {"{\"model\": {}}", NULL, "vocab.json is a tokenizer.json", model},
        {NULL, "", "merges.txt holds no merges", pair},
        {NULL, "#version: 0.2\n\n", "merges.txt holds no merges", pair},
        {NULL, "#version: 0.2\ne r\ne\n", "merges.txt:3: \"e\" is no pair of tokens", pair},
        {NULL, "e r s\n", "merges.txt:1: \"e r s\" is no pair", pair},
        {NULL, "e \n", "merges.txt:1: \"e \" is no pair", pair},
        {NULL, "e \xff\n", "merges.txt:1: \"e \xff\" is no pair", pair},
        {NULL, "q x\n", "merges.txt: merge 0 is no pair of tokens whose joint text", pair},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul_status status = open_texts(cases[i].vocab, cases[i].merges);
        if (strstr(haul_error_hint(), cases[i].hint) == NULL) {
            fail_msg("case %zu: the hint is \"%s\"", i, haul_error_hint());
        }
        haul_test_assert_fails(status, HAUL_ERROR_DATA, cases[i].message);
    }
}

static void files_that_are_swapped_or_absent_are_refused(void **state) {
    (void)state;
    haul_tokenizer *tokenizer;
    const char *none = scratch(0, "none");
    haul_test_assert_fails(haul_tokenizer_open_gpt2(merges_path(), vocab_path(), &tokenizer),
                           HAUL_ERROR_DATA, "gpt2_merges.txt:1:");
    haul_test_assert_fails(haul_tokenizer_open_gpt2(vocab_path(), vocab_path(), &tokenizer),
                           HAUL_ERROR_DATA, "gpt2_vocab.json:1: \"{");
    haul_test_assert_fails(haul_tokenizer_open_gpt2(none, merges_path(), &tokenizer),
                           HAUL_ERROR_NO_INPUT, "none");
    haul_test_assert_fails(haul_tokenizer_open_gpt2(vocab_path(), none, &tokenizer),
                           HAUL_ERROR_NO_INPUT, "none");
    haul_test_assert_fails(haul_tokenizer_open_gpt2(vocab_path(), NULL, &tokenizer),
                           HAUL_ERROR_USAGE, "needs a vocab.json and a merges.txt");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_equal_transformers),
        cmocka_unit_test(tokenizer_json_is_the_same),
        cmocka_unit_test(merges_may_be_written_otherwise),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(files_that_are_swapped_or_absent_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
