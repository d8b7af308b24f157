#include "cli/cli.h"

#include "base/progress.h"
#include "base/terminal.h"
#include "config/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static haul_cli_command *const commands[HAUL_COMMANDS] = {
    [HAUL_COMMAND_TRAIN] = haul_cli_train,
    [HAUL_COMMAND_EVAL] = haul_cli_eval,
    [HAUL_COMMAND_GENERATE] = haul_cli_generate,
    [HAUL_COMMAND_DATA_BUILD] = haul_cli_data_build,
    [HAUL_COMMAND_DATA_INSPECT] = haul_cli_data_inspect,
    [HAUL_COMMAND_DATA_TOKENIZER_TRAIN] = haul_cli_data_tokenizer_train,
    [HAUL_COMMAND_CHECKPOINT_LIST] = haul_cli_checkpoint_list,
    [HAUL_COMMAND_CHECKPOINT_SHOW] = haul_cli_checkpoint_show,
    [HAUL_COMMAND_CHECKPOINT_VERIFY] = haul_cli_checkpoint_verify,
    [HAUL_COMMAND_CHECKPOINT_EXPORT] = haul_cli_checkpoint_export,
    [HAUL_COMMAND_BENCH_TRAIN] = haul_cli_bench_train,
    [HAUL_COMMAND_BENCH_KERNELS] = haul_cli_bench_kernels,
    [HAUL_COMMAND_REPORT] = haul_cli_report,
    [HAUL_COMMAND_DOCTOR] = haul_cli_doctor,
    [HAUL_COMMAND_HELP] = haul_cli_help,
    [HAUL_COMMAND_COMPLETION] = haul_cli_completion,
};

/* Signals reach a process, not a call: this state is the process's. */
static volatile sig_atomic_t stop_count;
static volatile sig_atomic_t first_stop_second;
static const char *volatile last_words;

static void on_signal(int number) {
    (void)number;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    sig_atomic_t second = (sig_atomic_t)now.tv_sec;
    if (stop_count > 0 && second - first_stop_second <= 5) {
        const char *text = last_words;
        if (write(STDERR_FILENO, text, strlen(text)) < 0) {
            /* nothing more can be said */
        }
        _exit(HAUL_INTERRUPTED);
    }
    first_stop_second = second;
    stop_count = 1;
}

void haul_cli_catch_signals(const char *words) {
    struct sigaction action = {.sa_handler = on_signal};
    last_words = words;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void haul_cli_set_last_words(const char *words) {
    last_words = words;
}

void haul_cli_print(const haul_string *text) {
    if (text->length > 0) {
        fwrite(text->data, 1, (size_t)text->length, stdout);
    }
}

void haul_cli_print_model_text(const char *text, int64_t bytes) {
    bool terminal = haul_terminal_is(stdout);
    for (int64_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
        putchar(terminal && control ? '?' : byte);
    }
}

void haul_cli_show_progress(void *context, int64_t done, int64_t total) {
    haul_progress *progress = context;
    progress->total = total;
    haul_progress_update(progress, done);
}

void haul_cli_note(const haul_cli *cli, const char *format, ...) {
    va_list arguments;
    fprintf(stderr, "%shaul: note:%s ", haul_terminal_style(cli->color_err, HAUL_STYLE_BOLD),
            haul_terminal_style(cli->color_err, HAUL_STYLE_NONE));
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

void haul_cli_note_lines(const haul_cli *cli, haul_string *text) {
    char *rest = text->data, *line;
    while (text->length > 0 && (line = strtok_r(rest, "\n", &rest)) != NULL) {
        haul_cli_note(cli, "%s", line);
    }
}

static void print_failure(const haul_cli *cli) {
    const char *hint = haul_error_hint();
    fflush(stdout);
    fprintf(stderr, "%shaul: error:%s %s\n", haul_terminal_style(cli->color_err, HAUL_STYLE_RED),
            haul_terminal_style(cli->color_err, HAUL_STYLE_NONE), haul_error_message());
    if (hint[0] != '\0') {
        fprintf(stderr, "Try: %s\n", hint);
    }
}

static haul_status print_help(haul_command command) {
    haul_string text = {0};
    haul_status status = haul_text_help(command, &text);
    if (status == HAUL_OK) {
        haul_cli_print(&text);
    }
    haul_string_deinit(&text);
    return status;
}

static haul_status run(const haul_cli *cli) {
    haul_command command;
    int words;
    haul_config config;
    if (cli->argc == 2 && strcmp(cli->argv[1], "--version") == 0) {
        puts("haul " HAUL_VERSION);
        return HAUL_OK;
    }
    HAUL_TRY(haul_command_find(cli->argc - 1, cli->argv + 1, &command, &words));
    HAUL_TRY(haul_config_init(&config));
    haul_status status =
        haul_config_parse(&config, command, cli->argc - 1 - words, cli->argv + 1 + words);
    if (status == HAUL_OK && config.help) {
        status = print_help(command);
    } else if (status == HAUL_OK) {
        status = commands[command](cli, &config);
    }
    haul_config_deinit(&config);
    return status;
}

static bool says_utf8(void) {
    const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0') {
            return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL;
        }
    }
    return false;
}

/* OpenMP's threads wait for each other by spinning, by default for milliseconds: faster on an idle
 * machine, several times slower on a busy one, where they take the time of those they wait for. A
 * short spin keeps most of the first and avoids the second. The OpenMP library reads its settings
 * before main, so the program starts anew with them; what the user has set stays. */
static void limit_spinning(char **argv) {
    if (getenv("GOMP_SPINCOUNT") == NULL && getenv("OMP_WAIT_POLICY") == NULL &&
        setenv("GOMP_SPINCOUNT", "20000", 1) == 0) {
        execv("/proc/self/exe", argv); /* on failure haul goes on as it is */
    }
}

int main(int argc, char **argv) {
    limit_spinning(argv);
    const char *no_color = getenv("NO_COLOR");
    haul_cli cli = {.argc = argc,
                    .argv = (const char *const *)argv,
                    .color_out = haul_terminal_colors(stdout, no_color),
                    .color_err = haul_terminal_colors(stderr, no_color),
                    .live = haul_terminal_is(stderr),
                    .utf8 = says_utf8(),
                    .stop = &stop_count};
    haul_status status = run(&cli);
    if (status != HAUL_OK && status != HAUL_INTERRUPTED) {
        print_failure(&cli);
    }
    bool written = fflush(stdout) == 0 && ferror(stdout) == 0;
    if (!written && status == HAUL_OK) {
        fprintf(stderr,
                "haul: error: cannot write the output: %s\n"
                "Try: look whether its disk is full or its reader is gone\n",
                strerror(errno));
    }
    return written || status != HAUL_OK ? (int)status : HAUL_ERROR_IO;
}
