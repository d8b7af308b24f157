#include "device/cuda/matmul_choices.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/string.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void haul_cuda_choices_deinit(haul_cuda_choices *choices) {
    free(choices->items);
    *choices = (haul_cuda_choices){0};
}

const haul_cuda_choice *haul_cuda_choices_find(const haul_cuda_choices *choices,
                                               const char *product) {
    for (int64_t i = 0; i < choices->count; i++) {
        if (strcmp(choices->items[i].product, product) == 0) {
            return &choices->items[i];
        }
    }
    return NULL;
}

static haul_status append(haul_cuda_choices *choices, const haul_cuda_choice *choice) {
    HAUL_TRY(
        haul_grow(&choices->items, &choices->capacity, choices->count + 1, sizeof *choices->items));
    choices->items[choices->count++] = *choice;
    return HAUL_OK;
}

haul_status haul_cuda_choices_add(haul_cuda_choices *choices, const haul_cuda_choice *choice) {
    HAUL_TRY(append(choices, choice));
    choices->changed = true;
    return HAUL_OK;
}

/* --- lines ---------------------------------------------------------------------------------- */

static void append_line(haul_string *out, const char *library, const haul_cuda_choice *choice) {
    int64_t begin = out->length;
    haul_string_append_format(out, "%s\t%s\t", library, choice->product);
    for (size_t i = 0; i < sizeof choice->algorithm.data / sizeof choice->algorithm.data[0]; i++) {
        haul_string_append_format(out, "%016" PRIx64, choice->algorithm.data[i]);
    }
    haul_string_append_format(out, "\t%.3f\t", choice->microseconds);
    if (!out->failed) {
        uint64_t hash = haul_hash_64(out->data + begin, out->length - begin);
        haul_string_append_format(out, "%016" PRIx64 "\n", hash);
    }
}

/* 16 hexadecimal digits. */
static bool parse_word(const char *text, uint64_t *out) {
    char digits[17] = {0};
    memcpy(digits, text, 16);
    *out = strtoull(digits, NULL, 16);
    return strspn(digits, "0123456789abcdef") == 16;
}

/* Whether a line, without its end, is as append_line wrote it. It is cut into its fields: library
 * into `library`, the others into `out`. */
static bool parse_line(char *line, char **library, haul_cuda_choice *out) {
    enum { CARD, VERSION, PRODUCT, ALGORITHM, TIME, HASH, FIELDS };
    enum { WORDS = sizeof out->algorithm.data / sizeof out->algorithm.data[0] };
    char *fields[FIELDS] = {line};
    uint64_t hash = 0;
    for (int i = 1; i < FIELDS; i++) {
        char *tab = strchr(fields[i - 1], '\t');
        if (tab == NULL) {
            return false;
        }
        fields[i] = tab + 1;
    }
    if (strlen(fields[HASH]) != 16 || !parse_word(fields[HASH], &hash) ||
        hash != haul_hash_64(line, fields[HASH] - line)) {
        return false;
    }
    for (int i = PRODUCT; i < FIELDS; i++) {
        fields[i][-1] = '\0'; /* card and version stay one text */
    }
    if (strlen(fields[ALGORITHM]) != 16 * WORDS) {
        return false;
    }
    for (int i = 0; i < WORDS; i++) {
        if (!parse_word(fields[ALGORITHM] + i * 16, &out->algorithm.data[i])) {
            return false;
        }
    }
    *library = line;
    haul_text_copy(out->product, sizeof out->product, fields[PRODUCT]);
    out->microseconds = strtod(fields[TIME], NULL);
    return out->microseconds > 0.0;
}

/* Calls `visit` for each sound line. */
static haul_status read_lines(const char *path,
                              haul_status (*visit)(void *context, const char *library,
                                                   const haul_cuda_choice *choice),
                              void *context) {
    haul_string text = {0};
    if (!haul_file_exists(path)) {
        return HAUL_OK;
    }
    haul_status status = haul_file_read(path, &text);
    char *next = text.data;
    while (status == HAUL_OK && next != NULL && *next != '\0') {
        char *line = next, *library, *end = strchr(line, '\n');
        haul_cuda_choice choice;
        next = end == NULL ? NULL : end + 1;
        if (end != NULL) {
            *end = '\0';
        }
        if (parse_line(line, &library, &choice)) {
            status = visit(context, library, &choice);
        }
    }
    haul_string_deinit(&text);
    return status;
}

/* --- files ---------------------------------------------------------------------------------- */

static haul_status take_line(void *context, const char *library, const haul_cuda_choice *choice) {
    haul_cuda_choices *choices = context;
    bool wanted = strcmp(library, choices->library) == 0 &&
                  haul_cuda_choices_find(choices, choice->product) == NULL;
    return wanted ? append(choices, choice) : HAUL_OK;
}

haul_status haul_cuda_choices_load(haul_cuda_choices *choices, const char *path) {
    return read_lines(path, take_line, choices);
}

typedef struct rewrite {
    const haul_cuda_choices *choices;
    haul_string text;
} rewrite;

static haul_status keep_line(void *context, const char *library, const haul_cuda_choice *choice) {
    rewrite *file = context;
    if (strcmp(library, file->choices->library) != 0 ||
        haul_cuda_choices_find(file->choices, choice->product) == NULL) {
        append_line(&file->text, library, choice);
    }
    return HAUL_OK;
}

haul_status haul_cuda_choices_save(haul_cuda_choices *choices, const char *path) {
    rewrite file = {.choices = choices};
    if (!choices->changed) {
        return HAUL_OK;
    }
    haul_status status = read_lines(path, keep_line, &file);
    for (int64_t i = 0; i < choices->count; i++) {
        append_line(&file.text, choices->library, &choices->items[i]);
    }
    if (status == HAUL_OK) {
        status = haul_string_status(&file.text);
    }
    if (status == HAUL_OK) {
        status = haul_file_replace(path, file.text.data, file.text.length);
    }
    if (status == HAUL_OK) {
        choices->changed = false;
    }
    haul_string_deinit(&file.text);
    return status;
}
