/* Every allocation of the module fails once: each operation must say so and free what it has (the
 * sanitizers of the build see a leak). */
#include "data_testing.h"

#include "base/fault.h"
#include "data/bpe_train.h"
#include "data/build.h"
#include "data/dataset.h"
#include "data/inspect.h"

typedef haul_status operation(void);

static void golden_path(char path[512], const char *name) {
    snprintf(path, 512, "%s/data/%s", HAUL_TEST_DIR, name);
}

static haul_status use_tokenizer(void) {
    char path[512];
    haul_tokenizer *tokenizer;
    haul_token_list list = {0};
    golden_path(path, "tokenizer_split.json");
    HAUL_TRY(haul_tokenizer_open("HuggingFaceTokenizer", path, 0, &tokenizer));
    haul_status status = haul_tokenizer_encode(tokenizer, "one two\n\nthree", 14, &list);
    haul_token_list_deinit(&list);
    haul_tokenizer_close(tokenizer);
    return status;
}

static haul_status use_tokenizer_pair(void) {
    char vocab[512], merges[512];
    haul_tokenizer *tokenizer;
    golden_path(vocab, "gpt2_vocab.json");
    golden_path(merges, "gpt2_merges.txt");
    HAUL_TRY(haul_tokenizer_open_gpt2(vocab, merges, &tokenizer));
    haul_tokenizer_close(tokenizer);
    return HAUL_OK;
}

static haul_status use_dataset(void) {
    const char *words[] = {"1", scratch(0, "small"), "2", scratch(0, "small")};
    haul_dataset_options options = {
        .data_path = words, .data_path_count = 4, .seq_length = 16, .samples = {40}};
    haul_dataset *dataset;
    int32_t tokens[17];
    HAUL_TRY(haul_dataset_open(&options, 0, &dataset));
    haul_status status = haul_dataset_sample(dataset, 7, tokens);
    haul_dataset_close(dataset);
    return status;
}

static haul_status use_windows(void) {
    const char *prefix = scratch(0, "small");
    haul_dataset_options options = {.data_path = &prefix, .data_path_count = 1, .seq_length = 16};
    haul_windows *windows;
    HAUL_TRY(haul_windows_open(&options, 0, &windows));
    haul_windows_close(windows);
    return HAUL_OK;
}

static haul_status use_build(void) {
    char path[512];
    const char *file = path;
    haul_tokenizer *tokenizer;
    haul_build_result result;
    golden_path(path, "corpus.txt");
    HAUL_TRY(haul_tokenizer_open("ByteTokenizer", NULL, 0, &tokenizer));
    haul_build_options options = {.input = {.files = &file, .file_count = 1, .separator = "%"},
                                  .output_prefix = scratch(1, "out"),
                                  .tokenizer = tokenizer,
                                  .append_eod = true,
                                  .workers = 1,
                                  .holdout = 0.1};
    haul_status status = haul_build(&options, &result);
    haul_tokenizer_close(tokenizer);
    return status;
}

static haul_status use_trainer(void) {
    static const char text[] = "the cat and the hat and the bat that sat";
    haul_bpe_trainer *trainer;
    int64_t made;
    HAUL_TRY(haul_bpe_trainer_create(&trainer));
    haul_status status = haul_bpe_trainer_add(trainer, text, sizeof text - 1);
    if (status == HAUL_OK) {
        status = haul_bpe_trainer_write(trainer, 270, scratch(1, "trained.json"), &made);
    }
    haul_bpe_trainer_destroy(trainer);
    return status;
}

static haul_status use_inspect(void) {
    haul_string out = {0};
    haul_status status = haul_inspect(scratch(0, "small"), NULL, 3, &out);
    haul_string_deinit(&out);
    return status;
}

static void fail_each_allocation(operation *use, long fewest) {
    for (long nth = 1;; nth++) {
        haul_fault_arm(HAUL_FAULT_ALLOC, nth, false);
        haul_status status = use();
        haul_fault_arm(HAUL_FAULT_ALLOC, 0, false);
        if (status == HAUL_OK) {
            assert_true(nth > fewest);
            return;
        }
        haul_test_assert_fails(status, HAUL_ERROR_MEMORY, "memory");
    }
}

static void allocations_may_fail(void **state) {
    (void)state;
    write_small_dataset(scratch(0, "small"));
    fail_each_allocation(use_tokenizer, 10);
    fail_each_allocation(use_tokenizer_pair, 10);
    fail_each_allocation(use_dataset, 10);
    fail_each_allocation(use_windows, 3);
    fail_each_allocation(use_build, 10);
    fail_each_allocation(use_trainer, 10);
    fail_each_allocation(use_inspect, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
