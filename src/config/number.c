#include "config/number.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DIGITS_MAX = 250 };

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Copies `text` without the blanks around it and without each '_' between two digits. */
static bool strip(const char *text, char out[DIGITS_MAX + 1]) {
    static const char blanks[] = " \t\n\v\f\r";
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length > 0 && strchr(blanks, text[length - 1]) != NULL) {
        length--;
    }
    if (length == 0 || length > DIGITS_MAX) {
        return false;
    }
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        bool separator = text[i] == '_' && i > 0 && is_digit(text[i - 1]) && is_digit(text[i + 1]);
        if (!separator) {
            out[used++] = text[i];
        }
    }
    out[used] = '\0';
    return true;
}

static const char *skip_digits(const char *at) {
    while (is_digit(*at)) {
        at++;
    }
    return at;
}

bool haul_parse_int(const char *text, int64_t *out) {
    char plain[DIGITS_MAX + 1];
    if (!strip(text, plain)) {
        return false;
    }
    const char *digits = plain + (plain[0] == '-' || plain[0] == '+');
    if (!is_digit(digits[0]) || *skip_digits(digits) != '\0') {
        return false;
    }
    errno = 0;
    long long value = strtoll(plain, NULL, 10);
    if (errno != 0) {
        return false;
    }
    *out = value;
    return true;
}

/* Whether `at` is a decimal number or the word for infinity or not-a-number, without a sign. */
static bool is_unsigned_float(const char *at) {
    if (strcasecmp(at, "inf") == 0 || strcasecmp(at, "infinity") == 0 ||
        strcasecmp(at, "nan") == 0) {
        return true;
    }
    const char *whole_end = skip_digits(at);
    const char *end = *whole_end == '.' ? skip_digits(whole_end + 1) : whole_end;
    bool has_digits = whole_end > at || end > whole_end + 1;
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1 + (end[1] == '-' || end[1] == '+');
        end = skip_digits(exponent);
        has_digits = has_digits && end > exponent;
    }
    return has_digits && *end == '\0';
}

bool haul_parse_float(const char *text, double *out) {
    char plain[DIGITS_MAX + 1];
    if (!strip(text, plain) || !is_unsigned_float(plain + (plain[0] == '-' || plain[0] == '+'))) {
        return false;
    }
    *out = strtod(plain, NULL);
    return true;
}

void haul_append_float(haul_string *out, double value) {
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (!(strtod(text, NULL) < value) && !(strtod(text, NULL) > value)) {
            break;
        }
    }
    haul_string_append_text(out, text);
}
