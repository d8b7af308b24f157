#include "report/iteration_line.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void haul_iteration_timestamp(double wall, char out[HAUL_TIMESTAMP_BYTES]) {
    double whole = floor(wall);
    time_t seconds = (time_t)whole;
    struct tm local;
    char date[32] = "";
    if (localtime_r(&seconds, &local) != NULL) {
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &local);
    }
    snprintf(out, HAUL_TIMESTAMP_BYTES, "%s.%06d", date, (int)((wall - whole) * 1e6));
}

void haul_iteration_line(const haul_iteration *i, const char *timestamp, haul_string *out) {
    haul_string_append_format(out, " [%s] iteration %8lld/%8lld |", timestamp,
                              (long long)i->iteration, (long long)i->train_iters);
    haul_string_append_format(out, " consumed samples: %12lld |", (long long)i->consumed_samples);
    if (i->skipped_samples > 0) {
        haul_string_append_format(out, " skipped samples: %12lld |", (long long)i->skipped_samples);
    }
    haul_string_append_format(out, " elapsed time per iteration (ms): %.1f |", i->elapsed_ms);
    if (!isnan(i->throughput)) {
        haul_string_append_format(out, " throughput per GPU (TFLOP/s/GPU): %.1f |", i->throughput);
    }
    haul_string_append_format(out, " learning rate: %.6E |", i->learning_rate);
    haul_string_append_format(out, " global batch size: %5lld |", (long long)i->global_batch_size);
    if (i->loss >= 0) {
        haul_string_append_format(out, " lm loss: %.6E |", i->loss);
    }
    haul_string_append_format(out, " loss scale: %.1f |", i->loss_scale);
    if (!isnan(i->grad_norm)) {
        haul_string_append_format(out, " grad norm: %.3f |", i->grad_norm);
    }
    if (i->num_zeros >= 0) {
        haul_string_append_format(out, " num zeros: %lld |", (long long)i->num_zeros);
    }
    if (!isnan(i->params_norm)) {
        haul_string_append_format(out, " params norm: %.3f |", i->params_norm);
    }
    haul_string_append_format(out, " number of skipped iterations: %3lld |",
                              (long long)i->skipped_iterations);
    haul_string_append_format(out, " number of nan iterations: %3lld |",
                              (long long)i->nan_iterations);
}

static void append_dashes(haul_string *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        haul_string_append(out, "-", 1);
    }
    haul_string_append(out, "\n", 1);
}

void haul_validation_lines(const char *where, double loss, haul_string *out) {
    haul_string values = {0};
    haul_string_append_format(&values, " validation loss at %s | lm loss value: %.6E | ", where,
                              loss);
    haul_string_append_format(&values, "lm loss PPL: %.6E | ", exp(fmin(20, loss)));
    append_dashes(out, values.length + 1);
    haul_string_append(out, values.data, values.length);
    haul_string_append(out, "\n", 1);
    append_dashes(out, values.length + 1);
    out->failed = out->failed || values.failed;
    haul_string_deinit(&values);
}
