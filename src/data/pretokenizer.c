#include "data/pretokenizer.h"

#include "base/memory.h"
#include "base/string.h"
#include "data/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>
#include <string.h>

const char *const haul_pretokenizer_gpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Unicode's White_Space. PCRE2's own \s counts U+180E too, which lost that property. */
static const char white_space[] = "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"
                                  "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

struct haul_pretokenizer {
    pcre2_code *code;
};

/* Spells \s, and outside of brackets \S, by white_space. */
static void translate(const char *pattern, haul_string *out) {
    bool in_class = false;
    for (const char *at = pattern; *at != '\0'; at++) {
        bool escaped = at[0] == '\\' && at[1] != '\0';
        if (escaped && at[1] == 's') {
            haul_string_append_format(out, in_class ? "%s" : "[%s]", white_space);
        } else if (escaped && at[1] == 'S' && !in_class) {
            haul_string_append_format(out, "[^%s]", white_space);
        } else {
            haul_string_append(out, at, escaped ? 2 : 1);
            in_class = escaped ? in_class : (*at == '[' || (in_class && *at != ']'));
        }
        at += escaped;
    }
}

haul_status haul_pretokenizer_create(const char *pattern, haul_pretokenizer **out) {
    haul_string translated = {0};
    haul_pretokenizer *made = haul_calloc(1, sizeof *made);
    translate(pattern, &translated);
    haul_status status = made == NULL ? HAUL_ERROR_MEMORY : haul_string_status(&translated);
    if (status == HAUL_OK) {
        int error;
        PCRE2_SIZE offset;
        made->code =
            pcre2_compile((PCRE2_SPTR)translated.data, (PCRE2_SIZE)translated.length,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, NULL);
        if (made->code == NULL) {
            PCRE2_UCHAR reason[128];
            pcre2_get_error_message(error, reason, sizeof reason);
            status = haul_fail(HAUL_ERROR_DATA, "the pattern \"%.80s\" is not understood: %s",
                               pattern, (const char *)reason);
        } else {
            /* Without JIT (some hardened kernels) the interpreter gives the same matches. */
            pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE);
        }
    }
    haul_string_deinit(&translated);
    if (status != HAUL_OK) {
        haul_pretokenizer_destroy(made);
        return status;
    }
    *out = made;
    return HAUL_OK;
}

void haul_pretokenizer_destroy(haul_pretokenizer *pretokenizer) {
    if (pretokenizer != NULL) {
        pcre2_code_free(pretokenizer->code);
        free(pretokenizer);
    }
}

/* Splits text[0 .. bytes), which is valid UTF-8. */
static haul_status split_valid(const haul_pretokenizer *pretokenizer, pcre2_match_data *match,
                               const char *text, int64_t bytes, haul_piece_function *function,
                               void *context) {
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(match);
    int64_t done = 0;
    while (done < bytes) {
        int found = pcre2_match(pretokenizer->code, (PCRE2_SPTR)text, (PCRE2_SIZE)bytes,
                                (PCRE2_SIZE)done, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match, NULL);
        if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
            PCRE2_UCHAR reason[128];
            pcre2_get_error_message(found, reason, sizeof reason);
            return haul_fail(HAUL_ERROR_DATA, "the tokenizer's pattern fails on this text: %s",
                             (const char *)reason);
        }
        if (found >= 0 && (bounds[0] < (PCRE2_SIZE)done || bounds[1] <= bounds[0])) {
            /* \K in a group that a lookaround calls can do that. */
            return haul_fail(HAUL_ERROR_DATA, "the tokenizer's pattern matches backwards");
        }
        int64_t begin = found < 0 ? bytes : (int64_t)bounds[0];
        if (begin > done) {
            HAUL_TRY(function(context, text + done, begin - done));
        }
        if (found >= 0) {
            HAUL_TRY(function(context, text + begin, (int64_t)bounds[1] - begin));
        }
        done = found < 0 ? bytes : (int64_t)bounds[1];
    }
    return HAUL_OK;
}

haul_status haul_pretokenizer_split(const haul_pretokenizer *pretokenizer, const char *text,
                                    int64_t bytes, haul_piece_function *function, void *context) {
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    if (match == NULL) {
        return haul_fail(HAUL_ERROR_MEMORY, "out of memory in the tokenizer");
    }
    haul_status status = HAUL_OK;
    while (bytes > 0 && status == HAUL_OK) {
        int64_t run = haul_utf8_valid_run(text, bytes);
        if (run > 0) {
            status = split_valid(pretokenizer, match, text, run, function, context);
        } else {
            run = haul_utf8_invalid_run(text, bytes);
            status = function(context, text, run);
        }
        text += run;
        bytes -= run;
    }
    pcre2_match_data_free(match);
    return status;
}
