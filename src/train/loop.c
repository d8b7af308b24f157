#include "train/loop.h"

#include "base/clock.h"
#include "base/memory.h"
#include "config/validate.h"
#include "train/batch.h"
#include "train/learning_rate.h"
#include "train/profile_run.h"
#include "train/save.h"

#include <math.h>

enum { SKIPS_IN_A_ROW = 10 };

/* What a log interval adds up. */
typedef struct interval {
    double loss;
    double gradient_norm;
    double seconds;
    int64_t finite_steps;
    int64_t steps;
    int64_t nan_iterations;
} interval;

typedef struct loop {
    haul_train *train;
    haul_batch batches[HAUL_EXECUTOR_DEPTH]; /* of iteration i: i % DEPTH */
    int64_t started;                         /* the last iteration that was started */
    double since;                            /* when the earliest that runs had the device alone */
    haul_checkpoint_writer *writer;          /* the lock of --save */
    interval interval;
    int64_t skips; /* in a row */
    int64_t evaluations;
    haul_profile_run profile;
} loop;

static haul_status after_skip(loop *l, const haul_verdict *verdict) {
    haul_train *train = l->train;
    const char *parameter = "the loss";
    if (verdict->first_not_finite >= 0) {
        parameter = train->session->chunk.buffers[verdict->first_not_finite].views[0].name;
    }
    l->interval.nan_iterations++;
    train->progress.skipped_iterations++;
    if (train->observer.skipped != NULL) {
        train->observer.skipped(train->observer.context, train, parameter);
    }
    if (++l->skips < SKIPS_IN_A_ROW) {
        return HAUL_OK;
    }
    haul_fail(
        HAUL_ERROR_NUMERIC,
        "%d steps in a row, to iteration %lld, had gradients that are not finite, first in %s",
        SKIPS_IN_A_ROW, (long long)train->progress.iteration, parameter);
    haul_hint("lower --lr, lengthen --lr-warmup-iters, or look at the data of these samples");
    return HAUL_ERROR_NUMERIC;
}

static haul_batch *batch_of(loop *l, int64_t iteration) {
    return &l->batches[iteration % HAUL_EXECUTOR_DEPTH];
}

/* A profile that fails does not end a training. */
static void check_profile(loop *l, haul_status status, const char *path,
                          const haul_profile_times *times) {
    const haul_train *train = l->train;
    bool failed = status != HAUL_OK;
    if (train->observer.profiled != NULL && (failed || path[0] != '\0')) {
        train->observer.profiled(train->observer.context, train, failed ? NULL : path, times);
    }
    if (failed) {
        haul_profile_run_deinit(&l->profile);
    }
}

static void end_profile(loop *l, bool end) {
    haul_profile_times times;
    char path[1200];
    haul_status status = haul_profile_run_after(&l->profile, l->train->progress.iteration, end,
                                                path, sizeof path, &times);
    check_profile(l, status, path, &times);
}

/* Starts the next iteration; the device may still be busy with the one before. */
static haul_status start_step(loop *l) {
    haul_train *train = l->train;
    const haul_train_progress *progress = &train->progress;
    int64_t ahead = l->started - progress->iteration;
    int64_t samples = progress->consumed_samples + ahead * train->config->global_batch_size;
    haul_batch *batch = batch_of(l, l->started + 1);
    if (ahead == 0) {
        l->since = haul_clock_seconds();
    }
    check_profile(l, haul_profile_run_before(&l->profile, l->started + 1), "", NULL);
    HAUL_TRY(haul_batch_load(batch, train->training, samples));
    haul_step_request request = {.info = {.seed = (uint64_t)train->config->seed,
                                          .step = (uint32_t)(l->started + 1),
                                          .first_sample = samples,
                                          .training = true},
                                 .samples = train->config->micro_batch_size,
                                 .fill = haul_batch_fill,
                                 .fill_context = batch,
                                 .learning_rate = haul_learning_rate(train->config, samples)};
    l->started++;
    return haul_executor_start(&train->session->trainer, &request);
}

