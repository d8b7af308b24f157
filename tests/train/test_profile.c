/* ctest: unit cuda */
/* Profiles of small trainings: on this device, and on one that says what a card would say. */
#include "small_data.h"
#include "testing.h"
#include "trace/reading.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "config/parse.h"
#include "config/validate.h"
#include "device/compare.h"
#include "train/corpus.h"
#include "train/save.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *device = "cpu";

static const char BASE[] = "--num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 8 "
                           "--vocab-size 40 --micro-batch-size 2 --global-batch-size 4 --lr 0.01 "
                           "--threads 1 --log-interval 1000 --eval-interval 1000 --train-iters 6 "
                           "--swiglu --ffn-hidden-size 64 --position-embedding-type rope ";

/* A card that takes a while for each launch, made of what its profiler would show. */
static struct fake {
    haul_backend backend;
    haul_activity activities[4096];
    int64_t count, card_until, correlation;
    bool recording, missing, refusing;
    char captures[8];
} fake;

static haul_status fake_load(haul_device *unused) {
    (void)unused;
    return fake.missing ? haul_fail(HAUL_ERROR_UNAVAILABLE, "no profiler here") : HAUL_OK;
}

static haul_status fake_start(haul_device *unused) {
    (void)unused;
    assert_false(fake.recording);
    if (fake.refusing) {
        return haul_fail(HAUL_ERROR_UNAVAILABLE, "another profiler is here");
    }
    fake.recording = true;
    fake.count = 0;
    return HAUL_OK;
}

static haul_activity *fake_add(haul_activity_kind kind, const char *name, int64_t launch) {
    assert_true(fake.count < 4096);
    haul_activity *activity = &fake.activities[fake.count++];
    *activity = (haul_activity){.kind = kind, .name = name, .launch = launch, .stream = 7};
    return activity;
}

static void fake_run(haul_activity *activity) {
    activity->begin = haul_max(fake.card_until, haul_clock_wall_nanoseconds()) + 100;
    activity->end = activity->begin + 700;
    activity->correlation = fake.correlation;
    fake.card_until = activity->end;
}

static void fake_begin_launch(haul_device *unused, int64_t number) {
    (void)unused;
    haul_activity *call = fake_add(HAUL_ACTIVITY_RUNTIME_CALL, "cudaLaunchKernel", number);
    call->begin = haul_clock_wall_nanoseconds();
    call->stream = gettid();
    call->correlation = ++fake.correlation;
}

static void fake_end_launch(haul_device *unused) {
    (void)unused;
    haul_activity *call = &fake.activities[fake.count - 1];
    call->end = haul_clock_wall_nanoseconds();
    haul_activity *kernel = fake_add(HAUL_ACTIVITY_KERNEL, "kernel", call->launch);
    fake_run(kernel);
    kernel->registers = 40;
}

/* Shows the latest first. */
static haul_status fake_stop(haul_device *unused, haul_activity_function *see, void *context,
                             int64_t *lost) {
    (void)unused;
    assert_true(fake.recording);
    fake.recording = false;
    *lost = 5;
    if (see == NULL) {
        return HAUL_OK;
    }
    haul_activity *copy = fake_add(HAUL_ACTIVITY_COPY, "Memcpy DtoH (Device -> Pinned)", 0);
    fake_run(copy);
    copy->correlation = 999999; /* of a call that was not seen */
    copy->bytes = 1400;
    for (int64_t i = fake.count - 1; i >= 0; i--) {
        see(context, &fake.activities[i]);
    }
    return HAUL_OK;
}

static bool fake_fact(haul_device *unused, int i, haul_device_fact *out) {
    const haul_device_fact facts[] = {{.name = "name", .text = "fake card"},
                                      {.name = "numSms", .number = 1},
                                      {.name = "cupti_version", .number = 3, .is_version = true}};
    (void)unused;
    if (i >= 3) {
        return false;
    }
    *out = facts[i];
    return true;
}

static void fake_capture(haul_device *unused, bool on) {
    (void)unused;
    strcat(fake.captures, on ? "+" : "-");
}

static const haul_profiler fake_profiler = {.load = fake_load,
                                            .start = fake_start,
                                            .begin_launch = fake_begin_launch,
                                            .end_launch = fake_end_launch,
                                            .stop = fake_stop,
                                            .fact = fake_fact,
                                            .capture = fake_capture};

typedef struct outcome {
    haul_status status;
    int64_t iterations; /* when the profile came */
    char path[1200];
    haul_profile_times times;
    int failures;
} outcome;

