/* ctest: golden */
#include "data_testing.h"

#include "base/memory.h"
#include "data/blend.h"
#include "data/dataset.h"

#include <stdlib.h>

static json_t *golden;

/* All samples of a data set, one after another. */
static int32_t *read_samples(const haul_dataset *dataset, int64_t seq_length) {
    int64_t samples = haul_dataset_samples(dataset);
    int32_t *tokens = haul_calloc(samples * (seq_length + 1), sizeof *tokens);
    assert_non_null(tokens);
    for (int64_t i = 0; i < samples; i++) {
        assert_ok(haul_dataset_sample(dataset, i, tokens + i * (seq_length + 1)));
    }
    return tokens;
}

static void samples_equal_megatron(void **state) {
    (void)state;
    size_t i;
    json_t *expected;
    const char *prefix = scratch(0, "small");
    write_small_dataset(prefix);
    json_array_foreach(golden_get(golden, "datasets"), i, expected) {
        haul_dataset_options options = {
            .data_path = &prefix,
            .data_path_count = 1,
            .split = json_string_value(golden_get(expected, "split")),
            .seq_length = golden_integer(expected, "seq_length"),
            .seed = (uint32_t)golden_integer(expected, "seed"),
            .samples = {golden_integer(expected, "wanted"), 0, 0},
            .vocab_size = 60000,
        };
        haul_dataset *dataset;
        assert_ok(haul_dataset_open(&options, 0, &dataset));
        int64_t samples = haul_dataset_samples(dataset);
        assert_int_equal(samples, golden_integer(expected, "samples"));
        int32_t *tokens = read_samples(dataset, options.seq_length);
        for (size_t j = 0; j < (size_t)options.seq_length + 1; j++) {
            assert_int_equal(tokens[j], golden_item(golden_get(expected, "first"), j));
        }
        assert_int_equal(checksum(tokens, samples * (options.seq_length + 1) * 4),
                         golden_integer(expected, "crc32"));
        haul_test_assert_fails(haul_dataset_sample(dataset, samples, tokens), HAUL_ERROR_INTERNAL,
                               "was asked for");
        free(tokens);
        haul_dataset_close(dataset);
    }
}

static void check_blend(json_t *expected) {
    int64_t size = golden_integer(expected, "size"), limits[600];
    double shares[600];
    size_t d;
    json_t *item;
    json_array_foreach(golden_get(expected, "weights"), d, item) {
        shares[d] = json_number_value(item);
        limits[d] = (int64_t)shares[d];
    }
    int64_t count = (int64_t)json_array_size(golden_get(expected, "weights"));
    haul_blend_normalize(shares, count);
    json_array_foreach(golden_get(expected, "normalized"), d, item) {
        assert_true(shares[d] == strtod(json_string_value(item), NULL));
    }
    for (d = 0; d < (size_t)count; d++) {
        assert_int_equal(haul_blend_share(shares[d], size, false),
                         golden_item(golden_get(expected, "share"), d));
        assert_int_equal(haul_blend_share(shares[d], size, true),
                         golden_item(golden_get(expected, "share_surplus"), d));
    }
    int16_t dataset[5000];
    int64_t sample[5000];
    bool exhaustive = json_is_true(golden_get(expected, "exhaustive"));
    assert_ok(haul_blend_build(shares, exhaustive ? limits : NULL, count, size, dataset, sample));
    assert_int_equal(checksum(dataset, size * 2),
                     golden_integer(golden_get(expected, "dataset"), "crc32"));
    assert_int_equal(checksum(sample, size * 8),
                     golden_integer(golden_get(expected, "dataset_sample"), "crc32"));
}

static void blends_equal_megatron(void **state) {
    (void)state;
    size_t i;
    json_t *expected;
    json_array_foreach(golden_get(golden, "blends"), i, expected) {
        check_blend(expected);
    }
}

