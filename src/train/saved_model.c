#include "train/saved_model.h"

#include "base/file.h"
#include "config/huggingface.h"
#include "config/json.h"
#include "config/validate.h"
#include "train/corpus.h"
#include "train/state.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 1100, BYTE_VOCABULARY = 257 };

void haul_saved_model_checkpoints(const char *path, char *out, int64_t capacity) {
    snprintf(out, (size_t)capacity, "%s/checkpoints", path);
    if (!haul_file_exists(out)) {
        haul_text_copy(out, capacity, path);
    }
}

static haul_status read_huggingface(haul_saved_model *model, const char *directory) {
    char path[PATH_BYTES];
    haul_text_copy(model->directory, sizeof model->directory, directory);
    snprintf(path, sizeof path, "%s/config.json", directory);
    return haul_config_read_huggingface(&model->config, path);
}

static haul_status read_checkpoint(haul_saved_model *model, const char *load,
                                   haul_string *rejected) {
    char directory[sizeof model->directory];
    haul_saved_model_checkpoints(load, directory, sizeof directory);
    haul_status status = haul_checkpoint_find(directory, -1, &model->checkpoint, rejected);
    if (status == HAUL_ERROR_NO_INPUT) {
        haul_hint("--load takes a directory of checkpoints, a run or a Hugging Face model");
    }
    HAUL_TRY(status);
    haul_text_copy(model->directory, sizeof model->directory,
                   haul_checkpoint_path(model->checkpoint));
    const char *json = haul_checkpoint_config_json(model->checkpoint);
    if (json == NULL) {
        return haul_fail(HAUL_ERROR_DATA, "%s: the checkpoint has no config.json",
                         model->directory);
    }
    return haul_config_from_json(&model->config, json, (int64_t)strlen(json), model->directory);
}

static haul_status take_text(haul_config *config, const char **field, const char *text) {
    *field = text != NULL ? haul_config_keep(config, text) : NULL;
    return text == NULL || *field != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
}

static haul_status take_tokenizer(haul_config *config, const haul_config *command) {
    config->tokenizer_type = command->tokenizer_type;
    HAUL_TRY(take_text(config, &config->vocab_file, command->vocab_file));
    HAUL_TRY(take_text(config, &config->merge_file, command->merge_file));
    return take_text(config, &config->tokenizer_model, command->tokenizer_model);
}

/* The settings that a command may give beside those of the file. */
static haul_status take_settings(haul_config *config, const haul_config *command) {
    static const char *const flags[] = {"seq-length", "micro-batch-size"};
    const int64_t values[] = {command->seq_length, command->micro_batch_size};
    config->device = command->device;
    config->threads = command->threads;
    config->cpu_product_dtype = command->cpu_product_dtype;
    config->bf16 |= command->bf16;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        char text[32];
        const char *value = text;
        snprintf(text, sizeof text, "%lld", (long long)values[i]);
        if (haul_config_source_of(command, flags[i]) == HAUL_SOURCE_COMMAND_LINE) {
            HAUL_TRY(haul_config_set(config, flags[i], &value, 1, HAUL_SOURCE_COMMAND_LINE));
        }
    }
    return haul_corpus_tokenizer_type(command) != NULL ? take_tokenizer(config, command) : HAUL_OK;
}

/* A tokenizer.json beside the weights is the model's own. */
static haul_status find_tokenizer(haul_saved_model *model, const haul_config *command) {
    char path[PATH_BYTES];
    if (haul_corpus_tokenizer_type(command) != NULL) {
        return HAUL_OK;
    }
    snprintf(path, sizeof path, "%s/tokenizer.json", model->directory);
    if (model->checkpoint != NULL && !haul_file_exists(path)) { /* one for all of a directory */
        snprintf(path, sizeof path, "%s/../tokenizer.json", model->directory);
    }
    if (haul_file_exists(path)) {
        model->config.tokenizer_type = HAUL_TOKENIZER_HUGGING_FACE;
        model->config.tokenizer_model = haul_config_keep(&model->config, path);
        return model->config.tokenizer_model != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
    }
    return HAUL_OK;
}

static haul_status open_model(haul_saved_model *model, const haul_config *command,
                              haul_string *rejected) {
    if (command->device == HAUL_DEVICE_META) {
        return haul_fail(HAUL_ERROR_USAGE, "--device is meta, must be one that computes");
    }
    if (haul_state_is_hugging_face(command->load)) {
        HAUL_TRY(read_huggingface(model, command->load));
    } else {
        HAUL_TRY(read_checkpoint(model, command->load, rejected));
    }
    HAUL_TRY(take_settings(&model->config, command));
    HAUL_TRY(find_tokenizer(model, command));
    return haul_config_finalize_model(&model->config);
}

haul_status haul_saved_model_open(const haul_config *command, haul_saved_model *out,
                                  haul_string *rejected) {
    haul_saved_model model = {0};
    HAUL_TRY(haul_config_init(&model.config));
    haul_status status = open_model(&model, command, rejected);
    if (status != HAUL_OK) {
        haul_saved_model_close(&model);
        return status;
    }
    *out = model;
    return HAUL_OK;
}

void haul_saved_model_close(haul_saved_model *model) {
    haul_checkpoint_close(model->checkpoint);
    haul_config_deinit(&model->config);
    *model = (haul_saved_model){0};
}

haul_status haul_saved_model_read(haul_saved_model *model, haul_store *store) {
    if (model->checkpoint == NULL) {
        return haul_state_import(store, &model->config, model->directory);
    }
    haul_state_list list;
    HAUL_TRY(haul_state_list_init(store, &list));
    haul_status status = HAUL_OK;
    for (int64_t i = 0; i < list.count && status == HAUL_OK; i++) {
        status = haul_state_read(model->checkpoint, &list.tensors[i]); /* f64 for ref */
    }
    haul_state_list_deinit(&list);
    return status;
}

haul_status haul_saved_model_tokenizer(const haul_saved_model *model, haul_tokenizer **out) {
    const haul_config *config = &model->config;
    const char *type = haul_corpus_tokenizer_type(config);
    if (type == NULL) {
        if (config->vocab_size != BYTE_VOCABULARY) {
            haul_fail(HAUL_ERROR_CONFIG, "%s does not say which tokenizer it was trained with",
                      model->directory);
            haul_hint("add --tokenizer-model FILE or --tokenizer-type ByteTokenizer");
            return HAUL_ERROR_CONFIG;
        }
        type = "ByteTokenizer";
    }
    /* Of the ids of a NullTokenizer the last one, beyond its --vocab-size, ends a document. */
    haul_status status = haul_corpus_open_type(config, type, config->vocab_size - 1, out);
    if (status == HAUL_ERROR_NO_INPUT) {
        haul_hint("the training had it there; say with --tokenizer-model FILE where it is now");
    }
    return status;
}
