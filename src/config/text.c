#include "config/text.h"

#include "config/presets.h"

#include <string.h>

static const haul_exit_code exit_codes[] = {
    {HAUL_OK, "success"},
    {HAUL_ERROR_USAGE, "a flag is unknown, malformed or out of range"},
    {HAUL_ERROR_DATA, "the content of a file is wrong"},
    {HAUL_ERROR_NO_INPUT, "a file is missing or cannot be opened"},
    {HAUL_ERROR_UNAVAILABLE, "this build or this machine lacks what was asked for"},
    {HAUL_ERROR_INTERNAL, "a bug in haul: please report it"},
    {HAUL_ERROR_MEMORY, "memory is out"},
    {HAUL_ERROR_CREATE, "an output cannot be created, or another job holds it"},
    {HAUL_ERROR_IO, "reading or writing failed midway, a full disk included"},
    {HAUL_ERROR_CONFIG, "settings are missing or contradict each other"},
    {HAUL_ERROR_NUMERIC, "a loss or gradient is not finite"},
    {HAUL_INTERRUPTED, "stopped by Ctrl-C or SIGTERM"},
};

enum { EXIT_CODES = sizeof exit_codes / sizeof *exit_codes };

const haul_exit_code *haul_text_exit_code(int64_t index) {
    return index < EXIT_CODES ? &exit_codes[index] : NULL;
}

int64_t haul_text_next_flag(haul_command command, haul_flag_group group, int64_t from) {
    for (int64_t i = from; i < haul_flag_count(); i++) {
        const haul_flag *flag = haul_flag_at(i);
        if (flag->group == group && (flag->commands & HAUL_COMMAND_BIT(command)) != 0) {
            return i;
        }
    }
    return -1;
}

void haul_text_append_flag(haul_string *out, const haul_flag *flag) {
    haul_string_append_format(out, "--%s", flag->name);
    switch (flag->kind->type) {
    case HAUL_FLAG_BOOL:
        break;
    case HAUL_FLAG_INT:
        haul_string_append_text(out, " N");
        break;
    case HAUL_FLAG_FLOAT:
        haul_string_append_text(out, " X");
        break;
    case HAUL_FLAG_CHOICE:
        haul_string_append_text(out, " WORD");
        break;
    case HAUL_FLAG_TEXT:
        haul_string_append_format(out, " %s", flag->kind->value);
        break;
    case HAUL_FLAG_LIST:
        haul_string_append_format(out, " %s...", flag->kind->value);
        break;
    }
}

void haul_text_append_description(haul_string *out, const haul_flag *flag) {
    haul_string_append_text(out, flag->help);
    const char *initial = flag->initial;
    const char *const *choices = flag->kind->choices;
    for (int i = 0; choices[i] != NULL; i++) {
        haul_string_append_text(out, i == 0 ? "; one of " : ", ");
        haul_string_append_text(out, choices[i]);
        initial = initial != NULL ? initial : choices[0];
    }
    if (initial != NULL) {
        haul_string_append_format(out, " (default %s)", initial);
    }
    const char *alias = haul_flag_alias(flag);
    if (alias != NULL) {
        haul_string_append_format(out, "; also --%s", alias);
    }
}

void haul_text_append_usage(haul_string *out, haul_command command) {
    const haul_command_info *info = haul_command_at(command);
    haul_string_append_format(out, "haul %s", info->name);
    for (int i = 0; info->required[i] != NULL; i++) {
        haul_string_append_text(out, " ");
        haul_text_append_flag(out, haul_flag_at(haul_flag_find(info->required[i])));
    }
    haul_string_append_text(out, " [flags]");
    if (info->operand != NULL) {
        haul_string_append_format(out, info->operands_min > 0 ? " %s" : " [%s]", info->operand);
    }
}

enum { WIDTH = 80, FLAG_COLUMN = 2, TEXT_COLUMN = 30 };

static void pad(haul_string *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        haul_string_append_text(out, " ");
    }
}

/* Appends `text` in lines that begin at `indent`; the first continues at `column`. */
static void wrap(haul_string *out, const char *text, int64_t column, int64_t indent) {
    bool line_start = true;
    while (*text != '\0') {
        int64_t length = (int64_t)strcspn(text, " ");
        if (!line_start && column + 1 + length > WIDTH) {
            haul_string_append_text(out, "\n");
            pad(out, indent);
            column = indent;
            line_start = true;
        }
        if (!line_start) {
            haul_string_append_text(out, " ");
            column++;
        }
        haul_string_append(out, text, length);
        column += length;
        text += length + (text[length] == ' ');
        line_start = false;
    }
    haul_string_append_text(out, "\n");
}

static void append_flag_help(haul_string *out, const haul_flag *flag) {
    pad(out, FLAG_COLUMN);
    int64_t start = out->length;
    haul_text_append_flag(out, flag);
    int64_t column = FLAG_COLUMN + out->length - start;
    if (column + 2 > TEXT_COLUMN) {
        haul_string_append_text(out, "\n");
        column = 0;
    }
    pad(out, TEXT_COLUMN - column);
    haul_string description = {0};
    haul_text_append_description(&description, flag);
    if (haul_string_status(&description) == HAUL_OK) {
        wrap(out, description.data, TEXT_COLUMN, TEXT_COLUMN);
    }
    out->failed = out->failed || description.failed;
    haul_string_deinit(&description);
}

static void append_presets(haul_string *out) {
    haul_string_append_text(out, "\nPresets\n");
    for (int64_t i = 0; haul_preset_at(i) != NULL; i++) {
        const haul_preset *preset = haul_preset_at(i);
        haul_string_append_format(out, "  %-*s", TEXT_COLUMN - FLAG_COLUMN, preset->name);
        wrap(out, preset->summary, TEXT_COLUMN, TEXT_COLUMN);
    }
}

haul_status haul_text_help(haul_command command, haul_string *out) {
    const haul_command_info *info = haul_command_at(command);
    haul_string_append_format(out, "haul %s: %s\n\nUsage: ", info->name, info->summary);
    haul_text_append_usage(out, command);
    haul_string_append_text(out, "\n\n");
    wrap(out, info->text, 0, 0);
    haul_string_append_text(out, "\nExamples\n");
    for (int i = 0; info->examples[i] != NULL; i++) {
        haul_string_append_format(out, "  %s\n", info->examples[i]);
    }
    for (int group = 0; group < HAUL_FLAG_GROUPS; group++) {
        int64_t flag = haul_text_next_flag(command, (haul_flag_group)group, 0);
        if (flag >= 0) {
            haul_string_append_format(out, "\n%s\n", haul_flag_group_name((haul_flag_group)group));
        }
        for (; flag >= 0; flag = haul_text_next_flag(command, (haul_flag_group)group, flag + 1)) {
            append_flag_help(out, haul_flag_at(flag));
        }
    }
    if (command == HAUL_COMMAND_TRAIN) {
        append_presets(out);
    }
    return haul_string_status(out);
}

haul_status haul_text_overview(haul_string *out) {
    haul_string_append_text(out, "haul trains large language models.\n\nUsage: haul COMMAND "
                                 "[flags]\n\nCommands\n");
    for (int i = 0; i < HAUL_COMMANDS; i++) {
        const haul_command_info *info = haul_command_at((haul_command)i);
        haul_string_append_format(out, "  %-22s  %s\n", info->name, info->summary);
    }
    haul_string_append_text(out, "\nhaul help COMMAND explains one. To begin: haul train --preset "
                                 "tiny --text my.txt\n");
    return haul_string_status(out);
}
