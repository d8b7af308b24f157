#include "base/format.h"
#include "base/memory.h"
#include "cli/load.h"
#include "generate/stream.h"

#include <stdio.h>

static void print_text(void *context, const char *text, int64_t bytes) {
    (void)context;
    haul_cli_print_model_text(text, bytes);
    fflush(stdout);
}

/* A context as long as the text can become, if the model has one. */
static haul_status prepare(haul_cli_model *model, const haul_config *config,
                           haul_generator *generator) {
    haul_token_list tokens = {0};
    haul_status status = haul_generate_encode(model->tokenizer, config->prompt, &tokens);
    haul_generator_options options = {.capacity = tokens.count + config->max_new_tokens};
    haul_token_list_deinit(&tokens);
    HAUL_TRY(status);
    model->saved.config.seq_length = 1; /* of the session, which only holds the weights */
    model->saved.config.micro_batch_size = 1;
    HAUL_TRY(haul_cli_model_load(model));
    return haul_generator_init(generator, &model->saved.config, &model->session.store, options);
}

static void print_notes(const haul_cli *cli, const haul_generator *generator,
                        const haul_generate_result *result) {
    if (result->cut_tokens > 0) {
        haul_cli_note(cli,
                      "the model did not see the prompt's first %lld tokens: its context holds "
                      "%lld tokens",
                      (long long)result->cut_tokens, (long long)generator->capacity);
    }
    if (cli->live && result->new_tokens > 0) {
        haul_cli_note(cli, "%lld prompt tokens in %s, %lld new tokens in %s: %s tokens/s",
                      (long long)result->prompt_tokens,
                      haul_format_duration(result->prompt_seconds).text,
                      (long long)result->new_tokens, haul_format_duration(result->seconds).text,
                      haul_format_count((int64_t)((double)result->new_tokens /
                                                  (result->seconds > 0 ? result->seconds : 1)))
                          .text);
    }
}

static haul_status write_text(const haul_cli *cli, const haul_config *config, haul_cli_model *model,
                              haul_generator *generator) {
    haul_generate_result result;
    haul_generate_options options = {.sampling = {.temperature = config->temperature,
                                                  .top_k = config->top_k,
                                                  .top_p = config->top_p,
                                                  .seed = (uint64_t)config->seed},
                                     .max_new_tokens = config->max_new_tokens,
                                     .stop = config->stop.items,
                                     .stop_count = config->stop.count,
                                     .text = print_text,
                                     .interrupt = cli->stop};
    haul_cli_catch_signals("\n");
    if (config->prompt != NULL) {
        fputs(config->prompt, stdout);
        fflush(stdout);
    }
    haul_status status =
        haul_generate(generator, model->tokenizer, config->prompt, &options, &result);
    putchar('\n');
    HAUL_TRY(status);
    fflush(stdout);
    print_notes(cli, generator, &result);
    return result.end == HAUL_GENERATE_END_INTERRUPT ? HAUL_INTERRUPTED : HAUL_OK;
}

haul_status haul_cli_generate(const haul_cli *cli, haul_config *config) {
    haul_cli_model model;
    haul_generator generator = {0};
    haul_status status = haul_cli_model_open(cli, config, &model);
    if (status == HAUL_OK) {
        status = haul_saved_model_tokenizer(&model.saved, &model.tokenizer);
    }
    if (status == HAUL_OK) {
        status = prepare(&model, config, &generator);
    }
    if (status == HAUL_OK) {
        status = write_text(cli, config, &model, &generator);
    }
    haul_generator_deinit(&generator);
    haul_cli_model_close(&model);
    return status;
}
