/* Inside cli/: the parts of `haul train`. */
#ifndef HAUL_CLI_TRAIN_H
#define HAUL_CLI_TRAIN_H

#include "cli/cli.h"
#include "generate/stream.h"
#include "report/live_line.h"
#include "train/corpus.h"
#include "train/record.h"
#include "train/save.h"

/* When the device's memory is looked at. */
typedef enum haul_train_stage {
    HAUL_TRAIN_OPEN,
    HAUL_TRAIN_TUNED,
    HAUL_TRAIN_ALLOCATED,
    HAUL_TRAIN_RUNNING,
    HAUL_TRAIN_STAGES
} haul_train_stage;

typedef struct haul_train_command {
    const haul_cli *cli;
    haul_config *config;
    haul_corpus corpus;
    haul_corpus_text text; /* how --text became a data set */
    haul_session session;
    haul_checkpoint *checkpoint; /* that --load means, or NULL */
    haul_record record;
    haul_train train;
    haul_generator generator; /* of --sample-prompt */
    haul_live_line live;
    double smooth_seconds;           /* of a step, for the live line */
    int64_t used[HAUL_TRAIN_STAGES]; /* bytes of the device's memory, the most at each stage */
    haul_string resume_command;
    haul_string last_words;
} haul_train_command;

/* Lines, live display, log and events of a running training, and its samples (train_show.c). */
haul_status haul_train_show_init(haul_train_command *command);
void haul_train_show_end(haul_train_command *command);

/* Lets the session's device measure how to multiply, and says so; what it found is kept beside the
 * tokenized texts. */
haul_status haul_train_tune(haul_session *session);

/* One line each: model, operations, device. */
void haul_train_print_model(const haul_session *session);

/* Memory: the table as planned; what the device says now; and both beside each other, when the
 * device has memory of its own (train_memory.c). */
haul_status haul_train_print_memory(const haul_train_command *command);
void haul_train_note_memory(haul_train_command *command, haul_train_stage stage);
void haul_train_print_used(const haul_train_command *command);

/* --dry-run: whether it fits and the largest micro-batch that does (train_dry_run.c). */
haul_status haul_train_dry_run(const haul_train_command *command);

#endif
