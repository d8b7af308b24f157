/* The fast reader of JSON lines beside jansson: what it takes, jansson takes and reads the same. */
#include "data/json_line.h"
#include "fuzzing.h"

#include <jansson.h>
#include <string.h>

enum { KEYS = 2 };

static const char *const keys[KEYS] = {"text", "t"};

static void check_member(const haul_json_text *text, const json_t *value) {
    fuzz_require(json_is_string(value), "the member is a string");
    fuzz_require(text->bytes == (int64_t)json_string_length(value) &&
                     memcmp(text->text, json_string_value(value), (size_t)text->bytes) == 0,
                 "both readers see the same text");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *line = (const char *)data;
    haul_json_text texts[KEYS] = {{0}};
    if (haul_json_line_read(line, (int64_t)size, keys, KEYS, texts)) {
        json_t *object = json_loadb(line, size, JSON_ALLOW_NUL, NULL);
        fuzz_require(object != NULL, "what the fast reader takes is JSON");
        for (int i = 0; i < KEYS; i++) {
            check_member(&texts[i], json_object_get(object, keys[i]));
        }
        json_decref(object);
    }
    for (int i = 0; i < KEYS; i++) {
        haul_json_text_deinit(&texts[i]);
    }
    return 0;
}
