/* The command line: one thin file a command. Only here does haul print, read the environment,
 * handle signals and end the process. */
#ifndef HAUL_CLI_CLI_H
#define HAUL_CLI_CLI_H

#include "base/string.h"
#include "config/flags.h"
#include "config/parse.h"

#include <signal.h>

/* What the environment and the terminal say, read once. */
typedef struct haul_cli {
    int argc; /* the whole command line, for command.txt */
    const char *const *argv;
    bool color_out, color_err;
    bool live; /* stderr is a terminal */
    bool utf8;
    volatile sig_atomic_t *stop; /* counts Ctrl-C and SIGTERM once haul_cli_catch_signals ran */
} haul_cli;

/* A command gets its parsed flags; its failure is printed by main and becomes the exit code. */
typedef haul_status haul_cli_command(const haul_cli *cli, haul_config *config);

haul_cli_command haul_cli_train;
haul_cli_command haul_cli_eval;
haul_cli_command haul_cli_generate;
haul_cli_command haul_cli_data_build;
haul_cli_command haul_cli_data_inspect;
haul_cli_command haul_cli_data_tokenizer_train;
haul_cli_command haul_cli_checkpoint_list;
haul_cli_command haul_cli_checkpoint_show;
haul_cli_command haul_cli_checkpoint_verify;
haul_cli_command haul_cli_checkpoint_export;
haul_cli_command haul_cli_bench_train;
haul_cli_command haul_cli_bench_kernels;
haul_cli_command haul_cli_report;
haul_cli_command haul_cli_doctor;
haul_cli_command haul_cli_help;
haul_cli_command haul_cli_completion;

/* From now on the first Ctrl-C or SIGTERM sets *cli->stop; a second within 5 s ends the process at
 * once with HAUL_INTERRUPTED, after printing `last_words`, which must stay valid. */
void haul_cli_catch_signals(const char *last_words);

/* Replaces what a second signal prints. */
void haul_cli_set_last_words(const char *last_words);

/* Prints a text to stdout. */
void haul_cli_print(const haul_string *text);

/* Prints what a model wrote to stdout. It may hold anything: a terminal gets no control characters
 * of it. */
void haul_cli_print_model_text(const char *text, int64_t bytes);

/* What haul_build and others call while they work; `context` is a haul_progress that was begun. */
void haul_cli_show_progress(void *context, int64_t done, int64_t total);

/* "haul: note: ..." on stderr. */
void haul_cli_note(const haul_cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A note for each line of a text, which is cut up by it. */
void haul_cli_note_lines(const haul_cli *cli, haul_string *text);

#endif
