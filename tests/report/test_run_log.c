/* ctest: unit */
#include "testing.h"

#include "base/file.h"
#include "report/run_log.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const char *log_path(void) {
    static char path[512];
    snprintf(path, sizeof path, "%s/log.jsonl", haul_test_directory());
    return path;
}

static void fresh(void) {
    assert_ok(haul_file_remove(log_path()));
}

static void write_text(const char *text) {
    assert_ok(haul_file_replace(log_path(), text, (int64_t)strlen(text)));
}

static void write_train(haul_run_log *log, int64_t iteration, double loss) {
    const haul_log_train line = {.iteration = iteration, .loss = loss, .mfu = (double)NAN};
    assert_ok(haul_run_log_train(log, &line));
}

static void every_kind_reads_back(void **state) {
    (void)state;
    fresh();
    haul_run_log log;
    assert_ok(haul_run_log_open(log_path(), &log));
    const haul_log_start start = {.train_iters = 9,
                                  .parameters = 625184,
                                  .time = 1760000000.25,
                                  .flops_per_token = 4.1e6,
                                  .xz_bits_per_byte = (double)NAN,
                                  .command = "haul train \"a\\b\"\t--x\n",
                                  .isa = "AVX-512"};
    assert_ok(haul_run_log_start(&log, &start));
    const haul_log_memory memory = {.category = "optimizer", .name = "m", .bytes = 1LL << 40};
    assert_ok(haul_run_log_memory(&log, &memory));
    const haul_log_train train = {.iteration = 3,
                                  .consumed_samples = 24,
                                  .tokens = 3072,
                                  .memory_bytes = 5,
                                  .nan_iterations = 1,
                                  .loss = 2.5,
                                  .learning_rate = 3e-4,
                                  .grad_norm = (double)INFINITY,
                                  .tokens_per_second = 34567.8,
                                  .elapsed_ms = 16,
                                  .mfu = 0.62};
    assert_ok(haul_run_log_train(&log, &train));
    const haul_log_eval eval = {.iteration = 3, .split = "test", .loss = 1.5, .bits_per_byte = 2};
    assert_ok(haul_run_log_eval(&log, &eval));
    const haul_log_sample sample = {.iteration = 3, .prompt = "", .text = "a\xff\xc3\xa9\x01"};
    assert_ok(haul_run_log_sample(&log, &sample));
    const haul_log_checkpoint saved = {.iteration = 3, .path = "iter_3", .seconds = 0.5};
    assert_ok(haul_run_log_checkpoint(&log, &saved));
    const haul_log_end end = {.iteration = 3, .reason = "finished", .seconds = 2};
    assert_ok(haul_run_log_end(&log, &end));
    haul_run_log_close(&log);

    haul_run_history h;
    assert_ok(haul_run_history_read(log_path(), &h));
    assert_int_equal(h.attempt_count, 1);
    const haul_run_attempt *attempt = &h.attempts[0];
    assert_int_equal(attempt->start.parameters, 625184);
    assert_true(attempt->start.time == 1760000000.25);
    assert_true(isnan(attempt->start.xz_bits_per_byte));
    assert_string_equal(attempt->start.command, start.command);
    assert_string_equal(attempt->start.isa, "AVX-512");
    assert_null(attempt->start.cpu);
    assert_true(attempt->ended);
    assert_int_equal(attempt->reached, 3);
    assert_string_equal(attempt->end.reason, "finished");
    assert_int_equal(h.memory[0].bytes, 1LL << 40);
    assert_int_equal(h.train[0].tokens, 3072);
    assert_int_equal(h.train[0].nan_iterations, 1);
    assert_true(h.train[0].learning_rate == 3e-4);
    assert_true(isnan(h.train[0].grad_norm));
    assert_true(h.train[0].mfu == 0.62);
    assert_string_equal(h.eval[0].split, "test");
    assert_string_equal(h.sample[0].prompt, "");
    assert_string_equal(h.sample[0].text, "a\xef\xbf\xbd\xc3\xa9\x01");
    assert_string_equal(h.checkpoint[0].path, "iter_3");
    haul_run_history_deinit(&h);
}