static void on_profiled(void *context, const haul_train *train, const char *path,
                        const haul_profile_times *times) {
    outcome *seen = context;
    seen->iterations = train->progress.iteration;
    if (path == NULL) {
        seen->failures++;
        return;
    }
    snprintf(seen->path, sizeof seen->path, "%s", path);
    seen->times = *times;
}

static void configure(haul_config *config, const char *flags) {
    char line[1024];
    const char *words[96];
    int count = 0;
    snprintf(line, sizeof line, "%s --device %s --data-path %s --run-dir %s/run %s", BASE, device,
             small_data_prefix(), haul_test_directory(), flags);
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
        words[count++] = word;
    }
    assert_ok(haul_config_init(config));
    assert_ok(haul_config_parse(config, HAUL_COMMAND_TRAIN, count, words));
    assert_ok(haul_config_finalize(config));
}

/* Trains by BASE and flags; with `on_card` the cpu pretends. */
static outcome train_profiled(const char *flags, bool on_card) {
    haul_config config;
    haul_session session;
    haul_corpus corpus = {0};
    outcome seen = {0};
    configure(&config, flags);
    assert_ok(haul_session_plan(&session, &config, true));
    fake.backend = *session.device.backend;
    fake.captures[0] = '\0';
    if (on_card) {
        fake.backend.profiler = &fake_profiler;
        session.device.backend = &fake.backend;
    }
    assert_ok(haul_session_allocate(&session));
    assert_ok(haul_corpus_open(&config, &corpus));
    haul_train train = {.config = &config,
                        .session = &session,
                        .training = corpus.training,
                        .observer = {.context = &seen, .profiled = on_profiled}};
    assert_ok(haul_train_start(&train, NULL));
    seen.status = haul_train_run(&train);
    assert_false(fake.recording);
    haul_session_deinit(&session);
    haul_corpus_close(&corpus);
    haul_config_deinit(&config);
    return seen;
}

/* The first event of this category and name. */
static const json_t *find_event(const json_t *events, const char *category, const char *name) {
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (trace_is(event, category) && strcmp(trace_text(event, "name"), name) == 0) {
            return event;
        }
    }
    fail_msg("no %s %s", category, name);
    return NULL;
}

static int64_t argument(const json_t *event, const char *name) {
    return trace_integer(json_object_get(event, "args"), name);
}

/* Whether a step, a micro-batch or VERDICT or COMMIT, and a pass are around the event. */
static bool is_annotated(const json_t *events, const json_t *event, const char *category) {
    bool step = false, pass = false;
    for (size_t i = 0; i < json_array_size(events) && !(step && pass); i++) {
        const json_t *other = json_array_get(events, i);
        if (trace_is(other, category) && trace_contains(other, event)) {
            bool is_step = strncmp(trace_text(other, "name"), "ProfilerStep#", 13) == 0;
            step |= is_step;
            pass |= !is_step;
        }
    }
    return step && pass;
}

static void check_host(const json_t *events) {
    int64_t launches = 0;
    trace_check_nested(events);
    const json_t *third = find_event(events, "user_annotation", "ProfilerStep#3");
    const json_t *fourth = find_event(events, "user_annotation", "ProfilerStep#4");
    const json_t *phase = find_event(events, "user_annotation", "F mb=1 chunk=0 stage=0");
    assert_true(trace_end(third) <= trace_begin(fourth));
    assert_true(trace_contains(third, phase));
    assert_true(
        trace_contains(phase, find_event(events, "user_annotation", "F layer0.attention mb=1")));
    find_event(events, "user_annotation", "B mb=0 chunk=0 stage=0");
    find_event(events, "user_annotation", "W layer0.qkv mb=0");
    find_event(events, "user_annotation", "COMMIT");
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (trace_is(event, "cpu_op")) {
            assert_true(is_annotated(events, event, "user_annotation"));
            assert_int_equal(argument(event, "External id"), ++launches);
        }
    }
    assert_true(launches > 100);
    assert_true(argument(find_event(events, "cpu_op", "haul::matmul"), "flops") > 0);
}

