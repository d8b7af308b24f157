/* Where the time of a training step goes, op by op: each launch on the cpu is over before the next
 * one is observed, so the time between two observations belongs to the first.
 *
 *     profile [flags of haul train], for example --preset gpt2-124m --micro-batch-size 4
 */
#include "base/clock.h"
#include "config/parse.h"
#include "config/validate.h"
#include "train/record.h"
#include "train/save.h"

#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 1, MEASURED = 2 };

typedef struct profile {
    haul_op op; /* that runs now */
    double since;
    double seconds[HAUL_OPS];
    double flops[HAUL_OPS];
    long launches[HAUL_OPS];
} profile;

static void die_on_failure(haul_status status) {
    if (status != HAUL_OK) {
        fprintf(stderr, "profile: error: %s\n", haul_error_message());
        exit((int)status);
    }
}

static void observe(void *context, haul_op op, const void *args) {
    profile *p = context;
    double now = haul_clock_seconds();
    if (p->since > 0) {
        p->seconds[p->op] += now - p->since;
    }
    p->op = op;
    p->since = now;
    p->launches[op]++;
    p->flops[op] += (double)haul_op_cost(op, args).flops;
}

static haul_status fill(void *context, int micro_batch, const char *value, haul_tensor tensor) {
    (void)value;
    for (int64_t i = 0; i < haul_tensor_count(&tensor); i++) {
        bool weights = tensor.dtype != HAUL_I32;
        int64_t vocabulary = *(const int64_t *)context;
        haul_element_set(tensor.data, tensor.dtype, i,
                         weights ? 1e-4 : (double)((i * 7 + micro_batch) % vocabulary));
    }
    return HAUL_OK;
}

static double step(haul_session *session, int64_t number) {
    const haul_config *config = session->config;
    int64_t vocabulary = config->vocab_size;
    haul_verdict verdict;
    haul_step_request request = {.info = {.step = (uint32_t)number, .training = true},
                                 .samples = config->micro_batch_size,
                                 .fill = fill,
                                 .fill_context = &vocabulary,
                                 .learning_rate = 1e-4,
                                 .update = number};
    double begin = haul_clock_seconds();
    die_on_failure(haul_executor_run(&session->trainer, &request, &verdict));
    return haul_clock_seconds() - begin;
}

static void print(const profile *p, const haul_config *config, double seconds, double ceiling) {
    double tokens = (double)(config->global_batch_size * config->seq_length);
    printf("step: %.1f ms, %.0f tokens/s; a 1024^3 product runs at %.1f GFLOP/s\n",
           1e3 * seconds / MEASURED, tokens * MEASURED / seconds, ceiling / 1e9);
    printf("%-20s %9s %10s %7s %9s\n", "op", "launches", "ms a step", "share", "GFLOP/s");
    for (int op = 0; op < HAUL_OPS; op++) {
        if (p->launches[op] > 0) {
            printf("%-20s %9ld %10.2f %6.1f%% %9.1f\n", haul_op_name((haul_op)op),
                   p->launches[op] / MEASURED, 1e3 * p->seconds[op] / MEASURED,
                   100 * p->seconds[op] / seconds, p->flops[op] / p->seconds[op] / 1e9);
        }
    }
}

int main(int argc, char **argv) {
    const char *one = "1", *zero = "0";
    haul_config config;
    haul_session session;
    profile p = {0};
    double ceiling, seconds = 0;
    die_on_failure(haul_config_init(&config));
    die_on_failure(haul_config_set(&config, "train-iters", &one, 1, HAUL_SOURCE_COMMAND_LINE));
    die_on_failure(haul_config_set(&config, "lr-warmup-iters", &zero, 1, HAUL_SOURCE_COMMAND_LINE));
    die_on_failure(haul_config_set(&config, "mock-data", (const char *[]){"true"}, 1,
                                   HAUL_SOURCE_COMMAND_LINE));
    die_on_failure(
        haul_config_parse(&config, HAUL_COMMAND_TRAIN, argc - 1, (const char *const *)argv + 1));
    die_on_failure(haul_config_finalize(&config));
    die_on_failure(haul_session_plan(&session, &config, true));
    die_on_failure(haul_session_allocate(&session));
    haul_train train = {.config = &config, .session = &session};
    die_on_failure(haul_train_start(&train, NULL));
    die_on_failure(
        haul_record_measure_ceiling(&session.device, session.chunk.numerics.activation, &ceiling));
    for (int64_t i = 0; i < WARM_UP; i++) {
        step(&session, 1 + i);
    }
    session.trainer.stream.observe = observe;
    session.trainer.stream.observe_context = &p;
    for (int64_t i = 0; i < MEASURED; i++) {
        seconds += step(&session, 1 + WARM_UP + i);
        p.seconds[p.op] += haul_clock_seconds() - p.since;
        p.since = 0;
    }
    print(&p, &config, seconds, ceiling);
    haul_session_deinit(&session);
    haul_config_deinit(&config);
    return 0;
}
