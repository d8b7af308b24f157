/* Fault injection for tests: the Nth call of a kind fails (or kills the process).
 * Nothing is armed in normal use; an unarmed check is one thread-local load. */
#ifndef HAUL_BASE_FAULT_H
#define HAUL_BASE_FAULT_H

#include <stdbool.h>

typedef enum haul_fault_kind {
    HAUL_FAULT_ALLOC,
    HAUL_FAULT_WRITE,
    HAUL_FAULT_SYNC,
    HAUL_FAULT_RENAME,
    HAUL_FAULT_KINDS
} haul_fault_kind;

/* Arms this thread: the `nth` (from 1) call of `kind` fails once; 0 disarms. With `kill` the
 * process dies by SIGKILL there instead, as at a power cut. */
void haul_fault_arm(haul_fault_kind kind, long nth, bool kill);

/* Called at each place that can fail; true when this call must fail. */
bool haul_fault_hit(haul_fault_kind kind);

#endif