static void test_host(void **state) {
    (void)state;
    const char flags[] = "--profile --use-pytorch-profiler --profile-step-start 3 "
                         "--profile-step-end 5";
    outcome seen = train_profiled(flags, false);
    assert_ok(seen.status);
    assert_int_equal(seen.iterations, 4);
    assert_non_null(strstr(seen.path, "/run/torch_profile/rank-0.json.gz"));
    json_t *trace = trace_read(seen.path);
    const json_t *events = json_object_get(trace, "traceEvents");
    check_host(events);
    if (strcmp(device, "cpu") == 0) {
        assert_int_equal(json_array_size(json_object_get(trace, "deviceProperties")), 0);
        assert_int_equal(trace_count(events, "kernel"), 0);
    }
    json_decref(trace);

    int64_t sum = 0;
    for (int i = 0; i < HAUL_PROFILE_CLASSES; i++) {
        print_message("%-12s %10.1f us\n", haul_profile_class_name(i),
                      1e-3 * (double)seen.times.nanoseconds[i]);
        sum += seen.times.nanoseconds[i];
    }
    assert_true(seen.times.window > 0);
    assert_int_equal(sum, seen.times.window);
    assert_true(seen.times.nanoseconds[HAUL_CLASS_PRODUCTS] > 0);
    assert_true(seen.times.nanoseconds[HAUL_CLASS_OPTIMIZER] > 0);
}

/* What a card did is drawn inside its steps and passes and tied to its launches. Returns how many
 * kernels came of a launch. */
static int64_t check_card(const json_t *events) {
    int64_t tied = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (trace_is(event, "kernel") &&
            json_object_get(json_object_get(event, "args"), "External id") != NULL) {
            assert_true(is_annotated(events, event, "gpu_user_annotation"));
            tied++;
        }
    }
    find_event(events, "gpu_user_annotation", "ProfilerStep#4");
    find_event(events, "gpu_user_annotation", "B mb=1 chunk=0 stage=0");
    find_event(events, "gpu_user_annotation", "F layer0.attention mb=1");
    return tied;
}

static void test_card(void **state) {
    (void)state;
    bool real = strcmp(device, "cpu") != 0;
    char flags[1024];
    snprintf(flags, sizeof flags,
             "--profile --use-pytorch-profiler --profile-step-start 3 --profile-step-end 5 "
             "--tensorboard-dir %s/boards/board --profile-ranks 0 1",
             haul_test_directory());
    outcome seen = train_profiled(flags, !real);
    assert_ok(seen.status);
    assert_non_null(strstr(seen.path, "/boards/board/../torch_profile/rank-0.json.gz"));
    json_t *trace = trace_read(seen.path);
    const json_t *events = json_object_get(trace, "traceEvents");
    int64_t kernels = trace_count(events, "kernel"), launches = trace_count(events, "cpu_op");
    int64_t copies = trace_count(events, "gpu_memcpy"),
            lost = trace_integer(trace, "lost_activities");
    check_host(events);
    int64_t tied = check_card(events), flows = trace_check_flows(events);
    const json_t *card = json_array_get(json_object_get(trace, "deviceProperties"), 0);
    print_message(
        "%s: %lld launches, %lld kernels, %lld tied to launches, %lld arrows, %lld copies, "
        "%lld lost\n",
        trace_text(card, "name"), (long long)launches, (long long)kernels, (long long)tied,
        (long long)flows, (long long)copies, (long long)lost);
    assert_true(kernels >= launches * 9 / 10); /* some launches only clear memory */
    assert_true(copies > 0);
    assert_int_equal(tied, kernels);
    assert_true(flows >= kernels);
    if (real) {
        assert_int_equal(lost, 0);
        assert_true(trace_integer(card, "numSms") > 0);
    } else {
        const json_t *copy = find_event(events, "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)");
        const json_t *bandwidth =
            json_object_get(json_object_get(copy, "args"), "memory bandwidth (GB/s)");
        assert_int_equal(lost, 5);
        assert_int_equal(kernels, launches);
        assert_int_equal(trace_integer(trace, "cupti_version"), 3);
        assert_true(json_number_value(bandwidth) == 2);
        assert_int_equal(argument(find_event(events, "kernel", "kernel"), "registers per thread"),
                         40);
        assert_int_equal(seen.times.nanoseconds[HAUL_PROFILE_COPIES] % 700, 0);
        assert_true(seen.times.nanoseconds[HAUL_PROFILE_COPIES] >= 700);
    }
    json_decref(trace);
}

