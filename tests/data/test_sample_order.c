/* ctest: golden */
#include "data_testing.h"

#include "base/memory.h"
#include "data/numpy_random.h"
#include "data/sample_order.h"
#include "data/source.h"

#include <stdlib.h>

static json_t *golden;

static void legacy_shuffle_equals_numpy(void **state) {
    (void)state;
    json_t *rounds = golden_get(golden, "shuffle_1234");
    haul_mt19937 generator;
    haul_mt19937_seed(&generator, 1234);
    for (size_t round = 0; round < 2; round++) {
        uint32_t items[10];
        for (uint32_t i = 0; i < 10; i++) {
            items[i] = i;
        }
        haul_mt19937_shuffle(&generator, items, 10);
        for (size_t i = 0; i < 10; i++) {
            assert_int_equal(items[i], golden_item(json_array_get(rounds, round), i));
        }
    }
}

static void mock_lengths_equal_numpy(void **state) {
    (void)state;
    json_t *expected = golden_get(golden, "mock_lengths");
    haul_source source;
    assert_ok(haul_source_open_mock(50, 49, &source));
    assert_int_equal(haul_source_sequences(&source), 100000);
    assert_int_equal(checksum(source.mock_lengths, 400000), golden_integer(expected, "crc32"));
    haul_source_close(&source);
}

static void check_documents(const haul_sample_order *order, json_t *expected) {
    assert_int_equal(checksum(order->documents, order->document_count * 4),
                     golden_integer(golden_get(expected, "documents"), "crc32"));
}

static void check_starts(const haul_sample_order *order, json_t *expected) {
    int32_t *pairs = haul_calloc(2 * (order->samples + 1), sizeof *pairs);
    assert_non_null(pairs);
    for (int64_t i = 0; i <= order->samples; i++) {
        pairs[2 * i] = (int32_t)order->starts[i].position;
        pairs[2 * i + 1] = (int32_t)order->starts[i].offset;
    }
    assert_int_equal(checksum(pairs, 8 * (order->samples + 1)),
                     golden_integer(golden_get(expected, "starts"), "crc32"));
    free(pairs);
}

static void check_order(json_t *expected, haul_sequence_length *length, const void *context) {
    haul_sample_order order;
    assert_ok(haul_sample_order_init(
        length, context, golden_integer(expected, "begin"), golden_integer(expected, "end"),
        golden_integer(expected, "seq_length"), golden_integer(expected, "wanted"),
        (uint32_t)golden_integer(expected, "seed"), &order));
    assert_int_equal(order.tokens_per_epoch, golden_integer(expected, "tokens_per_epoch"));
    assert_int_equal(order.epochs, golden_integer(expected, "epochs"));
    assert_int_equal(order.separate_final_epoch,
                     json_is_true(golden_get(expected, "separate_final_epoch")));
    assert_int_equal(order.samples, golden_integer(expected, "samples"));
    check_documents(&order, expected);
    check_starts(&order, expected);
    assert_int_equal(checksum(order.shuffle, 4 * order.samples),
                     golden_integer(golden_get(expected, "shuffle"), "crc32"));
    haul_sample_order_deinit(&order);
}

static int64_t length_of_source(const void *context, int64_t sequence) {
    return haul_source_length(context, sequence);
}

static void mock_orders_equal_megatron(void **state) {
    (void)state;
    size_t i;
    json_t *expected;
    haul_source source;
    assert_ok(haul_source_open_mock(50, 49, &source));
    json_array_foreach(golden_get(golden, "mock_orders"), i, expected) {
        check_order(expected, length_of_source, &source);
    }
    haul_source_close(&source);
}

static void small_orders_equal_megatron(void **state) {
    (void)state;
    size_t i;
    json_t *expected;
    json_array_foreach(golden_get(golden, "small_orders"), i, expected) {
        check_order(expected, small_length, NULL);
    }
}

static void splits_round_as_python(void **state) {
    (void)state;
    size_t i;
    json_t *expected;
    json_array_foreach(golden_get(golden, "splits"), i, expected) {
        int64_t begin[HAUL_SPLITS], end[HAUL_SPLITS];
        assert_ok(haul_split_parse(json_string_value(golden_get(expected, "text")),
                                   golden_integer(expected, "sequences"), begin, end));
        for (size_t s = 0; s < HAUL_SPLITS; s++) {
            json_t *range = json_array_get(golden_get(expected, "ranges"), s);
            assert_int_equal(begin[s], golden_item(range, 0));
            assert_int_equal(end[s], golden_item(range, 1));
        }
    }
}

static void bad_splits_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"", "a", "1,2,3,4", "0,0,0", "1..2", "-1,1", "1,x"};
    int64_t begin[HAUL_SPLITS], end[HAUL_SPLITS];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        haul_test_assert_fails(haul_split_parse(bad[i], 10, begin, end), HAUL_ERROR_USAGE,
                               "--split");
    }
}

static int64_t no_tokens(const void *context, int64_t sequence) {
    (void)context;
    (void)sequence;
    return 0;
}

static void too_little_text_is_refused(void **state) {
    (void)state;
    haul_sample_order order;
    haul_test_assert_fails(haul_sample_order_init(no_tokens, NULL, 0, 9, 8, 3, 1, &order),
                           HAUL_ERROR_DATA, "too few for one sample");
    haul_test_assert_fails(haul_sample_order_init(small_length, NULL, 1, 2, 37, -1, 1, &order),
                           HAUL_ERROR_DATA, "hold 37 tokens");
    haul_test_assert_fails(
        haul_sample_order_init(small_length, NULL, 1, 2, 37, INT64_MAX / 2, 1, &order),
        HAUL_ERROR_USAGE, "too many");
    haul_test_assert_fails(
        haul_sample_order_init(small_length, NULL, 1, 2, 37, (int64_t)1 << 40, 1, &order),
        HAUL_ERROR_UNAVAILABLE, "2^32 - 3");
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
        cmocka_unit_test(legacy_shuffle_equals_numpy),
        cmocka_unit_test(mock_lengths_equal_numpy),
        cmocka_unit_test(mock_orders_equal_megatron),
        cmocka_unit_test(small_orders_equal_megatron),
        cmocka_unit_test(splits_round_as_python),
        cmocka_unit_test(bad_splits_are_refused),
        cmocka_unit_test(too_little_text_is_refused),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
