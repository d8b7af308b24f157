#include "train/record.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/philox.h"
#include "config/json.h"
#include "config/validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static haul_status write_text(const char *directory, const char *name, const char *text) {
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return haul_file_replace(path, text, (int64_t)strlen(text));
}

haul_status haul_record_open(haul_record *record, const char *run_directory, const char *command,
                             const haul_config *config) {
    char path[1200];
    haul_string json = {0};
    *record = (haul_record){0};
    HAUL_TRY(haul_directory_create(run_directory));
    HAUL_TRY(write_text(run_directory, "command.txt", command));
    haul_status status = haul_config_to_json(config, &json);
    if (status == HAUL_OK) {
        status = write_text(run_directory, "config.json", json.data);
    }
    haul_string_deinit(&json);
    HAUL_TRY(status);
    snprintf(path, sizeof path, "%s/log.jsonl", run_directory);
    HAUL_TRY(haul_run_log_open(path, &record->log));
    if (config->tensorboard_dir != NULL) {
        HAUL_TRY(haul_tensorboard_open(config->tensorboard_dir, haul_clock_wall(), &record->board));
        record->has_board = true;
    }
    return HAUL_OK;
}

void haul_record_close(haul_record *record) {
    haul_run_log_close(&record->log);
    if (record->has_board) {
        haul_tensorboard_close(&record->board);
    }
    *record = (haul_record){0};
}

haul_status haul_record_start(haul_record *record, const haul_train *train, haul_log_start start) {
    const haul_session *session = train->session;
    char model[160], description[256];
    snprintf(model, sizeof model, "%lld layers, width %lld, %lld heads, vocabulary %lld",
             (long long)train->config->num_layers, (long long)train->config->hidden_size,
             (long long)train->config->num_attention_heads, (long long)train->config->vocab_size);
    session->device.backend->describe(&session->device, description, sizeof description);
    start.iteration = train->progress.iteration;
    start.train_iters = haul_config_iterations(train->config);
    start.parameters = haul_chunk_parameter_count(&session->chunk);
    start.threads = session->device.threads;
    start.time = haul_clock_wall();
    start.flops_per_token = haul_model_flops_per_token(train->config);
    start.ceiling_gflops = record->ceiling > 0 ? record->ceiling / 1e9 : (double)NAN;
    start.gzip_bits_per_byte = start.xz_bits_per_byte = (double)NAN;
    start.model = model;
    start.isa = description;
    start.precision = haul_dtype_name(session->chunk.numerics.activation);
    HAUL_TRY(haul_run_log_start(&record->log, &start));
    for (int64_t i = 0; i < session->memory.count; i++) {
        const haul_memory_line *line = &session->memory.lines[i];
        haul_log_memory entry = {
            .bytes = line->bytes, .category = line->category, .name = line->name};
        HAUL_TRY(haul_run_log_memory(&record->log, &entry));
    }
    return HAUL_OK;
}

haul_status haul_record_interval(haul_record *record, const haul_train *train,
                                 const haul_iteration *means) {
    const haul_config *config = train->config;
    double tokens = (double)(config->global_batch_size * config->seq_length);
    double rate = tokens / (means->elapsed_ms / 1e3);
    double flops = rate * haul_model_flops_per_token(config);
    haul_log_train entry = {.iteration = means->iteration,
                            .consumed_samples = means->consumed_samples,
                            .tokens = means->consumed_samples * config->seq_length,
                            .memory_bytes = haul_device_used_bytes(&train->session->device),
                            .skipped_iterations = means->skipped_iterations,
                            .nan_iterations = means->nan_iterations,
                            .loss = means->loss >= 0 ? means->loss : (double)NAN,
                            .learning_rate = means->learning_rate,
                            .grad_norm = means->grad_norm,
                            .tokens_per_second = rate,
                            .elapsed_ms = means->elapsed_ms,
                            .mfu = record->ceiling > 0 ? flops / record->ceiling : (double)NAN};
    HAUL_TRY(haul_run_log_train(&record->log, &entry));
    return record->has_board ? haul_tensorboard_iteration(&record->board, means, haul_clock_wall())
                             : HAUL_OK;
}

haul_status haul_record_evaluation(haul_record *record, const haul_train *train,
                                   const haul_evaluation *evaluation) {
    double loss = haul_evaluation_loss(evaluation);
    haul_log_eval entry = {.iteration = train->progress.iteration,
                           .loss = loss,
                           .perplexity = exp(fmin(20, loss)),
                           .bits_per_byte = haul_evaluation_bits_per_byte(evaluation),
                           .split = "validation"};
    HAUL_TRY(haul_run_log_eval(&record->log, &entry));
    return record->has_board
               ? haul_tensorboard_validation(&record->board, loss, train->progress.iteration,
                                             train->progress.consumed_samples, haul_clock_wall())
               : HAUL_OK;
}

