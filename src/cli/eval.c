#include "base/format.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "checkpoint/path.h"
#include "cli/load.h"
#include "train/corpus.h"
#include "train/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Where the settings of a model say nothing, as those of a Hugging Face directory. */
enum { DEFAULT_LENGTH = 1024, DEFAULT_BATCH = 4 };

static haul_status choose_shape(haul_config *config) {
    int64_t most = config->max_position_embeddings;
    if (config->seq_length == 0) {
        config->seq_length = haul_min(most, DEFAULT_LENGTH);
    }
    if (config->micro_batch_size == 0) {
        config->micro_batch_size = DEFAULT_BATCH;
    }
    if (config->seq_length > most) {
        return haul_fail(HAUL_ERROR_CONFIG,
                         "--seq-length is %lld, must be at most the model's %lld",
                         (long long)config->seq_length, (long long)most);
    }
    return HAUL_OK;
}

static haul_status open_windows(const haul_config *model, const char *const *data_path,
                                int64_t count, const char *split, haul_windows **out) {
    haul_dataset_options options = {.data_path = data_path,
                                    .data_path_count = count,
                                    .split = split,
                                    .seq_length = model->seq_length,
                                    .vocab_size = model->vocab_size};
    return haul_windows_open(&options, 1, out);
}

/* Makes the data set of a text below `directory`, as haul train does. */
static haul_status build_text(const haul_cli_model *model, const haul_config *config,
                              const char *directory, char *path, int64_t capacity) {
    char prefix[256];
    haul_build_result result;
    snprintf(prefix, sizeof prefix, "%s/eval", directory);
    haul_build_options options = {.input = {.files = &config->text, .file_count = 1},
                                  .output_prefix = prefix,
                                  .tokenizer = model->tokenizer,
                                  .append_eod = haul_tokenizer_eod(model->tokenizer) >= 0,
                                  .workers = haul_parallel_cores()};
    HAUL_TRY(haul_corpus_separator(config, config->text, &options.input.separator));
    HAUL_TRY(haul_build(&options, &result));
    return haul_build_prefix(prefix, "text", false, path, capacity);
}

/* The data set of a text lives as long as it is mapped: its files go as soon as they are open. */
static haul_status open_text(const haul_cli_model *model, const haul_config *config,
                             haul_windows **out) {
    const char *parent = getenv("TMPDIR");
    char directory[200], path[512];
    const char *data_path = path;
    snprintf(directory, sizeof directory, "%.180s/haul-XXXXXX",
             parent != NULL && parent[0] != '\0' ? parent : "/tmp");
    if (mkdtemp(directory) == NULL) {
        haul_fail(HAUL_ERROR_CREATE, "cannot make a directory like %s", directory);
        haul_hint("set TMPDIR to a directory that can be written");
        return HAUL_ERROR_CREATE;
    }
    haul_status status = build_text(model, config, directory, path, sizeof path);
    if (status == HAUL_OK) {
        status = open_windows(&model->saved.config, &data_path, 1, NULL, out);
    }
    haul_path_clear(directory);
    return status;
}

/* Without a tokenizer the loss of a data set is still known. */
static haul_status open_tokenizer(const haul_cli *cli, const haul_config *config,
                                  haul_cli_model *model) {
    haul_status status = haul_saved_model_tokenizer(&model->saved, &model->tokenizer);
    if (status == HAUL_ERROR_CONFIG && config->text == NULL) {
        haul_cli_note(cli, "bits per byte are unknown: %s", haul_error_message());
        return HAUL_OK;
    }
    return status;
}

static haul_status evaluate(const haul_cli *cli, haul_cli_model *model,
                            const haul_windows *windows) {
    haul_evaluation evaluation;
    haul_progress progress;
    haul_progress_begin(&progress, cli->live ? stderr : NULL, "evaluating", "windows",
                        haul_windows_count(windows));
    haul_status status = haul_evaluate_windows(&model->session, windows, model->tokenizer,
                                               haul_cli_show_progress, &progress, &evaluation);
    haul_progress_end(&progress);
    HAUL_TRY(status);
    double loss = haul_evaluation_loss(&evaluation);
    printf("model: %s\n", model->saved.directory);
    printf("windows: %lld of up to %lld tokens, %lld labels\n",
           (long long)haul_windows_count(windows), (long long)model->saved.config.seq_length,
           (long long)evaluation.labels);
    printf("loss: %.6f\nperplexity: %.6g\n", loss, exp(loss));
    if (evaluation.bytes > 0) {
        printf("bits per byte: %.3f\n", haul_evaluation_bits_per_byte(&evaluation));
    }
    return HAUL_OK;
}

static haul_status run(const haul_cli *cli, const haul_config *config, haul_cli_model *model,
                       haul_windows **windows) {
    HAUL_TRY(choose_shape(&model->saved.config));
    HAUL_TRY(open_tokenizer(cli, config, model));
    if (config->text != NULL) {
        HAUL_TRY(open_text(model, config, windows));
    } else {
        HAUL_TRY(open_windows(&model->saved.config, config->data_path.items,
                              config->data_path.count, config->split, windows));
    }
    HAUL_TRY(haul_cli_model_load(model));
    return evaluate(cli, model, *windows);
}

haul_status haul_cli_eval(const haul_cli *cli, haul_config *config) {
    haul_cli_model model;
    haul_windows *windows = NULL;
    if ((config->text != NULL) == (config->data_path.count > 0)) {
        haul_fail(HAUL_ERROR_USAGE, "one of --text and --data-path must be given");
        haul_hint("haul eval --load checkpoints --text held-out.txt");
        return HAUL_ERROR_USAGE;
    }
    haul_status status = haul_cli_model_open(cli, config, &model);
    if (status == HAUL_OK) {
        status = run(cli, config, &model, &windows);
    }
    haul_windows_close(windows);
    haul_cli_model_close(&model);
    return status;
}
