#include "base/file.h"
#include "base/format.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "data/bpe_train.h"
#include "data/build.h"
#include "data/inspect.h"
#include "train/corpus.h"

#include <stdio.h>
#include <string.h>

enum { DOCUMENTS_SHOWN = 3 };

static haul_text_input input_of(const haul_config *config) {
    const char *const separators[] = {[HAUL_SEPARATOR_FILE] = NULL,
                                      [HAUL_SEPARATOR_BLANK_LINE] = "",
                                      [HAUL_SEPARATOR_PERCENT] = "%"};
    return (haul_text_input){.files = config->input.items,
                             .file_count = config->input.count,
                             .separator = separators[config->document_separator],
                             .json_keys = config->json_keys.items,
                             .json_key_count = config->json_keys.count};
}

static haul_status print_built(const haul_build_options *options, const haul_build_result *result) {
    const haul_text_input *input = &options->input;
    bool json;
    HAUL_TRY(haul_text_input_check(input, &json));
    int64_t cut = result->tail_bytes > 0; /* one document became two */
    printf("%s documents, %s of text, %s tokens; ",
           haul_format_count(result->documents[0] + result->documents[1] - cut).text,
           haul_format_bytes(result->text_bytes).text,
           haul_format_count(result->tokens[0] + result->tokens[1]).text);
    if (cut > 0) {
        printf("the last %s held out\n", haul_format_bytes(result->tail_bytes).text);
    } else {
        printf("%lld documents held out\n", (long long)result->documents[1]);
    }
    for (int held_out = 0; held_out <= (result->documents[1] > 0); held_out++) {
        for (int64_t key = 0; key < (json ? input->json_key_count : 1); key++) {
            char path[1024];
            HAUL_TRY(haul_build_prefix(options->output_prefix,
                                       json ? input->json_keys[key] : "text", held_out, path,
                                       sizeof path));
            printf("%s: %s\n", held_out ? "held out" : "data set", path);
        }
    }
    return HAUL_OK;
}

static haul_status build(const haul_cli *cli, const haul_config *config,
                         const haul_tokenizer *tokenizer) {
    haul_progress progress;
    haul_build_result result;
    haul_build_options options = {.input = input_of(config),
                                  .output_prefix = config->output_prefix,
                                  .tokenizer = tokenizer,
                                  .append_eod = config->append_eod,
                                  .workers = config->workers > 0 ? (int)config->workers
                                                                 : haul_parallel_cores(),
                                  .holdout = config->holdout,
                                  .seed = (uint64_t)config->seed,
                                  .progress = haul_cli_show_progress,
                                  .progress_context = &progress};
    haul_progress_begin(&progress, cli->live ? stderr : NULL, "tokenizing", NULL, 0);
    haul_status status = haul_build(&options, &result);
    haul_progress_end(&progress);
    HAUL_TRY(status);
    return print_built(&options, &result);
}

static haul_status create_parent(const char *path) {
    char directory[1024];
    haul_text_copy(directory, sizeof directory, path);
    char *slash = strrchr(directory, '/');
    if (slash == NULL || slash == directory) {
        return HAUL_OK;
    }
    *slash = '\0';
    return haul_directory_create(directory);
}

haul_status haul_cli_data_build(const haul_cli *cli, haul_config *config) {
    haul_tokenizer *tokenizer;
    const char *type = haul_corpus_tokenizer_type(config);
    HAUL_TRY(create_parent(config->output_prefix));
    HAUL_TRY(haul_corpus_open_type(config, type != NULL ? type : "ByteTokenizer",
                                   config->vocab_size, &tokenizer));
    haul_status status = build(cli, config, tokenizer);
    haul_tokenizer_close(tokenizer);
    return status;
}

haul_status haul_cli_data_inspect(const haul_cli *cli, haul_config *config) {
    haul_string text = {0};
    (void)cli;
    haul_status status = haul_inspect(config->arguments.items[0], NULL, DOCUMENTS_SHOWN, &text);
    if (status == HAUL_OK) {
        haul_cli_print(&text);
    }
    haul_string_deinit(&text);
    return status;
}

static haul_status add_document(void *context, int64_t key, const char *text, int64_t bytes,
                                bool ends) {
    (void)key;
    (void)ends;
    return haul_bpe_trainer_add(context, text, bytes);
}

static haul_status count_pieces(const haul_cli *cli, const haul_text_input *input,
                                haul_text_reader *reader, haul_bpe_trainer *trainer) {
    haul_text_chunk chunk = {0};
    haul_progress progress;
    bool more = true;
    haul_progress_begin(&progress, cli->live ? stderr : NULL, "reading", NULL,
                        haul_text_reader_total(reader));
    haul_status status = haul_text_reader_next(reader, &chunk, &more);
    while (status == HAUL_OK && more) {
        status = haul_text_chunk_split(input, &chunk, add_document, trainer);
        haul_progress_update(&progress, haul_text_reader_done(reader));
        if (status == HAUL_OK) {
            status = haul_text_reader_next(reader, &chunk, &more);
        }
    }
    haul_progress_end(&progress);
    haul_text_chunk_deinit(&chunk);
    return status;
}

static haul_status train_tokenizer(const haul_cli *cli, const haul_config *config,
                                   haul_bpe_trainer *trainer) {
    haul_text_input input = input_of(config);
    haul_text_reader *reader;
    int64_t made;
    if (config->vocab_size == 0) {
        haul_fail(HAUL_ERROR_USAGE, "haul data tokenizer train needs --vocab-size");
        haul_hint("add, say, --vocab-size 1024");
        return HAUL_ERROR_USAGE;
    }
    HAUL_TRY(haul_text_reader_open(&input, false, &reader));
    haul_status status =
        haul_text_reader_total(reader) > 0
            ? count_pieces(cli, &input, reader, trainer)
            : haul_fail(HAUL_ERROR_DATA, "%s: no text to learn from", config->input.items[0]);
    haul_text_reader_close(reader);
    HAUL_TRY(status);
    HAUL_TRY(haul_bpe_trainer_write(trainer, config->vocab_size, config->output, &made));
    printf("%s: %lld tokens\n", config->output, (long long)made);
    return HAUL_OK;
}

haul_status haul_cli_data_tokenizer_train(const haul_cli *cli, haul_config *config) {
    haul_bpe_trainer *trainer;
    HAUL_TRY(haul_bpe_trainer_create(&trainer));
    haul_status status = train_tokenizer(cli, config, trainer);
    haul_bpe_trainer_destroy(trainer);
    return status;
}
