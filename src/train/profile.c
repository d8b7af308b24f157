#include "train/profile.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdlib.h>
#include <unistd.h>

static const haul_profiler *profiler_of(const haul_profile *profile) {
    return profile->executor->store->device->backend->profiler;
}

static void end_pass(haul_profile *profile, int64_t now) {
    if (profile->in_pass) {
        profile->passes[profile->pass_count - 1].end = now;
        profile->in_pass = false;
    }
}

static void on_pass(void *context, const haul_pass *pass) {
    haul_profile *profile = context;
    int64_t now = haul_clock_wall_nanoseconds(), at = profile->pass_count;
    end_pass(profile, now);
    if (pass == NULL || profile->status != HAUL_OK) {
        return;
    }
    profile->status =
        haul_grow(&profile->passes, &profile->pass_capacity, at + 1, sizeof *profile->passes);
    if (profile->status == HAUL_OK) {
        profile->passes[at] = (haul_profile_pass){
            .pass = *pass, .step = profile->step_count - 1, .begin = now, .end = now};
        profile->pass_count++;
        profile->in_pass = true;
    }
}

static void on_launch(void *context, haul_op op, const void *args) {
    haul_profile *profile = context;
    int64_t at = profile->launch_count;
    if (profile->status == HAUL_OK) {
        profile->status = haul_grow(&profile->launches, &profile->launch_capacity, at + 1,
                                    sizeof *profile->launches);
    }
    if (profile->status != HAUL_OK) {
        return;
    }
    profile->launch_count++;
    profile->launches[at] =
        (haul_profile_launch){.op = op,
                              .pass = profile->in_pass ? profile->pass_count - 1 : -1,
                              .cost = haul_op_cost(op, args),
                              .begin = haul_clock_wall_nanoseconds()};
    if (profile->from_device) {
        profiler_of(profile)->begin_launch(profile->executor->store->device, at + 1);
    }
}

static void on_launched(void *context, haul_op op) {
    haul_profile *profile = context;
    (void)op;
    if (profile->status != HAUL_OK) {
        return;
    }
    if (profile->from_device) {
        profiler_of(profile)->end_launch(profile->executor->store->device);
    }
    profile->launches[profile->launch_count - 1].end = haul_clock_wall_nanoseconds();
}

static void set_hooks(haul_profile *profile, bool on) {
    haul_executor *executor = profile->executor;
    executor->observe = on ? on_pass : NULL;
    executor->observe_context = on ? profile : NULL;
    executor->stream.observe = on ? on_launch : NULL;
    executor->stream.observe_end = on ? on_launched : NULL;
    executor->stream.observe_context = on ? profile : NULL;
    profile->running = on;
}

haul_status haul_profile_start(haul_profile *profile, haul_executor *executor) {
    haul_device *device = executor->store->device;
    const haul_profiler *profiler = device->backend->profiler;
    *profile = (haul_profile){.executor = executor,
                              .from_device = profiler != NULL,
                              .thread = gettid(),
                              .begin = haul_clock_wall_nanoseconds()};
    if (profiler != NULL) {
        HAUL_TRY(profiler->start(device));
    }
    set_hooks(profile, true);
    return HAUL_OK;
}

static void end_step(haul_profile *profile, int64_t now) {
    if (profile->step_count > 0 && profile->steps[profile->step_count - 1].end == 0) {
        profile->steps[profile->step_count - 1].end = now;
    }
}

haul_status haul_profile_step_begin(haul_profile *profile, int64_t iteration) {
    int64_t now = haul_clock_wall_nanoseconds(), at = profile->step_count;
    end_step(profile, now);
    HAUL_TRY(haul_grow(&profile->steps, &profile->step_capacity, at + 1, sizeof *profile->steps));
    profile->steps[at] = (haul_profile_step){.iteration = iteration, .begin = now};
    profile->step_count++;
    return HAUL_OK;
}

static void add_activity(void *context, const haul_activity *activity) {
    haul_profile *profile = context;
    int64_t at = profile->activity_count;
    if (profile->status == HAUL_OK) {
        profile->status = haul_grow(&profile->activities, &profile->activity_capacity, at + 1,
                                    sizeof *profile->activities);
    }
    if (profile->status == HAUL_OK) {
        profile->activities[at] = *activity;
        profile->activity_count++;
    }
}

/* Where a launch is all that the device does. */
static void add_launches(haul_profile *profile) {
    for (int64_t i = 0; i < profile->launch_count; i++) {
        const haul_profile_launch *launch = &profile->launches[i];
        haul_activity activity = {.kind = HAUL_ACTIVITY_KERNEL,
                                  .name = haul_op_name(launch->op),
                                  .begin = launch->begin,
                                  .end = launch->end,
                                  .launch = i + 1};
        add_activity(profile, &activity);
    }
}

static int by_begin(const void *a, const void *b) {
    const haul_activity *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

haul_status haul_profile_stop(haul_profile *profile) {
    haul_device *device = profile->executor->store->device;
    haul_status status = haul_stream_wait(&profile->executor->stream);
    int64_t now = haul_clock_wall_nanoseconds();
    end_pass(profile, now);
    end_step(profile, now);
    set_hooks(profile, false);
    if (profile->from_device) {
        haul_status stopped =
            device->backend->profiler->stop(device, add_activity, profile, &profile->lost);
        status = status != HAUL_OK ? status : stopped;
    } else {
        add_launches(profile);
    }
    HAUL_TRY(status);
    HAUL_TRY(profile->status);
    qsort(profile->activities, (size_t)profile->activity_count, sizeof *profile->activities,
          by_begin);
    return HAUL_OK;
}

void haul_profile_deinit(haul_profile *profile) {
    if (profile->running) {
        haul_device *device = profile->executor->store->device;
        int64_t lost;
        set_hooks(profile, false);
        if (profile->from_device) {
            device->backend->profiler->stop(device, NULL, NULL, &lost);
        }
    }
    free(profile->steps);
    free(profile->passes);
    free(profile->launches);
    free(profile->activities);
    *profile = (haul_profile){0};
}

const char *haul_profile_class_name(int profile_class) {
    switch (profile_class) {
    case HAUL_PROFILE_COPIES:
        return "copies";
    case HAUL_PROFILE_IDLE:
        return "idle";
    default:
        return haul_op_class_name((haul_op_class)profile_class);
    }
}

static int class_of(const haul_profile *profile, const haul_activity *activity) {
    if (activity->launch > 0) {
        return (int)haul_op_class_of(profile->launches[activity->launch - 1].op);
    }
    return activity->kind == HAUL_ACTIVITY_KERNEL ? (int)HAUL_CLASS_OTHER : HAUL_PROFILE_COPIES;
}

haul_profile_times haul_profile_times_of(const haul_profile *profile, int64_t begin, int64_t end) {
    haul_profile_times times = {0};
    int64_t first = INT64_MAX, covered = begin;
    for (int64_t i = 0; i < profile->activity_count; i++) {
        const haul_activity *activity = &profile->activities[i];
        int64_t from = haul_max(activity->begin, covered), to = haul_min(activity->end, end);
        if (haul_activity_is_call(activity) || to <= from) {
            continue;
        }
        times.nanoseconds[HAUL_PROFILE_IDLE] += first == INT64_MAX ? 0 : from - covered;
        times.nanoseconds[class_of(profile, activity)] += to - from;
        first = haul_min(first, from);
        covered = to;
    }
    times.window = first == INT64_MAX ? 0 : covered - first;
    return times;
}
