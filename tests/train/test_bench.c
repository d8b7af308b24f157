/* ctest: unit */
/* Measuring: that what is timed is what a training does, on data that is what it should be. */
#include "testing.h"

#include "config/parse.h"
#include "config/validate.h"
#include "train/bench.h"
#include "train/bench_kernels.h"
#include "train/bench_watch.h"
#include "train/corpus.h"

#include <math.h>
#include <string.h>

static void settle(haul_config *config, int count, const char *const *words) {
    assert_ok(haul_config_init(config));
    assert_ok(haul_config_parse(config, HAUL_COMMAND_BENCH_TRAIN, count, words));
    assert_ok(haul_bench_settle(config));
    assert_ok(haul_config_finalize(config));
}

/* Three micro-batches of a small model. */
static void settle_tiny(haul_config *config) {
    const char *const words[] = {
        "--preset",     "tiny", "--micro-batch-size", "2", "--global-batch-size", "6",
        "--seq-length", "16",   "--threads",          "1", "--bench-steps",       "5"};
    settle(config, sizeof words / sizeof words[0], words);
}

/* No preset's warm-up, and no command line made for haul train, is in the way. */
static void test_settings(void **state) {
    (void)state;
    haul_config config;
    const char *const preset[] = {"--preset", "llama3-8b"};
    settle(&config, 2, preset);
    assert_int_equal(haul_session_micro_batches(&config), 16);
    assert_int_equal(config.bench_steps, 3);
    haul_config_deinit(&config);
    const char *const words[] = {
        "--preset",        "gpt2-124m", "--global-batch-size", "512", "--data-path", "none",
        "--train-iters",   "5",         "--lr-warmup-iters",   "700", "--save",      "none",
        "--eval-interval", "1",         "--lr-decay-style",    "WSD"};
    settle(&config, sizeof words / sizeof words[0], words);
    assert_int_equal(haul_session_micro_batches(&config), 128);
    assert_null(config.save);
    haul_config_deinit(&config);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *words[4], *text;
    } cases[] = {
        {{"--preset", "tiny", "--load", "x"}, "--load cannot be measured"},
        {{"--preset", "tiny", "--device", "meta"}, "--device meta cannot be measured"},
        {{"--preset", "tiny", "--device", "ref"}, "must be cpu, cuda or auto"},
        {{"--preset", "tiny", "--dry-run", "--bf16"}, "--dry-run cannot be measured"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        haul_config config;
        assert_ok(haul_config_init(&config));
        assert_ok(haul_config_parse(&config, HAUL_COMMAND_BENCH_KERNELS, 4, cases[i].words));
        haul_test_assert_fails(haul_bench_settle(&config), HAUL_ERROR_USAGE, cases[i].text);
        haul_config_deinit(&config);
    }
}

/* Launches and operations of one step as it runs. */
static void count(void *context, haul_op op, const void *args) {
    haul_recording *counted = context;
    haul_cost cost = haul_op_cost(op, args);
    counted->launches[op]++;
    counted->flops[op] += cost.flops;
    counted->bytes[op] += cost.bytes;
}

static haul_status fill_zero(void *context, int micro_batch, const char *value,
                             haul_tensor tensor) {
    (void)context;
    (void)micro_batch;
    (void)value;
    memset(tensor.data, 0, (size_t)haul_tensor_bytes(&tensor));
    return HAUL_OK;
}

static void test_kernels_are_those_of_a_step(void **state) {
    (void)state;
    haul_config config;
    haul_session session;
    haul_bench_launches launches;
    haul_recording collected = {0}, counted = {0};
    settle_tiny(&config);
    assert_ok(haul_session_plan(&session, &config, true));
    assert_ok(haul_bench_collect(&session, &launches));
    for (int64_t i = 0; i < launches.count; i++) {
        const haul_bench_launch *launch = &launches.items[i];
        collected.launches[launch->op] += launch->count;
        collected.flops[launch->op] += launch->count * launch->cost.flops;
        collected.bytes[launch->op] += launch->count * launch->cost.bytes;
    }
    assert_ok(haul_session_allocate(&session));
    haul_step_request request = {.info = {.training = true}, .samples = 2, .fill = fill_zero};
    haul_verdict verdict;
    session.trainer.stream.observe = count;
    session.trainer.stream.observe_context = &counted;
    assert_ok(haul_executor_run(&session.trainer, &request, &verdict));
    for (int op = 0; op < HAUL_OPS; op++) {
        if (collected.launches[op] != counted.launches[op]) {
            fail_msg("%s: %lld launches collected, %lld made", haul_op_name((haul_op)op),
                     (long long)collected.launches[op], (long long)counted.launches[op]);
        }
        assert_int_equal(collected.flops[op], counted.flops[op]);
        assert_int_equal(collected.bytes[op], counted.bytes[op]);
    }
    haul_bench_launches_deinit(&launches);
    haul_session_deinit(&session);
    haul_config_deinit(&config);
}

