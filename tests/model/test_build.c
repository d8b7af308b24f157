/* ctest: unit */
/* What a configuration becomes: nodes, parameters and their names. */
#include "testing.h"

#include "config/validate.h"
#include "layers/layers.h"
#include "model/build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 2, LENGTH = 16, ROWS = BATCH * LENGTH };

typedef const char *const setting[2];

typedef struct fixture {
    haul_config config;
    haul_chunk chunk;
    haul_model_values values;
} fixture;

static const setting common[] = {{"num-layers", "2"},
                                 {"hidden-size", "32"},
                                 {"num-attention-heads", "4"},
                                 {"seq-length", "16"},
                                 {"max-position-embeddings", "24"},
                                 {"make-vocab-size-divisible-by", "8"},
                                 {"vocab-size", "50"},
                                 {"micro-batch-size", "2"},
                                 {"train-iters", "10"},
                                 {"mock-data", "true"},
                                 {"hidden-dropout", "0"},
                                 {"attention-dropout", "0"},
                                 {"init-method-std", "0.02"},
                                 {"lr", "0.01"}};

static const setting llama[] = {{"swiglu", "true"},
                                {"normalization", "RMSNorm"},
                                {"position-embedding-type", "rope"},
                                {"disable-bias-linear", "true"},
                                {"group-query-attention", "true"},
                                {"num-query-groups", "2"},
                                {"ffn-hidden-size", "48"},
                                {"untie-embeddings-and-output-weights", "true"}};

enum { COMMON = sizeof common / sizeof common[0], LLAMA = sizeof llama / sizeof llama[0] };

static void configure(haul_config *config, const setting *settings, int count) {
    for (int i = 0; i < count; i++) {
        assert_ok(
            haul_config_set(config, settings[i][0], &settings[i][1], 1, HAUL_SOURCE_COMMAND_LINE));
    }
}

static void build(fixture *f, bool like_llama, const setting *more, int more_count,
                  bool inference) {
    memset(f, 0, sizeof *f);
    assert_ok(haul_config_init(&f->config));
    configure(&f->config, common, COMMON);
    configure(&f->config, llama, like_llama ? LLAMA : 0);
    configure(&f->config, more, more_count);
    assert_ok(haul_config_finalize(&f->config));
    haul_model_options options = {.numerics = haul_model_numerics(&f->config, false),
                                  .batch = inference ? 1 : BATCH,
                                  .sequence_length = inference ? 1 : LENGTH,
                                  .inference = inference,
                                  .cache_capacity = 24};
    assert_ok(haul_model_build(&f->config, &options, &f->chunk, &f->values));
}

static void release(fixture *f) {
    haul_chunk_deinit(&f->chunk);
    haul_config_deinit(&f->config);
}

typedef struct expected_view {
    const char *name;
    int64_t rows, columns; /* columns 0: a vector */
    double std;            /* 0: ones for norm weights, else zeros */
} expected_view;

static void assert_views(const haul_chunk *chunk, const expected_view *views, int count) {
    int seen = 0;
    for (int64_t b = 0; b < chunk->buffer_count; b++) {
        const haul_buffer_plan *plan = &chunk->buffers[b];
        for (int v = 0; v < plan->view_count; v++) {
            assert_true(seen < count);
            const expected_view *expected = &views[seen++];
            assert_string_equal(plan->views[v].name, expected->name);
            assert_int_equal(plan->views[v].rows, expected->rows);
            assert_int_equal(plan->shape.ndim, expected->columns > 0 ? 2 : 1);
            if (expected->columns > 0) {
                assert_int_equal(plan->shape.shape[1], expected->columns);
                assert_int_equal(plan->init, HAUL_INIT_NORMAL);
                assert_true(fabs(plan->init_std - expected->std) < 1e-15);
            }
            assert_int_equal(plan->decay, expected->columns > 0);
        }
    }
    assert_int_equal(seen, count);
}

#define OUT 0.01 /* 0.02 / sqrt(2 * 2 layers) */

