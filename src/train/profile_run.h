/* --profile: which iterations of a training are recorded, and where the trace goes. */
#ifndef HAUL_TRAIN_PROFILE_RUN_H
#define HAUL_TRAIN_PROFILE_RUN_H

#include "config/config.h"
#include "train/profile.h"

typedef struct haul_profile_run {
    const haul_config *config;
    haul_executor *executor;
    int64_t first, end; /* iterations [first, end), numbered from 1; equal: none */
    bool recording;
    haul_profile profile; /* with --use-pytorch-profiler; else a profiler outside is told */
} haul_profile_run;

/* Reads the flags for rank 0. HAUL_ERROR_UNAVAILABLE when the device cannot be profiled. */
haul_status haul_profile_run_init(haul_profile_run *run, const haul_config *config,
                                  haul_executor *executor);
void haul_profile_run_deinit(haul_profile_run *run);

/* Whether the device must be idle behind an iteration, since a recording starts or ends there. */
bool haul_profile_run_rests_after(const haul_profile_run *run, int64_t iteration);

/* Before iteration `iteration` is started. */
haul_status haul_profile_run_before(haul_profile_run *run, int64_t iteration);

/* Behind a finished iteration, `last` when the run ends there. Where it ends the recording it
 * writes the trace, and its name goes to `path`, of `capacity` bytes, and the times to *times; else
 * `path` becomes "". */
haul_status haul_profile_run_after(haul_profile_run *run, int64_t iteration, bool last, char *path,
                                   int64_t capacity, haul_profile_times *times);

#endif
