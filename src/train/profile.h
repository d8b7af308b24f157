/* What a training spends its time on: records the steps, passes and launches of an executor, and
 * with them what the device did. Then tells the time by class of work, or writes a trace. */
#ifndef HAUL_TRAIN_PROFILE_H
#define HAUL_TRAIN_PROFILE_H

#include "step/executor.h"

typedef struct haul_profile_step {
    int64_t iteration;
    int64_t begin, end; /* on the host: until the next step was started */
} haul_profile_step;

typedef struct haul_profile_pass {
    haul_pass pass;
    int64_t step; /* index */
    int64_t begin, end;
} haul_profile_pass;

typedef struct haul_profile_launch {
    haul_op op;
    int64_t pass;       /* index, or -1 */
    int64_t begin, end; /* on the host */
    haul_cost cost;
} haul_profile_launch;

/* Times are haul_clock_wall_nanoseconds. */
typedef struct haul_profile {
    haul_executor *executor;
    int64_t begin;
    haul_profile_step *steps;
    haul_profile_pass *passes;
    haul_profile_launch *launches;
    /* What the device did, sorted by begin; `launch` is 1 + the index of the launch, 0 for none.
     * Without a profiler of the backend they are its launches, as kernels. */
    haul_activity *activities;
    int64_t step_count, step_capacity;
    int64_t pass_count, pass_capacity;
    int64_t launch_count, launch_capacity;
    int64_t activity_count, activity_capacity;
    int64_t lost;   /* activities that found no room */
    int64_t thread; /* the system's number of the one that launches */
    bool from_device;
    bool running;
    bool in_pass;       /* the last of `passes` has no end yet */
    haul_status status; /* of what could not be recorded */
} haul_profile;

/* Starts to record an executor whose device is idle. HAUL_ERROR_UNAVAILABLE when the device cannot
 * be asked. Deinit is legal after a failure, and ends a recording. */
haul_status haul_profile_start(haul_profile *profile, haul_executor *executor);

/* What is launched from here on is step `iteration`. */
haul_status haul_profile_step_begin(haul_profile *profile, int64_t iteration);

/* Waits for the device and takes in what it did. */
haul_status haul_profile_stop(haul_profile *profile);
void haul_profile_deinit(haul_profile *profile);

/* The classes of ops, copies that are no op, and nothing. */
enum { HAUL_PROFILE_COPIES = HAUL_OP_CLASSES, HAUL_PROFILE_IDLE, HAUL_PROFILE_CLASSES };

const char *haul_profile_class_name(int profile_class);

typedef struct haul_profile_times {
    int64_t nanoseconds[HAUL_PROFILE_CLASSES]; /* they add up to the window */
    int64_t window;
} haul_profile_times;

/* The device's time by class of what it did, after stop, from `begin` to `end` or what was recorded
 * of that: (0, INT64_MAX) is all from its first activity to its last. Where two overlap, the time
 * is that of the earlier one. */
haul_profile_times haul_profile_times_of(const haul_profile *profile, int64_t begin, int64_t end);

/* Writes a trace (trace/writer.h) of rank 0 of 1. */
haul_status haul_profile_write(const haul_profile *profile, const char *path);

#endif
