/* ctest: unit */
/* The rules of a chunk: what haul_chunk_add_node takes and refuses. */
#include "testing.h"

#include "base/string.h"
#include "layers/chunk.h"
#include "layers/layers.h"

#include <string.h>

enum { ROWS = 6, HIDDEN = 8 };

typedef struct fixture {
    haul_chunk chunk;
    int x; /* f64 [ROWS, HIDDEN] */
} fixture;

static void begin(fixture *f) {
    haul_chunk_init(&f->chunk, (haul_numerics){HAUL_F64, HAUL_F64});
    haul_tensor shape = haul_tensor_2d(NULL, HAUL_F64, ROWS, HIDDEN);
    assert_ok(haul_chunk_add_input(&f->chunk, "x", shape, &f->x));
}

static haul_status add_linear(fixture *f, const char *name, int64_t rows, int input, int *output) {
    haul_linear_config config = {
        .parts = {{.rows = rows}}, .part_count = 1, .input_size = HIDDEN, .init_std = 1};
    haul_text_copy(config.parts[0].name, HAUL_NAME_BYTES, name);
    return haul_chunk_add_node(&f->chunk, &haul_node_linear, name, -1, &config, &input, 1, output);
}

/* One head of 8 with a rotary part, so that it overwrites its fused [R, 24] input. */
static haul_status add_attention(fixture *f, int input, int *output) {
    haul_attention_config config = {.sequence_length = ROWS / 2,
                                    .heads = 1,
                                    .groups = 1,
                                    .head_size = 8,
                                    .rotary_size = 4,
                                    .positions = 16,
                                    .rotary_base = 10000,
                                    .scaling_factor = 1};
    return haul_chunk_add_node(&f->chunk, &haul_node_attention, "attention", 0, &config, &input, 1,
                               output);
}

static haul_status add_gelu(fixture *f, const char *name, int input, int *output) {
    haul_activation_config config = {.kind = HAUL_ACTIVATION_GELU};
    return haul_chunk_add_node(&f->chunk, &haul_node_activation, name, -1, &config, &input, 1,
                               output);
}

static void test_records_nodes_and_values(void **state) {
    (void)state;
    fixture f;
    int qkv, out;
    begin(&f);
    assert_ok(add_linear(&f, "qkv", 24, f.x, &qkv));
    assert_ok(add_attention(&f, qkv, &out));
    const haul_chunk *chunk = &f.chunk;
    assert_int_equal(chunk->node_count, 2);
    assert_int_equal(chunk->value_count, 3);
    assert_int_equal(chunk->constant_count, 1);
    assert_string_equal(chunk->values[qkv].name, "qkv.out");
    assert_int_equal(chunk->values[f.x].producer, -1);
    assert_int_equal(chunk->values[qkv].producer, 0);
    assert_int_equal(chunk->values[qkv].consumers, 1);
    assert_int_equal(chunk->values[out].shape.shape[1], 8);
    assert_int_equal(chunk->nodes[1].group, 0);
    assert_int_equal(haul_chunk_parameter_count(chunk), 24 * HIDDEN);
    /* Gradients: not of the batch, not of what nobody reads. */
    assert_false(haul_chunk_value_has_gradient(chunk, f.x));
    assert_true(haul_chunk_value_has_gradient(chunk, qkv));
    assert_false(haul_chunk_value_has_gradient(chunk, out));
    haul_chunk_deinit(&f.chunk);
}

static void test_refuses_to_overwrite_what_was_read(void **state) {
    (void)state;
    fixture f;
    int qkv, out;
    begin(&f);
    assert_ok(add_linear(&f, "qkv", 24, f.x, &qkv));
    assert_ok(add_gelu(&f, "reader", qkv, &out));
    haul_test_assert_fails(
        add_attention(&f, qkv, &out), HAUL_ERROR_INTERNAL,
        "attention reads qkv.out, which has several consumers and is overwritten by one");
    haul_chunk_deinit(&f.chunk);
}

