/* Completion scripts. Both shells get the same two tables, commands and flags of each command,
 * as a case statement over the words written so far. */
#include "config/presets.h"
#include "config/text.h"

#include <string.h>

/* The first words of all commands, then for a command of several words the second ones ... */
static void append_next_words(haul_string *out, const char *prefix) {
    size_t length = strlen(prefix);
    const char *last = "";
    size_t last_length = 0;
    for (int i = 0; i < HAUL_COMMANDS; i++) {
        const char *name = haul_command_at((haul_command)i)->name;
        if (strncmp(name, prefix, length) != 0) {
            continue;
        }
        const char *word = name + length;
        size_t word_length = strcspn(word, " ");
        if (word_length != last_length || strncmp(word, last, word_length) != 0) {
            haul_string_append_text(out, last_length > 0 ? " " : "");
            haul_string_append(out, word, (int64_t)word_length);
        }
        last = word;
        last_length = word_length;
    }
}

static void append_flag_names(haul_string *out, haul_command command) {
    for (int64_t i = 0; i < haul_flag_count(); i++) {
        if (haul_command_takes(command, i)) {
            haul_string_append_format(out, " --%s", haul_flag_at(i)->name);
        }
    }
}

/* `    "data "*) offered="..." ;;` for each command, longest names first so that they match. */
static void append_commands(haul_string *out) {
    for (int i = 0; i < HAUL_COMMANDS; i++) {
        const haul_command_info *info = haul_command_at((haul_command)i);
        haul_string_append_format(out, "    \"%s \"*) offered=\"", info->name);
        if (i == HAUL_COMMAND_COMPLETION) {
            haul_string_append_text(out, "bash zsh");
        }
        if (i == HAUL_COMMAND_HELP) {
            append_next_words(out, "");
        }
        append_flag_names(out, (haul_command)i);
        haul_string_append_text(out, "\" ;;\n");
    }
    static const char *const prefixes[] = {"data tokenizer ", "data ", "checkpoint ", "bench ", ""};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        haul_string_append_format(out, "    \"%s\"*) offered=\"", prefixes[i]);
        append_next_words(out, prefixes[i]);
        haul_string_append_text(out, "\" ;;\n");
    }
}

/* `    --device) offered="cpu cuda" ;;` for each flag with a fixed set of values. */
static void append_values(haul_string *out) {
    haul_string_append_text(out, "    --preset) offered=\"");
    for (int64_t i = 0; haul_preset_at(i) != NULL; i++) {
        haul_string_append_format(out, i == 0 ? "%s" : " %s", haul_preset_at(i)->name);
    }
    haul_string_append_text(out, "\" ;;\n");
    for (int64_t i = 0; i < haul_flag_count(); i++) {
        const haul_flag *flag = haul_flag_at(i);
        if (flag->kind->type != HAUL_FLAG_CHOICE) {
            continue;
        }
        haul_string_append_format(out, "    --%s) offered=\"", flag->name);
        for (int c = 0; flag->kind->choices[c] != NULL; c++) {
            haul_string_append_format(out, c == 0 ? "%s" : " %s", flag->kind->choices[c]);
        }
        haul_string_append_text(out, "\" ;;\n");
    }
}

/* A shell function that sets `offered` to what may follow, from `line`, the words written so far
 * with a blank behind each, and `previous`, the last of them. Files are offered for the rest. */
static void append_function(haul_string *out) {
    haul_string_append_text(out, "_haul_words() {\n  offered=\"\"\n  case \"$previous\" in\n");
    append_values(out);
    haul_string_append_text(out, "    *) case \"$line\" in\n");
    append_commands(out);
    haul_string_append_text(out, "    esac ;;\n  esac\n}\n");
}

static const char bash_end[] =
    "_haul() {\n"
    "  local line=\"${COMP_WORDS[*]:1:COMP_CWORD-1}\" previous offered\n"
    "  previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
    "  if [ -n \"$line\" ]; then line=\"$line \"; fi\n"
    "  _haul_words\n"
    "  COMPREPLY=($(compgen -W \"$offered\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
    "}\n"
    "complete -o default -F _haul haul\n";

static const char zsh_end[] =
    "_haul() {\n"
    "  local line=\"${(j: :)${(@)words[2,CURRENT-1]}}\" previous=\"${words[CURRENT-1]}\"\n"
    "  local offered\n"
    "  if [ -n \"$line\" ]; then line=\"$line \"; fi\n"
    "  _haul_words\n"
    "  if [ -n \"$offered\" ]; then compadd -- ${=offered}; else _files; fi\n"
    "}\n"
    "compdef _haul haul\n";

haul_status haul_text_completion(const char *shell, haul_string *out) {
    bool bash = strcmp(shell, "bash") == 0;
    if (!bash && strcmp(shell, "zsh") != 0) {
        haul_fail(HAUL_ERROR_USAGE, "there is no completion for \"%s\", only for bash and zsh",
                  shell);
        haul_hint("haul completion bash");
        return HAUL_ERROR_USAGE;
    }
    haul_string_append_text(out, bash ? "# bash completion of haul\n" : "#compdef haul\n");
    append_function(out);
    haul_string_append_text(out, bash ? bash_end : zsh_end);
    return haul_string_status(out);
}
