/* docs/commands.md. */
#include "config/presets.h"
#include "config/text.h"

/* Text for a cell of a table, where '|' would end it. */
static void append_cell(haul_string *out, const haul_flag *flag) {
    haul_string description = {0};
    haul_text_append_description(&description, flag);
    for (int64_t i = 0; i < description.length; i++) {
        if (description.data[i] == '|') {
            haul_string_append_text(out, "\\");
        }
        haul_string_append(out, &description.data[i], 1);
    }
    out->failed = out->failed || description.failed;
    haul_string_deinit(&description);
}

static void append_group(haul_string *out, haul_command command, haul_flag_group group) {
    int64_t index = haul_text_next_flag(command, group, 0);
    if (index < 0) {
        return;
    }
    haul_string_append_format(out, "\n| %s | |\n| --- | --- |\n", haul_flag_group_name(group));
    for (; index >= 0; index = haul_text_next_flag(command, group, index + 1)) {
        haul_string_append_text(out, "| `");
        haul_text_append_flag(out, haul_flag_at(index));
        haul_string_append_text(out, "` | ");
        append_cell(out, haul_flag_at(index));
        haul_string_append_text(out, " |\n");
    }
}

static void append_command(haul_string *out, haul_command command) {
    const haul_command_info *info = haul_command_at(command);
    haul_string_append_format(out, "\n## haul %s\n\n", info->name);
    haul_string_append_text(out, info->text);
    haul_string_append_text(out, "\n\n    ");
    haul_text_append_usage(out, command);
    haul_string_append_text(out, "\n\nExamples:\n\n");
    for (int i = 0; info->examples[i] != NULL; i++) {
        haul_string_append_format(out, "    %s\n", info->examples[i]);
    }
    for (int group = 0; group < HAUL_FLAG_GROUPS; group++) {
        append_group(out, command, (haul_flag_group)group);
    }
}

static void append_presets(haul_string *out) {
    haul_string_append_text(out, "\n## Presets\n\n`haul train --preset NAME` takes from a preset "
                                 "what the command line leaves open.\n");
    for (int64_t i = 0; haul_preset_at(i) != NULL; i++) {
        const haul_preset *preset = haul_preset_at(i);
        haul_string_append_format(out, "\n### %s\n\nFor %s.\n\n", preset->name, preset->summary);
        for (int s = 0; preset->settings[s].flag != NULL; s++) {
            haul_string_append_format(out, "    --%s %s\n", preset->settings[s].flag,
                                      preset->settings[s].value);
        }
    }
}

haul_status haul_text_markdown(haul_string *out) {
    haul_string_append_text(
        out,
        "# Commands\n\nThis page is made from the flag table (`src/config/flag_table.c`).\n\n"
        "A flag is written `--flag value` or `--flag=value`; `_` may stand for `-`; the last "
        "repetition wins; nothing may be shortened. `--no-flag` turns a switch off that a preset "
        "turned on. A list takes all words up to the next flag. Flags that Megatron-LM has mean "
        "what they mean there, with the same defaults.\n");
    for (int i = 0; i < HAUL_COMMANDS; i++) {
        append_command(out, (haul_command)i);
    }
    append_presets(out);
    haul_string_append_text(out, "\n## Exit codes\n\n| code | meaning |\n| --- | --- |\n");
    for (int64_t i = 0; haul_text_exit_code(i) != NULL; i++) {
        const haul_exit_code *code = haul_text_exit_code(i);
        haul_string_append_format(out, "| %d | %s |\n", code->code, code->meaning);
    }
    return haul_string_status(out);
}
