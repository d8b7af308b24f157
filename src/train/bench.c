#include "train/bench.h"

#include "base/memory.h"
#include "train/bench_fill.h"
#include "train/bench_watch.h"
#include "train/loop.h"

#include <math.h>
#include <stdlib.h>

enum { WARM_UP_STEPS = 2, MICRO_BATCHES = 16, VOCABULARY = 257 };
enum { MOST_STEPS = 4096, MOST_SAMPLES = 1 << 24 };

static const double warm_up_seconds = 2;

/* Numbers. */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double haul_bench_median(double *values, int64_t count) {
    if (count == 0) {
        return (double)NAN;
    }
    qsort(values, (size_t)count, sizeof *values, by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Settings. */

static haul_status refuse(const haul_config *config) {
    if (config->load != NULL) {
        haul_fail(HAUL_ERROR_USAGE, "--load cannot be measured: haul bench makes its own weights");
        haul_hint("give the model's shape by --preset or flags");
        return HAUL_ERROR_USAGE;
    }
    if (config->dry_run || config->device == HAUL_DEVICE_META ||
        config->device == HAUL_DEVICE_REF) {
        haul_fail(HAUL_ERROR_USAGE, "%s%s cannot be measured, --device must be cpu, cuda or auto",
                  config->dry_run ? "--dry-run" : "--device ",
                  config->dry_run ? "" : haul_config_choice(config, "device"));
        haul_hint("haul train --dry-run counts operations and memory");
        return HAUL_ERROR_USAGE;
    }
    return HAUL_OK;
}

static void leave_out_files(haul_config *config) {
    config->mock_data = true;
    config->data_path.count = config->valid_data_path.count = 0;
    config->text = config->split = config->sample_prompt = NULL;
    config->tokenizer_model = config->vocab_file = config->merge_file = NULL;
    config->tokenizer_type = HAUL_TOKENIZER_AUTO;
    config->save = config->tensorboard_dir = config->run_dir = config->name = NULL;
    config->eval_interval = config->save_interval = 0;
    config->profile = false;
    config->exit_interval = config->exit_duration_in_mins = 0;
}

static haul_status settle_learning_rate(haul_config *config) {
    const char *rate = "1e-5";
    config->lr_decay_style = HAUL_LR_CONSTANT;
    config->min_lr = config->lr_warmup_init = config->lr_warmup_fraction = 0;
    config->lr_decay_iters = config->lr_decay_samples = 0;
    config->lr_warmup_iters = config->lr_warmup_samples = 0;
    config->lr_wsd_decay_iters = config->lr_wsd_decay_samples = 0;
    return haul_config_set(config, "lr", &rate, 1, HAUL_SOURCE_COMMAND_LINE);
}

haul_status haul_bench_settle(haul_config *config) {
    bool preset = haul_config_source_of(config, "global-batch-size") == HAUL_SOURCE_PRESET;
    HAUL_TRY(refuse(config));
    leave_out_files(config);
    HAUL_TRY(settle_learning_rate(config));
    if (preset) {
        int64_t most = MICRO_BATCHES * config->micro_batch_size;
        config->global_batch_size = haul_min(config->global_batch_size, most);
    }
    int64_t batch = haul_max(1, haul_max(config->micro_batch_size, config->global_batch_size));
    config->train_samples = 0;
    config->train_iters = haul_max(MOST_STEPS, MOST_SAMPLES / batch);
    config->vocab_size = config->vocab_size > 0 ? config->vocab_size : VOCABULARY;
    return HAUL_OK;
}

/* Weights. */

static haul_bench_content content_of(haul_init_kind init) {
    switch (init) {
    case HAUL_INIT_NORMAL:
        return HAUL_BENCH_NORMAL;
    case HAUL_INIT_ONE:
        return HAUL_BENCH_ONE;
    default:
        return HAUL_BENCH_ZERO;
    }
}

/* Made on the device: weights that are independent of the layout take minutes for a large model. */
static haul_status fill_weights(haul_session *session) {
    const haul_store *store = &session->store;
    haul_bench_filler filler;
    haul_status status = haul_bench_filler_init(&filler, &session->trainer.stream);
    for (int64_t i = 0; i < store->chunk->buffer_count && status == HAUL_OK; i++) {
        const haul_buffer_plan *plan = &store->chunk->buffers[i];
        const haul_tensor *value = &store->buffers[i].value;
        status = haul_bench_fill(&filler, value, haul_tensor_bytes(value), content_of(plan->init),
                                 plan->init_std, 0);
    }
    haul_bench_filler_deinit(&filler);
    return status == HAUL_OK ? haul_executor_pack(&session->trainer) : status;
}

/* Steps. */

typedef struct bench {
    haul_session *session;
    haul_bench_result *result;
    haul_bench_watch *watch;
    haul_status status;
    double *seconds; /* of the timed steps */
    volatile sig_atomic_t stop;
    bool warm;
} bench;

/* Where the loop starts a step before it reads the last one's loss, it is told to stop when one
 * more step than is timed has been started: so each timed one ended with the next in the queue. */
static void on_step(void *context, const haul_train *train, double loss, double seconds) {
    bench *b = context;
    haul_bench_result *result = b->result;
    (void)loss;
    if (b->warm && result->steps < train->config->bench_steps) {
        b->seconds[result->steps++] = seconds;
    } else if (!b->warm) {
        result->warm_up_steps++;
        result->warm_up_seconds += seconds;
        b->warm =
            result->warm_up_steps >= WARM_UP_STEPS && result->warm_up_seconds >= warm_up_seconds;
        if (b->warm) {
            b->status = haul_bench_watch_start(&b->session->device, &b->watch);
        }
    }
    b->stop = result->steps == train->config->bench_steps;
}

static void on_stamped_step(void *context, const haul_train *train, double loss, double seconds) {
    bench *b = context;
    (void)train;
    (void)loss;
    b->result->stamped_seconds = seconds;
}

/* The launches of a step, each between two stamps. */
typedef struct tracer {
    haul_stream *stream;
    haul_op *ops;
    haul_stamp *stamps; /* two for each */
    int64_t count, op_capacity, stamp_capacity;
    haul_status status;
} tracer;

static void before(void *context, haul_op op, const void *args) {
    tracer *t = context;
    (void)args;
    if (t->status == HAUL_OK) {
        t->status = haul_grow(&t->ops, &t->op_capacity, t->count + 1, sizeof *t->ops);
    }
    if (t->status == HAUL_OK) {
        t->status = haul_grow(&t->stamps, &t->stamp_capacity, 2 * t->count + 2, sizeof *t->stamps);
    }
    if (t->status == HAUL_OK) {
        t->ops[t->count] = op;
        haul_stream_stamp(t->stream, &t->stamps[2 * t->count]);
    }
}

static void after(void *context, haul_op op) {
    tracer *t = context;
    (void)op;
    if (t->status == HAUL_OK) {
        haul_stream_stamp(t->stream, &t->stamps[2 * t->count++ + 1]);
    }
}

static void add_up(const tracer *t, haul_bench_result *result) {
    for (int64_t i = 0; i < t->count; i++) {
        haul_op_class class = haul_op_class_of(t->ops[i]);
        result->class_launches[class]++;
        result->class_seconds[class] +=
            haul_stream_elapsed(t->stream, &t->stamps[2 * i], &t->stamps[2 * i + 1]);
    }
}

static void tracer_deinit(tracer *t) {
    for (int64_t i = 0; i < t->stamp_capacity; i++) {
        haul_stamp_deinit(t->stream->device, &t->stamps[i]);
    }
    free(t->stamps);
    free(t->ops);
}

/* One step: the loop is told to stop before it begins. */
static haul_status run_stamped(bench *b, haul_train *train) {
    haul_stream *stream = &b->session->trainer.stream;
    tracer t = {.stream = stream};
    b->stop = 1;
    train->observer.step = on_stamped_step;
    stream->observe = before;
    stream->observe_end = after;
    stream->observe_context = &t;
    haul_status status = haul_train_run(train);
    stream->observe = NULL;
    stream->observe_end = NULL;
    if (status == HAUL_OK) {
        status = t.status;
    }
    if (status == HAUL_OK) {
        status = haul_stream_wait(stream);
    }
    if (status == HAUL_OK) {
        add_up(&t, b->result);
        status = haul_stream_status(stream);
    }
    tracer_deinit(&t);
    return status;
}

static haul_status run_timed(bench *b, haul_train *train) {
    haul_bench_result *result = b->result;
    HAUL_TRY(haul_train_run(train));
    HAUL_TRY(b->status);
    if (result->steps < train->config->bench_steps) {
        haul_fail(HAUL_ERROR_CONFIG, "%lld steps of this model took less than the %g s to warm up",
                  (long long)train->progress.iteration, warm_up_seconds);
        haul_hint("measure a larger model, or a larger --global-batch-size");
        return HAUL_ERROR_CONFIG;
    }
    result->median = haul_bench_median(b->seconds, result->steps); /* sorts */
    result->fastest = b->seconds[0];
    result->slowest = b->seconds[result->steps - 1];
    result->used_bytes = haul_device_used_bytes(&b->session->device);
    return HAUL_OK;
}

haul_status haul_bench_train(haul_session *session, const haul_dataset *dataset,
                             haul_bench_result *out) {
    bench b = {.session = session, .result = out};
    haul_train train = {.config = session->config,
                        .session = session,
                        .training = dataset,
                        .observer = {.context = &b, .step = on_step},
                        .stop = &b.stop};
    *out = (haul_bench_result){0};
    HAUL_TRY(fill_weights(session));
    b.seconds = haul_calloc(session->config->bench_steps, sizeof *b.seconds);
    haul_status status = b.seconds != NULL ? run_timed(&b, &train) : HAUL_ERROR_MEMORY;
    out->condition = haul_bench_watch_stop(b.watch);
    if (status == HAUL_OK) {
        status = run_stamped(&b, &train);
    }
    free(b.seconds);
    return status;
}