static void test_kernels_are_timed(void **state) {
    (void)state;
    haul_config config;
    haul_session session;
    haul_bench_launches launches;
    haul_bench_timer timer;
    settle_tiny(&config);
    assert_ok(haul_session_plan(&session, &config, true));
    assert_ok(haul_bench_collect(&session, &launches));
    assert_ok(haul_bench_timer_init(&timer, &session.device));
    assert_true(launches.count > 20);
    for (int64_t i = 0; i < launches.count; i++) {
        assert_ok(haul_bench_time(&timer, &launches.items[i], 0));
        assert_true(launches.items[i].seconds > 0 && launches.items[i].seconds < 0.1);
    }
    haul_bench_timer_deinit(&timer);
    haul_bench_launches_deinit(&launches);
    haul_session_deinit(&session);
    haul_config_deinit(&config);
}

static void test_steps(void **state) {
    (void)state;
    haul_config config;
    haul_session session;
    haul_corpus corpus = {0};
    haul_bench_result result;
    haul_bench_launches launches;
    int64_t launched = 0;
    double sum = 0;
    settle_tiny(&config);
    assert_ok(haul_session_plan(&session, &config, true));
    assert_ok(haul_bench_collect(&session, &launches));
    assert_ok(haul_session_allocate(&session));
    assert_ok(haul_corpus_open(&config, &corpus));
    assert_ok(haul_bench_train(&session, corpus.training, &result));
    assert_int_equal(result.steps, 5);
    assert_true(result.warm_up_steps >= 2 && result.warm_up_seconds >= 2);
    assert_true(0 < result.fastest && result.fastest <= result.median &&
                result.median <= result.slowest);
    for (int class = 0; class < HAUL_OP_CLASSES; class ++) {
        sum += result.class_seconds[class];
        launched += result.class_launches[class];
    }
    assert_true(0 < sum && sum <= result.stamped_seconds);
    assert_true(result.class_seconds[HAUL_CLASS_PRODUCTS] > 0);
    assert_true(result.class_seconds[HAUL_CLASS_OPTIMIZER] > 0);
    for (int64_t i = 0; i < launches.count; i++) {
        launched -= launches.items[i].count;
    }
    assert_int_equal(launched, 0);
    assert_null(session.trainer.stream.observe);
    haul_bench_launches_deinit(&launches);
    haul_corpus_close(&corpus);
    haul_session_deinit(&session);
    haul_config_deinit(&config);
}

static void test_contents(void **state) {
    (void)state;
    enum { COUNT = 600000, VOCABULARY = 7 };
    static float numbers[COUNT];
    static int32_t tokens[COUNT];
    haul_device device;
    haul_bench_filler filler;
    double sum = 0, squares = 0;
    int64_t seen[VOCABULARY] = {0};
    assert_ok(haul_device_init(&device, "cpu", 1, HAUL_PRODUCT_F32));
    haul_stream stream = {.device = &device};
    assert_ok(haul_bench_filler_init(&filler, &stream));
    haul_tensor normal = haul_tensor_1d(numbers, HAUL_F32, COUNT);
    assert_ok(haul_bench_fill(&filler, &normal, sizeof numbers, HAUL_BENCH_NORMAL, 3, 0));
    haul_tensor words = haul_tensor_1d(tokens, HAUL_I32, COUNT);
    assert_ok(haul_bench_fill(&filler, &words, sizeof tokens, HAUL_BENCH_TOKEN, 1, VOCABULARY));
    for (int i = 0; i < COUNT; i++) {
        sum += (double)numbers[i];
        squares += (double)numbers[i] * (double)numbers[i];
        assert_in_range(tokens[i], 0, VOCABULARY - 1);
        seen[tokens[i]]++;
    }
    assert_true(fabs(sum / COUNT) < 0.03 && fabs(squares / COUNT - 9) < 0.15);
    for (int v = 0; v < VOCABULARY; v++) {
        assert_true(fabs((double)seen[v] / COUNT * VOCABULARY - 1) < 0.03);
    }
    haul_bench_filler_deinit(&filler);
    haul_device_deinit(&device);
}

static haul_condition growing_power(const haul_device *device) {
    int *calls = device->state;
    return (haul_condition){.clock_hertz = (double)NAN, .power_watts = 100 + (*calls)++};
}

static void test_watch(void **state) {
    (void)state;
    int calls = 0;
    double numbers[] = {3, 1, 2, 10};
    const haul_backend backend = {.condition = growing_power};
    haul_device device = {.backend = &backend, .state = &calls};
    haul_bench_watch *watch;
    assert_ok(haul_bench_watch_start(&device, &watch));
    while (__atomic_load_n(&calls, __ATOMIC_RELAXED) < 3) {
    }
    haul_condition seen = haul_bench_watch_stop(watch);
    assert_true(isnan(seen.clock_hertz));
    assert_true(seen.power_watts >= 101 && seen.power_watts <= 100 + calls);
    assert_true(fabs(haul_bench_median(numbers, 3) - 2) < 1e-12);
    assert_true(fabs(haul_bench_median(numbers, 4) - 2.5) < 1e-12);
    assert_true(isnan(haul_bench_median(numbers, 0)));
    assert_ok(haul_bench_watch_start(&(haul_device){.backend = &(haul_backend){0}}, &watch));
    assert_null(watch);
    assert_true(isnan(haul_bench_watch_stop(watch).power_watts));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_kernels_are_those_of_a_step),
        cmocka_unit_test(test_kernels_are_timed),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_contents),
        cmocka_unit_test(test_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
