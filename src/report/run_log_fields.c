#include "report/run_log_fields.h"

#include "report/run_log.h"

static const haul_log_field start_fields[] = {
    {"iteration", HAUL_LOG_INTEGER, offsetof(haul_log_start, iteration)},
    {"train_iters", HAUL_LOG_INTEGER, offsetof(haul_log_start, train_iters)},
    {"parameters", HAUL_LOG_INTEGER, offsetof(haul_log_start, parameters)},
    {"threads", HAUL_LOG_INTEGER, offsetof(haul_log_start, threads)},
    {"time", HAUL_LOG_REAL, offsetof(haul_log_start, time)},
    {"flops_per_token", HAUL_LOG_REAL, offsetof(haul_log_start, flops_per_token)},
    {"ceiling_gflops", HAUL_LOG_REAL, offsetof(haul_log_start, ceiling_gflops)},
    {"gzip_bits_per_byte", HAUL_LOG_REAL, offsetof(haul_log_start, gzip_bits_per_byte)},
    {"xz_bits_per_byte", HAUL_LOG_REAL, offsetof(haul_log_start, xz_bits_per_byte)},
    {"command", HAUL_LOG_TEXT, offsetof(haul_log_start, command)},
    {"model", HAUL_LOG_TEXT, offsetof(haul_log_start, model)},
    {"data", HAUL_LOG_TEXT, offsetof(haul_log_start, data)},
    {"resumed_from", HAUL_LOG_TEXT, offsetof(haul_log_start, resumed_from)},
    {"version", HAUL_LOG_TEXT, offsetof(haul_log_start, version)},
    {"cpu", HAUL_LOG_TEXT, offsetof(haul_log_start, cpu)},
    {"isa", HAUL_LOG_TEXT, offsetof(haul_log_start, isa)},
    {"precision", HAUL_LOG_TEXT, offsetof(haul_log_start, precision)},
    {"libraries", HAUL_LOG_TEXT, offsetof(haul_log_start, libraries)},
    {0},
};

static const haul_log_field memory_fields[] = {
    {"bytes", HAUL_LOG_INTEGER, offsetof(haul_log_memory, bytes)},
    {"category", HAUL_LOG_TEXT, offsetof(haul_log_memory, category)},
    {"name", HAUL_LOG_TEXT, offsetof(haul_log_memory, name)},
    {0},
};

static const haul_log_field train_fields[] = {
    {"iteration", HAUL_LOG_INTEGER, offsetof(haul_log_train, iteration)},
    {"consumed_samples", HAUL_LOG_INTEGER, offsetof(haul_log_train, consumed_samples)},
    {"tokens", HAUL_LOG_INTEGER, offsetof(haul_log_train, tokens)},
    {"memory_bytes", HAUL_LOG_INTEGER, offsetof(haul_log_train, memory_bytes)},
    {"skipped_iterations", HAUL_LOG_INTEGER, offsetof(haul_log_train, skipped_iterations)},
    {"nan_iterations", HAUL_LOG_INTEGER, offsetof(haul_log_train, nan_iterations)},
    {"loss", HAUL_LOG_REAL, offsetof(haul_log_train, loss)},
    {"learning_rate", HAUL_LOG_REAL, offsetof(haul_log_train, learning_rate)},
    {"grad_norm", HAUL_LOG_REAL, offsetof(haul_log_train, grad_norm)},
    {"tokens_per_second", HAUL_LOG_REAL, offsetof(haul_log_train, tokens_per_second)},
    {"elapsed_ms", HAUL_LOG_REAL, offsetof(haul_log_train, elapsed_ms)},
    {"mfu", HAUL_LOG_REAL, offsetof(haul_log_train, mfu)},
    {0},
};

static const haul_log_field eval_fields[] = {
    {"iteration", HAUL_LOG_INTEGER, offsetof(haul_log_eval, iteration)},
    {"loss", HAUL_LOG_REAL, offsetof(haul_log_eval, loss)},
    {"perplexity", HAUL_LOG_REAL, offsetof(haul_log_eval, perplexity)},
    {"bits_per_byte", HAUL_LOG_REAL, offsetof(haul_log_eval, bits_per_byte)},
    {"split", HAUL_LOG_TEXT, offsetof(haul_log_eval, split)},
    {0},
};

static const haul_log_field sample_fields[] = {
    {"iteration", HAUL_LOG_INTEGER, offsetof(haul_log_sample, iteration)},
    {"prompt", HAUL_LOG_TEXT, offsetof(haul_log_sample, prompt)},
    {"text", HAUL_LOG_TEXT, offsetof(haul_log_sample, text)},
    {0},
};

static const haul_log_field checkpoint_fields[] = {
    {"iteration", HAUL_LOG_INTEGER, offsetof(haul_log_checkpoint, iteration)},
    {"bytes", HAUL_LOG_INTEGER, offsetof(haul_log_checkpoint, bytes)},
    {"seconds", HAUL_LOG_REAL, offsetof(haul_log_checkpoint, seconds)},
    {"path", HAUL_LOG_TEXT, offsetof(haul_log_checkpoint, path)},
    {0},
};

static const haul_log_field end_fields[] = {
    {"iteration", HAUL_LOG_INTEGER, offsetof(haul_log_end, iteration)},
    {"time", HAUL_LOG_REAL, offsetof(haul_log_end, time)},
    {"seconds", HAUL_LOG_REAL, offsetof(haul_log_end, seconds)},
    {"reason", HAUL_LOG_TEXT, offsetof(haul_log_end, reason)},
    {0},
};

const haul_log_layout haul_log_layouts[HAUL_LOG_KINDS] = {
    [HAUL_LOG_START] = {"start", start_fields, sizeof(haul_log_start)},
    [HAUL_LOG_MEMORY] = {"memory", memory_fields, sizeof(haul_log_memory)},
    [HAUL_LOG_TRAIN] = {"train", train_fields, sizeof(haul_log_train)},
    [HAUL_LOG_EVAL] = {"eval", eval_fields, sizeof(haul_log_eval)},
    [HAUL_LOG_SAMPLE] = {"sample", sample_fields, sizeof(haul_log_sample)},
    [HAUL_LOG_CHECKPOINT] = {"checkpoint", checkpoint_fields, sizeof(haul_log_checkpoint)},
    [HAUL_LOG_END] = {"end", end_fields, sizeof(haul_log_end)},
};
