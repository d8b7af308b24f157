#include "cli/train.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/memory.h"
#include "config/validate.h"

#include <math.h>
#include <stdio.h>

/* A log that cannot be written is said once a line and does not end a training. */
static void warn_on_failure(haul_train_command *command, haul_status status) {
    if (status != HAUL_OK) {
        haul_live_line_clear(&command->live);
        haul_cli_note(command->cli, "%s", haul_error_message());
    }
}

static void print_line(haul_train_command *command, const haul_string *text) {
    haul_live_line_clear(&command->live);
    haul_cli_print(text);
    fflush(stdout);
}

static void on_step(void *context, const haul_train *train, double loss, double seconds) {
    haul_train_command *command = context;
    const haul_config *config = train->config;
    if (!command->cli->live) {
        return;
    }
    double tokens = (double)(config->global_batch_size * config->seq_length);
    double smooth = command->smooth_seconds > 0 ? command->smooth_seconds : seconds;
    command->smooth_seconds = smooth + 0.05 * (seconds - smooth);
    double rate = tokens / command->smooth_seconds, ceiling = command->record.ceiling;
    int64_t total = haul_config_iterations(config);
    haul_live_state state = {
        .iteration = train->progress.iteration,
        .train_iters = total,
        .loss = loss,
        .tokens_per_second = rate,
        .mfu = ceiling > 0 ? rate * haul_model_flops_per_token(config) / ceiling : (double)NAN,
        .eta_seconds = (double)(total - train->progress.iteration) * command->smooth_seconds,
        .memory_bytes = haul_device_used_bytes(&train->session->device)};
    haul_live_line_update(&command->live, &state, haul_clock_seconds());
}

static void on_interval(void *context, const haul_train *train, const haul_iteration *means) {
    haul_train_command *command = context;
    char timestamp[HAUL_TIMESTAMP_BYTES];
    haul_string line = {0};
    haul_iteration shown = *means;
    haul_train_note_memory(command, HAUL_TRAIN_RUNNING);
    shown.throughput = (double)NAN;
    haul_iteration_timestamp(haul_clock_wall(), timestamp);
    haul_iteration_line(&shown, timestamp, &line);
    haul_string_append_text(&line, "\n");
    print_line(command, &line);
    haul_string_deinit(&line);
    warn_on_failure(command, haul_record_interval(&command->record, train, means));
}

static void on_evaluation(void *context, const haul_train *train,
                          const haul_evaluation *evaluation) {
    haul_train_command *command = context;
    double bits = haul_evaluation_bits_per_byte(evaluation);
    char where[64];
    haul_string lines = {0};
    snprintf(where, sizeof where, "iteration %lld", (long long)train->progress.iteration);
    haul_validation_lines(where, haul_evaluation_loss(evaluation), &lines);
    if (isfinite(bits)) {
        haul_string_append_format(&lines, " bits per byte: %.3f\n", bits);
    }
    print_line(command, &lines);
    haul_string_deinit(&lines);
    warn_on_failure(command, haul_record_evaluation(&command->record, train, evaluation));
}

static void on_checkpoint(void *context, const haul_train *train, const char *path, int64_t bytes,
                          double seconds) {
    haul_train_command *command = context;
    char timestamp[HAUL_TIMESTAMP_BYTES];
    haul_string line = {0};
    haul_iteration_timestamp(haul_clock_wall(), timestamp);
    haul_string_append_format(&line,
                              "  [%s] successfully saved checkpoint from iteration %7lld to %s "
                              "(%s in %s)\n",
                              timestamp, (long long)train->progress.iteration, path,
                              haul_format_bytes(bytes).text, haul_format_duration(seconds).text);
    print_line(command, &line);
    haul_string_deinit(&line);
    warn_on_failure(command, haul_record_checkpoint(&command->record, train, path, bytes, seconds));
}

/* The trace, and what the device's time went to. */
static void on_profiled(void *context, const haul_train *train, const char *path,
                        const haul_profile_times *times) {
    haul_train_command *command = context;
    haul_string line = {0};
    if (path == NULL) {
        haul_live_line_clear(&command->live);
        haul_cli_note(command->cli, "no profile: %s", haul_error_message());
        return;
    }
    double window = (double)haul_max(times->window, 1);
    haul_string_append_format(&line, "profile up to iteration %lld: %s; of %.4g ms",
                              (long long)train->progress.iteration, path, 1e-6 * window);
    for (int i = 0; i < HAUL_PROFILE_CLASSES; i++) {
        double share = (double)times->nanoseconds[i] / window;
        if (times->nanoseconds[i] > 0) {
            haul_string_append_format(&line, ", %s %.1f%%", haul_profile_class_name(i),
                                      100 * share);
        }
    }
    haul_string_append_text(&line, "\n");
    print_line(command, &line);
    haul_string_deinit(&line);
}