static void test_windows(void **state) {
    (void)state;
    const struct {
        const char *flags, *captures;
        int64_t iterations; /* when the trace came; 0: never */
    } rows[] = {
        {"--use-pytorch-profiler", "", 0},
        {"--profile --profile-step-start 2 --profile-step-end 4", "+-", 0},
        {"--profile --profile-step-start 2 --profile-step-end 40", "+-", 0},
        {"--profile --use-pytorch-profiler --profile-ranks 1 2 --profile-step-start 2", "", 0},
        {"--profile --use-pytorch-profiler", "", 0}, /* from 10 on: behind the end */
        {"--profile --use-pytorch-profiler --profile-step-start 0 --profile-step-end 2", "", 1},
        {"--profile --use-pytorch-profiler --profile-step-start 6 --profile-step-end 7", "", 6},
        {"--profile --use-pytorch-profiler --profile-step-start 5 --profile-step-end 90", "", 6},
        {"--profile --use-pytorch-profiler --profile-step-start 2 --exit-interval 3", "", 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        outcome seen = train_profiled(rows[i].flags, true);
        assert_ok(seen.status);
        assert_string_equal(fake.captures, rows[i].captures);
        assert_int_equal(seen.iterations, rows[i].iterations);
    }
}

static void test_missing_profiler(void **state) {
    (void)state;
    fake.missing = true;
    outcome seen = train_profiled("--profile --use-pytorch-profiler", true);
    haul_test_assert_fails(seen.status, HAUL_ERROR_UNAVAILABLE, "no profiler here");
    assert_ok(train_profiled("--use-pytorch-profiler", true).status);
    assert_ok(train_profiled("--profile --profile-step-start 2", true).status);
    fake.missing = false;
}

/* A training goes on when its profile cannot be started or written. */
static void test_failures(void **state) {
    (void)state;
    const char flags[] = "--profile --use-pytorch-profiler --profile-step-start 2 "
                         "--profile-step-end 4 --run-dir /dev/null/run";
    outcome unwritten = train_profiled(flags, true);
    assert_ok(unwritten.status);
    assert_int_equal(unwritten.failures, 1);
    assert_int_equal(unwritten.iterations, 3);
    fake.refusing = true;
    outcome refused = train_profiled(flags, true);
    assert_ok(refused.status);
    assert_int_equal(refused.failures, 1);
    assert_int_equal(refused.iterations, 1);
    fake.refusing = false;
}

/* A product from 100 to 200, a norm from 150 to 260 that loses what they share, nothing to 300, a
 * copy of nobody to 310, and calls of the host that do not count. */
static void test_times(void **state) {
    (void)state;
    haul_profile_launch launches[] = {{.op = HAUL_OP_MATMUL}, {.op = HAUL_OP_NORM}};
    haul_activity activities[] = {
        {.kind = HAUL_ACTIVITY_RUNTIME_CALL, .begin = 10, .end = 280, .launch = 1},
        {.kind = HAUL_ACTIVITY_KERNEL, .begin = 100, .end = 200, .launch = 1},
        {.kind = HAUL_ACTIVITY_KERNEL, .begin = 150, .end = 260, .launch = 2},
        {.kind = HAUL_ACTIVITY_KERNEL, .begin = 160, .end = 170, .launch = 1},
        {.kind = HAUL_ACTIVITY_COPY, .begin = 300, .end = 310},
    };
    const haul_profile profile = {
        .launches = launches, .launch_count = 2, .activities = activities, .activity_count = 5};
    haul_profile_times all = haul_profile_times_of(&profile, 0, INT64_MAX);
    assert_int_equal(all.window, 210);
    assert_int_equal(all.nanoseconds[HAUL_CLASS_PRODUCTS], 100);
    assert_int_equal(all.nanoseconds[HAUL_CLASS_NORM], 60);
    assert_int_equal(all.nanoseconds[HAUL_PROFILE_IDLE], 40);
    assert_int_equal(all.nanoseconds[HAUL_PROFILE_COPIES], 10);
    haul_profile_times part = haul_profile_times_of(&profile, 180, 250);
    assert_int_equal(part.window, 70);
    assert_int_equal(part.nanoseconds[HAUL_CLASS_PRODUCTS], 20);
    assert_int_equal(part.nanoseconds[HAUL_CLASS_NORM], 50);
    assert_int_equal(haul_profile_times_of(&profile, 1000, 2000).window, 0);
}

int main(int argc, char **argv) {
    device = haul_test_backend(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_card),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_missing_profiler),
        cmocka_unit_test(test_failures),
    };
    bool real = argc > 1; /* the others pretend */
    return real ? _cmocka_run_group_tests("card", tests, 3, NULL, NULL)
                : cmocka_run_group_tests(tests, NULL, NULL);
}
