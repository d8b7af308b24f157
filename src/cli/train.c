#include "cli/train.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/format.h"
#include "base/progress.h"
#include "config/huggingface.h"
#include "config/validate.h"
#include "report/html.h"
#include "train/corpus.h"
#include "train/save.h"
#include "train/saved_model.h"
#include "train/state.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char CACHE[] = "runs/cache";

/* A word as a shell reads it back. */
static void append_word(haul_string *out, const char *word) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%";
    haul_string_append_text(out, out->length > 0 ? " " : "");
    if (word[0] != '\0' && strspn(word, plain) == strlen(word)) {
        haul_string_append_text(out, word);
        return;
    }
    haul_string_append_text(out, "'");
    for (; *word != '\0'; word++) {
        haul_string_append(out, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    }
    haul_string_append_text(out, "'");
}

static void append_command(haul_string *out, const haul_cli *cli) {
    for (int i = 0; i < cli->argc; i++) {
        append_word(out, cli->argv[i]);
    }
}

/* Where this run writes: --run-dir, or runs/DATE-NAME. */
static haul_status choose_run_directory(haul_config *config) {
    char path[512], date[32];
    if (config->run_dir != NULL) {
        return HAUL_OK;
    }
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(date, sizeof date, "%Y%m%d-%H%M%S", &local);
    const char *name = config->name != NULL ? config->name : config->preset;
    int length = snprintf(path, sizeof path, "runs/%s-%s", date, name != NULL ? name : "train");
    for (int i = 2; length < 500 && haul_file_exists(path); i++) {
        snprintf(path + length, sizeof path - (size_t)length, "-%d", i); /* two in one second */
    }
    config->run_dir = haul_config_keep(config, path);
    return config->run_dir != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
}

/* haul's own ways to start, a preset or a text, save below the run directory; command lines of
 * Megatron-LM save where they say, or not at all. */
static haul_status choose_save_directory(haul_config *config) {
    char path[1024];
    if (config->save != NULL || (config->preset == NULL && config->text == NULL)) {
        return HAUL_OK;
    }
    snprintf(path, sizeof path, "%s/checkpoints", config->run_dir);
    config->save = haul_config_keep(config, path);
    return config->save != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
}

/* A model goes on with the tokens that it knows: a text is cut by the tokenizer.json beside it. */
static haul_status take_tokenizer_of_load(haul_config *config) {
    char path[1100];
    if (haul_corpus_tokenizer_type(config) != NULL) {
        return HAUL_OK;
    }
    snprintf(path, sizeof path, "%s/tokenizer.json", config->load);
    if (haul_file_exists(path)) {
        config->tokenizer_model = haul_config_keep(config, path);
        return config->tokenizer_model != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
    }
    if (config->text != NULL && config->vocab_size != 257) {
        haul_fail(HAUL_ERROR_CONFIG, "%s has no tokenizer.json", config->load);
        haul_hint("add --tokenizer-model FILE or --tokenizer-type ByteTokenizer");
        return HAUL_ERROR_CONFIG;
    }
    return HAUL_OK;
}

static haul_status read_model_of_load(haul_config *config) {
    char path[1100];
    if (config->load == NULL) {
        return HAUL_OK;
    }
    if (!haul_state_is_hugging_face(config->load)) {
        haul_saved_model_checkpoints(config->load, path, sizeof path);
        config->load = haul_config_keep(config, path);
        return config->load != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
    }
    snprintf(path, sizeof path, "%s/config.json", config->load);
    HAUL_TRY(haul_config_read_huggingface(config, path));
    return take_tokenizer_of_load(config);
}

static haul_status prepare_text(haul_train_command *command) {
    haul_config *config = command->config;
    if (config->text == NULL || config->data_path.count > 0 || config->mock_data) {
        return HAUL_OK;
    }
    haul_progress progress;
    haul_progress_begin(&progress, command->cli->live ? stderr : NULL, "tokenizing", NULL, 1);
    haul_status status =
        haul_corpus_prepare_text(config, command->corpus.tokenizer, CACHE, haul_cli_show_progress,
                                 &progress, &command->text);
    haul_progress_end(&progress);
    HAUL_TRY(status);
    config->text = NULL; /* from here on it is a data set */
    const char *type = haul_tokenizer_type(command->corpus.tokenizer);
    return haul_config_set(config, "tokenizer-type", &type, 1, HAUL_SOURCE_COMMAND_LINE);
}

/* Whoever resumes takes the newest checkpoint of a directory: one that another run left there would
 * be taken for one of this run. */
static haul_status check_save_directory(const haul_config *config, const haul_checkpoint *start) {
    haul_checkpoint *newest = NULL;
    if (config->dry_run || config->save == NULL ||
        (config->load != NULL && strcmp(config->load, config->save) == 0) ||
        haul_checkpoint_find(config->save, -1, &newest, NULL) != HAUL_OK) {
        return HAUL_OK;
    }
    haul_status status = HAUL_OK;
    if (haul_checkpoint_iteration(newest) > (start ? haul_checkpoint_iteration(start) : 0)) {
        status = haul_fail(HAUL_ERROR_CREATE, "--save is %s, which holds %s of another run",
                           config->save, haul_checkpoint_path(newest));
        haul_hint("--load %s goes on with that run; or give another directory", config->save);
    }
    haul_checkpoint_close(newest);
    return status;
}

