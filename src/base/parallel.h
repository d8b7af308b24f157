/* The one way to use several cores for a loop. */
#ifndef HAUL_BASE_PARALLEL_H
#define HAUL_BASE_PARALLEL_H

#include <stdint.h>

/* Work on [begin, end) by thread number `thread`. */
typedef void haul_parallel_function(void *context, int64_t begin, int64_t end, int thread);

/* Cuts [0, count) into `threads` contiguous ranges, as even as can be with each but the last a
 * multiple of `grain`, and runs them at once; returns when all are done. The cut depends on the
 * arguments alone, so results repeat to the bit. At most `threads` calls; empty ranges make none.
 */
void haul_parallel_for(int threads, int64_t count, int64_t grain, haul_parallel_function *function,
                       void *context);

/* The cores that this process may use. */
int haul_parallel_cores(void);

#endif
