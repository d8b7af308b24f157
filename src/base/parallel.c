#include "base/parallel.h"

#include <omp.h>
#include <sched.h>

void haul_parallel_for(int threads, int64_t count, int64_t grain, haul_parallel_function *function,
                       void *context) {
    int64_t units = (count + grain - 1) / grain;
    int64_t used = threads < units ? threads : units;
    if (used <= 1) {
        if (count > 0) {
            function(context, 0, count, 0);
        }
        return;
    }
    /* A loop over the ranges, not one range a thread: OpenMP may grant fewer threads than asked
     * for (a nested call, a limit), and no range may be lost then. Always the whole team: OpenMP
     * ends and starts threads when its size changes. */
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int64_t range = 0; range < used; range++) {
        int64_t begin = units * range / used * grain;
        int64_t end = units * (range + 1) / used * grain;
        function(context, begin, end < count ? end : count, (int)range);
    }
}

int haul_parallel_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    return CPU_COUNT(&set);
}
