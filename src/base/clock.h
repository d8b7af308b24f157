#ifndef HAUL_BASE_CLOCK_H
#define HAUL_BASE_CLOCK_H

#include <stdint.h>

/* Seconds of a clock that never goes back, from an arbitrary start. */
double haul_clock_seconds(void);

/* Seconds since 1970-01-01 UTC. */
double haul_clock_wall(void);

/* The same in nanoseconds, to the nanosecond. */
int64_t haul_clock_wall_nanoseconds(void);

#endif