static void data_path_words_are_pairs_or_prefixes(void **state) {
    (void)state;
    haul_blend_paths paths;
    assert_ok(haul_blend_paths_init((const char *const[]){"0.25", "a", "3e0", "b"}, 4, &paths));
    assert_int_equal(paths.count, 2);
    assert_string_equal(paths.prefixes[1], "b");
    assert_true(paths.weights[0] == 0.25 && paths.weights[1] == 3);
    haul_blend_paths_deinit(&paths);
    assert_ok(haul_blend_paths_init((const char *const[]){"1", "2", "3"}, 3, &paths));
    assert_int_equal(paths.count, 3);
    assert_null(paths.weights);
    haul_blend_paths_deinit(&paths);
    assert_ok(haul_blend_paths_init((const char *const[]){"a", "b"}, 2, &paths));
    assert_int_equal(paths.count, 2);
    assert_null(paths.weights);
    haul_blend_paths_deinit(&paths);
    haul_test_assert_fails(
        haul_blend_paths_init((const char *const[]){"1", "a", "b", "c"}, 4, &paths),
        HAUL_ERROR_USAGE, "weight 2 is \"b\"");
    haul_test_assert_fails(haul_blend_paths_init((const char *const[]){"0", "a"}, 2, &paths),
                           HAUL_ERROR_USAGE, "add up to 0");
    haul_test_assert_fails(haul_blend_paths_init(NULL, 0, &paths), HAUL_ERROR_USAGE, "has 0 words");
}

/* A sample of a blend is the sample of that number of its source, built alone. */
static void blended_samples_come_from_their_sources(void **state) {
    (void)state;
    const char *first = scratch(0, "small"), *second = scratch(1, "ones");
    write_small_dataset(first);
    haul_indexed_writer *writer;
    int32_t ones[500];
    for (int i = 0; i < 500; i++) {
        ones[i] = 1;
    }
    assert_ok(haul_indexed_writer_create(second, HAUL_U16, &writer));
    assert_ok(haul_indexed_writer_add(writer, ones, 500));
    assert_ok(haul_indexed_writer_finish(writer));
    haul_indexed_writer_destroy(writer);
    const char *words[] = {"0.8", first, "0.2", second};
    haul_dataset_options options = {
        .data_path = words, .data_path_count = 4, .seq_length = 9, .seed = 5, .samples = {100}};
    haul_dataset *dataset, *alone;
    assert_ok(haul_dataset_open(&options, 0, &dataset));
    assert_int_equal(haul_dataset_samples(dataset), 100);
    options.data_path = words + 1;
    options.data_path_count = 1;
    options.samples[0] = haul_blend_share(0.8, 100, true);
    assert_ok(haul_dataset_open(&options, 0, &alone));
    int32_t mixed[10], pure[10];
    int64_t from_second = 0;
    for (int64_t i = 0; i < 100; i++) {
        assert_ok(haul_dataset_sample(dataset, i, mixed));
        if (mixed[0] == 1 && mixed[9] == 1) {
            from_second++;
            continue;
        }
        assert_ok(haul_dataset_sample(alone, i - from_second, pure));
        assert_memory_equal(mixed, pure, sizeof mixed);
    }
    assert_int_equal(from_second, 20);
    haul_dataset_close(dataset);
    haul_dataset_close(alone);
}

static void prefixes_without_weights_are_read_once(void **state) {
    (void)state;
    const char *words[] = {scratch(0, "small"), scratch(0, "small")};
    write_small_dataset(words[0]);
    haul_dataset_options options = {
        .data_path = words, .data_path_count = 2, .seq_length = 9, .samples = {-1, 50, 100000}};
    haul_dataset *dataset;
    int64_t samples[3], tokens = 0;
    for (int64_t i = 0; i < SMALL_SEQUENCES; i++) {
        tokens += small_length(NULL, i);
    }
    for (int split = 0; split < 3; split++) {
        assert_ok(haul_dataset_open(&options, split, &dataset));
        samples[split] = haul_dataset_samples(dataset);
        haul_dataset_close(dataset);
    }
    assert_int_equal(samples[0], 2 * ((tokens - 1) / 9));
    assert_int_equal(samples[1], 50);
    assert_int_equal(samples[2], samples[0]);
}