static void test_llama(void **state) {
    (void)state;
    static const expected_view views[] = {
        {"model.embed_tokens.weight", 56, 32, 0.02},
        {"model.layers.0.input_layernorm.weight", 32, 0, 0},
        {"model.layers.0.self_attn.q_proj.weight", 32, 32, 0.02},
        {"model.layers.0.self_attn.k_proj.weight", 16, 32, 0.02},
        {"model.layers.0.self_attn.v_proj.weight", 16, 32, 0.02},
        {"model.layers.0.self_attn.o_proj.weight", 32, 32, OUT},
        {"model.layers.0.post_attention_layernorm.weight", 32, 0, 0},
        {"model.layers.0.mlp.gate_proj.weight", 48, 32, 0.02},
        {"model.layers.0.mlp.up_proj.weight", 48, 32, 0.02},
        {"model.layers.0.mlp.down_proj.weight", 32, 48, OUT},
        {"model.layers.1.input_layernorm.weight", 32, 0, 0},
        {"model.layers.1.self_attn.q_proj.weight", 32, 32, 0.02},
        {"model.layers.1.self_attn.k_proj.weight", 16, 32, 0.02},
        {"model.layers.1.self_attn.v_proj.weight", 16, 32, 0.02},
        {"model.layers.1.self_attn.o_proj.weight", 32, 32, OUT},
        {"model.layers.1.post_attention_layernorm.weight", 32, 0, 0},
        {"model.layers.1.mlp.gate_proj.weight", 48, 32, 0.02},
        {"model.layers.1.mlp.up_proj.weight", 48, 32, 0.02},
        {"model.layers.1.mlp.down_proj.weight", 32, 48, OUT},
        {"model.norm.weight", 32, 0, 0},
        {"lm_head.weight", 56, 32, 0.02}};
    fixture f;
    build(&f, true, NULL, 0, false);
    assert_views(&f.chunk, views, sizeof views / sizeof views[0]);
    int64_t layer = 32 * 64 + 32 * 32 + 3 * 32 * 48 + 2 * 32;
    assert_int_equal(haul_chunk_parameter_count(&f.chunk), 2 * layer + 2 * 56 * 32 + 32);
    assert_true(f.chunk.nodes[f.chunk.node_count - 1].kind == &haul_node_head);
    assert_true(f.chunk.values[f.values.losses].leaves);
    assert_int_equal(f.chunk.values[f.values.losses].shape.shape[0], ROWS);
    assert_int_equal(f.values.logits, -1);
    assert_int_equal(f.chunk.constant_count, 2); /* a rotary table a layer */
    release(&f);
}

static void test_gpt2(void **state) {
    (void)state;
    static const expected_view views[] = {{"transformer.wte.weight", 56, 32, 0.02},
                                          {"transformer.wpe.weight", 24, 32, 0.02},
                                          {"transformer.h.0.ln_1.weight", 32, 0, 0},
                                          {"transformer.h.0.ln_1.bias", 32, 0, 0},
                                          {"transformer.h.0.attn.c_attn.weight", 96, 32, 0.02},
                                          {"transformer.h.0.attn.c_attn.bias", 96, 0, 0},
                                          {"transformer.h.0.attn.c_proj.weight", 32, 32, OUT},
                                          {"transformer.h.0.attn.c_proj.bias", 32, 0, 0},
                                          {"transformer.h.0.ln_2.weight", 32, 0, 0},
                                          {"transformer.h.0.ln_2.bias", 32, 0, 0},
                                          {"transformer.h.0.mlp.c_fc.weight", 128, 32, 0.02},
                                          {"transformer.h.0.mlp.c_fc.bias", 128, 0, 0},
                                          {"transformer.h.0.mlp.c_proj.weight", 32, 128, OUT},
                                          {"transformer.h.0.mlp.c_proj.bias", 32, 0, 0},
                                          {"transformer.h.1.ln_1.weight", 32, 0, 0},
                                          {"transformer.h.1.ln_1.bias", 32, 0, 0},
                                          {"transformer.h.1.attn.c_attn.weight", 96, 32, 0.02},
                                          {"transformer.h.1.attn.c_attn.bias", 96, 0, 0},
                                          {"transformer.h.1.attn.c_proj.weight", 32, 32, OUT},
                                          {"transformer.h.1.attn.c_proj.bias", 32, 0, 0},
                                          {"transformer.h.1.ln_2.weight", 32, 0, 0},
                                          {"transformer.h.1.ln_2.bias", 32, 0, 0},
                                          {"transformer.h.1.mlp.c_fc.weight", 128, 32, 0.02},
                                          {"transformer.h.1.mlp.c_fc.bias", 128, 0, 0},
                                          {"transformer.h.1.mlp.c_proj.weight", 32, 128, OUT},
                                          {"transformer.h.1.mlp.c_proj.bias", 32, 0, 0},
                                          {"transformer.ln_f.weight", 32, 0, 0},
                                          {"transformer.ln_f.bias", 32, 0, 0}};
    fixture f;
    build(&f, false, NULL, 0, false);
    assert_views(&f.chunk, views, sizeof views / sizeof views[0]); /* the head is tied */
    for (int64_t b = 0; b < f.chunk.buffer_count; b++) {
        const haul_buffer_plan *plan = &f.chunk.buffers[b];
        bool in_layer = strncmp(plan->views[0].name, "transformer.h.", 14) == 0;
        assert_int_equal(plan->transposed, in_layer && plan->shape.ndim == 2);
    }
    release(&f);
}

