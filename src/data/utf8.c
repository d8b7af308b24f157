#include "data/utf8.h"

#include <stdbool.h>

static bool continues(const uint8_t *at, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return false;
        }
    }
    return true;
}

int64_t haul_utf8_character(const char *text, int64_t bytes) {
    const uint8_t *at = (const uint8_t *)text;
    if (bytes < 1 || at[0] < 0x80) {
        return bytes < 1 ? 0 : 1;
    }
    int64_t count = at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if (count == 0 || count > bytes || !continues(at, count)) {
        return 0;
    }
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool surrogate = at[0] == 0xed && at[1] >= 0xa0;
    bool too_large = at[0] == 0xf4 && at[1] >= 0x90;
    return overlong || surrogate || too_large ? 0 : count;
}

int64_t haul_utf8_valid_run(const char *text, int64_t bytes) {
    int64_t done = 0, count;
    while ((count = haul_utf8_character(text + done, bytes - done)) > 0) {
        done += count;
    }
    return done;
}

int64_t haul_utf8_invalid_run(const char *text, int64_t bytes) {
    int64_t done = 0;
    while (done < bytes && haul_utf8_character(text + done, bytes - done) == 0) {
        done++;
    }
    return done;
}
