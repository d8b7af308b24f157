#include "train/corpus.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "config/validate.h"
#include "data/text_tail.h"

#include <stdio.h>
#include <string.h>

static const double HOLDOUT = 0.05;
static const char GPT2_BPE[] = "GPT2BPETokenizer";

enum { CACHE_RULE = 2 }; /* how sets are made from texts: it changed once */

void haul_corpus_close(haul_corpus *corpus) {
    haul_dataset_close(corpus->training);
    haul_dataset_close(corpus->validation);
    haul_tokenizer_close(corpus->tokenizer);
    *corpus = (haul_corpus){0};
}

const char *haul_corpus_tokenizer_type(const haul_config *config) {
    if (config->tokenizer_type != HAUL_TOKENIZER_AUTO) {
        return haul_config_choice(config, "tokenizer-type");
    }
    if (config->tokenizer_model != NULL) {
        return "HuggingFaceTokenizer";
    }
    return config->vocab_file != NULL || config->merge_file != NULL ? GPT2_BPE : NULL;
}

haul_status haul_corpus_open_type(const haul_config *config, const char *type, int64_t vocab_size,
                                  haul_tokenizer **out) {
    return strcmp(type, GPT2_BPE) == 0
               ? haul_tokenizer_open_gpt2(config->vocab_file, config->merge_file, out)
               : haul_tokenizer_open(type, config->tokenizer_model, vocab_size, out);
}

/* A vocabulary that is given must hold all ids of the tokenizer. NullTokenizer's are counted
 * without the one that ends a document. */
static haul_status fit_vocabulary(haul_config *config, const haul_tokenizer *tokenizer) {
    int64_t needed = haul_tokenizer_vocab_size(tokenizer);
    const char *type = haul_tokenizer_type(tokenizer);
    bool counts_all = strcmp(type, "NullTokenizer") != 0;
    if (counts_all && config->vocab_size > 0 && config->vocab_size < needed) {
        haul_fail(HAUL_ERROR_CONFIG,
                  "the vocabulary has %lld tokens, must have at least the %lld of the %s",
                  (long long)config->vocab_size, (long long)needed, type);
        haul_hint("leave out --vocab-size, or give the model's own --tokenizer-model");
        return HAUL_ERROR_CONFIG;
    }
    config->vocab_size = haul_max(config->vocab_size, needed);
    return HAUL_OK;
}

haul_status haul_corpus_open_tokenizer(haul_config *config, haul_tokenizer **out) {
    const char *type = haul_corpus_tokenizer_type(config);
    *out = NULL;
    if (config->mock_data && config->vocab_size == 0 && type == NULL) {
        return haul_fail(HAUL_ERROR_CONFIG, "--vocab-size is missing, which --mock-data needs");
    }
    if (config->mock_data && config->vocab_size > 0) {
        return HAUL_OK;
    }
    if (type == NULL && (config->text != NULL || config->vocab_size == 0)) {
        type = "ByteTokenizer";
    }
    if (type == NULL) {
        return HAUL_OK;
    }
    HAUL_TRY(haul_corpus_open_type(config, type, config->vocab_size, out));
    haul_status status = fit_vocabulary(config, *out);
    if (status != HAUL_OK || config->mock_data) { /* made-up data need its size alone */
        haul_tokenizer_close(*out);
        *out = NULL;
    }
    return status;
}

/* Appends the tokenizer.json of the settings; nothing where a tokenizer has no files. */
static haul_status append_tokenizer(const haul_config *config, haul_string *json) {
    const char *type = haul_corpus_tokenizer_type(config);
    if (type != NULL && strcmp(type, GPT2_BPE) == 0) {
        return haul_tokenizer_gpt2_json(config->vocab_file, config->merge_file, json);
    }
    if (config->tokenizer_model == NULL) {
        return HAUL_OK;
    }
    char path[1200];
    snprintf(path, sizeof path, "%s/tokenizer.json", config->tokenizer_model); /* a model's */
    return haul_file_read(haul_file_exists(path) ? path : config->tokenizer_model, json);
}

haul_status haul_corpus_copy_tokenizer(const haul_config *config, const char *directory) {
    char path[1200];
    haul_string json = {0};
    haul_status status = append_tokenizer(config, &json);
    if (status == HAUL_OK && json.length > 0) {
        snprintf(path, sizeof path, "%s/tokenizer.json", directory);
        status = haul_file_replace(path, json.data, json.length);
    }
    haul_string_deinit(&json);
    return status;
}

static bool has_percent_lines(const haul_file_map *map) {
    int64_t looked = haul_min(map->bytes, 1 << 20);
    return looked >= 3 && memmem(map->data, (size_t)looked, "\n%\n", 3) != NULL;
}

