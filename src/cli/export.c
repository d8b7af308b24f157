#include "cli/cli.h"

#include "config/json.h"
#include "config/validate.h"
#include "train/session.h"
#include "train/state.h"

#include <stdio.h>
#include <string.h>

/* The settings of the run that a checkpoint is from, with one sequence a batch. */
static haul_status read_config(const haul_checkpoint *checkpoint, haul_config *config) {
    const char *json = haul_checkpoint_config_json(checkpoint), *one = "1";
    if (json == NULL) {
        return haul_fail(HAUL_ERROR_DATA, "%s has no config.json",
                         haul_checkpoint_path(checkpoint));
    }
    HAUL_TRY(haul_config_from_json(config, json, (int64_t)strlen(json), "config.json"));
    HAUL_TRY(haul_config_set(config, "micro-batch-size", &one, 1, HAUL_SOURCE_COMMAND_LINE));
    return haul_config_finalize_model(config);
}

static haul_status export_model(haul_checkpoint *checkpoint, const char *output) {
    haul_config config;
    haul_session session = {0};
    HAUL_TRY(haul_config_init(&config));
    haul_status status = read_config(checkpoint, &config);
    if (status == HAUL_OK) {
        status = haul_session_plan(&session, &config, false);
    }
    if (status == HAUL_OK) {
        status = haul_store_allocate(&session.store);
    }
    if (status == HAUL_OK) {
        status = haul_state_load(&session.store, checkpoint);
    }
    if (status == HAUL_OK) {
        status = haul_state_export(&session.store, &config, output);
    }
    haul_session_deinit(&session);
    haul_config_deinit(&config);
    return status;
}

haul_status haul_cli_checkpoint_export(const haul_cli *cli, haul_config *config) {
    haul_checkpoint *checkpoint;
    haul_string rejected = {0};
    haul_status status =
        haul_checkpoint_find(config->arguments.items[0], -1, &checkpoint, &rejected);
    if (rejected.length > 0) {
        haul_cli_note(cli, "%s", rejected.data);
    }
    haul_string_deinit(&rejected);
    HAUL_TRY(status);
    status = export_model(checkpoint, config->output);
    if (status == HAUL_OK) {
        printf("wrote %s from %s\n", config->output, haul_checkpoint_path(checkpoint));
    }
    haul_checkpoint_close(checkpoint);
    return status;
}
