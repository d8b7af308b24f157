/* ctest: golden */
/* The expected lines come from Python's format(), with Megatron-LM's format strings. */
#include "testing.h"

#include "report/iteration_line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STAMP "2025-01-31 09:08:07.000042"

static void assert_line(const haul_iteration *iteration, const char *expected) {
    haul_string line = {0};
    haul_iteration_line(iteration, STAMP, &line);
    assert_ok(haul_string_status(&line));
    assert_string_equal(line.data, expected);
    haul_string_deinit(&line);
}

static void plain_iteration(void **state) {
    (void)state;
    const haul_iteration iteration = {
        .iteration = 1200,
        .train_iters = 5000,
        .consumed_samples = 9600,
        .elapsed_ms = 16.48,
        .throughput = (double)NAN,
        .learning_rate = 3e-4,
        .global_batch_size = 8,
        .loss = 2.345678912,
        .loss_scale = 1,
        .grad_norm = 1.23456,
        .params_norm = (double)NAN,
        .num_zeros = -1,
    };
    assert_line(&iteration,
                " [" STAMP "] iteration     1200/    5000 | consumed samples:         9600 |"
                " elapsed time per iteration (ms): 16.5 | learning rate: 3.000000E-04 |"
                " global batch size:     8 | lm loss: 2.345679E+00 | loss scale: 1.0 |"
                " grad norm: 1.235 | number of skipped iterations:   0 |"
                " number of nan iterations:   0 |");
}

static void iteration_with_everything(void **state) {
    (void)state;
    const haul_iteration iteration = {
        .iteration = 123456789,
        .train_iters = 123456789,
        .consumed_samples = 1234567890123,
        .skipped_samples = 64,
        .elapsed_ms = 1234.56,
        .throughput = 412.34,
        .learning_rate = 1.5e-5,
        .global_batch_size = 12288,
        .loss = 11.5,
        .loss_scale = 65536,
        .grad_norm = 0.0004,
        .params_norm = 1234.5,
        .num_zeros = 7,
        .skipped_iterations = 2,
        .nan_iterations = 1,
    };
    assert_line(&iteration,
                " [" STAMP "] iteration 123456789/123456789 | consumed samples: 1234567890123 |"
                " skipped samples:           64 | elapsed time per iteration (ms): 1234.6 |"
                " throughput per GPU (TFLOP/s/GPU): 412.3 | learning rate: 1.500000E-05 |"
                " global batch size: 12288 | lm loss: 1.150000E+01 | loss scale: 65536.0 |"
                " grad norm: 0.000 | num zeros: 7 | params norm: 1234.500 |"
                " number of skipped iterations:   2 | number of nan iterations:   1 |");
}

static void nan_loss_is_left_out(void **state) {
    (void)state;
    const haul_iteration iteration = {
        .iteration = 3,
        .train_iters = 10,
        .consumed_samples = 24,
        .elapsed_ms = 5,
        .throughput = (double)NAN,
        .global_batch_size = 8,
        .loss = (double)NAN,
        .loss_scale = 1,
        .grad_norm = (double)NAN,
        .params_norm = (double)NAN,
        .num_zeros = -1,
        .nan_iterations = 1,
    };
    assert_line(&iteration,
                " [" STAMP "] iteration        3/      10 | consumed samples:           24 |"
                " elapsed time per iteration (ms): 5.0 | learning rate: 0.000000E+00 |"
                " global batch size:     8 | loss scale: 1.0 | number of skipped iterations:   0 |"
                " number of nan iterations:   1 |");
}

static void validation(void **state) {
    (void)state;
#define DASHES10 "----------"
    haul_string lines = {0};
    haul_validation_lines("iteration 100", 1.5, &lines);
    assert_string_equal(
        lines.data, DASHES10 DASHES10 DASHES10 DASHES10 DASHES10 DASHES10 DASHES10 DASHES10 DASHES10
        "-----\n"
        " validation loss at iteration 100 | lm loss value: 1.500000E+00 |"
        " lm loss PPL: 4.481689E+00 | \n" DASHES10 DASHES10 DASHES10 DASHES10 DASHES10 DASHES10
            DASHES10 DASHES10 DASHES10 "-----\n");
    haul_string_clear(&lines);
    haul_validation_lines("iteration 100 on test set", 25, &lines);
    assert_non_null(strstr(lines.data, " validation loss at iteration 100 on test set | lm loss"
                                       " value: 2.500000E+01 | lm loss PPL: 4.851652E+08 | \n"));
    haul_string_deinit(&lines);
}

static void timestamp(void **state) {
    (void)state;
    setenv("TZ", "UTC", 1);
    tzset();
    char text[HAUL_TIMESTAMP_BYTES];
    haul_iteration_timestamp(1738314487.25, text);
    assert_string_equal(text, "2025-01-31 09:08:07.250000");
    haul_iteration_timestamp(1738314487, text);
    assert_string_equal(text, "2025-01-31 09:08:07.000000");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_iteration),
        cmocka_unit_test(iteration_with_everything),
        cmocka_unit_test(nan_loss_is_left_out),
        cmocka_unit_test(validation),
        cmocka_unit_test(timestamp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
