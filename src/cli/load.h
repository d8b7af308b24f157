/* Inside cli/: a saved model made ready to compute, for eval and generate. */
#ifndef HAUL_CLI_LOAD_H
#define HAUL_CLI_LOAD_H

#include "cli/cli.h"
#include "train/saved_model.h"
#include "train/session.h"

typedef struct haul_cli_model {
    haul_saved_model saved;
    haul_tokenizer *tokenizer; /* NULL until opened */
    haul_session session;
} haul_cli_model;

/* Opens what --load names, and notes newer checkpoints that had to be passed over. */
haul_status haul_cli_model_open(const haul_cli *cli, const haul_config *config,
                                haul_cli_model *model);

/* Takes memory for the model with the sequence length and micro-batch of model->saved.config, and
 * reads its weights. */
haul_status haul_cli_model_load(haul_cli_model *model);
void haul_cli_model_close(haul_cli_model *model);

#endif
