#include "report/text.h"

#include <stdbool.h>
#include <string.h>

static const char REPLACEMENT[] = "\xef\xbf\xbd";

/* The bytes of the UTF-8 character at `at`, 0 when there is none. Overlong forms, surrogates and
 * code points above U+10FFFF are no characters. */
static int character_bytes(const unsigned char *at, int64_t left) {
    if (at[0] < 0x80) {
        return at[0] != 0;
    }
    int bytes = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || bytes > left) {
        return 0;
    }
    unsigned low = at[0] == 0xe0 ? 0xa0 : at[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = at[0] == 0xed ? 0x9f : at[0] == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < low || at[1] > high) {
        return 0;
    }
    for (int i = 2; i < bytes; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return bytes;
}

void haul_text_append_utf8(haul_string *out, const char *bytes, int64_t length) {
    for (int64_t i = 0; i < length;) {
        int count = character_bytes((const unsigned char *)bytes + i, length - i);
        if (count == 0) {
            haul_string_append_text(out, REPLACEMENT);
            i++;
        } else {
            haul_string_append(out, bytes + i, count);
            i += count;
        }
    }
}

static const char *html_escape(char character) {
    switch (character) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void haul_text_append_html(haul_string *out, const char *text) {
    int64_t length = (int64_t)strlen(text);
    for (int64_t i = 0; i < length;) {
        const char *escape = html_escape(text[i]);
        int count = character_bytes((const unsigned char *)text + i, length - i);
        bool control = (unsigned char)text[i] < 0x20 && text[i] != '\n' && text[i] != '\t';
        if (escape != NULL) {
            haul_string_append_text(out, escape);
        } else if (count == 0 || control || text[i] == 0x7f) {
            haul_string_append_text(out, REPLACEMENT);
        } else {
            haul_string_append(out, text + i, count);
        }
        i += count > 0 ? count : 1;
    }
}

int haul_text_columns(const char *text) {
    int columns = 0;
    for (; *text != '\0'; text++) {
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return columns;
}
