/* Runs a fuzz target on each file of a corpus and on seeded damage to each, without libFuzzer:
 *
 *     replay DIRECTORY [ROUNDS]
 *
 * Without ROUNDS a file is damaged for as long as FILE_SECONDS allow. Each file has a process of
 * its own. When one ends badly, takes over ten seconds for an input or more memory than it may, the
 * input that it died of is written to crash-PROGRAM-NAME. */
#include "base/file.h"
#include "base/memory.h"
#include "base/philox.h"
#include "fuzzing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double FILE_SECONDS = 0.1; /* of the processor */

enum { ROUNDS = 500, SECONDS = 10, MEMORY_KIB = 512 * 1024, EDITS = 4, NUMBERS = 7 };

/* The input that runs now; both processes see it. */
typedef struct input {
    size_t size;
    uint8_t bytes[FUZZ_INPUT_MAX];
} input;

typedef struct corpus {
    const char *program, *directory;
    long rounds; /* 0: ROUNDS, or fewer when time is over */
    uint32_t files, failed;
    input *current;
    haul_string other; /* the file before, for pieces of it */
} corpus;

typedef struct source {
    uint32_t key[2], counter;
} source;

static uint32_t draw(source *random, size_t limit) {
    const uint32_t counter[4] = {random->counter++, 0, 0, 0};
    return (uint32_t)(haul_philox_4x32(random->key, counter).word[0] % limit);
}

/* Words that mean something to a parser. */
static const char *const words[] = {"0",
                                    "-1",
                                    "1.0",
                                    "1e999",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "null",
                                    "true",
                                    "{}",
                                    "[]",
                                    "\"",
                                    "\"a\":",
                                    "\"F32\"",
                                    "../",
                                    "%n",
                                    "\\ud83d",
                                    "\\u0000",
                                    "\\u001b",
                                    "[[[[[[[[",
                                    "}",
                                    "]",
                                    ",",
                                    "18446744073709551616",
                                    "\xff",
                                    "\n",
                                    "--",
                                    "=1_0",
                                    "nan",
                                    "\xf0\x9f\x99\x82",
                                    "\"__metadata__\":{},"};

/* Puts `count` bytes in the place of `length`; does nothing when there is no room. */
static void replace(input *data, size_t at, size_t length, const void *with, size_t count) {
    if (data->size - length + count <= FUZZ_INPUT_MAX) {
        memmove(data->bytes + at + count, data->bytes + at + length, data->size - at - length);
        memcpy(data->bytes + at, with, count);
        data->size += count - length;
    }
}

static void edit(source *random, input *data, const haul_string *other) {
    static const int64_t numbers[NUMBERS] = {0, -1, 1, INT64_MAX, INT64_MIN, INT32_MAX, 1 << 20};
    const char *word = words[draw(random, sizeof words / sizeof *words)];
    size_t at = draw(random, data->size + 1), rest = data->size - at;
    size_t length = draw(random, 1 + (size_t)haul_min((int64_t)rest, 24));
    uint8_t piece[32];
    switch (draw(random, 7)) {
    case 0:
        if (rest > 0) {
            data->bytes[at] ^= (uint8_t)(1u << draw(random, 8));
        }
        break;
    case 1:
        replace(data, at, length, word, strlen(word));
        break;
    case 2:
        replace(data, at, 0, word, strlen(word));
        break;
    case 3:
        replace(data, at, length, "", 0);
        break;
    case 4:
        memcpy(piece, data->bytes + at, length);
        replace(data, draw(random, data->size + 1), 0, piece, length);
        break;
    case 5:
        replace(data, at, (size_t)haul_min((int64_t)rest, 8), &numbers[draw(random, NUMBERS)], 8);
        break;
    default:
        if (other->length > 0) {
            size_t from = draw(random, (size_t)other->length);
            size_t count = (size_t)haul_min(other->length - (int64_t)from, 1 + draw(random, 64));
            replace(data, at, length, other->data + from, count);
        }
    }
}

