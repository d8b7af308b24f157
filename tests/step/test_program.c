/* ctest: unit */
#include "fixture.h"

enum { ROWS = FIXTURE_BATCH * FIXTURE_LENGTH };

static int64_t product_weights(const haul_chunk *chunk, bool head) {
    int64_t count = 0;
    for (int64_t i = 0; i < chunk->buffer_count; i++) {
        const haul_buffer_plan *buffer = &chunk->buffers[i];
        if (buffer->product_rows > 0 && buffer->vocabulary == head) {
            count += haul_tensor_count(&buffer->shape);
        }
    }
    return count;
}

/* A product of R rows with a weight costs 2 R operations an element; B and W one each. The head
 * computes nothing in F and all three of its products in B. Rebuilds do not count. */
static void test_counts_products(void **state) {
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) {
        fixture f;
        fixture_open(
            &f, (fixture_options){.device = "ref", .recompute = recompute, .micro_batches = 2});
        int64_t layers = product_weights(&f.chunk, false), head = product_weights(&f.chunk, true);
        assert_int_equal(head, 16 * 12);
        assert_int_equal(f.program.forward_cost.flops[HAUL_OP_MATMUL], 2 * ROWS * layers);
        assert_int_equal(f.program.backward_cost.flops[HAUL_OP_MATMUL],
                         4 * ROWS * layers + 6 * ROWS * head);
        fixture_close(&f);
    }
}

static const haul_memory_line *find_line(const haul_memory_table *table, const char *name,
                                         const char *category) {
    for (int64_t i = 0; i < table->count; i++) {
        if (strcmp(table->lines[i].name, name) == 0 &&
            strcmp(table->lines[i].category, category) == 0) {
            return &table->lines[i];
        }
    }
    fail_msg("no line %s in %s", name, category);
    return NULL;
}

static int64_t category_bytes(const haul_memory_table *table, const char *category) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < table->count; i++) {
        bytes += strcmp(table->lines[i].category, category) == 0 ? table->lines[i].bytes : 0;
    }
    return bytes;
}

static int64_t padded(int64_t elements) {
    return haul_round_up(elements * (int64_t)sizeof(double), 256);
}

static void test_memory_lines(void **state) {
    (void)state;
    fixture f;
    haul_memory_table table = {0};
    fixture_open(&f, (fixture_options){.device = "ref", .micro_batches = 5, .stages = 3});
    const haul_program *program = &f.program;
    assert_ok(haul_program_memory(program, &table));
    assert_int_equal(table.bytes, program->bytes);
    /* 8 positions of 3 pairs of cosine and sine in each of two layers */
    assert_int_equal(find_line(&table, "layer1.attention constant", "constants")->bytes,
                     padded(8 * 3 * 2));
    assert_int_equal(category_bytes(&table, "constants"), 2 * padded(8 * 3 * 2));
    assert_int_equal(find_line(&table, "head.losses", "losses")->bytes, 5 * padded(ROWS));
    assert_int_equal(category_bytes(&table, "losses"), 5 * padded(ROWS));
    const char *peak = "activations at their peak";
    assert_int_equal(find_line(&table, "layer0.qkv.out", peak)->bytes, 3 * padded(ROWS * 24));
    assert_int_equal(find_line(&table, "tokens", peak)->bytes, 3 * 256);
    assert_true(find_line(&table, "gaps of the packing", peak)->bytes >= 0);
    assert_int_equal(category_bytes(&table, peak), 3 * program->class_bytes[HAUL_MEMORY_SLOT]);
    assert_int_equal(find_line(&table, "scratch of nodes", "scratch")->bytes, padded(ROWS * 16));
    assert_int_equal(find_line(&table, "workspace of ops", "scratch")->bytes, 0); /* ref has none */
    haul_memory_table_deinit(&table);
    fixture_close(&f);
}

/* The first pass of a step that makes a parameter's gradient writes, all others add; with tied
 * weights the head's B comes before the embedding's W. */
static void test_accumulation(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, (fixture_options){.device = "ref", .gpt2 = true, .micro_batches = 2});
    for (int64_t i = 0; i < f.program.pass_count; i++) {
        const haul_pass *pass = &f.program.passes[i];
        if (pass->node < 0) {
            continue;
        }
        const haul_node *node = &f.chunk.nodes[pass->node];
        bool embedding = strcmp(node->name, "embedding") == 0;
        bool makes = pass->kind == HAUL_PASS_WEIGHT ||
                     (pass->kind == HAUL_PASS_BACKWARD && node->plan.weight_in_backward);
        uint32_t all = (1u << node->plan.buffer_count) - 1;
        uint32_t later = makes ? all : 0, first = embedding && makes ? 1 : 0;
        assert_int_equal(pass->accumulate, pass->micro_batch > 0 ? later : first);
    }
    fixture_close(&f);
}

/* W stands right behind its B, so that the gradient of the output dies there. */
static void test_weaves_weights(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, (fixture_options){.device = "ref", .micro_batches = 2});
    int weights = 0;
    for (int64_t i = 1; i < f.program.pass_count; i++) {
        const haul_pass *before = &f.program.passes[i - 1], *pass = &f.program.passes[i];
        bool embedding = pass->node == 0; /* the one node with a W and no B */
        if (pass->kind == HAUL_PASS_WEIGHT && !embedding) {
            assert_int_equal(before->kind, HAUL_PASS_BACKWARD);
            assert_int_equal(before->node, pass->node);
            assert_int_equal(before->micro_batch, pass->micro_batch);
            weights++;
        }
    }
    assert_int_equal(weights, 2 * 8);
    fixture_close(&f);
}

static void test_prints_a_line_a_pass(void **state) {
    (void)state;
    fixture f;
    haul_string text = {0};
    fixture_open(&f, (fixture_options){.device = "ref", .micro_batches = 2});
    assert_ok(haul_program_print(&f.program, &text));
    int64_t lines = 0;
    for (int64_t i = 0; i < text.length; i++) {
        lines += text.data[i] == '\n';
    }
    assert_int_equal(lines, f.program.pass_count);
    assert_non_null(strstr(text.data, "    0  F        micro-batch 0    slot 0   embedding\n"));
    assert_non_null(strstr(text.data, "W        micro-batch 1    slot 0   layer1.qkv (adds)\n"));
    assert_non_null(strstr(text.data, "  VERDICT\n"));
    assert_string_equal(text.data + text.length - 8, " COMMIT\n");
    haul_string_deinit(&text);
    fixture_close(&f);
}

static void test_refuses_a_bad_schedule(void **state) {
    (void)state;
    fixture f;
    haul_program program;
    fixture_open(&f, (fixture_options){.device = "ref", .micro_batches = 2});
    f.schedule.ranks[0].items[0].op = HAUL_SCHEDULE_BACKWARD;
    haul_test_assert_fails(haul_program_compile(&f.chunk, &f.store, &f.schedule,
                                                (haul_program_options){.training = true}, &program),
                           HAUL_ERROR_CONFIG, "B0: comes before its F");
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_products),      cmocka_unit_test(test_memory_lines),
        cmocka_unit_test(test_accumulation),         cmocka_unit_test(test_weaves_weights),
        cmocka_unit_test(test_prints_a_line_a_pass), cmocka_unit_test(test_refuses_a_bad_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
