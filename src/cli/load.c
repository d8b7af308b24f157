#include "cli/load.h"

haul_status haul_cli_model_open(const haul_cli *cli, const haul_config *config,
                                haul_cli_model *model) {
    haul_string rejected = {0};
    *model = (haul_cli_model){0};
    haul_status status = haul_saved_model_open(config, &model->saved, &rejected);
    haul_cli_note_lines(cli, &rejected);
    haul_string_deinit(&rejected);
    return status;
}

haul_status haul_cli_model_load(haul_cli_model *model) {
    HAUL_TRY(haul_session_plan(&model->session, &model->saved.config, false));
    HAUL_TRY(haul_session_allocate(&model->session));
    HAUL_TRY(haul_saved_model_read(&model->saved, &model->session.store));
    return haul_executor_pack(&model->session.evaluator);
}

void haul_cli_model_close(haul_cli_model *model) {
    haul_session_deinit(&model->session);
    haul_tokenizer_close(model->tokenizer);
    haul_saved_model_close(&model->saved);
}
