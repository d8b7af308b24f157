#include "train/save.h"

#include "config/json.h"
#include "train/state.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Counters, and what the bits of a continued run depend on. */
static haul_status state_json(const haul_train *train, haul_string *out) {
    const haul_train_progress *progress = &train->progress;
    const haul_device *device = &train->session->device;
    char description[256];
    device->backend->describe(device, description, sizeof description);
    haul_string_append_format(
        out,
        "{\"iteration\": %lld, \"consumed_samples\": %lld, \"updates\": %lld, "
        "\"skipped_iterations\": %lld, \"seed\": %lld, \"threads\": %d, \"product\": \"%s\", "
        "\"device\": ",
        (long long)progress->iteration, (long long)progress->consumed_samples,
        (long long)progress->updates, (long long)progress->skipped_iterations,
        (long long)train->config->seed, device->threads,
        device->product == HAUL_PRODUCT_BF16 ? "bf16" : "f32");
    haul_string_append_json(out, description);
    haul_string_append_text(out, "}");
    return haul_string_status(out);
}

haul_status haul_train_save(const haul_train *train, const haul_checkpoint_writer *writer,
                            char *path, int64_t capacity, int64_t *bytes) {
    haul_state_list list = {0};
    haul_string config = {0}, state = {0};
    haul_status status = haul_state_list_init(&train->session->store, &list);
    if (status == HAUL_OK) {
        status = haul_config_to_json(train->config, &config);
    }
    if (status == HAUL_OK) {
        status = state_json(train, &state);
    }
    haul_checkpoint_request request = {.directory = train->config->save,
                                       .iteration = train->progress.iteration,
                                       .tensors = list.tensors,
                                       .count = list.count,
                                       .config_json = config.data,
                                       .state_json = state.data,
                                       .keep = train->config->keep_checkpoints,
                                       .writer = writer};
    if (status == HAUL_OK) {
        status = haul_checkpoint_save(&request);
    }
    *bytes = 0;
    for (int64_t i = 0; i < list.count; i++) {
        int64_t count;
        const haul_checkpoint_tensor *tensor = &list.tensors[i];
        haul_shape_bytes(tensor->ndim, tensor->shape, haul_dtype_size(tensor->dtype), &count);
        *bytes += count;
    }
    snprintf(path, (size_t)capacity, "%s/iter_%07lld", train->config->save,
             (long long)train->progress.iteration);
    haul_string_deinit(&state);
    haul_string_deinit(&config);
    haul_state_list_deinit(&list);
    return status;
}

static haul_status read_counters(haul_train *train, const haul_checkpoint *checkpoint) {
    json_t *root = json_loads(haul_checkpoint_state_json(checkpoint), 0, NULL);
    haul_train_progress *progress = &train->progress;
    const struct {
        const char *key;
        int64_t *value;
    } counters[] = {{"iteration", &progress->iteration},
                    {"consumed_samples", &progress->consumed_samples},
                    {"updates", &progress->updates},
                    {"skipped_iterations", &progress->skipped_iterations}};
    haul_status status = HAUL_OK;
    for (size_t i = 0; i < sizeof counters / sizeof counters[0] && status == HAUL_OK; i++) {
        const json_t *value = json_object_get(root, counters[i].key);
        *counters[i].value = json_integer_value(value);
        if (!json_is_integer(value) || *counters[i].value < 0) {
            status = haul_fail(HAUL_ERROR_DATA, "%s: its state has no count %s",
                               haul_checkpoint_path(checkpoint), counters[i].key);
        }
    }
    json_decref(root);
    return status;
}

haul_status haul_train_find(const haul_config *config, haul_checkpoint **out,
                            haul_string *rejected) {
    *out = NULL;
    if (config->load == NULL || haul_state_is_hugging_face(config->load)) {
        return HAUL_OK;
    }
    haul_status status = haul_checkpoint_find(config->load, -1, out, rejected);
    bool fresh = status == HAUL_ERROR_NO_INPUT && config->save != NULL &&
                 strcmp(config->load, config->save) == 0;
    return fresh ? HAUL_OK : status;
}

static void append_value(haul_string *out, const json_t *value) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    haul_string_append_text(out, text != NULL ? text : "nothing");
    free(text);
}

/* Settings as config.json names them, in three kinds. */
static const char *const of_model[] = {
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_attention_heads",
    "kv_channels",
    "num_query_groups",
    "rotary_base",
    "position_embedding_type",
    "rotary_percent",
    "use_rope_scaling",
    "rope_scaling_factor",
    "normalization",
    "norm_epsilon",
    "swiglu",
    "openai_gelu",
    "add_qkv_bias",
    "disable_bias_linear",
    "untie_embeddings_and_output_weights",
    NULL,
};
static const char *const of_schedule[] = {
    "lr",
    "min_lr",
    "lr_decay_style",
    "lr_decay_iters",
    "lr_decay_samples",
    "lr_warmup_iters",
    "lr_warmup_samples",
    "lr_warmup_fraction",
    "lr_warmup_init",
    "lr_wsd_decay_style",
    "lr_wsd_decay_iters",
    "lr_wsd_decay_samples",
    "global_batch_size",
    "weight_decay",
    NULL,
};
static const char *const of_run[] = {
    "seed",      "micro_batch_size",  "seq_length", "bf16",     "fp8_format", "fp8_recipe",
    "optimizer", "adam_beta1",        "adam_beta2", "adam_eps", "clip_grad",  "hidden_dropout",
    "split",     "attention_dropout", NULL,
};

