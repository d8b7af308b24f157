#include "config/parse.h"

#include "base/memory.h"
#include "base/string.h"
#include "config/megatron_flags.h"
#include "config/number.h"
#include "config/presets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LENGTH = 120 };

/* `--name=value` taken apart: the name without dashes and with '-' for '_'. */
typedef struct flag_word {
    char name[NAME_MAX_LENGTH + 1]; /* cut when longer, so then no flag has it */
    const char *value;              /* after '=', or NULL */
} flag_word;

/* The words of a command line, how far they have been read, and what is wrong with them. */
typedef struct word_reader {
    haul_config *config;
    haul_command command;
    int argc;
    const char *const *argv;
    int at;
    const char **operands; /* at most argc of them */
    int operand_count;
    haul_megatron_use *foreign; /* flags that only Megatron-LM has: at most argc, each once */
    flag_word *foreign_words;   /* what they point into */
    int foreign_count;
    int mistake_count;
    haul_string mistakes; /* one after the other */
    haul_string hint;     /* of the first one */
} word_reader;

static flag_word split_word(const char *word) {
    flag_word parts = {.value = strchr(word, '=')};
    size_t length = parts.value != NULL ? (size_t)(parts.value - word) : strlen(word);
    parts.value = parts.value != NULL ? parts.value + 1 : NULL;
    const char *name = word + 2;
    for (size_t i = 0; i + 2 < length && i < NAME_MAX_LENGTH; i++) {
        parts.name[i] = name[i] == '_' ? '-' : name[i];
    }
    return parts;
}

/* argparse's rule for what is a flag and what is a value: a number is a value, so is a text
 * with a blank in it unless it is `--flag=...` of a known flag. */
static bool is_flag_word(const char *word) {
    double number;
    if (word[0] != '-' || word[1] == '\0' || haul_parse_float(word, &number)) {
        return false;
    }
    if (strchr(word, ' ') == NULL) {
        return true;
    }
    return word[1] == '-' && haul_flag_find(split_word(word).name) >= 0;
}

static bool ends_flags(const char *word) {
    return strcmp(word, "--") == 0;
}

static bool belongs(int64_t flag, haul_command command) {
    return flag >= 0 && haul_command_takes(command, flag);
}

static const char *command_name(const word_reader *reader) {
    return haul_command_at(reader->command)->name;
}

/* How badly `written` fits `name`; a beginning of the name counts as one edit. */
static int misfit(const char *written, const char *name) {
    size_t length = strlen(written);
    if (length >= 3 && strncmp(written, name, length) == 0) {
        return 1;
    }
    return haul_edit_distance(written, name);
}

static const char *nearest_flag(const char *written, haul_command command) {
    int best = 2 + (int)strlen(written) / 5;
    best = best < 5 ? best : 5;
    const char *nearest = NULL;
    for (int64_t i = 0; i < haul_flag_count(); i++) {
        const char *name = haul_flag_at(i)->name;
        if (belongs(i, command) && misfit(written, name) < best) {
            best = misfit(written, name);
            nearest = name;
        }
    }
    return nearest;
}

/* Fails for a flag that this command does not have, as helpfully as can be. */
static haul_status refuse_flag(const word_reader *reader, const char *name) {
    int64_t flag = haul_flag_find(name);
    for (int other = 0; flag >= 0 && other < HAUL_COMMANDS; other++) {
        if (belongs(flag, (haul_command)other)) {
            haul_fail(HAUL_ERROR_USAGE, "--%s is a flag of haul %s, not of haul %s", name,
                      haul_command_at((haul_command)other)->name, command_name(reader));
            haul_hint("haul %s --help", command_name(reader));
            return HAUL_ERROR_USAGE;
        }
    }
    haul_fail(HAUL_ERROR_USAGE, "--%s is not a flag of haul %s", name, command_name(reader));
    const char *nearest = nearest_flag(name, reader->command);
    if (nearest != NULL) {
        haul_hint("did you mean --%s?", nearest);
    } else {
        haul_hint("haul %s --help", command_name(reader));
    }
    return HAUL_ERROR_USAGE;
}

static haul_status set(word_reader *reader, const haul_flag *flag, const char *const *values,
                       int64_t count) {
    haul_status status =
        haul_config_set(reader->config, flag->name, values, count, HAUL_SOURCE_COMMAND_LINE);
    if (status == HAUL_ERROR_USAGE) {
        haul_hint("haul %s --help", command_name(reader));
    }
    return status;
}

/* `--flag`, `--no-flag`: `reader->at` stands behind the word. */
static haul_status read_switch(word_reader *reader, const haul_flag *flag, const flag_word *word,
                               const char *value) {
    if (word->value != NULL) {
        haul_fail(HAUL_ERROR_USAGE, "--%s is a switch and takes no value, but has \"%s\"",
                  word->name, word->value);
        haul_hint("write --%s to turn it on, --no-%s to turn it off", flag->name, flag->name);
        return HAUL_ERROR_USAGE;
    }
    return set(reader, flag, &value, 1);
}

