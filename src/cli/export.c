#include "cli/load.h"
#include "train/corpus.h"
#include "train/state.h"

#include <stdio.h>

static haul_status export_model(const haul_cli *cli, haul_cli_model *model, const char *output) {
    haul_config *config = &model->saved.config;
    config->seq_length = 1; /* of the session, which only holds the weights */
    config->micro_batch_size = 1;
    HAUL_TRY(haul_cli_model_load(model));
    HAUL_TRY(haul_state_export(&model->session.store, config, output));
    if (haul_corpus_copy_tokenizer(config, output) != HAUL_OK) {
        haul_cli_note(cli, "%s has no tokenizer.json: %s", output, haul_error_message());
    }
    printf("wrote %s from %s\n", output, model->saved.directory);
    return HAUL_OK;
}

haul_status haul_cli_checkpoint_export(const haul_cli *cli, haul_config *config) {
    haul_cli_model model;
    config->load = config->arguments.items[0];
    haul_status status = haul_cli_model_open(cli, config, &model);
    if (status == HAUL_OK) {
        status = export_model(cli, &model, config->output);
    }
    haul_cli_model_close(&model);
    return status;
}
