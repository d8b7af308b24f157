#include "cli/cli.h"
#include "train/saved_model.h"

/* The text that one of haul_checkpoint_list, verify and show makes of a directory of checkpoints,
 * or of a run that has one; it is printed even where it ends in a failure. */
static haul_status print(const haul_config *config,
                         haul_status (*append)(const char *path, haul_string *out)) {
    char path[1024];
    haul_string text = {0};
    haul_saved_model_checkpoints(config->arguments.items[0], path, sizeof path);
    haul_status status = append(path, &text);
    haul_cli_print(&text);
    haul_string_deinit(&text);
    return status;
}

static haul_status append_newest(const char *path, haul_string *out) {
    return haul_checkpoint_show(path, -1, out);
}

haul_status haul_cli_checkpoint_list(const haul_cli *cli, haul_config *config) {
    (void)cli;
    return print(config, haul_checkpoint_list);
}

haul_status haul_cli_checkpoint_show(const haul_cli *cli, haul_config *config) {
    (void)cli;
    return print(config, append_newest);
}

haul_status haul_cli_checkpoint_verify(const haul_cli *cli, haul_config *config) {
    (void)cli;
    return print(config, haul_checkpoint_verify);
}
