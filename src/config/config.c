#include "config/config.h"

#include "base/memory.h"
#include "base/string.h"
#include "config/flags.h"
#include "config/number.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct haul_config_block {
    haul_config_block *next;
    max_align_t bytes[];
};

void *haul_config_allocate(haul_config *config, int64_t bytes) {
    int64_t whole;
    if (!haul_size_add(bytes, (int64_t)sizeof(haul_config_block), &whole)) {
        haul_fail(HAUL_ERROR_MEMORY, "out of memory for a setting of %lld bytes", (long long)bytes);
        return NULL;
    }
    haul_config_block *block = haul_calloc(whole, 1);
    if (block == NULL) {
        return NULL;
    }
    block->next = config->blocks;
    config->blocks = block;
    return block->bytes;
}

const char *haul_config_keep(haul_config *config, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = haul_config_allocate(config, (int64_t)bytes);
    if (copy != NULL) {
        memcpy(copy, text, bytes);
    }
    return copy;
}

void haul_config_deinit(haul_config *config) {
    while (config->blocks != NULL) {
        haul_config_block *block = config->blocks;
        config->blocks = block->next;
        free(block);
    }
    memset(config, 0, sizeof *config);
}

haul_config_source haul_config_source_of(const haul_config *config, const char *name) {
    int64_t index = haul_flag_find(name);
    return index < 0 ? HAUL_SOURCE_DEFAULT : (haul_config_source)config->sources[index];
}

const char *haul_config_choice(const haul_config *config, const char *name) {
    const haul_flag *flag = haul_flag_at(haul_flag_find(name));
    int choice;
    memcpy(&choice, (const char *)config + flag->offset, sizeof choice);
    return flag->kind->choices[choice];
}

static haul_status set_bool(void *field, const haul_flag *flag, const char *text) {
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        return haul_fail(HAUL_ERROR_USAGE, "--%s is \"%s\", must be true or false", flag->name,
                         text);
    }
    *(bool *)field = text[0] == 't';
    return HAUL_OK;
}

/* In a file, the initial value stands for "not given" where it lies outside of the range; nobody
 * means that on a command line. NaN is in no range. */
static bool in_range(const haul_flag *flag, double value, haul_config_source source) {
    double initial = 0;
    if (flag->initial != NULL) {
        haul_parse_float(flag->initial, &initial);
    }
    bool is_initial = value >= initial && value <= initial && source < HAUL_SOURCE_COMMAND_LINE;
    return is_initial || (value >= flag->kind->minimum && value <= flag->kind->maximum);
}

static haul_status set_int(void *field, const haul_flag *flag, const char *text,
                           haul_config_source source) {
    int64_t value;
    if (!haul_parse_int(text, &value) || !in_range(flag, (double)value, source)) {
        return haul_fail(HAUL_ERROR_USAGE,
                         "--%s is \"%s\", must be a whole number from %.0f to %.0f", flag->name,
                         text, flag->kind->minimum, flag->kind->maximum);
    }
    *(int64_t *)field = value;
    return HAUL_OK;
}

static haul_status set_float(void *field, const haul_flag *flag, const char *text,
                             haul_config_source source) {
    double value;
    if (!haul_parse_float(text, &value) || !in_range(flag, value, source)) {
        return haul_fail(HAUL_ERROR_USAGE, "--%s is \"%s\", must be a number from %g to %g",
                         flag->name, text, flag->kind->minimum, flag->kind->maximum);
    }
    *(double *)field = value + 0.0; /* -0 becomes 0: config.json would lose the sign */
    return HAUL_OK;
}

static haul_status set_choice(void *field, const haul_flag *flag, const char *text) {
    const char *const *choices = flag->kind->choices;
    for (int i = 0; choices[i] != NULL; i++) {
        if (strcmp(choices[i], text) == 0) {
            /* Each enum of config.h has the size and the non-negative values of an int. */
            memcpy(field, &i, sizeof i);
            return HAUL_OK;
        }
    }
    char words[256] = "";
    for (int i = 0; choices[i] != NULL; i++) {
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, i == 0 ? "%s" : ", %s", choices[i]);
    }
    return haul_fail(HAUL_ERROR_USAGE, "--%s is \"%s\", must be one of %s", flag->name, text,
                     words);
}

static haul_status set_text(haul_config *config, void *field, const char *text) {
    const char *copy = haul_config_keep(config, text);
    if (copy == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    *(const char **)field = copy;
    return HAUL_OK;
}

static haul_status set_list(haul_config *config, haul_text_list *list, const char *const *values,
                            int64_t count) {
    const char **items = haul_config_allocate(config, count * (int64_t)sizeof *items);
    if (items == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < count; i++) {
        HAUL_TRY(set_text(config, &items[i], values[i]));
    }
    *list = (haul_text_list){items, count};
    return HAUL_OK;
}

static haul_status set_field(haul_config *config, const haul_flag *flag, const char *const *values,
                             int64_t count, haul_config_source source) {
    void *field = (char *)config + flag->offset;
    if (flag->kind->type == HAUL_FLAG_LIST) {
        return set_list(config, field, values, count);
    }
    if (count != 1) {
        return haul_fail(HAUL_ERROR_USAGE, "--%s has %lld values, must have one", flag->name,
                         (long long)count);
    }
    switch (flag->kind->type) {
    case HAUL_FLAG_BOOL:
        return set_bool(field, flag, values[0]);
    case HAUL_FLAG_INT:
        return set_int(field, flag, values[0], source);
    case HAUL_FLAG_FLOAT:
        return set_float(field, flag, values[0], source);
    case HAUL_FLAG_CHOICE:
        return set_choice(field, flag, values[0]);
    case HAUL_FLAG_TEXT:
    case HAUL_FLAG_LIST:
        break;
    }
    return set_text(config, field, values[0]);
}

haul_status haul_config_set(haul_config *config, const char *name, const char *const *values,
                            int64_t count, haul_config_source source) {
    int64_t index = haul_flag_find(name);
    if (index < 0) {
        return haul_fail(HAUL_ERROR_USAGE, "\"%s\" is not a setting of haul", name);
    }
    if (config->sources[index] > source) {
        return HAUL_OK;
    }
    HAUL_TRY(set_field(config, haul_flag_at(index), values, count, source));
    config->sources[index] = (unsigned char)source;
    return HAUL_OK;
}

haul_status haul_config_init(haul_config *config) {
    memset(config, 0, sizeof *config);
    for (int64_t i = 0; i < haul_flag_count(); i++) {
        const haul_flag *flag = haul_flag_at(i);
        haul_status status = HAUL_OK;
        if (flag->initial != NULL) {
            status = set_field(config, flag, &flag->initial, 1, HAUL_SOURCE_DEFAULT);
        }
        if (status != HAUL_OK) {
            haul_config_deinit(config);
            return status;
        }
    }
    return HAUL_OK;
}