/* Finds the value or values of a flag: behind '=', or the words up to the next flag. */
static haul_status take_values(word_reader *reader, const flag_word *word, bool many,
                               const char *const **values, int64_t *count) {
    if (word->value != NULL) {
        *values = &word->value;
        *count = 1;
        return HAUL_OK;
    }
    int first = reader->at;
    int limit = many ? reader->argc : first + 1;
    while (reader->at < limit && reader->at < reader->argc &&
           !is_flag_word(reader->argv[reader->at])) {
        reader->at++;
    }
    if (reader->at == first) {
        haul_fail(HAUL_ERROR_USAGE, "--%s needs a value", word->name);
        if (first < reader->argc && !ends_flags(reader->argv[first])) {
            haul_hint("write --%s=%s if \"%s\" is the value", word->name, reader->argv[first],
                      reader->argv[first]);
        } else {
            haul_hint("haul %s --help", command_name(reader));
        }
        return HAUL_ERROR_USAGE;
    }
    *values = &reader->argv[first];
    *count = reader->at - first;
    return HAUL_OK;
}

static haul_status read_values(word_reader *reader, const haul_flag *flag, const flag_word *word) {
    const char *const *values;
    int64_t count;
    bool many = flag->kind->type == HAUL_FLAG_LIST;
    HAUL_TRY(take_values(reader, word, many, &values, &count));
    return set(reader, flag, values, count);
}

/* A flag that haul lacks is judged when all others are known; its last mention counts. */
static haul_status read_foreign(word_reader *reader, const flag_word *word,
                                haul_megatron_values takes) {
    int i = 0;
    while (i < reader->foreign_count && strcmp(reader->foreign[i].name, word->name) != 0) {
        i++;
    }
    flag_word *kept = &reader->foreign_words[i];
    haul_megatron_use *use = &reader->foreign[i];
    *kept = *word;
    *use = (haul_megatron_use){.name = kept->name};
    if (takes != HAUL_MEGATRON_SWITCH) {
        bool many = takes == HAUL_MEGATRON_VALUES;
        HAUL_TRY(take_values(reader, kept, many, &use->values, &use->count));
    } else if (word->value != NULL) {
        haul_fail(HAUL_ERROR_USAGE, "--%s is a switch and takes no value, but has \"%s\"",
                  word->name, word->value);
        haul_hint("write --%s alone", word->name);
        return HAUL_ERROR_USAGE;
    }
    reader->foreign_count += i == reader->foreign_count;
    return HAUL_OK;
}

static haul_status read_flag(word_reader *reader) {
    const char *text = reader->argv[reader->at++];
    if (strcmp(text, "-h") == 0) {
        text = "--help";
    }
    if (text[1] != '-') {
        haul_fail(HAUL_ERROR_USAGE, "\"%s\" is not a flag of haul %s", text, command_name(reader));
        haul_hint("flags begin with two dashes, as in haul %s --help", command_name(reader));
        return HAUL_ERROR_USAGE;
    }
    flag_word word = split_word(text);
    int64_t index = haul_flag_find(word.name);
    if (belongs(index, reader->command)) {
        const haul_flag *flag = haul_flag_at(index);
        return flag->kind->type == HAUL_FLAG_BOOL ? read_switch(reader, flag, &word, "true")
                                                  : read_values(reader, flag, &word);
    }
    int64_t positive = strncmp(word.name, "no-", 3) == 0 ? haul_flag_find(word.name + 3) : -1;
    if (belongs(positive, reader->command) &&
        haul_flag_at(positive)->kind->type == HAUL_FLAG_BOOL) {
        return read_switch(reader, haul_flag_at(positive), &word, "false");
    }
    haul_megatron_values takes = haul_megatron_flag_find(word.name);
    bool trains = reader->command == HAUL_COMMAND_TRAIN || haul_command_at(reader->command)->trains;
    if (trains && takes != HAUL_MEGATRON_UNKNOWN) {
        return read_foreign(reader, &word, takes);
    }
    return refuse_flag(reader, word.name);
}

/* Keeps what is wrong with one flag, so that all of it is said at once; other failures pass. */
static haul_status collect(word_reader *reader, haul_status status) {
    if (status != HAUL_ERROR_USAGE) {
        return status;
    }
    haul_string_append_text(&reader->mistakes, reader->mistake_count > 0 ? "; " : "");
    haul_string_append_text(&reader->mistakes, haul_error_message());
    if (reader->mistake_count++ == 0) {
        haul_string_append_text(&reader->hint, haul_error_hint());
    }
    HAUL_TRY(haul_string_status(&reader->hint));
    return haul_string_status(&reader->mistakes);
}

static haul_status judge_foreign(word_reader *reader) {
    int refused = 0;
    HAUL_TRY(haul_megatron_judge(reader->config, reader->foreign, reader->foreign_count,
                                 &reader->mistakes, &refused));
    if (reader->mistake_count == 0 && refused > 0) {
        haul_string_append_text(&reader->hint, "haul train --help; docs/from-megatron.md says what "
                                               "haul takes of Megatron-LM");
    }
    reader->mistake_count += refused;
    return haul_string_status(&reader->hint);
}

