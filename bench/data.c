/* MB of text that `haul data build` turns into a data set of bytes, a second of processor time
 * (user and system, of all threads) and a second of the clock, from text and from JSON Lines. One
 * worker and two take turns.
 *
 *     data [directory for the files, /tmp when not given [MB of text]]
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/philox.h"
#include "data/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { ROUNDS = 5, INPUTS = 2, WORKERS = 2, PATH_BYTES = 600 };

typedef struct speed {
    double processor, clock; /* MB a second */
} speed;

typedef struct input {
    const char *name, *suffix, *separator;
    const char *before, *line_end, *quote, *after; /* what surrounds a document and is in it */
} input;

/* Documents are made of lines of words; a line and a quotation are what JSON must escape. */
static const input inputs[INPUTS] = {
    {"text", "txt", "%", "", "\n", "\"", "\n%\n"},
    {"JSONL", "jsonl", NULL,
     "{\"id\": 12345, \"source\": \"https://example.org/page\", \"text\": \"", "\\n", "\\\"",
     "\\n\"}\n"},
};

static void check(haul_status status) {
    if (status != HAUL_OK) {
        fprintf(stderr, "data: %s\n", haul_error_message());
        exit((int)status);
    }
}

/* A document of 200 to 6,000 letters. */
static void append_document(haul_string *out, const input *form, uint32_t ordinal) {
    const uint32_t key[2] = {ordinal, 7};
    const uint32_t letters = 200 + haul_philox_4x32(key, (const uint32_t[4]){0}).word[0] % 5800;
    haul_string_append_text(out, form->before);
    for (uint32_t at = 0, word = 1; at < letters; word++) {
        const uint32_t counter[4] = {word, 0, 0, 0};
        haul_philox bits = haul_philox_4x32(key, counter);
        char text[12];
        uint32_t length = 1 + bits.word[0] % 9;
        for (uint32_t i = 0; i < length; i++) {
            text[i] = (char)('a' + (bits.word[i & 1 ? 1 : 2] >> (3 * i)) % 26);
        }
        haul_string_append(out, text, length);
        haul_string_append_text(out, word % 12 == 0   ? form->line_end
                                     : word % 50 == 1 ? form->quote
                                                      : " ");
        at += length + 1;
    }
    haul_string_append_text(out, form->after);
}

static void make_input(const char *path, const input *form, int64_t bytes) {
    haul_string text = {0};
    haul_file_writer file;
    check(haul_file_create(path, &file));
    for (uint32_t ordinal = 0; file.bytes < bytes; ordinal++) {
        append_document(&text, form, ordinal);
        if (text.length > 1 << 20) {
            check(haul_string_status(&text));
            check(haul_file_write(&file, text.data, text.length));
            haul_string_clear(&text);
        }
    }
    check(haul_file_finish(&file));
    haul_string_deinit(&text);
}

static double processor_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static speed build(const char *file, const char *prefix, const char *separator, int workers,
                   const haul_tokenizer *tokenizer) {
    haul_build_result result;
    haul_build_options options = {
        .input = {.files = &file, .file_count = 1, .separator = separator},
        .output_prefix = prefix,
        .tokenizer = tokenizer,
        .append_eod = true,
        .workers = workers};
    double processor = processor_seconds(), clock = haul_clock_seconds();
    check(haul_build(&options, &result));
    double megabytes = 1e-6 * (double)result.text_bytes;
    return (speed){megabytes / (processor_seconds() - processor),
                   megabytes / (haul_clock_seconds() - clock)};
}

/* Each build makes new files: to give back old ones would be part of its time. */
static void remove_set(const char *prefix) {
    static const char *const endings[] = {"bin", "idx"};
    for (int i = 0; i < 2; i++) {
        char path[PATH_BYTES + 32];
        snprintf(path, sizeof path, "%s_text_document.%s", prefix, endings[i]);
        check(haul_file_remove(path));
    }
}

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* "median (lowest to highest)" */
static void print_range(double values[ROUNDS], int digits) {
    qsort(values, ROUNDS, sizeof *values, compare);
    char text[64];
    snprintf(text, sizeof text, "%.*f (%.*f to %.*f)", digits, values[ROUNDS / 2], digits,
             values[0], digits, values[ROUNDS - 1]);
    printf(" %22s", text);
}

static void bench_input(const input *form, const char *directory, int64_t bytes,
                        const haul_tokenizer *tokenizer) {
    char file[PATH_BYTES], prefix[PATH_BYTES];
    double processor[WORKERS][ROUNDS], clock[WORKERS][ROUNDS], gain[ROUNDS];
    snprintf(file, sizeof file, "%s/in.%s", directory, form->suffix);
    snprintf(prefix, sizeof prefix, "%s/out", directory);
    make_input(file, form, bytes);
    for (int round = 0; round < ROUNDS; round++) {
        for (int w = 0; w < WORKERS; w++) {
            speed got = build(file, prefix, form->separator, w + 1, tokenizer);
            processor[w][round] = got.processor;
            clock[w][round] = got.clock;
            remove_set(prefix);
        }
        gain[round] = clock[1][round] / clock[0][round];
    }
    for (int w = 0; w < WORKERS; w++) {
        printf("%-6s %7d", form->name, w + 1);
        print_range(processor[w], 0);
        print_range(clock[w], 0);
        if (w == 1) {
            print_range(gain, 2);
        }
        printf("\n");
    }
    check(haul_file_remove(file));
}

int main(int argc, char **argv) {
    char directory[PATH_BYTES / 2];
    int64_t bytes = (argc > 2 ? atoll(argv[2]) : 200) * 1000000;
    haul_tokenizer *tokenizer;
    snprintf(directory, sizeof directory, "%.200s/haul-XXXXXX", argc > 1 ? argv[1] : "/tmp");
    if (mkdtemp(directory) == NULL) {
        fprintf(stderr, "data: cannot make a directory like %s\n", directory);
        return HAUL_ERROR_CREATE;
    }
    check(haul_tokenizer_open("ByteTokenizer", NULL, 0, &tokenizer));
    printf("median of %d (range)\n%-6s %7s %22s %22s %22s\n", ROUNDS, "input", "workers",
           "MB a processor second", "MB a second", "gain of two workers");
    for (int i = 0; i < INPUTS; i++) {
        bench_input(&inputs[i], directory, bytes, tokenizer);
    }
    haul_tokenizer_close(tokenizer);
    check(haul_file_remove(directory));
    return 0;
}
