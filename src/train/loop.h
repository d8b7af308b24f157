/* The training loop: steps, evaluations, checkpoints, and who is told about them. It prints
 * nothing. */
#ifndef HAUL_TRAIN_LOOP_H
#define HAUL_TRAIN_LOOP_H

#include "data/dataset.h"
#include "data/tokenizer.h"
#include "report/iteration_line.h"
#include "train/evaluate.h"
#include "train/profile.h"
#include "train/session.h"

#include <signal.h>

typedef struct haul_train_progress {
    int64_t iteration; /* finished */
    int64_t consumed_samples;
    int64_t updates; /* committed steps */
    int64_t skipped_iterations;
} haul_train_progress;

typedef struct haul_train haul_train;

/* Who wants to know; each function may be NULL. */
typedef struct haul_train_observer {
    void *context;
    /* After each step, for a live display. */
    void (*step)(void *context, const haul_train *train, double loss, double seconds);
    /* After each log interval: means over it. */
    void (*interval)(void *context, const haul_train *train, const haul_iteration *means);
    void (*evaluation)(void *context, const haul_train *train, const haul_evaluation *evaluation);
    /* After an evaluation: what the model writes. */
    haul_status (*sample)(void *context, const haul_train *train);
    void (*checkpoint)(void *context, const haul_train *train, const char *path, int64_t bytes,
                       double seconds);
    /* A trace was written, and what the device's time went to in these iterations. A path of NULL:
     * there is none, as haul_error_message says. */
    void (*profiled)(void *context, const haul_train *train, const char *path,
                     const haul_profile_times *times);
    /* A step was skipped; `parameter` names the first gradient that is not finite. */
    void (*skipped)(void *context, const haul_train *train, const char *parameter);
} haul_train_observer;

typedef enum haul_train_end {
    HAUL_TRAIN_FINISHED,
    HAUL_TRAIN_INTERRUPTED,   /* *stop became non-zero */
    HAUL_TRAIN_EXIT_INTERVAL, /* --exit-interval */
    HAUL_TRAIN_EXIT_DURATION  /* --exit-duration-in-mins */
} haul_train_end;

struct haul_train {
    const haul_config *config;
    haul_session *session; /* allocated */
    const haul_dataset *training;
    const haul_dataset *validation;  /* NULL: no evaluation */
    const haul_tokenizer *tokenizer; /* NULL: bits per byte are unknown */
    haul_train_observer observer;
    volatile sig_atomic_t *stop; /* may be NULL: a request to end after the current step */
    haul_train_progress progress;
    haul_train_end end; /* set when run returns HAUL_OK */
    int64_t last_saved; /* iteration of the newest checkpoint of this run, -1 before */
    double started;     /* clock */
};

/* Runs from train->progress to the end. HAUL_ERROR_NUMERIC after ten steps in a row that are not
 * finite; nothing of such steps is kept. Saves at the end when --save is given. */
haul_status haul_train_run(haul_train *train);

#endif
