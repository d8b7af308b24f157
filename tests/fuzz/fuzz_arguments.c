/* The command line: the first line of an input names the command, each other line is a word. */
#include "base/memory.h"
#include "config/parse.h"
#include "config/validate.h"
#include "config_checks.h"
#include "data/blend.h"
#include "data/sample_order.h"
#include "fuzzing.h"

#include <stdlib.h>
#include <string.h>

static haul_command find_command(const char *name) {
    for (int i = 0; i < HAUL_COMMANDS; i++) {
        if (strcmp(haul_command_at((haul_command)i)->name, name) == 0) {
            return (haul_command)i;
        }
    }
    return HAUL_COMMAND_TRAIN;
}

/* The words that data/ reads itself. */
static void check_data_words(const haul_config *config) {
    int64_t begin[HAUL_SPLITS], end[HAUL_SPLITS];
    haul_blend_paths paths = {0};
    if (config->data_path.count > 0 &&
        fuzz_accepted(
            haul_blend_paths_init(config->data_path.items, config->data_path.count, &paths))) {
        fuzz_require(paths.count > 0 && paths.count <= config->data_path.count, "paths are words");
        haul_blend_paths_deinit(&paths);
    }
    if (fuzz_accepted(haul_split_parse(config->split, 1000, begin, end))) {
        fuzz_require(begin[0] == 0 && end[2] <= 1000, "a split stays in the data set");
        for (int i = 0; i < HAUL_SPLITS; i++) {
            fuzz_require(begin[i] <= end[i] && (i == 0 || begin[i] == end[i - 1]),
                         "the parts of a split follow one another");
        }
    }
}

static void check_words(haul_command command, int count, const char *const *words) {
    haul_config config;
    fuzz_require_ok(haul_config_init(&config));
    if (fuzz_accepted(haul_config_parse(&config, command, count, words)) && !config.help) {
        fuzz_check_round_trip(&config);
        if (command == HAUL_COMMAND_TRAIN && fuzz_accepted(haul_config_finalize(&config))) {
            fuzz_check_training(&config);
            check_data_words(&config);
        }
    }
    haul_config_deinit(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = haul_calloc((int64_t)size + 1, 1);
    const char **words = haul_calloc((int64_t)size + 1, sizeof *words);
    fuzz_require(text != NULL && words != NULL, "there is memory");
    if (size > 0) {
        memcpy(text, data, size);
    }
    int count = 0;
    char *rest = text;
    haul_command command = find_command(strsep(&rest, "\n"));
    while (rest != NULL) {
        words[count++] = strsep(&rest, "\n");
    }
    check_words(command, count, words);
    free(text);
    free(words);
    return 0;
}
