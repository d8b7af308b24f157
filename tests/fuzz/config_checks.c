#include "config_checks.h"

#include "base/string.h"
#include "config/json.h"
#include "config/validate.h"
#include "fuzzing.h"

#include <string.h>

/* False when a text of the command line is no UTF-8, which JSON cannot hold. */
static bool spell(const haul_config *config, haul_string *text) {
    return fuzz_accepted(haul_config_to_json(config, text));
}

static void require_same(const haul_string *a, const haul_string *b, const char *what) {
    fuzz_require(a->length == b->length && memcmp(a->data, b->data, (size_t)a->length) == 0, what);
}

void fuzz_check_round_trip(const haul_config *config) {
    haul_config back;
    haul_string text = {0}, again = {0};
    fuzz_require_ok(haul_config_init(&back));
    if (spell(config, &text)) {
        fuzz_require_ok(haul_config_from_json(&back, text.data, text.length, "again"));
        fuzz_require_ok(haul_config_to_json(&back, &again));
        require_same(&text, &again, "a config survives config.json");
    }
    haul_string_deinit(&text);
    haul_string_deinit(&again);
    haul_config_deinit(&back);
}

static void check_idempotent(haul_config *config, haul_status (*finalize)(haul_config *)) {
    haul_string before = {0}, after = {0};
    bool spelled = spell(config, &before);
    fuzz_require_ok(finalize(config));
    if (spelled) {
        fuzz_require_ok(haul_config_to_json(config, &after));
        require_same(&before, &after, "a second finalize changes nothing");
    }
    haul_string_deinit(&before);
    haul_string_deinit(&after);
}

static void check_shape(const haul_config *config) {
    fuzz_require(config->num_layers > 0 && config->hidden_size > 0 && config->kv_channels > 0 &&
                     config->ffn_hidden_size > 0 && config->num_attention_heads > 0,
                 "the sizes of a model are positive");
    fuzz_require(config->num_query_groups > 0 &&
                     config->num_attention_heads % config->num_query_groups == 0,
                 "query groups divide the heads");
    fuzz_require(config->padded_vocab_size >= config->vocab_size, "the vocabulary is padded up");
}

void fuzz_check_model(haul_config *config) {
    check_shape(config);
    check_idempotent(config, haul_config_finalize_model);
    fuzz_check_round_trip(config);
}

void fuzz_check_training(haul_config *config) {
    haul_string surprises = {0};
    check_shape(config);
    fuzz_require(config->global_batch_size > 0 && config->seq_length > 0 &&
                     config->global_batch_size % config->micro_batch_size == 0,
                 "micro-batches make up the batch");
    fuzz_require(haul_config_iterations(config) > 0, "there is something to train");
    fuzz_require_ok(haul_config_surprises(config, &surprises));
    haul_string_deinit(&surprises);
    check_idempotent(config, haul_config_finalize);
    fuzz_check_round_trip(config);
}
