/* Manual pages, in the macros of man(7). */
#include "config/text.h"

/* Text with what roff would read as a command or as typography made plain. */
static void append_escaped(haul_string *out, const char *text) {
    if (*text == '.' || *text == '\'') {
        haul_string_append_text(out, "\\&");
    }
    for (; *text != '\0'; text++) {
        if (*text == '-') {
            haul_string_append_text(out, "\\-");
        } else if (*text == '\\') {
            haul_string_append_text(out, "\\e");
        } else {
            haul_string_append(out, text, 1);
        }
    }
}

/* Appends what `write` makes of a flag, escaped, as one line. */
static void append_line(haul_string *out, const haul_flag *flag,
                        void (*write)(haul_string *, const haul_flag *)) {
    haul_string line = {0};
    write(&line, flag);
    if (haul_string_status(&line) == HAUL_OK) {
        append_escaped(out, line.data);
        haul_string_append_text(out, "\n");
    }
    out->failed = out->failed || line.failed;
    haul_string_deinit(&line);
}

static void append_flags(haul_string *out, haul_command command) {
    for (int group = 0; group < HAUL_FLAG_GROUPS; group++) {
        int64_t index = haul_text_next_flag(command, (haul_flag_group)group, 0);
        if (index >= 0) {
            haul_string_append_format(out, ".SS %s\n",
                                      haul_flag_group_name((haul_flag_group)group));
        }
        for (; index >= 0;
             index = haul_text_next_flag(command, (haul_flag_group)group, index + 1)) {
            haul_string_append_text(out, ".TP\n.B ");
            append_line(out, haul_flag_at(index), haul_text_append_flag);
            append_line(out, haul_flag_at(index), haul_text_append_description);
        }
    }
}

static void append_dashed(haul_string *out, const char *name) {
    for (; *name != '\0'; name++) {
        haul_string_append(out, *name == ' ' ? "-" : name, 1);
    }
}

haul_status haul_text_manual(haul_command command, haul_string *out) {
    const haul_command_info *info = haul_command_at(command);
    haul_string_append_text(out, ".TH \"haul-");
    append_dashed(out, info->name);
    haul_string_append_text(out, "\" 1 \"\" \"haul\" \"haul manual\"\n.SH NAME\nhaul-");
    append_dashed(out, info->name);
    haul_string_append_format(out, " \\- %s\n.SH SYNOPSIS\n.nf\n", info->summary);
    haul_string usage = {0};
    haul_text_append_usage(&usage, command);
    append_escaped(out, usage.data != NULL ? usage.data : "");
    out->failed = out->failed || usage.failed;
    haul_string_deinit(&usage);
    haul_string_append_text(out, "\n.fi\n.SH DESCRIPTION\n");
    append_escaped(out, info->text);
    haul_string_append_text(out, "\n.SH OPTIONS\n");
    append_flags(out, command);
    haul_string_append_text(out, ".SH EXAMPLES\n.nf\n");
    for (int i = 0; info->examples[i] != NULL; i++) {
        append_escaped(out, info->examples[i]);
        haul_string_append_text(out, "\n");
    }
    haul_string_append_text(out, ".fi\n.SH EXIT STATUS\n");
    for (int64_t i = 0; haul_text_exit_code(i) != NULL; i++) {
        const haul_exit_code *code = haul_text_exit_code(i);
        haul_string_append_format(out, ".TP\n.B %d\n%s\n", code->code, code->meaning);
    }
    return haul_string_status(out);
}
