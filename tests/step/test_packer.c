/* The packer of slots against a checker that compares all pairs of objects, over random life times
 * and those of real steps: none that live at the same time overlap, and the size stays near the
 * largest sum of what lives at one time, below which no packing can be. */
#include "fixture.h"

#include "step/objects.h"

enum { OBJECTS_MAX = 120, TRIALS = 3000, UNIT = 256 };

/* A number below `limit`, the next of a sequence. */
static int64_t draw(uint32_t seed, uint32_t *index, int64_t limit) {
    haul_philox random =
        haul_philox_4x32((const uint32_t[]){seed, 77}, (const uint32_t[]){(*index)++, 0, 0, 0});
    return (int64_t)(random.word[0] % (uint64_t)limit);
}

static bool in_slot(const haul_object *object) {
    return object->memory == HAUL_MEMORY_SLOT && object->begin >= 0;
}

static bool overlap(const haul_object *a, const haul_object *b) {
    return a->begin <= b->end && b->begin <= a->end && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static int64_t largest_sum(const haul_object *objects, int64_t count) {
    int64_t largest = 0;
    for (int64_t i = 0; i < count; i++) { /* the sum grows only where a life begins */
        int64_t sum = 0;
        for (int64_t k = 0; in_slot(&objects[i]) && k < count; k++) {
            const haul_object *other = &objects[k];
            bool lives = other->begin <= objects[i].begin && objects[i].begin <= other->end;
            sum += in_slot(other) && lives ? other->bytes : 0;
        }
        largest = haul_max(largest, sum);
    }
    return largest;
}

/* Returns `bytes` over the bound below all packings. */
static double check_packing(const haul_object *objects, int64_t count, int64_t bytes) {
    int64_t end = 0;
    for (int64_t i = 0; i < count; i++) {
        const haul_object *object = &objects[i];
        if (!in_slot(object)) {
            continue;
        }
        assert_true(object->offset >= 0 && object->offset % UNIT == 0);
        end = haul_max(end, object->offset + object->bytes);
        for (int64_t k = 0; k < i; k++) {
            if (in_slot(&objects[k]) && overlap(object, &objects[k])) {
                fail_msg("objects %lld and %lld overlap", (long long)i, (long long)k);
            }
        }
    }
    assert_int_equal(end, bytes);
    int64_t bound = largest_sum(objects, count);
    assert_true(bytes >= bound);
    return bound > 0 ? (double)bytes / (double)bound : 1;
}

/* Lives as they come: any length and any size, or those of a forward and a backward pass, where
 * what is kept dies in the reverse order. */
static int64_t make_objects(uint32_t seed, haul_object *objects) {
    uint32_t index = 0;
    int64_t count = 1 + draw(seed, &index, OBJECTS_MAX), steps = 1 + draw(seed, &index, 60);
    bool nested = seed % 2 == 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t begin = draw(seed, &index, steps);
        int64_t length = draw(seed, &index, 1 + draw(seed, &index, steps));
        bool kept = nested && draw(seed, &index, 3) > 0;
        objects[i] = (haul_object){.memory = draw(seed, &index, 20) > 0 ? HAUL_MEMORY_SLOT
                                                                        : HAUL_MEMORY_STEP,
                                   .bytes = UNIT * draw(seed, &index, 1 + draw(seed, &index, 1000)),
                                   .begin = draw(seed, &index, 20) > 0 ? (int)begin : -1,
                                   .end = (int)(kept ? 2 * steps - begin : begin + length)};
    }
    return count;
}

static void test_random_lives(void **state) {
    (void)state;
    static haul_object objects[OBJECTS_MAX];
    double worst = 1, sum = 0;
    for (uint32_t seed = 0; seed < TRIALS; seed++) {
        int64_t bytes = -1, count = make_objects(seed, objects);
        assert_ok(haul_objects_pack(objects, count, &bytes));
        double ratio = check_packing(objects, count, bytes);
        worst = ratio > worst ? ratio : worst;
        sum += ratio;
    }
    print_message("packing over its bound: mean %.3f, worst %.3f\n", sum / TRIALS, worst);
    assert_true(worst <= 1.4);
    assert_true(sum / TRIALS <= 1.03);
}

/* Nothing to place, and objects of no bytes. */
static void test_empty(void **state) {
    (void)state;
    haul_object objects[] = {{.memory = HAUL_MEMORY_SLOT, .bytes = 0, .begin = 0, .end = 5},
                             {.memory = HAUL_MEMORY_SLOT, .bytes = 512, .begin = -1}};
    int64_t bytes = -1;
    assert_ok(haul_objects_pack(objects, 0, &bytes));
    assert_int_equal(bytes, 0);
    assert_ok(haul_objects_pack(objects, 2, &bytes));
    assert_int_equal(bytes, 0);
}

static void test_real_steps(void **state) {
    (void)state;
    for (int variant = 0; variant < 8; variant++) {
        fixture f;
        fixture_open(&f, (fixture_options){.device = "ref",
                                           .gpt2 = (variant & 1) != 0,
                                           .recompute = (variant & 2) != 0,
                                           .recompute_cheap = (variant & 4) != 0,
                                           .dropout = 0.1,
                                           .micro_batches = 2});
        const haul_program *program = &f.program;
        double ratio = check_packing(program->objects, program->object_count,
                                     program->class_bytes[HAUL_MEMORY_SLOT]);
        print_message("step %d: packing over its bound: %.3f\n", variant, ratio);
        assert_true(ratio <= 1.01);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_lives),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_real_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
