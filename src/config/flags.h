/* The flag table: the one description of every setting, from which the command line, --help, the
 * manual pages, the shell completions, docs/commands.md and config.json are made. */
#ifndef HAUL_CONFIG_FLAGS_H
#define HAUL_CONFIG_FLAGS_H

#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum haul_command {
    HAUL_COMMAND_TRAIN,
    HAUL_COMMAND_EVAL,
    HAUL_COMMAND_GENERATE,
    HAUL_COMMAND_DATA_BUILD,
    HAUL_COMMAND_DATA_INSPECT,
    HAUL_COMMAND_DATA_TOKENIZER_TRAIN,
    HAUL_COMMAND_CHECKPOINT_LIST,
    HAUL_COMMAND_CHECKPOINT_SHOW,
    HAUL_COMMAND_CHECKPOINT_VERIFY,
    HAUL_COMMAND_CHECKPOINT_EXPORT,
    HAUL_COMMAND_BENCH_TRAIN,
    HAUL_COMMAND_BENCH_KERNELS,
    HAUL_COMMAND_REPORT,
    HAUL_COMMAND_DOCTOR,
    HAUL_COMMAND_HELP,
    HAUL_COMMAND_COMPLETION,
    HAUL_COMMANDS
} haul_command;

/* A set of commands is a mask of these. */
#define HAUL_COMMAND_BIT(command) (1u << (command))

typedef struct haul_command_info {
    const char *name;    /* "data build" */
    const char *summary; /* one line, as "train a model" */
    const char *text;    /* one paragraph for the manual */
    const char *operand; /* what it takes besides flags, as "DIR"; NULL for nothing */
    int64_t operands_min;
    int64_t operands_max;
    bool trains;             /* takes the flags of haul train, too */
    const char *required[3]; /* flags that it insists on, then NULL */
    const char *examples[3]; /* whole command lines, then NULL */
} haul_command_info;

typedef enum haul_flag_type {
    HAUL_FLAG_BOOL,   /* bool; a bare switch, --no-NAME turns it off */
    HAUL_FLAG_INT,    /* int64_t */
    HAUL_FLAG_FLOAT,  /* double */
    HAUL_FLAG_TEXT,   /* const char * */
    HAUL_FLAG_CHOICE, /* an enum: the index of the word in `choices` */
    HAUL_FLAG_LIST    /* haul_text_list; takes all words up to the next flag */
} haul_flag_type;

typedef enum haul_flag_group {
    HAUL_GROUP_MODEL,
    HAUL_GROUP_TRAINING,
    HAUL_GROUP_LEARNING_RATE,
    HAUL_GROUP_DATA,
    HAUL_GROUP_OUTPUT,
    HAUL_GROUP_SAMPLING,
    HAUL_GROUP_MACHINE,
    HAUL_FLAG_GROUPS
} haul_flag_group;

enum { HAUL_FLAG_CHOICES_MAX = 8 };

/* What a flag accepts. */
typedef struct haul_flag_kind {
    haul_flag_type type;
    double minimum, maximum;                        /* of numbers, both allowed */
    const char *value;                              /* what the help calls a text, as "DIR" */
    const char *choices[HAUL_FLAG_CHOICES_MAX + 1]; /* the words of a CHOICE, then NULL */
} haul_flag_kind;

typedef struct haul_flag {
    const char *name; /* without the dashes in front */
    const haul_flag_kind *kind;
    haul_flag_group group;
    unsigned commands;   /* mask; 0 for a field of config.json without a flag */
    size_t offset;       /* of the field in haul_config */
    const char *initial; /* as spelled on a command line; NULL: 0, off, first choice, none */
    const char *help;    /* a phrase without a full stop */
} haul_flag;

int64_t haul_flag_count(void);

/* Entry `index` of the table, from 0. */
const haul_flag *haul_flag_at(int64_t index);

/* The index of the flag with this name or alias ('_' counts as '-'), or -1. */
int64_t haul_flag_find(const char *name);

/* The second spelling of a flag, or NULL. */
const char *haul_flag_alias(const haul_flag *flag);

const char *haul_flag_group_name(haul_flag_group group);
const haul_command_info *haul_command_at(haul_command command);

/* Whether the command takes flag `index` of the table, as its own or as one of haul train's. */
bool haul_command_takes(haul_command command, int64_t index);

/* The command that argv[0], argv[1], ... name ("data" "build"); the number of words it takes goes
 * to `words`. HAUL_ERROR_USAGE with a hint when there is none. */
haul_status haul_command_find(int argc, const char *const *argv, haul_command *out, int *words);

/* What follows a flag of Megatron-LM. */
typedef enum haul_megatron_values {
    HAUL_MEGATRON_UNKNOWN, /* Megatron-LM has no such flag */
    HAUL_MEGATRON_SWITCH,
    HAUL_MEGATRON_ONE_VALUE,
    HAUL_MEGATRON_VALUES /* all words up to the next flag */
} haul_megatron_values;

/* What Megatron-LM's flag of this name ('_' counts as '-') takes. */
haul_megatron_values haul_megatron_flag_find(const char *name);

#endif
