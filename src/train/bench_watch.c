#include "train/bench_watch.h"

#include "base/memory.h"
#include "train/bench.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { SAMPLES = 4096, INTERVAL_MS = 20 };

struct haul_bench_watch {
    const haul_device *device;
    pthread_t thread;
    atomic_bool ends;
    int clock_count, power_count;
    double clocks[SAMPLES], powers[SAMPLES];
};

static void note(double value, double *values, int *count) {
    if (isfinite(value) && *count < SAMPLES) {
        values[(*count)++] = value;
    }
}

static void *look(void *context) {
    haul_bench_watch *watch = context;
    const struct timespec interval = {.tv_nsec = INTERVAL_MS * 1000000L};
    while (!atomic_load(&watch->ends)) {
        haul_condition now = haul_device_condition(watch->device);
        note(now.clock_hertz, watch->clocks, &watch->clock_count);
        note(now.power_watts, watch->powers, &watch->power_count);
        nanosleep(&interval, NULL);
    }
    return NULL;
}

haul_status haul_bench_watch_start(const haul_device *device, haul_bench_watch **out) {
    *out = NULL;
    if (device->backend->condition == NULL) {
        return HAUL_OK;
    }
    haul_bench_watch *watch = haul_calloc(1, sizeof *watch);
    if (watch == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    watch->device = device;
    if (pthread_create(&watch->thread, NULL, look, watch) != 0) {
        free(watch);
        return haul_fail(HAUL_ERROR_MEMORY, "cannot start a thread");
    }
    *out = watch;
    return HAUL_OK;
}

haul_condition haul_bench_watch_stop(haul_bench_watch *watch) {
    haul_condition seen = {.clock_hertz = (double)NAN, .power_watts = (double)NAN};
    if (watch == NULL) {
        return seen;
    }
    atomic_store(&watch->ends, true);
    pthread_join(watch->thread, NULL);
    seen.clock_hertz = haul_bench_median(watch->clocks, watch->clock_count);
    seen.power_watts = haul_bench_median(watch->powers, watch->power_count);
    free(watch);
    return seen;
}