static int count_kind(const haul_chunk *chunk, const haul_node_kind *kind) {
    int count = 0;
    for (int64_t n = 0; n < chunk->node_count; n++) {
        count += chunk->nodes[n].kind == kind;
    }
    return count;
}

/* Groups are the layers, in order; dropout stands behind the embedding and both blocks. */
static void test_groups_and_dropout(void **state) {
    (void)state;
    static const setting dropout[] = {{"hidden-dropout", "0.1"}};
    for (int inference = 0; inference < 2; inference++) {
        fixture f;
        build(&f, true, dropout, 1, inference);
        const haul_chunk *chunk = &f.chunk;
        assert_int_equal(count_kind(chunk, &haul_node_dropout), inference ? 0 : 1 + 2 * 2);
        assert_int_equal(count_kind(chunk, &haul_node_linear), 2 * 4);
        assert_int_equal(count_kind(chunk, &haul_node_norm), 2 * 2 + 1);
        for (int64_t n = 0; n < chunk->node_count; n++) {
            char prefix[16];
            snprintf(prefix, sizeof prefix, "layer%d.", chunk->nodes[n].group);
            assert_int_equal(strncmp(chunk->nodes[n].name, prefix, 7) == 0,
                             chunk->nodes[n].group >= 0);
        }
        release(&f);
    }
}

/* Inference reads the parameters that training writes: the same buffers in the same order. */
static void test_inference_has_the_same_buffers(void **state) {
    (void)state;
    for (int like_llama = 0; like_llama < 2; like_llama++) {
        fixture train, infer;
        build(&train, like_llama, NULL, 0, false);
        build(&infer, like_llama, NULL, 0, true);
        assert_int_equal(train.chunk.buffer_count, infer.chunk.buffer_count);
        for (int64_t b = 0; b < train.chunk.buffer_count; b++) {
            const haul_buffer_plan *x = &train.chunk.buffers[b], *y = &infer.chunk.buffers[b];
            assert_memory_equal(x->views, y->views, sizeof x->views);
            assert_memory_equal(x->shape.shape, y->shape.shape, sizeof x->shape.shape);
        }
        assert_int_equal(count_kind(&infer.chunk, &haul_node_attention_cached), 2);
        assert_int_equal(infer.chunk.state_count, 2);
        assert_int_equal(infer.chunk.states[0].shape[0], 24);
        assert_int_equal(infer.values.losses, -1);
        assert_int_equal(infer.chunk.values[infer.values.logits].shape.shape[1], 56);
        release(&train);
        release(&infer);
    }
}

static void test_numerics(void **state) {
    (void)state;
    fixture f;
    build(&f, true, NULL, 0, false);
    haul_numerics numerics = haul_model_numerics(&f.config, false);
    assert_int_equal(numerics.activation, HAUL_F32);
    f.config.bf16 = true;
    numerics = haul_model_numerics(&f.config, false);
    assert_int_equal(numerics.activation, HAUL_BF16);
    assert_int_equal(numerics.accumulator, HAUL_F32);
    numerics = haul_model_numerics(&f.config, true);
    assert_int_equal(numerics.activation, HAUL_F64);
    assert_int_equal(numerics.accumulator, HAUL_F64);
    release(&f);
}

/* 6 for each weight of a product, and half of 12 N D T for causal attention, a layer. */
static void test_flops_per_token(void **state) {
    (void)state;
    fixture f;
    build(&f, true, NULL, 0, false);
    double weights = 2 * (32 * 64 + 32 * 32 + 3 * 32 * 48) + 56 * 32;
    double attention = 2 * 6 * 32 * 16;
    assert_true(haul_model_flops_per_token(&f.config) == 6 * weights + attention);
    release(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_groups_and_dropout),
        cmocka_unit_test(test_inference_has_the_same_buffers),
        cmocka_unit_test(test_numerics),
        cmocka_unit_test(test_flops_per_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
