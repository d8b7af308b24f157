/* log.jsonl: what a training run did, one JSON object a line, appended as it happens.
 *
 * Every line has a "kind" that names one of the structs below; its other keys are the names of the
 * struct's fields. Text is UTF-8 (other bytes become U+FFFD); a text that is NULL and a number
 * that is not finite have no key, and read back as NULL and NAN. Readers ignore kinds and keys
 * that they do not know.
 *
 * One file holds all attempts of a run. Each attempt begins with a `start` line, then its `memory`
 * table; when it resumes from iteration k, what earlier attempts logged after k is superseded. */
#ifndef HAUL_REPORT_RUN_LOG_H
#define HAUL_REPORT_RUN_LOG_H

#include "base/file.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The start of an attempt: what runs, and on what machine. */
typedef struct haul_log_start {
    int64_t iteration;         /* resumed after this one; 0 for a fresh run */
    int64_t train_iters;       /* goal */
    int64_t parameters;        /* trainable numbers; 0 when unknown */
    int64_t threads;           /* of the processor; 0 when unknown */
    double time;               /* seconds since 1970 UTC */
    double flops_per_token;    /* forward and backward */
    double ceiling_gflops;     /* product speed measured on this machine */
    double gzip_bits_per_byte; /* what gzip and xz need for the same text */
    double xz_bits_per_byte;
    const char *command;      /* as typed */
    const char *model;        /* one line: "Llama, 4 layers, width 96, 3 heads" */
    const char *data;         /* one line: what text, how many tokens */
    const char *resumed_from; /* the checkpoint's directory; NULL for a fresh run */
    const char *version;      /* of haul */
    const char *cpu;          /* processor name */
    const char *isa;          /* "AVX-512" */
    const char *precision;    /* "f32", "bf16, products in f32" */
    const char *libraries;    /* "oneDNN 2.6.3, jansson 2.14" */
} haul_log_start;

/* One line of the memory table that is printed before the first step. */
typedef struct haul_log_memory {
    int64_t bytes;
    const char *category; /* "parameters", "optimizer", "activations" ... */
    const char *name;
} haul_log_memory;

/* One log interval. */
typedef struct haul_log_train {
    int64_t iteration; /* the interval's last */
    int64_t consumed_samples;
    int64_t tokens;             /* since the run's first iteration */
    int64_t memory_bytes;       /* of the device, taken now; 0 when unknown */
    int64_t skipped_iterations; /* steps of the interval that were not committed */
    int64_t nan_iterations;     /* steps whose loss or gradient was not finite */
    double loss;                /* nats per token, mean of the interval */
    double learning_rate;
    double grad_norm;
    double tokens_per_second;
    double elapsed_ms; /* mean per iteration */
    double mfu;        /* fraction of ceiling_gflops, 0 to 1 */
} haul_log_train;

typedef struct haul_log_eval {
    int64_t iteration;
    double loss; /* nats per token */
    double perplexity;
    double bits_per_byte;
    const char *split; /* "validation" or "test" */
} haul_log_eval;

typedef struct haul_log_sample {
    int64_t iteration;
    const char *prompt;
    const char *text; /* what follows the prompt */
} haul_log_sample;

typedef struct haul_log_checkpoint {
    int64_t iteration;
    int64_t bytes;
    double seconds; /* the save took */
    const char *path;
} haul_log_checkpoint;

/* The orderly end of an attempt; a crash leaves none. */
typedef struct haul_log_end {
    int64_t iteration;
    double time;
    double seconds;     /* the attempt took */
    const char *reason; /* "finished", "interrupted", "exit interval", an error message */
} haul_log_end;

/* The writer. */
typedef struct haul_run_log {
    haul_file_writer file;
} haul_run_log;

/* Opens `path` for appending, creates it when absent, and cuts off a line that a crash left
 * incomplete. */
haul_status haul_run_log_open(const char *path, haul_run_log *out);
void haul_run_log_close(haul_run_log *log);

/* Each writes one line and hands it to the kernel. When that fails (a full disk), the file is cut
 * back to its last whole line, so that later lines stay readable. */
haul_status haul_run_log_start(haul_run_log *log, const haul_log_start *record);
haul_status haul_run_log_memory(haul_run_log *log, const haul_log_memory *record);
haul_status haul_run_log_train(haul_run_log *log, const haul_log_train *record);
haul_status haul_run_log_eval(haul_run_log *log, const haul_log_eval *record);
haul_status haul_run_log_sample(haul_run_log *log, const haul_log_sample *record);
haul_status haul_run_log_checkpoint(haul_run_log *log, const haul_log_checkpoint *record);
haul_status haul_run_log_end(haul_run_log *log, const haul_log_end *record);

typedef struct haul_run_attempt {
    haul_log_start start;
    haul_log_end end; /* zeroed without an end line */
    bool ended;
    int64_t reached; /* last logged iteration, `start.iteration` without one */
} haul_run_attempt;

/* What the run did, superseded lines left out: `train` and the others ascend by iteration. */
typedef struct haul_run_history {
    haul_run_attempt *attempts;
    haul_log_memory *memory; /* of the last attempt */
    haul_log_train *train;
    haul_log_eval *eval;
    haul_log_sample *sample;
    haul_log_checkpoint *checkpoint;
    int64_t attempt_count, memory_count, train_count, eval_count, sample_count, checkpoint_count;
    struct json_t *texts; /* owns the strings */
} haul_run_history;

/* Reads a log. A last line that is cut short is ignored; another line that is no JSON object, or
 * has a field of the wrong type, is HAUL_ERROR_DATA. HAUL_ERROR_NO_INPUT when it cannot be
 * opened. */
haul_status haul_run_history_read(const char *path, haul_run_history *out);
void haul_run_history_deinit(haul_run_history *history);

#endif
