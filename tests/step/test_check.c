/* ctest: unit */
/* The checker passes what the compiler makes and rejects what a mistake could make of it. */
#include "fixture.h"

static int node_of(const fixture *f, const char *name) {
    for (int64_t n = 0; n < f->chunk.node_count; n++) {
        if (strcmp(f->chunk.nodes[n].name, name) == 0) {
            return (int)n;
        }
    }
    fail_msg("no node %s", name);
    return -1;
}

static int64_t find(const fixture *f, haul_pass_kind kind, const char *node, int micro_batch) {
    for (int64_t i = 0; i < f->program.pass_count; i++) {
        const haul_pass *pass = &f->program.passes[i];
        if (pass->kind == kind && pass->micro_batch == micro_batch &&
            (node == NULL || pass->node == node_of(f, node))) {
            return i;
        }
    }
    fail_msg("no such pass of %s", node);
    return -1;
}

static haul_object *find_object(fixture *f, const char *name) {
    for (int64_t i = 0; i < f->program.object_count; i++) {
        if (strcmp(f->program.objects[i].name, name) == 0) {
            return &f->program.objects[i];
        }
    }
    fail_msg("no object %s", name);
    return NULL;
}

static void swap(fixture *f, int64_t a, int64_t b) {
    haul_pass pass = f->program.passes[a];
    f->program.passes[a] = f->program.passes[b];
    f->program.passes[b] = pass;
}

static void drop(fixture *f, int64_t at) {
    haul_program *program = &f->program;
    memmove(&program->passes[at], &program->passes[at + 1],
            (size_t)(program->pass_count - at - 1) * sizeof(haul_pass));
    program->pass_count--;
}

/* Passes that touch the same memory change places. */

static void swap_forwards(fixture *f) {
    swap(f, find(f, HAUL_PASS_FORWARD, "layer0.mlp_in", 0),
         find(f, HAUL_PASS_FORWARD, "layer0.activation", 0));
}

/* Attention rotates its input in place, so it must find it. */
static void swap_overwriting_forward(fixture *f) {
    swap(f, find(f, HAUL_PASS_FORWARD, "layer1.qkv", 2),
         find(f, HAUL_PASS_FORWARD, "layer1.attention", 2));
}

static void swap_backwards(fixture *f) {
    swap(f, find(f, HAUL_PASS_BACKWARD, "layer1.mlp_out", 1),
         find(f, HAUL_PASS_BACKWARD, "layer1.activation", 1));
}

static void swap_weight_before_gradient(fixture *f) {
    swap(f, find(f, HAUL_PASS_WEIGHT, "layer1.qkv", 1),
         find(f, HAUL_PASS_BACKWARD, "layer1.attention", 1));
}

static void swap_rebuilds(fixture *f) {
    swap(f, find(f, HAUL_PASS_REBUILD, "layer0.qkv", 0),
         find(f, HAUL_PASS_REBUILD, "layer0.attention", 0));
}

/* A pass is missing, or stands there twice, or has nothing to do. */

static void drop_forward(fixture *f) {
    drop(f, find(f, HAUL_PASS_FORWARD, "layer0.mlp_norm", 1));
}

static void drop_backward(fixture *f) {
    drop(f, find(f, HAUL_PASS_BACKWARD, "head", 3));
}

static void drop_weight(fixture *f) {
    drop(f, find(f, HAUL_PASS_WEIGHT, "embedding", 2));
}

static void drop_rebuild(fixture *f) {
    drop(f, find(f, HAUL_PASS_REBUILD, "layer1.activation", 0));
}

static void drop_commit(fixture *f) {
    f->program.pass_count--;
}

static void commit_before_verdict(fixture *f) {
    swap(f, f->program.pass_count - 1, f->program.pass_count - 2);
}

static void verdict_too_early(fixture *f) {
    swap(f, f->program.pass_count - 2, f->program.pass_count - 3);
}

static void duplicate_weight(fixture *f) {
    int64_t first = find(f, HAUL_PASS_WEIGHT, "layer0.qkv", 0);
    f->program.passes[find(f, HAUL_PASS_WEIGHT, "layer0.qkv", 1)] = f->program.passes[first];
}

