/* ctest: unit */
/* Nothing is allocated inside a step: the C library's allocator is counted from step 3 to step 100.
 */
#include "testing.h"

#include "config/validate.h"
#include "train/corpus.h"
#include "train/save.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || !defined(__GLIBC__)
#define HAUL_COUNTS_ALLOCATIONS 0
#else
#define HAUL_COUNTS_ALLOCATIONS 1

/* Where the program itself lies in memory, as the linker says; haul is linked into it. */
extern const char __executable_start, etext;

static atomic_long own_allocations, library_allocations;

static void count_call(const void *caller) {
    const char *address = caller;
    bool own = address >= &__executable_start && address < &etext;
    atomic_fetch_add(own ? &own_allocations : &library_allocations, 1);
}

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *memory, size_t bytes);

/* These take the place of the C library's for the whole program, its shared libraries included. */
void *malloc(size_t bytes) {
    count_call(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    count_call(__builtin_return_address(0));
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes) {
    count_call(__builtin_return_address(0));
    return __libc_realloc(memory, bytes);
}

static void set(haul_config *config, const char *flag, const char *value) {
    assert_ok(haul_config_set(config, flag, &value, 1, HAUL_SOURCE_COMMAND_LINE));
}

typedef struct counts {
    long ours, theirs; /* between step 3 and step 100 */
} counts;

static void on_step(void *context, const haul_train *train, double loss, double seconds) {
    counts *seen = context;
    (void)loss;
    (void)seconds;
    int64_t iteration = train->progress.iteration;
    if (iteration == 3 || iteration == 100) {
        long sign = iteration == 3 ? -1 : 1;
        seen->ours += sign * atomic_load(&own_allocations);
        seen->theirs += sign * atomic_load(&library_allocations);
    }
}

static counts allocations_of_steps(bool bf16, bool recompute) {
    static const char *const flags[][2] = {{"num-layers", "2"},          {"hidden-size", "32"},
                                           {"num-attention-heads", "2"}, {"seq-length", "512"},
                                           {"vocab-size", "99"},         {"micro-batch-size", "1"},
                                           {"global-batch-size", "2"},   {"train-iters", "100"},
                                           {"mock-data", "true"},        {"lr", "0.001"},
                                           {"log-interval", "1000"},     {"threads", "2"}};
    haul_config config;
    haul_session session;
    haul_corpus corpus = {0};
    counts seen = {0};
    assert_ok(haul_config_init(&config));
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        set(&config, flags[i][0], flags[i][1]);
    }
    if (bf16) {
        set(&config, "bf16", "true");
    }
    if (recompute) {
        set(&config, "recompute-granularity", "full");
    }
    assert_ok(haul_config_finalize(&config));
    assert_ok(haul_session_plan(&session, &config, true));
    assert_ok(haul_session_allocate(&session));
    assert_ok(haul_corpus_open(&config, &corpus));
    haul_train train = {.config = &config,
                        .session = &session,
                        .training = corpus.training,
                        .observer = {.context = &seen, .step = on_step}};
    assert_ok(haul_train_start(&train, NULL));
    assert_ok(haul_train_run(&train));
    haul_session_deinit(&session);
    haul_corpus_close(&corpus);
    haul_config_deinit(&config);
    assert_true(atomic_load(&own_allocations) > 0); /* the hook works */
    return seen;
}

static void test_steps_allocate_nothing(void **state) {
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        for (int recompute = 0; recompute < 2; recompute++) {
            counts seen = allocations_of_steps(bf16, recompute);
            print_message("%s, recompute %d: %ld allocations of haul, %ld of libraries\n",
                          bf16 ? "bf16" : "f32", recompute, seen.ours, seen.theirs);
            assert_int_equal(seen.ours, 0);
        }
    }
}
#endif

int main(void) {
#if HAUL_COUNTS_ALLOCATIONS
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps_allocate_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    print_message("this build's allocator cannot be counted\n");
    return 0;
#endif
}