/* Waits for the earliest iteration that runs, and takes in what it came to. */
static haul_status finish_step(loop *l) {
    haul_train *train = l->train;
    haul_train_progress *progress = &train->progress;
    const haul_batch *batch = batch_of(l, progress->iteration + 1);
    double sum = 0;
    int64_t labels = 0;
    haul_verdict verdict;
    HAUL_TRY(haul_executor_finish(&train->session->trainer, &verdict));
    haul_batch_sum_losses(batch, &train->session->trainer, train->session->values.losses, &sum,
                          &labels);
    double now = haul_clock_seconds(), seconds = now - l->since;
    double loss = sum / (double)haul_max(labels, 1);
    l->since = now;
    progress->iteration++;
    progress->consumed_samples += batch->samples;
    l->interval.steps++;
    l->interval.seconds += seconds;
    if (verdict.finite) {
        progress->updates++;
        l->skips = 0;
        l->interval.finite_steps++;
        l->interval.loss += loss;
        l->interval.gradient_norm = verdict.gradient_norm;
    } else {
        HAUL_TRY(after_skip(l, &verdict));
    }
    if (train->observer.step != NULL) {
        train->observer.step(train->observer.context, train, loss, seconds);
    }
    return HAUL_OK;
}

static void log_interval(loop *l) {
    haul_train *train = l->train;
    const interval *sums = &l->interval;
    const haul_config *config = train->config;
    double tokens = (double)(config->global_batch_size * config->seq_length * sums->steps);
    double flops = haul_model_flops_per_token(config) * tokens;
    haul_iteration means = {
        .iteration = train->progress.iteration,
        .train_iters = haul_config_iterations(config),
        .consumed_samples = train->progress.consumed_samples,
        .elapsed_ms = 1e3 * sums->seconds / (double)sums->steps,
        .throughput = flops / sums->seconds / 1e12,
        .learning_rate = haul_learning_rate(config, train->progress.consumed_samples),
        .global_batch_size = config->global_batch_size,
        .loss = sums->finite_steps > 0 ? sums->loss / (double)sums->finite_steps : -1,
        .loss_scale = 1,
        .grad_norm = sums->finite_steps > 0 ? sums->gradient_norm : (double)NAN,
        .params_norm = (double)NAN,
        .num_zeros = -1,
        .skipped_iterations = sums->steps - sums->finite_steps,
        .nan_iterations = sums->nan_iterations};
    if (train->observer.interval != NULL) {
        train->observer.interval(train->observer.context, train, &means);
    }
    l->interval = (interval){0};
}

static haul_status evaluate(loop *l) {
    haul_train *train = l->train;
    const haul_config *config = train->config;
    int64_t samples = config->eval_iters * config->global_batch_size;
    int64_t available = haul_dataset_samples(train->validation);
    int64_t windows = haul_max(1, available / haul_max(1, samples));
    int64_t first = l->evaluations % windows * samples;
    haul_evaluation evaluation;
    samples = haul_min(samples, available); /* a small set is read again from its start */
    HAUL_TRY(haul_evaluate_samples(train->session, train->validation, first, samples,
                                   train->tokenizer, &evaluation));
    l->evaluations++;
    if (train->observer.evaluation != NULL && evaluation.labels > 0) {
        train->observer.evaluation(train->observer.context, train, &evaluation);
    }
    if (train->observer.sample != NULL) {
        return train->observer.sample(train->observer.context, train);
    }
    return HAUL_OK;
}

static haul_status save(loop *l) {
    haul_train *train = l->train;
    double begin = haul_clock_seconds();
    char path[1200];
    int64_t bytes;
    HAUL_TRY(haul_train_save(train, l->writer, path, sizeof path, &bytes));
    train->last_saved = train->progress.iteration;
    if (train->observer.checkpoint != NULL) {
        train->observer.checkpoint(train->observer.context, train, path, bytes,
                                   haul_clock_seconds() - begin);
    }
    return HAUL_OK;
}

static bool due(int64_t iteration, int64_t every) {
    return every > 0 && iteration % every == 0;
}

static bool is_late(const haul_train *train) {
    int64_t minutes = train->config->exit_duration_in_mins;
    return minutes > 0 && haul_clock_seconds() - train->started > 60 * (double)minutes;
}

