#include "cli/cli.h"
#include "config/text.h"

static haul_status append_help(const haul_text_list *words, haul_string *out) {
    haul_command command;
    int used;
    if (words->count == 0) {
        return haul_text_overview(out);
    }
    HAUL_TRY(haul_command_find((int)words->count, words->items, &command, &used));
    return haul_text_help(command, out);
}

haul_status haul_cli_help(const haul_cli *cli, haul_config *config) {
    haul_string text = {0};
    (void)cli;
    haul_status status = append_help(&config->arguments, &text);
    if (status == HAUL_OK) {
        haul_cli_print(&text);
    }
    haul_string_deinit(&text);
    return status;
}
