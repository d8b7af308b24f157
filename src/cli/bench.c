#include "cli/bench.h"

#include "base/file.h"
#include "cli/train.h"
#include "config/presets.h"
#include "config/validate.h"
#include "train/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Peaks of dense bf16 products, by the name of the card. */
static const struct {
    const char *name;
    double peak;
} cards[] = {{"H200", 989e12}, {"H100 80GB HBM3", 989e12}};

haul_status haul_bench_plan(haul_config *config, haul_session *session) {
    HAUL_TRY(haul_bench_settle(config));
    HAUL_TRY(haul_config_finalize(config));
    HAUL_TRY(haul_session_plan(session, config, true));
    const haul_backend *backend = session->device.backend;
    if (backend->ready != NULL && !backend->ready(&session->device)) {
        haul_fail(HAUL_ERROR_UNAVAILABLE, "there is no %s device to measure", backend->name);
        haul_hint("check nvidia-smi, or use --device cpu");
        return HAUL_ERROR_UNAVAILABLE;
    }
    haul_train_print_model(session);
    return haul_train_tune(session);
}

double haul_bench_peak(const haul_device *device) {
    char text[256];
    device->backend->describe(device, text, sizeof text);
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++) {
        if (strstr(text, cards[i].name) != NULL) {
            return cards[i].peak;
        }
    }
    return 0;
}

static json_t *command_line(const haul_cli *cli) {
    json_t *words = json_array();
    for (int i = 0; i < cli->argc; i++) {
        json_array_append_new(words, json_string_nocheck(cli->argv[i]));
    }
    return words;
}

json_t *haul_bench_describe(const haul_cli *cli, const haul_session *session) {
    const haul_config *config = session->config;
    char device[256];
    session->device.backend->describe(&session->device, device, sizeof device);
    return json_pack("{s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "command", command_line(cli),
                     "version", HAUL_VERSION, "device", device, "precision",
                     haul_dtype_name(session->chunk.numerics.activation), "layers",
                     (json_int_t)config->num_layers, "sequence_length",
                     (json_int_t)config->seq_length, "micro_batch_size",
                     (json_int_t)config->micro_batch_size, "micro_batches",
                     (json_int_t)haul_session_micro_batches(config));
}

haul_status haul_bench_write_json(const haul_config *config, json_t *root) {
    if (config->json == NULL) {
        json_decref(root);
        return HAUL_OK;
    }
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    haul_status status = text != NULL
                             ? haul_file_replace(config->json, text, (int64_t)strlen(text))
                             : haul_fail(HAUL_ERROR_MEMORY, "out of memory for %s", config->json);
    free(text);
    json_decref(root);
    return status;
}
