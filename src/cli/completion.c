#include "cli/cli.h"
#include "config/text.h"

haul_status haul_cli_completion(const haul_cli *cli, haul_config *config) {
    haul_string text = {0};
    (void)cli;
    haul_status status = haul_text_completion(config->arguments.items[0], &text);
    if (status == HAUL_OK) {
        haul_cli_print(&text);
    }
    haul_string_deinit(&text);
    return status;
}
