#include "train/profile_run.h"

#include "base/file.h"
#include "config/number.h"

#include <stdio.h>

static const haul_profiler *profiler_of(const haul_profile_run *run) {
    return run->executor->store->device->backend->profiler;
}

/* No ranks mean all of them, as in Megatron-LM. */
static bool wants_rank(const haul_config *config, int64_t rank) {
    bool wanted = config->profile_ranks.count == 0;
    for (int64_t i = 0; i < config->profile_ranks.count; i++) {
        int64_t number;
        wanted |= haul_parse_int(config->profile_ranks.items[i], &number) && number == rank;
    }
    return wanted;
}

haul_status haul_profile_run_init(haul_profile_run *run, const haul_config *config,
                                  haul_executor *executor) {
    *run = (haul_profile_run){.config = config, .executor = executor};
    if (!config->profile || !wants_rank(config, 0)) {
        return HAUL_OK;
    }
    run->first = config->profile_step_start > 0 ? config->profile_step_start : 1;
    run->end = config->profile_step_end;
    bool asks_device = config->use_pytorch_profiler && profiler_of(run) != NULL;
    return asks_device ? profiler_of(run)->load(executor->store->device) : HAUL_OK;
}

static void capture(const haul_profile_run *run, bool on) {
    if (profiler_of(run) != NULL) {
        profiler_of(run)->capture(run->executor->store->device, on);
    }
}

void haul_profile_run_deinit(haul_profile_run *run) {
    if (run->recording && run->config->use_pytorch_profiler) {
        haul_profile_deinit(&run->profile);
    } else if (run->recording) {
        capture(run, false);
    }
    *run = (haul_profile_run){0};
}

bool haul_profile_run_rests_after(const haul_profile_run *run, int64_t iteration) {
    return run->first < run->end && (iteration + 1 == run->first || iteration + 1 == run->end);
}

haul_status haul_profile_run_before(haul_profile_run *run, int64_t iteration) {
    if (iteration < run->first || iteration >= run->end) {
        return HAUL_OK;
    }
    bool records = run->config->use_pytorch_profiler;
    if (!run->recording) {
        run->recording = true;
        if (!records) {
            capture(run, true);
        } else {
            HAUL_TRY(haul_profile_start(&run->profile, run->executor));
        }
    }
    return records ? haul_profile_step_begin(&run->profile, iteration) : HAUL_OK;
}

/* Beside the TensorBoard directory, where Megatron-LM puts it, else below that of the run. */
static haul_status make_path(const haul_config *config, char *path, int64_t capacity) {
    char directory[1024] = "torch_profile";
    if (config->tensorboard_dir != NULL) {
        snprintf(directory, sizeof directory, "%s/../torch_profile", config->tensorboard_dir);
        HAUL_TRY(haul_directory_create(config->tensorboard_dir));
    } else if (config->run_dir != NULL) {
        snprintf(directory, sizeof directory, "%s/torch_profile", config->run_dir);
    }
    HAUL_TRY(haul_directory_create(directory));
    snprintf(path, (size_t)capacity, "%s/rank-0.json.gz", directory);
    return HAUL_OK;
}

static haul_status finish(haul_profile_run *run, char *path, int64_t capacity,
                          haul_profile_times *times) {
    HAUL_TRY(haul_profile_stop(&run->profile));
    HAUL_TRY(make_path(run->config, path, capacity));
    *times = haul_profile_times_of(&run->profile, 0, INT64_MAX);
    return haul_profile_write(&run->profile, path);
}

haul_status haul_profile_run_after(haul_profile_run *run, int64_t iteration, bool last, char *path,
                                   int64_t capacity, haul_profile_times *times) {
    path[0] = '\0';
    if (!run->recording || (iteration + 1 < run->end && !last)) {
        return HAUL_OK;
    }
    haul_status status = HAUL_OK;
    if (run->config->use_pytorch_profiler) {
        status = finish(run, path, capacity, times);
        haul_profile_deinit(&run->profile);
    } else {
        capture(run, false);
    }
    run->recording = false;
    return status;
}
