#include "base/file.h"
#include "base/format.h"
#include "cli/bench.h"
#include "config/megatron_flops.h"
#include "train/bench.h"
#include "train/corpus.h"

#include <math.h>
#include <stdio.h>

/* All that is shown, from what was measured. */
typedef struct shown {
    haul_bench_result result;
    double ceiling; /* FLOP/s of a large product, this run */
    double peak;    /* by the data sheet; 0: not known */
    double tokens_per_second;
    double model_flops, megatron_flops; /* a second */
    double launched;                    /* seconds in launches of the step with stamps */
    double idle;
} shown;

static void derive(const haul_session *session, shown *s) {
    const haul_config *config = session->config;
    double tokens = (double)(config->global_batch_size * config->seq_length);
    s->tokens_per_second = tokens / s->result.median;
    s->model_flops = s->tokens_per_second * haul_model_flops_per_token(config);
    s->megatron_flops = s->tokens_per_second * haul_megatron_flops_per_token(config, false);
    s->peak = haul_bench_peak(&session->device);
    for (int class = 0; class < HAUL_OP_CLASSES; class ++) {
        s->launched += s->result.class_seconds[class];
    }
    s->idle = fmax(0, s->result.median - s->launched);
}

static void print_speed(const haul_session *session, const shown *s) {
    const haul_config *config = session->config;
    const haul_bench_result *result = &s->result;
    printf("shape: %lld layers, %lld tokens a micro-batch, accumulation %lld\n",
           (long long)config->num_layers,
           (long long)(config->micro_batch_size * config->seq_length),
           (long long)haul_session_micro_batches(config));
    printf("step: %.2f ms, the median of %lld (%.2f to %.2f), after %lld in %.1f s\n",
           1e3 * result->median, (long long)result->steps, 1e3 * result->fastest,
           1e3 * result->slowest, (long long)result->warm_up_steps, result->warm_up_seconds);
    printf("tokens: %.0f a second\n", s->tokens_per_second);
    printf("operations: %.4g TFLOP/s by the model's formula, %.4g by Megatron's count\n",
           s->model_flops / 1e12, s->megatron_flops / 1e12);
    printf("utilization: %.1f %% of a large %s product, %.4g TFLOP/s in this run\n",
           100 * s->model_flops / s->ceiling, haul_dtype_name(session->chunk.numerics.activation),
           s->ceiling / 1e12);
    if (s->peak > 0) {
        printf("MFU: %.1f %% of the data sheet's %.4g TFLOP/s in bf16\n",
               100 * s->model_flops / s->peak, s->peak / 1e12);
    }
    printf("memory: %s planned", haul_format_bytes(session->memory.bytes).text);
    if (result->used_bytes > 0) {
        printf(", %s taken", haul_format_bytes(result->used_bytes).text);
    }
    putchar('\n');
    if (isfinite(result->condition.clock_hertz) || isfinite(result->condition.power_watts)) {
        printf("clock: %.0f MHz, power: %.0f W\n", result->condition.clock_hertz / 1e6,
               result->condition.power_watts);
    }
}

static void print_classes(const shown *s) {
    const haul_bench_result *result = &s->result;
    printf("\n%-20s %9s %12s %7s\n", "time of one step", "launches", "ms", "share");
    for (int class = 0; class < HAUL_OP_CLASSES; class ++) {
        if (result->class_launches[class] > 0) {
            printf("%-20s %9lld %12.3f %6.1f%%\n", haul_op_class_name((haul_op_class) class),
                   (long long)result->class_launches[class], 1e3 * result->class_seconds[class],
                   100 * result->class_seconds[class] / result->median);
        }
    }
    printf("%-20s %9s %12.3f %6.1f%%\n", "idle", "", 1e3 * s->idle, 100 * s->idle / result->median);
    printf("launches took %.2f ms together in a step of %.2f ms with stamps; without, a step takes "
           "%.2f ms\n",
           1e3 * s->launched, 1e3 * result->stamped_seconds, 1e3 * result->median);
}

/* What is not known is null. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *classes(const shown *s) {
    json_t *out = json_object();
    for (int class = 0; class < HAUL_OP_CLASSES; class ++) {
        json_object_set_new(out, haul_op_class_name((haul_op_class) class),
                            json_pack("{s:I, s:f}", "launches",
                                      (json_int_t)s->result.class_launches[class], "seconds",
                                      s->result.class_seconds[class]));
    }
    return out;
}

static json_t *to_json(const haul_cli *cli, const haul_session *session, const shown *s) {
    const haul_bench_result *result = &s->result;
    json_t *root = haul_bench_describe(cli, session);
    json_t *numbers = json_pack(
        "{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:I, s:I, s:o, s:o, s:o, s:f, s:f}",
        "timed_steps", (json_int_t)result->steps, "step_seconds", result->median,
        "step_seconds_min", result->fastest, "step_seconds_max", result->slowest,
        "tokens_per_second", s->tokens_per_second, "model_flops_per_second", s->model_flops,
        "megatron_flops_per_second", s->megatron_flops, "product_ceiling", s->ceiling, "peak",
        number(s->peak > 0 ? s->peak : (double)NAN), "planned_bytes",
        (json_int_t)session->memory.bytes, "used_bytes", (json_int_t)result->used_bytes,
        "clock_hertz", number(result->condition.clock_hertz), "power_watts",
        number(result->condition.power_watts), "classes", classes(s), "idle_seconds", s->idle,
        "stamped_step_seconds", result->stamped_seconds);
    if (json_object_update(root, numbers) != 0) {
        json_decref(root);
        root = NULL;
    }
    json_decref(numbers);
    return root;
}

/* Before the session takes its memory, which may be all there is. */
static haul_status measure_ceiling(haul_session *session, double *out) {
    haul_bench_timer timer;
    haul_status status = haul_bench_timer_init(&timer, &session->device);
    if (status == HAUL_OK) {
        status = haul_bench_product_ceiling(&timer, session->chunk.numerics.activation, out);
    }
    haul_bench_timer_deinit(&timer);
    return status;
}

static haul_status measure(haul_session *session, haul_corpus *corpus, shown *s) {
    HAUL_TRY(measure_ceiling(session, &s->ceiling));
    HAUL_TRY(haul_corpus_open(session->config, corpus));
    HAUL_TRY(haul_session_allocate(session));
    HAUL_TRY(haul_bench_train(session, corpus->training, &s->result));
    derive(session, s);
    return HAUL_OK;
}

haul_status haul_cli_bench_train(const haul_cli *cli, haul_config *config) {
    haul_session session = {0};
    haul_corpus corpus = {0};
    shown s = {0};
    HAUL_TRY(haul_file_check_target(config->json));
    haul_status status = haul_bench_plan(config, &session);
    if (status == HAUL_OK) {
        status = measure(&session, &corpus, &s);
    }
    if (status == HAUL_OK) {
        print_speed(&session, &s);
        print_classes(&s);
        status = haul_bench_write_json(config, to_json(cli, &session, &s));
    }
    haul_corpus_close(&corpus);
    haul_session_deinit(&session);
    return status;
}