haul_status haul_record_sample(haul_record *record, const haul_train *train, const char *prompt,
                               const char *text) {
    haul_log_sample entry = {
        .iteration = train->progress.iteration, .prompt = prompt, .text = text};
    HAUL_TRY(haul_run_log_sample(&record->log, &entry));
    return record->has_board ? haul_tensorboard_text(&record->board, "sample", text,
                                                     train->progress.iteration, haul_clock_wall())
                             : HAUL_OK;
}

haul_status haul_record_checkpoint(haul_record *record, const haul_train *train, const char *path,
                                   int64_t bytes, double seconds) {
    haul_log_checkpoint entry = {
        .iteration = train->progress.iteration, .bytes = bytes, .seconds = seconds, .path = path};
    return haul_run_log_checkpoint(&record->log, &entry);
}

haul_status haul_record_end(haul_record *record, const haul_train *train, const char *reason) {
    haul_log_end entry = {.iteration = train->progress.iteration,
                          .time = haul_clock_wall(),
                          .seconds = haul_clock_seconds() - train->started,
                          .reason = reason};
    return haul_run_log_end(&record->log, &entry);
}

/* Normal numbers, a million of them over and over, for a product: zeros would run faster. */
static haul_status fill_normal(haul_stream *stream, haul_tensor tensor) {
    enum { NUMBERS = 1 << 20 };
    void *numbers = NULL;
    HAUL_TRY(haul_device_allocate_host(stream->device, NUMBERS * haul_dtype_size(tensor.dtype),
                                       &numbers));
    for (int64_t i = 0; i < NUMBERS; i++) {
        haul_element_set(numbers, tensor.dtype, i, haul_normal(1, 1, i));
    }
    for (int64_t at = 0; at < haul_tensor_count(&tensor); at += NUMBERS) {
        int64_t count = haul_min(NUMBERS, haul_tensor_count(&tensor) - at);
        haul_stream_copy(stream, haul_tensor_at(&tensor, at), numbers,
                         count * haul_dtype_size(tensor.dtype));
    }
    haul_status status = haul_stream_wait(stream);
    haul_device_release_host(stream->device, numbers);
    return status;
}

/* Operations a second of the best of the runs in 0.3 seconds, since others use the machine too. */
static haul_status measure_product(haul_stream *stream, const haul_matmul_args *args, int repeats,
                                   double *best) {
    double flops = repeats * (double)haul_op_cost(HAUL_OP_MATMUL, args).flops;
    double begin = haul_clock_seconds();
    *best = 0;
    while (haul_clock_seconds() - begin < 0.3) {
        double before = haul_clock_seconds();
        for (int i = 0; i < repeats; i++) {
            haul_launch(stream, HAUL_OP_MATMUL, args);
        }
        HAUL_TRY(haul_stream_wait(stream));
        *best = fmax(*best, flops / (haul_clock_seconds() - before));
    }
    return HAUL_OK;
}

/* A square product without packing. */
haul_status haul_record_measure_ceiling(haul_device *device, haul_dtype dtype, double *out) {
    bool host = haul_device_in_host_memory(device);
    int64_t side = host ? 1024 : 8192, bytes = side * side * haul_dtype_size(dtype);
    haul_matmul_args args = {.a = haul_tensor_2d(NULL, dtype, side, side),
                             .b = haul_tensor_2d(NULL, dtype, side, side),
                             .c = haul_tensor_2d(NULL, dtype, side, side),
                             .transpose_b = true};
    haul_recording recording = {0};
    haul_stream stream = {.device = device, .recording = &recording};
    haul_launch(&stream, HAUL_OP_MATMUL, &args);
    HAUL_TRY(haul_stream_status(&stream));
    stream.recording = NULL;
    void *memory = NULL;
    int64_t all = 3 * bytes + recording.workspace;
    HAUL_TRY(device->backend->allocate(device, all, &memory));
    args.a.data = memory;
    args.b.data = (char *)memory + bytes;
    args.c.data = (char *)memory + 2 * bytes;
    stream.scratch = (char *)memory + 3 * bytes;
    stream.scratch_bytes = recording.workspace;
    haul_status status = fill_normal(&stream, args.a);
    if (status == HAUL_OK) {
        status = fill_normal(&stream, args.b);
    }
    if (status == HAUL_OK) {
        status = measure_product(&stream, &args, host ? 1 : 10, out);
    }
    device->backend->release(device, memory, all);
    return status;
}
