/* ctest: unit */
#include "testing.h"

#include "base/parallel.h"

#include <stdatomic.h>
#include <string.h>

enum { MOST = 1000, THREADS = 8 };

typedef struct visits {
    atomic_int of_index[MOST];
    int64_t begin[THREADS], end[THREADS];
    atomic_int calls[THREADS];
} visits;

static void visit(void *context, int64_t begin, int64_t end, int thread) {
    visits *seen = context;
    seen->begin[thread] = begin;
    seen->end[thread] = end;
    atomic_fetch_add(&seen->calls[thread], 1);
    for (int64_t i = begin; i < end; i++) {
        atomic_fetch_add(&seen->of_index[i], 1);
    }
}

static void assert_cut(const visits *seen, int threads, int64_t count, int64_t grain) {
    int64_t units = (count + grain - 1) / grain;
    int64_t at = 0;
    for (int thread = 0; thread < threads && at < count; thread++) {
        int64_t length = seen->end[thread] - seen->begin[thread];
        assert_true(atomic_load(&seen->calls[thread]) == 1);
        assert_true(seen->begin[thread] == at && length > 0);
        assert_int_equal(at % grain, 0);
        assert_true(length <= (units + threads - 1) / threads * grain);
        at = seen->end[thread];
    }
    assert_int_equal(at, count);
    for (int64_t i = 0; i < MOST; i++) {
        assert_int_equal(atomic_load(&seen->of_index[i]), i < count);
    }
}

static void every_index_is_visited_once(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 3, 7, THREADS};
    static const int64_t counts[] = {0, 1, 2, 5, 7, 8, 63, 64, 65, 999, MOST};
    static const int64_t grains[] = {1, 3, 16, 64, 5000};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
                visits seen = {0};
                haul_parallel_for(threads[t], counts[c], grains[g], visit, &seen);
                assert_cut(&seen, threads[t], counts[c], grains[g]);
            }
        }
    }
}

static void the_cut_repeats(void **state) {
    (void)state;
    visits first = {0};
    haul_parallel_for(5, 777, 4, visit, &first);
    for (int run = 0; run < 50; run++) {
        visits again = {0};
        haul_parallel_for(5, 777, 4, visit, &again);
        assert_memory_equal(first.begin, again.begin, sizeof first.begin);
        assert_memory_equal(first.end, again.end, sizeof first.end);
    }
}

static void visit_nested(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    visits *seen = context;
    for (int64_t i = begin; i < end; i++) {
        haul_parallel_for(3, 300, 1, visit, &seen[i]);
    }
}

/* Inside a parallel loop OpenMP grants one thread; it must then do the work of all. */
static void a_loop_in_a_loop_is_whole(void **state) {
    (void)state;
    static visits seen[4];
    memset(seen, 0, sizeof seen);
    haul_parallel_for(2, 4, 1, visit_nested, seen);
    for (int i = 0; i < 4; i++) {
        assert_cut(&seen[i], 3, 300, 1);
    }
}

static void there_is_a_core(void **state) {
    (void)state;
    assert_in_range(haul_parallel_cores(), 1, 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_is_visited_once),
        cmocka_unit_test(the_cut_repeats),
        cmocka_unit_test(a_loop_in_a_loop_is_whole),
        cmocka_unit_test(there_is_a_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