static void mock_documents_count_up(void **state) {
    (void)state;
    haul_dataset_options options = {.seq_length = 64,
                                    .samples = {0, 10, 0},
                                    .vocab_size = 50,
                                    .mock_data = true,
                                    .mock_eod = 49};
    haul_dataset *dataset;
    int32_t tokens[65];
    assert_ok(haul_dataset_open(&options, 0, &dataset));
    assert_int_equal(haul_dataset_samples(dataset), 0);
    haul_dataset_close(dataset);
    assert_ok(haul_dataset_open(&options, 1, &dataset));
    for (int64_t i = 0; i < 10; i++) {
        assert_ok(haul_dataset_sample(dataset, i, tokens));
        for (int j = 1; j < 65; j++) {
            bool counts = tokens[j] == (tokens[j - 1] + 1) % 50;
            assert_true(counts || tokens[j] == 49 || tokens[j - 1] == 49);
        }
    }
    haul_dataset_close(dataset);
}

static void windows_cover_the_stream(void **state) {
    (void)state;
    const char *prefix = scratch(0, "small");
    write_small_dataset(prefix);
    for (int64_t seq_length = 1; seq_length < 120; seq_length += 7) {
        haul_dataset_options options = {
            .data_path = &prefix, .data_path_count = 1, .seq_length = seq_length};
        haul_windows *windows;
        int32_t tokens[128];
        int64_t labels, sequence = 1, offset = 0;
        assert_ok(haul_windows_open(&options, 0, &windows));
        for (int64_t w = 0; w < haul_windows_count(windows); w++) {
            assert_ok(haul_windows_get(windows, w, tokens, &labels));
            assert_true(labels > 0);
            assert_true(labels == seq_length || w + 1 == haul_windows_count(windows));
            for (int64_t i = 0; i < labels + (w + 1 == haul_windows_count(windows)); i++) {
                while (offset >= small_length(NULL, sequence)) {
                    sequence++;
                    offset = 0;
                }
                assert_int_equal(tokens[i], (sequence * 1000 + offset++) % 60000);
            }
        }
        haul_test_assert_fails(
            haul_windows_get(windows, haul_windows_count(windows), tokens, &labels),
            HAUL_ERROR_INTERNAL, "was asked for");
        haul_windows_close(windows);
        assert_int_equal(sequence, SMALL_SEQUENCES - 1);
        assert_int_equal(offset, small_length(NULL, sequence));
    }
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    const char *prefix = scratch(0, "small");
    write_small_dataset(prefix);
    haul_dataset_options options = {.data_path = &prefix,
                                    .data_path_count = 1,
                                    .seq_length = 16,
                                    .samples = {5},
                                    .vocab_size = 100};
    haul_dataset *dataset;
    int32_t tokens[17];
    assert_ok(haul_dataset_open(&options, 0, &dataset));
    haul_test_assert_fails(haul_dataset_sample(dataset, 0, tokens), HAUL_ERROR_DATA,
                           "must be below the vocabulary size 100");
    haul_dataset_close(dataset);
    options.split = "0,1,0";
    haul_test_assert_fails(haul_dataset_open(&options, 0, &dataset), HAUL_ERROR_DATA, prefix);
    options.seq_length = 0;
    haul_test_assert_fails(haul_dataset_open(&options, 0, &dataset), HAUL_ERROR_CONFIG,
                           "--seq-length is 0");
    options.data_path = (const char *const[]){scratch(1, "absent")};
    haul_test_assert_fails(haul_dataset_open(&options, 0, &dataset), HAUL_ERROR_NO_INPUT,
                           "absent.idx");
}

static int load(void **state) {
    (void)state;
    golden = load_golden("sample_order.json");
    return 0;
}

static int unload(void **state) {
    (void)state;
    json_decref(golden);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_equal_megatron),
        cmocka_unit_test(blends_equal_megatron),
        cmocka_unit_test(data_path_words_are_pairs_or_prefixes),
        cmocka_unit_test(blended_samples_come_from_their_sources),
        cmocka_unit_test(prefixes_without_weights_are_read_once),
        cmocka_unit_test(mock_documents_count_up),
        cmocka_unit_test(windows_cover_the_stream),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