static void on_skipped(void *context, const haul_train *train, const char *parameter) {
    haul_train_command *command = context;
    haul_live_line_clear(&command->live);
    haul_cli_note(command->cli,
                  "iteration %lld was skipped: the gradient of %s is not finite; nothing changed",
                  (long long)train->progress.iteration, parameter);
}

static void collect_text(void *context, const char *text, int64_t bytes) {
    haul_string_append(context, text, bytes);
}

/* One short text at each evaluation, drawn with the same seed, so that only the model changes. */
static haul_status on_sample(void *context, const haul_train *train) {
    haul_train_command *command = context;
    const char *prompt = train->config->sample_prompt;
    haul_string text = {0}, shown = {0};
    haul_generate_options options = {
        .sampling = {.temperature = 0.8, .seed = (uint64_t)train->config->seed},
        .max_new_tokens = 200,
        .text = collect_text,
        .context = &text};
    haul_generate_result result;
    haul_status status =
        haul_generate(&command->generator, train->tokenizer, prompt, &options, &result);
    if (status == HAUL_OK) {
        haul_string_append_format(&shown, " sample at iteration %lld: %s",
                                  (long long)train->progress.iteration, prompt);
        haul_string_append(&shown, text.data, text.length);
        haul_string_append_text(&shown, "\n");
        haul_live_line_clear(&command->live);
        haul_cli_print_model_text(shown.data, shown.length);
        fflush(stdout);
        haul_string_append_text(&text, "");
        warn_on_failure(command, haul_record_sample(&command->record, train, prompt,
                                                    text.data != NULL ? text.data : ""));
    }
    haul_string_deinit(&text);
    haul_string_deinit(&shown);
    return status;
}

static haul_status init_generator(haul_train_command *command) {
    haul_train_observer *observer = &command->train.observer;
    if (command->config->sample_prompt == NULL) {
        return HAUL_OK;
    }
    if (command->train.tokenizer == NULL) {
        haul_fail(HAUL_ERROR_CONFIG, "--sample-prompt needs a tokenizer");
        haul_hint("add --tokenizer-type or --tokenizer-model");
        return HAUL_ERROR_CONFIG;
    }
    haul_generator_options options = {.capacity = command->config->seq_length};
    observer->sample = on_sample;
    return haul_generator_init(&command->generator, command->config, &command->session.store,
                               options);
}

haul_status haul_train_show_init(haul_train_command *command) {
    haul_live_line_init(&command->live, stderr, command->cli->utf8, command->cli->color_err);
    command->train.observer = (haul_train_observer){.context = command,
                                                    .step = on_step,
                                                    .interval = on_interval,
                                                    .evaluation = on_evaluation,
                                                    .checkpoint = on_checkpoint,
                                                    .profiled = on_profiled,
                                                    .skipped = on_skipped};
    return init_generator(command);
}

void haul_train_show_end(haul_train_command *command) {
    haul_live_line_clear(&command->live);
    haul_live_line_deinit(&command->live);
}

void haul_train_print_model(const haul_session *session) {
    const haul_config *config = session->config;
    int64_t micro_batches = haul_session_micro_batches(config);
    char device[256];
    session->device.backend->describe(&session->device, device, sizeof device);
    printf("model: %s parameters, %lld layers, width %lld, %lld heads, vocabulary %lld (padded to "
           "%lld)\n",
           haul_format_count(haul_chunk_parameter_count(&session->chunk)).text,
           (long long)config->num_layers, (long long)config->hidden_size,
           (long long)config->num_attention_heads, (long long)config->vocab_size,
           (long long)config->padded_vocab_size);
    printf("step: %lld sequences of %lld tokens in %lld micro-batch%s, %.4g GFLOP a token\n",
           (long long)config->global_batch_size, (long long)config->seq_length,
           (long long)micro_batches, micro_batches == 1 ? "" : "es",
           haul_model_flops_per_token(config) / 1e9);
    printf("device: %s\n", device);
}
