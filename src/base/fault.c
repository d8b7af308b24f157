#include "base/fault.h"

#include <signal.h>
#include <unistd.h>

static _Thread_local struct {
    long remaining;
    bool kill;
} faults[HAUL_FAULT_KINDS];

void haul_fault_arm(haul_fault_kind kind, long nth, bool kill_process) {
    faults[kind].remaining = nth;
    faults[kind].kill = kill_process;
}

bool haul_fault_hit(haul_fault_kind kind) {
    if (faults[kind].remaining == 0 || --faults[kind].remaining > 0) {
        return false;
    }
    if (faults[kind].kill) {
        kill(getpid(), SIGKILL);
    }
    return true;
}