/* True when the run ends here, with the reason in train->end. */
static bool ends(haul_train *train) {
    const haul_config *config = train->config;
    if (train->stop != NULL && *train->stop != 0) {
        train->end = HAUL_TRAIN_INTERRUPTED;
    } else if (train->progress.iteration >= haul_config_iterations(config)) {
        train->end = HAUL_TRAIN_FINISHED;
    } else if (due(train->progress.iteration, config->exit_interval)) {
        train->end = HAUL_TRAIN_EXIT_INTERVAL;
    } else if (is_late(train)) {
        train->end = HAUL_TRAIN_EXIT_DURATION;
    } else {
        return false;
    }
    return true;
}

/* Whether something happens behind this iteration before the next may start. */
static bool rests_after(const loop *l, int64_t iteration) {
    const haul_train *train = l->train;
    const haul_config *config = train->config;
    return iteration >= haul_config_iterations(config) || due(iteration, config->exit_interval) ||
           (train->validation != NULL && due(iteration, config->eval_interval)) ||
           (config->save != NULL && due(iteration, config->save_interval)) ||
           haul_profile_run_rests_after(&l->profile, iteration) ||
           (train->stop != NULL && *train->stop != 0) || is_late(train);
}

/* Keeps the device busy: the next step is started before the last one's loss is read. */
static haul_status run_step(loop *l) {
    const haul_train *train = l->train;
    int64_t depth = haul_executor_depth(&train->session->trainer);
    do {
        HAUL_TRY(start_step(l));
    } while (l->started - train->progress.iteration < depth && !rests_after(l, l->started));
    return finish_step(l);
}

static haul_status run(loop *l) {
    haul_train *train = l->train;
    const haul_config *config = train->config;
    bool end = train->progress.iteration >= haul_config_iterations(config);
    while (!end) {
        bool idle = l->started == train->progress.iteration;
        HAUL_TRY(idle || !rests_after(l, l->started) ? run_step(l) : finish_step(l));
        int64_t iteration = train->progress.iteration;
        end = l->started == iteration && ends(train);
        end_profile(l, end);
        if (due(iteration, config->log_interval) || (end && l->interval.steps > 0)) {
            log_interval(l);
        }
        bool finished = end && train->end == HAUL_TRAIN_FINISHED;
        if (train->validation != NULL && (due(iteration, config->eval_interval) || finished)) {
            HAUL_TRY(evaluate(l));
        }
        if (config->save != NULL && (due(iteration, config->save_interval) || end)) {
            HAUL_TRY(save(l));
        }
    }
    return HAUL_OK;
}

static haul_status init_batches(loop *l) {
    const haul_config *config = l->train->config;
    for (int i = 0; i < HAUL_EXECUTOR_DEPTH; i++) {
        HAUL_TRY(haul_batch_init(&l->batches[i], config->global_batch_size, config->seq_length,
                                 haul_session_micro_batches(config)));
    }
    return HAUL_OK;
}

haul_status haul_train_run(haul_train *train) {
    const haul_config *config = train->config;
    loop l = {.train = train, .started = train->progress.iteration};
    train->started = haul_clock_seconds();
    train->last_saved = -1;
    haul_status status = init_batches(&l);
    if (status == HAUL_OK) {
        status = haul_profile_run_init(&l.profile, config, &train->session->trainer);
    }
    if (status == HAUL_OK) {
        status = haul_store_set_updates(&train->session->store, train->progress.updates);
    }
    if (config->eval_interval > 0) { /* a resumed run goes on where its evaluations were */
        l.evaluations = train->progress.iteration / config->eval_interval;
    }
    if (status == HAUL_OK && config->save != NULL) {
        status = haul_checkpoint_lock(config->save, &l.writer);
    }
    if (status == HAUL_OK) {
        status = run(&l);
    }
    haul_profile_run_deinit(&l.profile);
    haul_checkpoint_unlock(l.writer);
    for (int i = 0; i < HAUL_EXECUTOR_DEPTH; i++) {
        haul_batch_deinit(&l.batches[i]);
    }
    return status;
}