static void rebuild_without_need(fixture *f) {
    f->program.passes[find(f, HAUL_PASS_WEIGHT, "layer0.qkv", 1)].kind = HAUL_PASS_REBUILD;
}

static void micro_batch_too_large(fixture *f) {
    f->program.passes[3].micro_batch = f->program.micro_batches;
}

static void slot_too_large(fixture *f) {
    f->program.passes[3].slot = f->program.slots;
}

/* Gradients of parameters are summed in a wrong order. */

static void weights_out_of_order(fixture *f) {
    swap(f, find(f, HAUL_PASS_WEIGHT, "layer1.mlp_in", 1),
         find(f, HAUL_PASS_WEIGHT, "layer1.mlp_in", 2));
}

static void write_again(fixture *f) {
    f->program.passes[find(f, HAUL_PASS_WEIGHT, "layer1.mlp_in", 2)].accumulate = 0;
}

static void add_at_first(fixture *f) {
    f->program.passes[find(f, HAUL_PASS_BACKWARD, "final_norm", 0)].accumulate = 1;
}

/* Memory that is still needed is given away. */

static void overlap_activations(fixture *f) {
    find_object(f, "layer0.qkv.out")->offset = find_object(f, "layer0.attention.out")->offset;
}

static void overlap_far_lives(fixture *f) {
    find_object(f, "layer0.mlp_norm.sum")->offset = find_object(f, "layer1.qkv.out")->offset;
}

static void overlap_batch(fixture *f) {
    find_object(f, "targets")->offset = find_object(f, "tokens")->offset;
}

static void overlap_constants(fixture *f) {
    find_object(f, "layer1.attention constant")->offset = 0;
    find_object(f, "layer0.attention constant")->offset = 0;
}

static void object_outside(fixture *f) {
    find_object(f, "weights")->offset = f->program.class_bytes[HAUL_MEMORY_SLOT];
}

static void scratch_in_workspace(fixture *f) {
    find_object(f, "head scratch")->offset += 64;
}

static void share_a_slot(fixture *f) {
    for (int64_t i = 0; i < f->program.pass_count; i++) {
        f->program.passes[i].slot = 0;
    }
}

typedef struct mutation {
    void (*apply)(fixture *f);
    const char *message;
    bool recompute;
} mutation;

static const mutation mutations[] = {
    {swap_forwards, "F of layer0.activation, micro-batch 0: layer0.mlp_in.out is read but was not",
     false},
    {swap_overwriting_forward,
     "F of layer1.attention, micro-batch 2: layer1.qkv.out is read but was not written", false},
    {swap_backwards, "activation.out gradient is read but was not written", false},
    {swap_weight_before_gradient,
     "W of layer1.qkv, micro-batch 1: layer1.qkv.out gradient is read but was not", false},
    {swap_rebuilds, "layer0.qkv.out rebuilt is read but was not written", true},
    {drop_forward, "F of layer0.mlp_norm, micro-batch 1 is missing", false},
    {drop_backward, "B of head, micro-batch 3 is missing", false},
    {drop_weight, "W of embedding, micro-batch 2 is missing", false},
    {drop_rebuild, "REBUILD of layer1.activation, micro-batch 0 is missing", true},
    {drop_commit, "VERDICT and COMMIT must be the last two passes", false},
    {commit_before_verdict, "VERDICT and COMMIT must be the last two passes", false},
    {verdict_too_early, "VERDICT and COMMIT must be the last two passes", false},
    {duplicate_weight, "W of layer0.qkv, micro-batch 0: comes twice", false},
    {rebuild_without_need, "REBUILD of layer0.qkv, micro-batch 1: has nothing to do", false},
    {micro_batch_too_large, "pass 3: no such node, micro-batch or slot", false},
    {slot_too_large, "pass 3: no such node, micro-batch or slot", false},
    {weights_out_of_order,
     "W of layer1.mlp_in, micro-batch 1: its micro-batches must run in "
     "ascending order",
     false},
    {write_again,
     "W of layer1.mlp_in, micro-batch 2: the gradient of a parameter is written for "
     "a second time",
     false},
    {add_at_first, "B of final_norm, micro-batch 0: the gradient of a parameter is added to before",
     false},
    {overlap_activations, "F of layer0.attention, micro-batch 0: layer0.", false},
    {overlap_far_lives, "layer0.mlp_norm.sum is read but was not written, or was lost", false},
    {overlap_batch, "shares memory with another object of this pass", false},
    {overlap_constants, "layer1.attention constant is read but was not written, or was lost",
     false},
    {object_outside, "weights lies outside its memory", false},
    {scratch_in_workspace, "head scratch lies outside its memory", false},
    {share_a_slot, "is read but was not written, or was lost", false},
};

