/* ctest: golden */
#include "data_testing.h"

#include "data/bpe_train.h"
#include "data/tokenizer.h"

/* The documents of corpus.txt, between its "%" lines. */
static void add_corpus(haul_bpe_trainer *trainer) {
    haul_string text = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/data/corpus.txt", HAUL_TEST_DIR);
    assert_ok(haul_file_read(path, &text));
    const char *at = text.data, *next;
    while ((next = strstr(at, "\n%\n")) != NULL) {
        assert_ok(haul_bpe_trainer_add(trainer, at, next + 1 - at));
        at = next + 3;
    }
    assert_ok(haul_bpe_trainer_add(trainer, at, (int64_t)strlen(at)));
    haul_string_deinit(&text);
}

/* The whole file, byte for byte, as `tokenizers` writes it. */
static void the_result_equals_tokenizers(void **state) {
    (void)state;
    haul_bpe_trainer *trainer;
    haul_string expected = {0}, made = {0};
    char path[512];
    int64_t vocab_size;
    assert_ok(haul_bpe_trainer_create(&trainer));
    add_corpus(trainer);
    assert_ok(haul_bpe_trainer_write(trainer, 1000, scratch(0, "tokenizer.json"), &vocab_size));
    assert_int_equal(vocab_size, 1000);
    haul_bpe_trainer_destroy(trainer);
    snprintf(path, sizeof path, "%s/data/tokenizer_gpt2.json", HAUL_TEST_DIR);
    assert_ok(haul_file_read(path, &expected));
    assert_ok(haul_file_read(scratch(0, "tokenizer.json"), &made));
    assert_int_equal(made.length, expected.length);
    assert_memory_equal(made.data, expected.data, (size_t)expected.length);
    haul_string_deinit(&expected);
    haul_string_deinit(&made);
}

static void too_little_text_gives_fewer_ids(void **state) {
    (void)state;
    haul_bpe_trainer *trainer;
    haul_tokenizer *tokenizer;
    haul_token_list list = {0};
    int64_t vocab_size;
    assert_ok(haul_bpe_trainer_create(&trainer));
    assert_ok(haul_bpe_trainer_add(trainer, "hello hello\xff\xfe", 13));
    haul_test_assert_fails(haul_bpe_trainer_write(trainer, 256, scratch(0, "t.json"), &vocab_size),
                           HAUL_ERROR_USAGE, "--vocab-size is 256");
    assert_ok(haul_bpe_trainer_write(trainer, 5000, scratch(0, "t.json"), &vocab_size));
    haul_bpe_trainer_destroy(trainer);
    assert_int_equal(vocab_size, 257 + 6); /* el hel lo hello, " hello", ff fe */
    assert_ok(haul_tokenizer_open("HuggingFaceTokenizer", scratch(0, "t.json"), 0, &tokenizer));
    assert_int_equal(haul_tokenizer_vocab_size(tokenizer), vocab_size);
    assert_int_equal(haul_tokenizer_eod(tokenizer), 0);
    assert_ok(haul_tokenizer_encode(tokenizer, "hello hello", 11, &list));
    assert_int_equal(list.count, 2);
    haul_token_list_deinit(&list);
    haul_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_result_equals_tokenizers),
        cmocka_unit_test(too_little_text_gives_fewer_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
