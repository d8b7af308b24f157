/* What a command line of Megatron-LM may hold beyond haul's own flags, and what haul does with
 * it. */
#ifndef HAUL_CONFIG_MEGATRON_FLAGS_H
#define HAUL_CONFIG_MEGATRON_FLAGS_H

#include "base/string.h"
#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>

/* The names of all flags of Megatron-LM with '-' for '_', separated by blanks, in lines; NULL
 * ends them. "name" is a switch, "name=" takes a value, "name=+" all words up to the next flag. */
extern const char *const haul_megatron_flag_lines[];

/* What haul does with some flags that it does not have itself. Without a reason it takes them at
 * any value, since they cannot change the result of one process; else it takes `neutral` values,
 * or any while `harmless` holds, or refuses. */
typedef struct haul_megatron_rule {
    const char *names;   /* separated by blanks; a '*' at the end stands for any ending */
    const char *neutral; /* separated by blanks; a number in any spelling */
    bool (*harmless)(const haul_config *config);
    const char *reason; /* for a refusal, a phrase */
} haul_megatron_rule;

/* Rule `index` from 0, NULL after the last one. */
const haul_megatron_rule *haul_megatron_rule_at(int64_t index);

/* The first rule for a name, NULL when there is none: such a flag is refused. */
const haul_megatron_rule *haul_megatron_rule_of(const char *name);

/* A flag of Megatron-LM that haul lacks, as a command line has it. */
typedef struct haul_megatron_use {
    const char *name;
    const char *const *values;
    int64_t count;
} haul_megatron_use;

/* Sets what haul has under another name, as rope for --use-rotary-position-embeddings; keeps in
 * config->ignored what changes nothing of a training with this config, else complete; appends the
 * refusals to `refusals`, those with one reason together, with "; " between them, and their number
 * to `refused`. Fails only when memory is out. */
haul_status haul_megatron_judge(haul_config *config, const haul_megatron_use *uses, int count,
                                haul_string *refusals, int *refused);

#endif