haul_status haul_corpus_separator(const haul_config *config, const char *file, const char **out) {
    if (haul_config_source_of(config, "document-separator") == HAUL_SOURCE_DEFAULT) {
        haul_file_map map;
        HAUL_TRY(haul_file_map_open(file, &map));
        *out = has_percent_lines(&map) ? "%" : "";
        haul_file_map_close(&map);
        return HAUL_OK;
    }
    switch (config->document_separator) {
    case HAUL_SEPARATOR_PERCENT:
        *out = "%";
        break;
    case HAUL_SEPARATOR_BLANK_LINE:
        *out = "";
        break;
    default:
        *out = NULL;
        break;
    }
    return HAUL_OK;
}

/* PREFIX below the cache for a text, named by the text, the tokenizer and how it is cut. */
static haul_status cache_prefix(const haul_config *config, const haul_tokenizer *tokenizer,
                                const char *cache, const char *separator, char *prefix,
                                int64_t capacity) {
    haul_file_map map;
    HAUL_TRY(haul_file_map_open(config->text, &map));
    struct {
        uint64_t rule, text, tokenizer, seed, separator;
    } key = {CACHE_RULE, haul_hash_64(map.data, map.bytes), haul_tokenizer_fingerprint(tokenizer),
             (uint64_t)config->seed,
             separator == NULL ? 0 : haul_hash_64(separator, (int64_t)strlen(separator)) | 1};
    haul_file_map_close(&map);
    snprintf(prefix, (size_t)capacity, "%s/%016llx", cache,
             (unsigned long long)haul_hash_64(&key, (int64_t)sizeof key));
    return HAUL_OK;
}

static haul_status set_path(haul_config *config, const char *flag, const char *prefix,
                            bool held_out) {
    char path[1100], index[1200];
    HAUL_TRY(haul_build_prefix(prefix, "text", held_out, path, sizeof path));
    snprintf(index, sizeof index, "%s.idx", path);
    if (held_out && !haul_file_exists(index)) {
        return HAUL_OK; /* nothing was held out */
    }
    const char *value = path;
    return haul_config_set(config, flag, &value, 1, HAUL_SOURCE_COMMAND_LINE);
}

haul_status haul_corpus_prepare_text(haul_config *config, const haul_tokenizer *tokenizer,
                                     const char *cache, haul_build_progress *progress,
                                     void *context, haul_corpus_text *out) {
    char prefix[1024], main_path[1100], index[1200];
    haul_text_tail tail;
    haul_build_options options = {.input = {.files = &config->text, .file_count = 1},
                                  .tokenizer = tokenizer,
                                  .append_eod = true,
                                  .workers = haul_parallel_cores(),
                                  .holdout = HOLDOUT,
                                  .seed = (uint64_t)config->seed,
                                  .progress = progress,
                                  .progress_context = context};
    HAUL_TRY(haul_corpus_separator(config, config->text, &options.input.separator));
    HAUL_TRY(haul_text_find_tail(&options.input, HOLDOUT, &tail));
    HAUL_TRY(
        cache_prefix(config, tokenizer, cache, options.input.separator, prefix, sizeof prefix));
    HAUL_TRY(haul_build_prefix(prefix, "text", false, main_path, sizeof main_path));
    snprintf(index, sizeof index, "%s.idx", main_path);
    bool present = haul_file_exists(index);
    if (!present) {
        haul_build_result result;
        options.output_prefix = prefix;
        HAUL_TRY(haul_directory_create(cache));
        HAUL_TRY(haul_build(&options, &result));
    }
    HAUL_TRY(set_path(config, "data-path", prefix, false));
    HAUL_TRY(set_path(config, "valid-data-path", prefix, true));
    *out = (haul_corpus_text){.built = !present, .tail_bytes = tail.bytes};
    return HAUL_OK;
}

haul_status haul_corpus_open(const haul_config *config, haul_corpus *corpus) {
    int64_t iterations = haul_config_iterations(config), batch = config->global_batch_size;
    bool separate = config->valid_data_path.count > 0;
    bool evaluates = config->eval_interval > 0 && config->eval_iters > 0;
    int64_t evaluations = evaluates ? iterations / config->eval_interval + 1 : 0;
    haul_dataset_options options = {
        .data_path = config->data_path.items,
        .data_path_count = config->data_path.count,
        .split = separate ? "1,0,0" : config->split,
        .seq_length = config->seq_length,
        .seed = (uint32_t)config->seed,
        .samples = {iterations * batch, separate ? 0 : evaluations * config->eval_iters * batch, 0},
        .vocab_size = config->vocab_size,
        .mock_data = config->mock_data,
        .mock_eod = (int32_t)(config->vocab_size - 1)};
    HAUL_TRY(haul_dataset_open(&options, 0, &corpus->training));
    if (!evaluates) {
        return HAUL_OK;
    }
    if (separate) { /* every sample once; the loop starts again where it ends */
        options.data_path = config->valid_data_path.items;
        options.data_path_count = config->valid_data_path.count;
        options.split = NULL;
        options.samples[1] = -1;
    }
    return haul_dataset_open(&options, 1, &corpus->validation);
}