static void test_rejects_mutations(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mutations / sizeof mutations[0]; i++) {
        fixture f;
        fixture_open(&f, (fixture_options){.device = "ref",
                                           .recompute = mutations[i].recompute,
                                           .micro_batches = 4,
                                           .stages = 3});
        mutations[i].apply(&f);
        haul_test_assert_fails(haul_program_check(&f.program), HAUL_ERROR_INTERNAL,
                               mutations[i].message);
        fixture_close(&f);
    }
}

/* The check is part of fixture_open. */
static void test_passes_what_is_compiled(void **state) {
    (void)state;
    for (int variant = 0; variant < 16; variant++) {
        fixture f;
        fixture_open(&f, (fixture_options){.device = "ref",
                                           .gpt2 = variant & 1,
                                           .recompute = variant & 2,
                                           .dropout = variant & 4 ? 0.1 : 0,
                                           .micro_batches = 4,
                                           .stages = variant & 8 ? 4 : 1});
        assert_int_equal(f.program.slots, variant & 8 ? 4 : 1);
        fixture_close(&f);
    }
}

/* W behind all B, as zero bubble schedules have it: B and W are not woven. */
static void test_passes_late_weights(void **state) {
    (void)state;
    fixture f;
    haul_schedule schedule;
    haul_program program;
    fixture_open(&f, (fixture_options){.device = "ref", .micro_batches = 2});
    assert_ok(haul_schedule_none(2, &schedule));
    static const haul_schedule_item late[] = {
        {HAUL_SCHEDULE_FORWARD, 0, 0},  {HAUL_SCHEDULE_FORWARD, 0, 1},
        {HAUL_SCHEDULE_BACKWARD, 0, 0}, {HAUL_SCHEDULE_BACKWARD, 0, 1},
        {HAUL_SCHEDULE_WEIGHT, 0, 0},   {HAUL_SCHEDULE_WEIGHT, 0, 1}};
    memcpy(schedule.ranks[0].items, late, sizeof late);
    for (int recompute = 0; recompute < 2; recompute++) {
        haul_program_options options = {.training = true, .recompute = recompute};
        assert_ok(haul_program_compile(&f.chunk, &f.store, &schedule, options, &program));
        assert_ok(haul_program_check(&program));
        assert_int_equal(program.slots, 2);
        haul_program_deinit(&program);
    }
    haul_schedule_deinit(&schedule);
    fixture_close(&f);
}

static void test_passes_evaluation(void **state) {
    (void)state;
    fixture f;
    haul_program program;
    fixture_open(&f, (fixture_options){.device = "ref", .micro_batches = 3});
    assert_ok(
        haul_program_compile(&f.chunk, &f.store, &f.schedule, (haul_program_options){0}, &program));
    assert_ok(haul_program_check(&program));
    assert_int_equal(program.pass_count, 3 * f.chunk.node_count);
    program.passes[4].kind = HAUL_PASS_BACKWARD;
    haul_test_assert_fails(haul_program_check(&program), HAUL_ERROR_INTERNAL, "nothing to do");
    haul_program_deinit(&program);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rejects_mutations),
        cmocka_unit_test(test_passes_what_is_compiled),
        cmocka_unit_test(test_passes_late_weights),
        cmocka_unit_test(test_passes_evaluation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