static void test_refuses_to_read_what_is_overwritten(void **state) {
    (void)state;
    fixture f;
    int qkv, out;
    begin(&f);
    assert_ok(add_linear(&f, "qkv", 24, f.x, &qkv));
    assert_ok(add_attention(&f, qkv, &out));
    haul_test_assert_fails(
        add_gelu(&f, "reader", qkv, &out), HAUL_ERROR_INTERNAL,
        "reader reads qkv.out, which has several consumers and is overwritten by one");
    haul_chunk_deinit(&f.chunk);
}

/* A node whose buffer of 7 rows has views of 3 and `second` rows. */
static haul_status plan_views(const void *config, const haul_numerics *numerics,
                              haul_node_plan *plan) {
    haul_buffer_plan *buffer = &plan->buffers[0];
    buffer->shape = haul_tensor_2d(NULL, numerics->activation, 7, 2);
    buffer->view_count = 2;
    buffer->views[0] = (haul_view_plan){.name = "first", .rows = 3};
    buffer->views[1] = (haul_view_plan){.name = "second", .rows = *(const int64_t *)config};
    plan->buffer_count = 1;
    return HAUL_OK;
}

static void test_refuses_views_that_do_not_tile(void **state) {
    (void)state;
    static const haul_node_kind kind = {
        .name = "views", .config_bytes = sizeof(int64_t), .plan = plan_views};
    fixture f;
    begin(&f);
    for (int64_t second = 3; second <= 5; second++) {
        haul_status status =
            haul_chunk_add_node(&f.chunk, &kind, "node", -1, &second, &f.x, 1, NULL);
        if (second == 4) {
            assert_ok(status);
        } else {
            haul_test_assert_fails(status, HAUL_ERROR_INTERNAL,
                                   "node: the views of parameter first do not tile it");
        }
    }
    haul_chunk_deinit(&f.chunk);
}

/* Same name, same buffer; the product with more rows decides the packed form. */
static void test_shares_buffers_by_name(void **state) {
    (void)state;
    fixture f;
    int output, more;
    begin(&f);
    haul_tensor shape = haul_tensor_2d(NULL, HAUL_F64, 2 * ROWS, HIDDEN);
    assert_ok(haul_chunk_add_input(&f.chunk, "more", shape, &more));
    assert_ok(add_linear(&f, "shared", HIDDEN, f.x, &output));
    assert_ok(add_linear(&f, "shared", HIDDEN, more, &output));
    assert_ok(add_linear(&f, "shared", HIDDEN, f.x, &output));
    assert_int_equal(f.chunk.buffer_count, 1);
    assert_int_equal(f.chunk.nodes[2].buffers[0], 0);
    assert_int_equal(f.chunk.buffers[0].product_rows, 2 * ROWS);
    assert_int_equal(haul_chunk_parameter_count(&f.chunk), HIDDEN * HIDDEN);
    haul_test_assert_fails(add_linear(&f, "shared", HIDDEN + 1, f.x, &output), HAUL_ERROR_INTERNAL,
                           "parameter shared.weight is declared in two shapes");
    haul_chunk_deinit(&f.chunk);
}

static void test_refuses_wrong_widths(void **state) {
    (void)state;
    fixture f;
    int wide, out;
    begin(&f);
    assert_ok(add_linear(&f, "wide", 25, f.x, &wide));
    haul_test_assert_fails(add_attention(&f, wide, &out), HAUL_ERROR_INTERNAL,
                           "attention takes 24 columns and is given 25");
    haul_test_assert_fails(add_linear(&f, "linear", 4, wide, &out), HAUL_ERROR_INTERNAL,
                           "linear takes 8 columns and is given 25");
    haul_chunk_deinit(&f.chunk);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_nodes_and_values),
        cmocka_unit_test(test_refuses_to_overwrite_what_was_read),
        cmocka_unit_test(test_refuses_to_read_what_is_overwritten),
        cmocka_unit_test(test_refuses_views_that_do_not_tile),
        cmocka_unit_test(test_shares_buffers_by_name),
        cmocka_unit_test(test_refuses_wrong_widths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
