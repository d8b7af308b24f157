/* ctest: unit */
#include "fixture.h"

#include <math.h>

static void test_loss_falls(void **state) {
    (void)state;
    for (int gpt2 = 0; gpt2 < 2; gpt2++) {
        fixture f;
        fixture_open(&f, (fixture_options){.device = "ref", .gpt2 = gpt2, .micro_batches = 2});
        double first = fixture_step(&f, NULL, NULL), last = first;
        for (int i = 0; i < 40; i++) {
            last = fixture_step(&f, NULL, NULL);
        }
        assert_true(fabs(first - log(FIXTURE_VOCABULARY)) < 0.5);
        assert_true(last < 0.2 * first);
        fixture_close(&f);
    }
}

/* Runs `steps` steps and returns a copy of the store's memory, which the caller frees. */
static char *train(fixture_options options, int steps, int64_t *bytes) {
    fixture f;
    fixture_open(&f, options);
    for (int i = 0; i < steps; i++) {
        fixture_step(&f, NULL, NULL);
    }
    char *copy = haul_calloc(f.store.bytes, 1);
    assert_non_null(copy);
    memcpy(copy, f.store.memory, (size_t)f.store.bytes);
    *bytes = f.store.bytes;
    fixture_close(&f);
    return copy;
}

static void assert_same_training(fixture_options a, fixture_options b) {
    int64_t a_bytes, b_bytes;
    char *x = train(a, 3, &a_bytes), *y = train(b, 3, &b_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(x, y, (size_t)a_bytes);
    free(x);
    free(y);
}

static const char *const devices[] = {"ref", "cpu"};

/* Of the same model and batch, one that computes norms and activations again takes less memory. */
static void test_cheap_recompute_saves_memory(void **state) {
    (void)state;
    int64_t bytes[2];
    for (int cheap = 0; cheap < 2; cheap++) {
        fixture f;
        fixture_open(
            &f, (fixture_options){.device = "cpu", .recompute_cheap = cheap, .micro_batches = 1});
        bytes[cheap] = f.program.class_bytes[HAUL_MEMORY_SLOT];
        fixture_close(&f);
    }
    assert_true(bytes[1] < bytes[0]);
}

static void test_recompute_keeps_bits(void **state) {
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        for (int gpt2 = 0; gpt2 < 2; gpt2++) {
            fixture_options plain = {
                .device = devices[d], .gpt2 = gpt2, .dropout = 0.2, .micro_batches = 2};
            fixture_options recompute = plain;
            recompute.recompute = true;
            assert_same_training(plain, recompute);
            fixture_options cheap = plain;
            cheap.recompute_cheap = true;
            assert_same_training(plain, cheap);
        }
    }
}

static void test_schedule_keeps_bits(void **state) {
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        fixture_options plain = {.device = devices[d], .dropout = 0.2, .micro_batches = 4};
        fixture_options slots = plain;
        slots.stages = 3;
        assert_same_training(plain, slots);
    }
}

static void test_dropout_changes_bits(void **state) {
    (void)state;
    int64_t bytes;
    char *x = train((fixture_options){.device = "ref", .micro_batches = 1}, 2, &bytes);
    char *y =
        train((fixture_options){.device = "ref", .dropout = 0.2, .micro_batches = 1}, 2, &bytes);
    assert_memory_not_equal(x, y, (size_t)bytes);
    free(x);
    free(y);
}