static void run_current(const input *current) {
    /* A copy of its exact size, so that a sanitizer sees reads behind it. */
    uint8_t *copy = malloc(current->size > 0 ? current->size : 1);
    fuzz_require(copy != NULL, "there is memory");
    memcpy(copy, current->bytes, current->size);
    alarm(SECONDS);
    LLVMFuzzerTestOneInput(copy, current->size);
    free(copy);
}

static void set_current(input *current, const haul_string *text) {
    current->size = (size_t)text->length;
    if (text->length > 0) {
        memcpy(current->bytes, text->data, (size_t)text->length);
    }
}

static bool goes_on(const corpus *all, long round) {
    if (all->rounds > 0) {
        return round < all->rounds;
    }
    return round < ROUNDS && (double)clock() < FILE_SECONDS * (double)CLOCKS_PER_SEC;
}

static void run_file(const corpus *all, const haul_string *text) {
    set_current(all->current, text);
    run_current(all->current);
    for (long round = 0; goes_on(all, round); round++) {
        source random = {{all->files, (uint32_t)round}, 0};
        set_current(all->current, text);
        for (uint32_t edits = 1 + draw(&random, EDITS); edits > 0; edits--) {
            edit(&random, all->current, &all->other);
        }
        run_current(all->current);
    }
}

static void keep_crash(const corpus *all, const char *name) {
    char path[512];
    haul_file_writer file;
    snprintf(path, sizeof path, "crash-%s-%s", all->program, name);
    if (haul_file_create(path, &file) != HAUL_OK ||
        haul_file_write(&file, all->current->bytes, (int64_t)all->current->size) != HAUL_OK) {
        fprintf(stderr, "replay: %s\n", haul_error_message());
    } else {
        fprintf(stderr, "replay: the input is in %s\n", path);
    }
    haul_file_abandon(&file);
}

static haul_status visit(void *context, const char *name) {
    corpus *all = context;
    char path[1024];
    haul_string text = {0};
    snprintf(path, sizeof path, "%s/%s", all->directory, name);
    HAUL_TRY(haul_file_read(path, &text));
    fuzz_require(text.length <= FUZZ_INPUT_MAX, "a file of the corpus is small");
    all->files++;
    pid_t child = fork();
    if (child == 0) {
        run_file(all, &text);
        exit(0);
    }
    int end = 0;
    struct rusage usage = {0};
    fuzz_require(child > 0 && wait4(child, &end, 0, &usage) == child, "a process can be started");
    bool large = usage.ru_maxrss > MEMORY_KIB;
    if (end != 0 || large) {
        const char *what = large ? "takes too much memory" : "fails";
        if (WIFSIGNALED(end) && WTERMSIG(end) == SIGALRM) {
            what = "takes too long";
        }
        fprintf(stderr, "replay: %s, or damage to it, %s\n", path, what);
        keep_crash(all, name);
        all->failed++;
    }
    haul_string_deinit(&all->other);
    all->other = text;
    return HAUL_OK;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s DIRECTORY [ROUNDS]\n", argv[0]);
        return HAUL_ERROR_USAGE;
    }
    const char *slash = strrchr(argv[0], '/');
    corpus all = {.program = slash != NULL ? slash + 1 : argv[0],
                  .directory = argv[1],
                  .rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 0};
    char scratch[FUZZ_PATH_BYTES];
    fuzz_path("", scratch); /* made here, it is removed even when a child dies */
    all.current =
        mmap(NULL, sizeof *all.current, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fuzz_require(all.current != MAP_FAILED, "there is memory");
    fuzz_require_ok(haul_directory_list(all.directory, visit, &all));
    fuzz_require(all.files > 0, "a corpus has files");
    haul_string_deinit(&all.other);
    printf("%u files, %u failed\n", all.files, all.failed);
    return all.failed > 0;
}
