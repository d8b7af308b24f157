/* Everything that people read about commands and flags, made from the tables: help, manual
 * pages, the command reference, shell completions. Each function appends to `out`. */
#ifndef HAUL_CONFIG_TEXT_H
#define HAUL_CONFIG_TEXT_H

#include "base/string.h"
#include "config/flags.h"

/* What `haul help` prints: the commands, a line each. */
haul_status haul_text_overview(haul_string *out);

/* What `haul COMMAND --help` prints, 80 columns wide. */
haul_status haul_text_help(haul_command command, haul_string *out);

/* The manual page haul-COMMAND(1) in roff, with the words of the command joined by dashes. */
haul_status haul_text_manual(haul_command command, haul_string *out);

/* docs/commands.md. */
haul_status haul_text_markdown(haul_string *out);

/* The completion script of "bash" or "zsh"; HAUL_ERROR_USAGE for another shell. */
haul_status haul_text_completion(const char *shell, haul_string *out);

/* Parts that the above share. */

/* "--num-layers N", "--swiglu": a flag and what follows it. */
void haul_text_append_flag(haul_string *out, const haul_flag *flag);

/* The help of a flag with its words, its second spelling and its default. */
void haul_text_append_description(haul_string *out, const haul_flag *flag);

/* "haul report [flags] RUN" */
void haul_text_append_usage(haul_string *out, haul_command command);

/* The next flag of `command` in `group` from table index `from` on, or -1. */
int64_t haul_text_next_flag(haul_command command, haul_flag_group group, int64_t from);

typedef struct haul_exit_code {
    int code;
    const char *meaning;
} haul_exit_code;

/* Exit code `index` from 0, NULL after the last one. */
const haul_exit_code *haul_text_exit_code(int64_t index);

#endif