/* A message holds about a thousand characters: what is beyond is cut off between two mistakes. */
static haul_status report_mistakes(const word_reader *reader) {
    int64_t shown = reader->mistakes.length;
    if (reader->mistake_count == 0) {
        return HAUL_OK;
    }
    if (reader->mistake_count == 1) {
        haul_fail(HAUL_ERROR_USAGE, "%s", reader->mistakes.data);
    } else {
        for (shown = haul_min(shown, 960);
             shown > 0 && shown < reader->mistakes.length && reader->mistakes.data[shown] != ';';) {
            shown--;
        }
        haul_fail(HAUL_ERROR_USAGE, "%d flags cannot be taken: %.*s%s", reader->mistake_count,
                  (int)shown, reader->mistakes.data,
                  shown < reader->mistakes.length ? "; and more" : "");
    }
    haul_hint("%s", reader->hint.data);
    return HAUL_ERROR_USAGE;
}

static haul_status read_words(word_reader *reader) {
    while (reader->at < reader->argc && !reader->config->help) {
        const char *word = reader->argv[reader->at];
        if (ends_flags(word)) {
            reader->at++;
            break;
        }
        if (is_flag_word(word)) {
            HAUL_TRY(collect(reader, read_flag(reader)));
        } else {
            reader->operands[reader->operand_count++] = word;
            reader->at++;
        }
    }
    while (reader->at < reader->argc) {
        reader->operands[reader->operand_count++] = reader->argv[reader->at++];
    }
    return HAUL_OK;
}

static haul_status keep_operands(word_reader *reader) {
    haul_config *config = reader->config;
    int64_t bytes = reader->operand_count * (int64_t)sizeof(const char *);
    config->arguments.items = haul_config_allocate(config, bytes);
    if (config->arguments.items == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int i = 0; i < reader->operand_count; i++) {
        config->arguments.items[i] = haul_config_keep(config, reader->operands[i]);
        if (config->arguments.items[i] == NULL) {
            return HAUL_ERROR_MEMORY;
        }
    }
    config->arguments.count = reader->operand_count;
    return HAUL_OK;
}

static haul_status check_operands(const word_reader *reader) {
    const haul_command_info *info = haul_command_at(reader->command);
    int64_t count = reader->config->arguments.count;
    if (count > info->operands_max) {
        const char *extra = reader->config->arguments.items[info->operands_max];
        haul_fail(HAUL_ERROR_USAGE, "haul %s does not know what to do with \"%s\"", info->name,
                  extra);
        if (belongs(haul_flag_find(extra), reader->command)) {
            haul_hint("did you mean --%s?", extra);
        } else {
            haul_hint("haul %s --help", info->name);
        }
        return HAUL_ERROR_USAGE;
    }
    if (count < info->operands_min) {
        haul_fail(HAUL_ERROR_USAGE, "haul %s needs %s", info->name, info->operand);
        haul_hint("%s", info->examples[0]);
        return HAUL_ERROR_USAGE;
    }
    return HAUL_OK;
}

static haul_status check_required(const word_reader *reader) {
    const haul_command_info *info = haul_command_at(reader->command);
    for (int i = 0; info->required[i] != NULL; i++) {
        if (haul_config_source_of(reader->config, info->required[i]) == HAUL_SOURCE_DEFAULT) {
            haul_fail(HAUL_ERROR_USAGE, "haul %s needs --%s", info->name, info->required[i]);
            haul_hint("%s", info->examples[0]);
            return HAUL_ERROR_USAGE;
        }
    }
    return HAUL_OK;
}

static haul_status parse(word_reader *reader) {
    HAUL_TRY(read_words(reader));
    if (reader->config->help) {
        return HAUL_OK;
    }
    const char *preset = reader->config->preset;
    if (preset != NULL) {
        HAUL_TRY(collect(reader, haul_preset_apply(reader->config, preset)));
    }
    HAUL_TRY(judge_foreign(reader));
    HAUL_TRY(report_mistakes(reader));
    HAUL_TRY(keep_operands(reader));
    HAUL_TRY(check_operands(reader));
    return check_required(reader);
}

haul_status haul_config_parse(haul_config *config, haul_command command, int argc,
                              const char *const *argv) {
    word_reader reader = {.config = config, .command = command, .argc = argc, .argv = argv};
    reader.operands = haul_calloc(argc, sizeof *reader.operands);
    reader.foreign = haul_calloc(argc, sizeof *reader.foreign);
    reader.foreign_words = haul_calloc(argc, sizeof *reader.foreign_words);
    haul_status status = HAUL_ERROR_MEMORY;
    if (reader.operands != NULL && reader.foreign != NULL && reader.foreign_words != NULL) {
        status = parse(&reader);
    }
    haul_string_deinit(&reader.mistakes);
    haul_string_deinit(&reader.hint);
    free(reader.foreign_words);
    free(reader.foreign);
    free(reader.operands);
    return status;
}