/* Appends "--lr 0.1 (now 0.2)" for each of `names` that is `there` another than `here`; one that
 * an older file lacks is passed over. */
static void append_differences(haul_string *out, const char *const *names, const json_t *there,
                               const json_t *here) {
    for (; *names != NULL; names++) {
        json_t *old = json_object_get(there, *names), *new = json_object_get(here, *names);
        if (old == NULL || new == NULL || json_equal(old, new)) {
            continue;
        }
        haul_string_append_text(out, out->length > 0 ? ", --" : "--");
        for (const char *letter = *names; *letter != '\0'; letter++) {
            haul_string_append(out, *letter == '_' ? "-" : letter, 1);
        }
        haul_string_append_text(out, " ");
        append_value(out, old);
        haul_string_append_text(out, " (now ");
        append_value(out, new);
        haul_string_append_text(out, ")");
    }
}

/* A checkpoint is another model's when shapes alone would hide it. */
static haul_status check_model(const haul_checkpoint *checkpoint, const json_t *there,
                               const json_t *here) {
    haul_string differences = {0};
    append_differences(&differences, of_model, there, here);
    haul_status status = haul_string_status(&differences);
    if (status == HAUL_OK && differences.length > 0) {
        status = haul_fail(HAUL_ERROR_CONFIG, "%s is of another model: %s",
                           haul_checkpoint_path(checkpoint), differences.data);
        haul_hint("give the model's settings as they were, or another --load");
    }
    haul_string_deinit(&differences);
    return status;
}

/* --use-checkpoint-opt-param-scheduler: haul goes on with the settings of the command line, which
 * must then be those of the checkpoint. */
static haul_status check_schedule(const haul_checkpoint *checkpoint, const json_t *there,
                                  const json_t *here) {
    haul_string differences = {0};
    append_differences(&differences, of_schedule, there, here);
    haul_status status = haul_string_status(&differences);
    if (status == HAUL_OK && differences.length > 0) {
        status = haul_fail(HAUL_ERROR_CONFIG, "the schedule of %s is another: %s",
                           haul_checkpoint_path(checkpoint), differences.data);
        haul_hint("give these settings as they were, or go on with those of now, without "
                  "--use-checkpoint-opt-param-scheduler");
    }
    haul_string_deinit(&differences);
    return status;
}

static haul_status compare(const haul_config *config, const haul_checkpoint *checkpoint,
                           haul_string *changed) {
    haul_string text = {0};
    const char *saved = haul_checkpoint_config_json(checkpoint);
    haul_status status = haul_config_to_json(config, &text);
    json_t *there = json_loads(saved != NULL ? saved : "", 0, NULL);
    json_t *here = json_loads(status == HAUL_OK ? text.data : "", 0, NULL);
    if (status == HAUL_OK) {
        status = check_model(checkpoint, there, here);
    }
    if (status == HAUL_OK && config->use_checkpoint_opt_param_scheduler) {
        status = check_schedule(checkpoint, there, here);
    }
    append_differences(changed, of_schedule, there, here);
    append_differences(changed, of_run, there, here);
    json_decref(there);
    json_decref(here);
    haul_string_deinit(&text);
    return status;
}

haul_status haul_train_adopt(haul_config *config, const haul_checkpoint *checkpoint,
                             haul_string *changed) {
    HAUL_TRY(compare(config, checkpoint, changed));
    json_t *root = json_loads(haul_checkpoint_state_json(checkpoint), 0, NULL);
    const char *product = json_string_value(json_object_get(root, "product"));
    haul_status status = HAUL_OK;
    if (product != NULL) {
        status = haul_config_set(config, "cpu-product-dtype", &product, 1, HAUL_SOURCE_FILE);
    }
    json_decref(root);
    return status;
}

haul_status haul_train_start(haul_train *train, haul_checkpoint *checkpoint) {
    const haul_config *config = train->config;
    haul_store *store = &train->session->store;
    train->progress = (haul_train_progress){0};
    if (checkpoint != NULL) {
        HAUL_TRY(haul_state_load(store, checkpoint));
        HAUL_TRY(read_counters(train, checkpoint));
    } else if (config->load != NULL && haul_state_is_hugging_face(config->load)) {
        HAUL_TRY(haul_state_import(store, config, config->load));
    } else {
        HAUL_TRY(haul_store_initialize(store, (uint64_t)config->seed));
    }
    return haul_executor_pack(&train->session->trainer);
}
