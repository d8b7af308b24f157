#include "base/clock.h"

#include <time.h>

static double read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double haul_clock_seconds(void) {
    return read_clock(CLOCK_MONOTONIC);
}

double haul_clock_wall(void) {
    return read_clock(CLOCK_REALTIME);
}

int64_t haul_clock_wall_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