/* A random topological order of the passes: what conflicts keeps its order. */
static void shuffle_order(const haul_program *program, uint32_t seed, int64_t *order) {
    int64_t count = program->pass_count;
    int *blockers = haul_calloc(count, sizeof(int));
    int64_t *ready = haul_calloc(count, sizeof(int64_t)), ready_count = 0;
    assert_non_null(blockers);
    assert_non_null(ready);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < i; j++) {
            blockers[i] += haul_program_conflict(program, &program->passes[j], &program->passes[i]);
        }
        if (blockers[i] == 0) {
            ready[ready_count++] = i;
        }
    }
    for (int64_t k = 0; k < count; k++) {
        uint32_t key[2] = {seed, 0}, counter[4] = {(uint32_t)k, 0, 0, 0};
        assert_true(ready_count > 0);
        int64_t pick = haul_philox_4x32(key, counter).word[0] % ready_count;
        int64_t pass = ready[pick];
        ready[pick] = ready[--ready_count];
        order[k] = pass;
        for (int64_t i = pass + 1; i < count; i++) {
            if (haul_program_conflict(program, &program->passes[pass], &program->passes[i]) &&
                --blockers[i] == 0) {
                ready[ready_count++] = i;
            }
        }
    }
    free(blockers);
    free(ready);
}

static void test_random_legal_orders(void **state) {
    (void)state;
    fixture_options options = {.device = "ref", .dropout = 0.1, .micro_batches = 3, .stages = 3};
    int64_t bytes;
    char *expected = train(options, 1, &bytes);
    int different = 0;
    for (uint32_t seed = 0; seed < 50; seed++) {
        fixture f;
        fixture_open(&f, options);
        int64_t *order = haul_calloc(f.program.pass_count, sizeof(int64_t));
        assert_non_null(order);
        shuffle_order(&f.program, seed, order);
        for (int64_t i = 0; i < f.program.pass_count; i++) {
            different += order[i] != i;
        }
        fixture_step(&f, order, NULL);
        assert_memory_equal(expected, f.store.memory, (size_t)bytes);
        free(order);
        fixture_close(&f);
    }
    assert_true(different > 1000);
    free(expected);
}

/* A step with a gradient that is not finite changes nothing and names the parameter. */
static void test_skips_poisoned_step(void **state) {
    (void)state;
    fixture f;
    haul_verdict verdict;
    fixture_open(&f, (fixture_options){.device = "ref", .micro_batches = 1});
    fixture_step(&f, NULL, NULL);
    double not_a_number = (double)NAN;
    assert_ok(haul_store_write(&f.store, 1, 0, 1, &not_a_number));
    haul_store_buffer before = f.store.buffers[2];
    double weight = haul_element_get(before.value.data, before.value.dtype, 3);
    fixture_step(&f, NULL, &verdict);
    assert_false(verdict.finite);
    assert_true(verdict.first_not_finite >= 0);
    assert_true(weight == haul_element_get(before.value.data, before.value.dtype, 3));
    fixture_close(&f);
}

static void test_memory_table_adds_up(void **state) {
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) {
        fixture f;
        fixture_open(&f,
                     (fixture_options){
                         .device = "cpu", .recompute = recompute, .micro_batches = 3, .stages = 2});
        haul_memory_table table = {0};
        assert_ok(haul_program_memory(&f.program, &table));
        assert_int_equal(table.bytes, f.program.bytes);
        assert_int_equal(f.store.table.bytes, f.store.bytes);
        haul_memory_table_deinit(&table);
        fixture_close(&f);
    }
}

static void test_recompute_saves_memory(void **state) {
    (void)state;
    fixture plain, recompute;
    fixture_open(&plain, (fixture_options){.device = "cpu", .micro_batches = 1});
    fixture_open(&recompute,
                 (fixture_options){.device = "cpu", .recompute = true, .micro_batches = 1});
    assert_true(recompute.program.class_bytes[HAUL_MEMORY_SLOT] <
                plain.program.class_bytes[HAUL_MEMORY_SLOT] * 3 / 4);
    fixture_close(&plain);
    fixture_close(&recompute);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_falls),
        cmocka_unit_test(test_recompute_keeps_bits),
        cmocka_unit_test(test_cheap_recompute_saves_memory),
        cmocka_unit_test(test_schedule_keeps_bits),
        cmocka_unit_test(test_dropout_changes_bits),
        cmocka_unit_test(test_random_legal_orders),
        cmocka_unit_test(test_skips_poisoned_step),
        cmocka_unit_test(test_memory_table_adds_up),
        cmocka_unit_test(test_recompute_saves_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
