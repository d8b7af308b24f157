/* A strict reader that accepts less than a JSON library but never more or anything else: what it
 * refuses, the library judges. */
#include "data/json_line.h"

#include "data/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MOST = 64, DIGITS_MOST = 18 };

typedef struct cursor {
    const char *at, *end;
} cursor;

void haul_json_text_deinit(haul_json_text *text) {
    haul_string_deinit(&text->buffer);
    *text = (haul_json_text){0};
}

/* The next character, or NUL, which stands nowhere in JSON, at the end. */
static char peek(const cursor *c) {
    return c->at < c->end ? *c->at : '\0';
}

static bool take(cursor *c, char expected) {
    bool is = peek(c) == expected;
    c->at += is;
    return is;
}

static void skip_blanks(cursor *c) {
    while (peek(c) == ' ' || peek(c) == '\t' || peek(c) == '\n' || peek(c) == '\r') {
        c->at++;
    }
}

static bool is_plain(char byte) {
    return byte >= 0x20 && (uint8_t)byte < 0x80 && byte != '"' && byte != '\\';
}

/* Whether one of eight bytes is none that is_plain. Subtracting 1 from a byte sets its highest bit
 * when it is 0, subtracting 0x20 when it is less; a borrow into the next byte only comes from a
 * byte that is found anyway. */
static bool any_special(const char *at) {
    const uint64_t ones = 0x0101010101010101u;
    uint64_t word;
    memcpy(&word, at, sizeof word);
    uint64_t quote = word ^ (ones * '"'), backslash = word ^ (ones * '\\');
    uint64_t found =
        ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) | (word - ones * 0x20) | word;
    return (found & (ones * 0x80)) != 0;
}

/* Passes what needs no look: ASCII but for quotes, backslashes and control characters, and whole
 * UTF-8 characters. */
static void skip_plain(cursor *c) {
    int64_t character = 1;
    while (character > 0) {
        while (c->end - c->at >= 8 && !any_special(c->at)) {
            c->at += 8;
        }
        while (c->at < c->end && is_plain(*c->at)) {
            c->at++;
        }
        character = (uint8_t)peek(c) < 0x80 ? 0 : haul_utf8_character(c->at, c->end - c->at);
        c->at += character;
    }
}

/* Four hexadecimal digits, or -1. */
static int32_t read_unit(cursor *c) {
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        char digit = peek(c);
        int32_t value = digit >= '0' && digit <= '9'   ? digit - '0'
                        : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                        : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                       : -1;
        if (value < 0) {
            return -1;
        }
        unit = unit * 16 + value;
        c->at++;
    }
    return unit;
}