/* As Megatron-LM: a command line that says --load X --save X begins the training and goes on. */
static void note_fresh_start(haul_train_command *command) {
    haul_config *config = command->config;
    if (command->checkpoint == NULL && config->load != NULL &&
        !haul_state_is_hugging_face(config->load)) {
        haul_cli_note(command->cli, "%s holds no checkpoint yet: starting with random weights",
                      config->load);
        config->load = NULL;
    }
}

static haul_status adopt(haul_train_command *command) {
    haul_string changed = {0};
    haul_status status = haul_train_adopt(command->config, command->checkpoint, &changed);
    if (status == HAUL_OK && changed.length > 0) {
        haul_cli_note(command->cli, "since the checkpoint was saved these settings changed: %s",
                      changed.data);
    }
    haul_string_deinit(&changed);
    return status;
}

static haul_status find_checkpoint(haul_train_command *command) {
    haul_string rejected = {0};
    haul_status status = haul_train_find(command->config, &command->checkpoint, &rejected);
    haul_cli_note_lines(command->cli, &rejected);
    haul_string_deinit(&rejected);
    HAUL_TRY(status);
    HAUL_TRY(check_save_directory(command->config, command->checkpoint));
    note_fresh_start(command);
    return command->checkpoint != NULL ? adopt(command) : HAUL_OK;
}

/* From flags to a finalized config. */
static haul_status settle(haul_train_command *command) {
    haul_config *config = command->config;
    HAUL_TRY(read_model_of_load(config));
    HAUL_TRY(choose_run_directory(config));
    HAUL_TRY(choose_save_directory(config));
    HAUL_TRY(haul_corpus_open_tokenizer(config, &command->corpus.tokenizer));
    HAUL_TRY(prepare_text(command));
    HAUL_TRY(haul_config_finalize(config));
    return find_checkpoint(command);
}

static void print_surprises(const haul_train_command *command) {
    haul_string text = {0};
    if (haul_config_surprises(command->config, &text) == HAUL_OK) {
        haul_cli_note_lines(command->cli, &text);
    }
    haul_string_deinit(&text);
}

static void print_tail(const haul_train_command *command) {
    if (command->text.tail_bytes > 0) {
        printf("the text has few documents: its last %s are held out\n",
               haul_format_bytes(command->text.tail_bytes).text);
    }
}

/* What the second Ctrl-C says, and the first one at the end. */
static haul_status prepare_last_words(haul_train_command *command) {
    const haul_config *config = command->config;
    haul_string *resume = &command->resume_command;
    haul_string flags = {0};
    append_command(resume, command->cli);
    if (config->save != NULL) {
        haul_string_append_text(&flags, " --load");
        append_word(&flags, config->save);
        haul_string_append_text(&flags, " --save");
        append_word(&flags, config->save);
    }
    haul_string_append_text(&flags, " --run-dir");
    append_word(&flags, config->run_dir);
    int64_t before = resume->length - flags.length;
    if (before < 0 || flags.data == NULL || strcmp(resume->data + before, flags.data) != 0) {
        haul_string_append(resume, flags.data, flags.length); /* a resumed run has them */
    }
    haul_string_deinit(&flags);
    haul_string_append_format(&command->last_words,
                              "\nhaul: stopped at once; the newest whole checkpoint is in %s\n",
                              config->save != NULL ? config->save : "no place: --save is missing");
    HAUL_TRY(haul_string_status(resume));
    return haul_string_status(&command->last_words);
}

static void note_converted(const haul_train_command *command) {
    if (command->checkpoint != NULL &&
        haul_state_converts(&command->session.store, command->checkpoint)) {
        haul_cli_note(command->cli, "adam's moments were converted: the checkpoint has others "
                                    "than --exp-avg-dtype and --exp-avg-sq-dtype say");
    }
}

static haul_status start(haul_train_command *command) {
    haul_train *train = &command->train;
    const char *resumed = NULL;
    haul_string line = {0};
    haul_status status = haul_train_start(train, command->checkpoint);
    if (command->checkpoint != NULL) {
        resumed = haul_checkpoint_path(command->checkpoint);
    } else if (command->config->load != NULL) {
        resumed = command->config->load;
    }
    if (status == HAUL_OK && resumed != NULL) {
        printf("starting from %s, iteration %lld\n", resumed, (long long)train->progress.iteration);
        note_converted(command);
    }
    append_command(&line, command->cli);
    if (status == HAUL_OK) {
        status = haul_record_measure_ceiling(&train->session->device,
                                             train->session->chunk.numerics.activation,
                                             &command->record.ceiling);
    }
    if (status == HAUL_OK) {
        haul_log_start entry = {
            .command = line.data, .version = HAUL_VERSION, .resumed_from = resumed};
        status = haul_record_start(&command->record, train, entry);
    }
    haul_string_deinit(&line);
    return status;
}