static void resume_supersedes_later_lines(void **state) {
    (void)state;
    fresh();
    haul_run_log log;
    assert_ok(haul_run_log_open(log_path(), &log));
    const haul_log_start first = {.command = "first"};
    const haul_log_memory memory = {.category = "c", .name = "n", .bytes = 1};
    assert_ok(haul_run_log_start(&log, &first));
    assert_ok(haul_run_log_memory(&log, &memory));
    for (int64_t i = 1; i <= 5; i++) {
        write_train(&log, i, 10);
    }
    const haul_log_eval eval = {.iteration = 3};
    assert_ok(haul_run_log_eval(&log, &eval));
    haul_run_log_close(&log);
    assert_ok(haul_run_log_open(log_path(), &log));
    const haul_log_start second = {.iteration = 2, .command = "second"};
    assert_ok(haul_run_log_start(&log, &second));
    assert_ok(haul_run_log_memory(&log, &memory));
    write_train(&log, 3, 20);
    haul_run_log_close(&log);

    haul_run_history h;
    assert_ok(haul_run_history_read(log_path(), &h));
    assert_int_equal(h.attempt_count, 2);
    assert_int_equal(h.attempts[0].reached, 5);
    assert_int_equal(h.attempts[1].reached, 3);
    assert_false(h.attempts[0].ended);
    assert_int_equal(h.memory_count, 1);
    assert_int_equal(h.eval_count, 0);
    assert_int_equal(h.train_count, 3);
    assert_int_equal(h.train[1].iteration, 2);
    assert_true(h.train[1].loss == 10);
    assert_true(h.train[2].loss == 20);
    haul_run_history_deinit(&h);
}

static void cut_line_is_ignored_and_healed(void **state) {
    (void)state;
    write_text("{\"kind\": \"train\", \"iteration\": 1}\n{\"kind\": \"train\", \"iter");
    haul_run_history h;
    assert_ok(haul_run_history_read(log_path(), &h));
    assert_int_equal(h.train_count, 1);
    haul_run_history_deinit(&h);

    haul_run_log log;
    assert_ok(haul_run_log_open(log_path(), &log));
    write_train(&log, 2, 1);
    haul_run_log_close(&log);
    assert_ok(haul_run_history_read(log_path(), &h));
    assert_int_equal(h.train_count, 2);
    assert_int_equal(h.train[1].iteration, 2);
    haul_run_history_deinit(&h);
}

/* A full disk takes the first bytes of a line and refuses the rest; a limit on the file's size
 * does the same. */
static void failed_write_leaves_whole_lines(void **state) {
    (void)state;
    fresh();
    haul_run_log log;
    assert_ok(haul_run_log_open(log_path(), &log));
    write_train(&log, 1, 1);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit tight = {.rlim_cur = (rlim_t)log.file.bytes + 10,
                                 .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    const haul_log_train lost = {.iteration = 2};
    haul_status status = haul_run_log_train(&log, &lost);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    haul_test_assert_fails(status, HAUL_ERROR_IO, "log.jsonl");
    write_train(&log, 3, 1);
    haul_run_log_close(&log);
    haul_run_history h;
    assert_ok(haul_run_history_read(log_path(), &h));
    assert_int_equal(h.train_count, 2);
    assert_int_equal(h.train[1].iteration, 3);
    haul_run_history_deinit(&h);
}

static void bad_lines_are_refused(void **state) {
    (void)state;
    haul_run_history h;
    write_text("{\"kind\": \"later kind\"}\n{\"kind\": \"train\", \"later key\": []}\n");
    assert_ok(haul_run_history_read(log_path(), &h));
    assert_int_equal(h.train_count, 1);
    haul_run_history_deinit(&h);

    write_text("{\"kind\": \"train\"}\n{broken\n{\"kind\": \"train\"}\n");
    haul_test_assert_fails(haul_run_history_read(log_path(), &h), HAUL_ERROR_DATA, "log.jsonl:2");
    write_text("{\"kind\": \"train\", \"loss\": \"low\"}\n");
    haul_test_assert_fails(haul_run_history_read(log_path(), &h), HAUL_ERROR_DATA,
                           "\"loss\" must be a number");
    write_text("{\"kind\": \"train\", \"iteration\": 1.5}\n");
    haul_test_assert_fails(haul_run_history_read(log_path(), &h), HAUL_ERROR_DATA,
                           "\"iteration\" must be an integer");
    write_text("[1]\n");
    haul_test_assert_fails(haul_run_history_read(log_path(), &h), HAUL_ERROR_DATA, "\"kind\"");
    fresh();
    haul_test_assert_fails(haul_run_history_read(log_path(), &h), HAUL_ERROR_NO_INPUT, "log.jsonl");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_reads_back),
        cmocka_unit_test(resume_supersedes_later_lines),
        cmocka_unit_test(cut_line_is_ignored_and_healed),
        cmocka_unit_test(failed_write_leaves_whole_lines),
        cmocka_unit_test(bad_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
