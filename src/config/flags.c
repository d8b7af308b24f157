#include "config/flags.h"

#include "config/megatron_flags.h"

#include <string.h>

typedef struct flag_alias {
    const char *alias;
    const char *name;
} flag_alias;

static const flag_alias aliases[] = {
    {"persistent-save-interval", "save-interval"},
    {"num-tokens-to-generate", "max-new-tokens"},
};

enum { ALIASES = sizeof aliases / sizeof *aliases };

/* Whether two spellings are one name when '_' counts as '-'. */
static bool same_name(const char *a, const char *b, size_t length_b) {
    if (strlen(a) != length_b) {
        return false;
    }
    for (size_t i = 0; i < length_b; i++) {
        char left = a[i] == '_' ? '-' : a[i];
        char right = b[i] == '_' ? '-' : b[i];
        if (left != right) {
            return false;
        }
    }
    return true;
}

int64_t haul_flag_find(const char *name) {
    size_t length = strlen(name);
    for (int64_t i = 0; i < haul_flag_count(); i++) {
        if (same_name(haul_flag_at(i)->name, name, length)) {
            return i;
        }
    }
    for (int i = 0; i < ALIASES; i++) {
        if (same_name(aliases[i].alias, name, length)) {
            return haul_flag_find(aliases[i].name);
        }
    }
    return -1;
}

const char *haul_flag_alias(const haul_flag *flag) {
    for (int i = 0; i < ALIASES; i++) {
        if (strcmp(aliases[i].name, flag->name) == 0) {
            return aliases[i].alias;
        }
    }
    return NULL;
}

const char *haul_flag_group_name(haul_flag_group group) {
    static const char *const names[HAUL_FLAG_GROUPS] = {
        "Model",    "Training", "Learning rate", "Data", "Checkpoints, evaluation, output",
        "Sampling", "Machine"};
    return names[group];
}

haul_megatron_values haul_megatron_flag_find(const char *name) {
    for (const char *const *line = haul_megatron_flag_lines; *line != NULL; line++) {
        for (const char *word = *line; *word != '\0';) {
            size_t length = strcspn(word, " =");
            size_t marks = strcspn(word + length, " "); /* "", "=" or "=+" */
            if (length > 0 && same_name(name, word, length)) {
                return (haul_megatron_values)(HAUL_MEGATRON_SWITCH + marks);
            }
            word += length + marks;
            word += *word == ' ';
        }
    }
    return HAUL_MEGATRON_UNKNOWN;
}