static haul_status finish(haul_train_command *command) {
    static const char *const reasons[] = {"finished", "interrupted", "exit interval",
                                          "exit duration"};
    const haul_train *train = &command->train;
    char report[1200];
    HAUL_TRY(haul_record_end(&command->record, train, reasons[train->end]));
    snprintf(report, sizeof report, "%s/report.html", command->config->run_dir);
    HAUL_TRY(haul_report_write(command->config->run_dir, report));
    haul_train_note_memory(command, HAUL_TRAIN_RUNNING);
    haul_train_print_used(command);
    printf("%s at iteration %lld; report: %s\n", reasons[train->end],
           (long long)train->progress.iteration, report);
    if (train->end == HAUL_TRAIN_INTERRUPTED) {
        if (command->config->save != NULL) {
            printf("resume with: %s\n", command->resume_command.data);
        }
        return HAUL_INTERRUPTED;
    }
    return HAUL_OK;
}

/* A text that is too short to hold documents out is still trained on. */
static haul_status open_corpus(haul_train_command *command) {
    haul_status status = haul_corpus_open(command->config, &command->corpus);
    if (status == HAUL_ERROR_DATA && command->corpus.training != NULL &&
        haul_config_source_of(command->config, "text") != HAUL_SOURCE_DEFAULT) {
        haul_cli_note(command->cli, "nothing is evaluated: the text is too short, or has too few "
                                    "documents, to hold some out");
        return HAUL_OK;
    }
    return status;
}

/* What the device measured is kept beside the tokenized texts. */
haul_status haul_train_tune(haul_session *session) {
    double begin = haul_clock_seconds();
    char path[128];
    int64_t measured = 0;
    if (session->device.backend->tuner == NULL) {
        return HAUL_OK;
    }
    snprintf(path, sizeof path, "%s/products.tsv", CACHE);
    HAUL_TRY(haul_directory_create(CACHE));
    HAUL_TRY(haul_session_tune(session, path, &measured));
    if (measured > 0) {
        printf("measured the fastest of several ways for %lld products in %.1f s, kept in %s\n",
               (long long)measured, haul_clock_seconds() - begin, path);
    }
    return HAUL_OK;
}

static haul_status train_model(haul_train_command *command) {
    const haul_config *config = command->config;
    haul_string line = {0};
    HAUL_TRY(open_corpus(command));
    HAUL_TRY(haul_train_tune(&command->session));
    haul_train_note_memory(command, HAUL_TRAIN_TUNED);
    HAUL_TRY(haul_session_allocate(&command->session));
    haul_train_note_memory(command, HAUL_TRAIN_ALLOCATED);
    append_command(&line, command->cli);
    haul_status status = haul_record_open(&command->record, config->run_dir, line.data, config);
    haul_string_deinit(&line);
    HAUL_TRY(status);
    if (config->save != NULL) { /* checkpoints that move keep their tokenizer */
        HAUL_TRY(haul_directory_create(config->save));
        HAUL_TRY(config->mock_data ? HAUL_OK : haul_corpus_copy_tokenizer(config, config->save));
    }
    command->train = (haul_train){.config = config,
                                  .session = &command->session,
                                  .training = command->corpus.training,
                                  .validation = command->corpus.validation,
                                  .tokenizer = command->corpus.tokenizer,
                                  .stop = command->cli->stop};
    HAUL_TRY(haul_train_show_init(command));
    HAUL_TRY(prepare_last_words(command));
    haul_cli_catch_signals(command->last_words.data);
    HAUL_TRY(start(command));
    status = haul_train_run(&command->train);
    haul_train_show_end(command);
    if (status != HAUL_OK) {
        haul_record_end(&command->record, &command->train, haul_error_message());
        return status;
    }
    return finish(command);
}

haul_status haul_cli_train(const haul_cli *cli, haul_config *config) {
    haul_train_command command = {.cli = cli, .config = config};
    haul_status status = settle(&command);
    if (status == HAUL_OK) {
        print_surprises(&command);
        status = haul_session_plan(&command.session, config, true);
    }
    if (status == HAUL_OK) {
        print_tail(&command);
        haul_train_print_model(&command.session);
        haul_train_note_memory(&command, HAUL_TRAIN_OPEN);
        status = haul_train_print_memory(&command);
    }
    if (status == HAUL_OK) {
        status = config->dry_run || config->device == HAUL_DEVICE_META
                     ? haul_train_dry_run(&command)
                     : train_model(&command);
    }
    haul_generator_deinit(&command.generator);
    haul_checkpoint_close(command.checkpoint);
    haul_record_close(&command.record);
    haul_session_deinit(&command.session);
    haul_corpus_close(&command.corpus);
    haul_string_deinit(&command.resume_command);
    haul_cli_set_last_words("\n"); /* a signal may still come */
    haul_string_deinit(&command.last_words);
    return status;
}
