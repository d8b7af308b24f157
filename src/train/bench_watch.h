/* Looks at clock and power of a device while it computes. */
#ifndef HAUL_TRAIN_BENCH_WATCH_H
#define HAUL_TRAIN_BENCH_WATCH_H

#include "device/device.h"

typedef struct haul_bench_watch haul_bench_watch;

/* Starts a thread that looks now and then; *out is NULL where the device tells nothing. */
haul_status haul_bench_watch_start(const haul_device *device, haul_bench_watch **out);

/* Ends it and returns the medians of what it saw, NAN what was never known. NULL is legal. */
haul_condition haul_bench_watch_stop(haul_bench_watch *watch);

#endif