static void append_character(haul_string *out, int32_t code) {
    char bytes[4];
    int64_t count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int64_t i = count - 1; i > 0; i--) {
        bytes[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    bytes[0] = (char)(lead[count] | code);
    haul_string_append(out, bytes, count);
}

/* After "\u". A character beyond U+FFFF is a pair of surrogates. */
static bool read_code(cursor *c, haul_string *out) {
    int32_t code = read_unit(c);
    if (code >= 0xd800 && code < 0xdc00) {
        bool pair = take(c, '\\') && take(c, 'u');
        int32_t low = pair ? read_unit(c) : -1;
        if (low < 0xdc00 || low > 0xdfff) {
            return false;
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code < 0 || (code >= 0xdc00 && code < 0xe000)) {
        return false;
    }
    append_character(out, code);
    return true;
}

/* After a backslash. */
static bool read_escape(cursor *c, haul_string *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char letter = peek(c);
    const char *place = letter != '\0' ? strchr(from, letter) : NULL;
    if (place != NULL) {
        c->at++;
        haul_string_append(out, &to[place - from], 1);
        return true;
    }
    return take(c, 'u') && read_code(c, out);
}

/* A string; its text is in the line where it has no escapes, else in the buffer. */
static bool read_string(cursor *c, haul_json_text *out) {
    if (!take(c, '"')) {
        return false;
    }
    const char *begin = c->at;
    skip_plain(c);
    if (take(c, '"')) {
        out->text = begin;
        out->bytes = c->at - 1 - begin;
        return true;
    }
    haul_string_clear(&out->buffer);
    while (take(c, '\\')) {
        haul_string_append(&out->buffer, begin, c->at - 1 - begin);
        if (!read_escape(c, &out->buffer)) {
            return false;
        }
        begin = c->at;
        skip_plain(c);
    }
    haul_string_append(&out->buffer, begin, c->at - begin);
    out->text = out->buffer.data;
    out->bytes = out->buffer.length;
    return take(c, '"') && !out->buffer.failed;
}

static int64_t skip_digits(cursor *c) {
    const char *begin = c->at;
    while (peek(c) >= '0' && peek(c) <= '9') {
        c->at++;
    }
    return c->at - begin;
}

static bool skip_number(cursor *c) {
    take(c, '-');
    bool zero = peek(c) == '0';
    int64_t digits = skip_digits(c);
    bool whole = digits > 0 && digits <= (zero ? 1 : DIGITS_MOST);
    if (take(c, '.')) {
        digits = skip_digits(c);
        whole = whole && digits > 0 && digits <= DIGITS_MOST;
    }
    return whole && peek(c) != 'e' && peek(c) != 'E';
}

static bool skip_word(cursor *c, const char *word) {
    size_t length = strlen(word);
    bool is = (size_t)(c->end - c->at) >= length && memcmp(c->at, word, length) == 0;
    c->at += is ? length : 0;
    return is;
}

/* The name of a member and the colon; a name with escapes is left to others. */
static bool read_name(cursor *c, haul_json_text *out) {
    skip_blanks(c);
    if (!read_string(c, out) || out->text == out->buffer.data) {
        return false;
    }
    skip_blanks(c);
    return take(c, ':');
}

static bool read_value(cursor *c, int depth, haul_json_text *out);

/* What an array or an object holds, and its end; `out` is for anything. */
static bool skip_members(cursor *c, char close, int depth, haul_json_text *out) {
    skip_blanks(c);
    if (take(c, close)) {
        return true;
    }
    do {
        if ((close == '}' && !read_name(c, out)) || !read_value(c, depth, out)) {
            return false;
        }
        skip_blanks(c);
    } while (take(c, ','));
    return take(c, close);
}

/* Any value; of a string, `out` is the text. */
static bool read_value(cursor *c, int depth, haul_json_text *out) {
    skip_blanks(c);
    switch (peek(c)) {
    case '"':
        return read_string(c, out);
    case '{':
    case '[':
        return depth < DEPTH_MOST && skip_members(c, *c->at++ == '{' ? '}' : ']', depth + 1, out);
    case 't':
        return skip_word(c, "true");
    case 'f':
        return skip_word(c, "false");
    case 'n':
        return skip_word(c, "null");
    default:
        return skip_number(c);
    }
}

/* Where the value of a member of the outermost object goes. */
static haul_json_text *find_text(const haul_json_text *name, const char *const *keys, int64_t count,
                                 haul_json_text *texts, haul_json_text *scratch) {
    for (int64_t i = 0; i < count; i++) {
        if (strlen(keys[i]) == (size_t)name->bytes &&
            memcmp(keys[i], name->text, (size_t)name->bytes) == 0) {
            return &texts[i];
        }
    }
    return scratch;
}

static bool read_object(cursor *c, const char *const *keys, int64_t count, haul_json_text *texts,
                        haul_json_text *scratch) {
    skip_blanks(c);
    if (!take(c, '{')) {
        return false;
    }
    do {
        if (!read_name(c, scratch)) {
            return false;
        }
        haul_json_text *text = find_text(scratch, keys, count, texts, scratch);
        skip_blanks(c);
        if (text != scratch && peek(c) != '"') {
            return false;
        }
        if (!read_value(c, 1, text)) {
            return false;
        }
        skip_blanks(c);
    } while (take(c, ','));
    if (!take(c, '}')) {
        return false;
    }
    skip_blanks(c);
    return c->at == c->end;
}

bool haul_json_line_read(const char *line, int64_t bytes, const char *const *keys, int64_t count,
                         haul_json_text *texts) {
    cursor c = {line, line + bytes};
    haul_json_text scratch = {0};
    for (int64_t i = 0; i < count; i++) {
        texts[i].text = NULL;
    }
    bool is = read_object(&c, keys, count, texts, &scratch);
    for (int64_t i = 0; i < count; i++) {
        is = is && texts[i].text != NULL;
    }
    haul_json_text_deinit(&scratch);
    return is;
}
