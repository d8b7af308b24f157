#include "data/inspect.h"

#include "base/format.h"
#include "base/memory.h"
#include "data/indexed.h"
#include "data/utf8.h"

enum { TEXT_TOKENS = 64, ID_TOKENS = 12 };

typedef struct lengths {
    int64_t shortest, longest, empty;
} lengths;

static int64_t document_tokens(const haul_indexed *indexed, int64_t document) {
    int64_t begin, end, tokens = 0;
    haul_indexed_document(indexed, document, &begin, &end);
    for (int64_t sequence = begin; sequence < end; sequence++) {
        tokens += haul_indexed_length(indexed, sequence);
    }
    return tokens;
}

static lengths measure(const haul_indexed *indexed) {
    lengths found = {INT64_MAX, 0, 0};
    for (int64_t i = 0; i < haul_indexed_documents(indexed); i++) {
        int64_t tokens = document_tokens(indexed, i);
        found.shortest = haul_min(found.shortest, tokens);
        found.longest = haul_max(found.longest, tokens);
        found.empty += tokens == 0;
    }
    return found;
}

static void append_counts(const haul_indexed *indexed, haul_string *out) {
    int64_t documents = haul_indexed_documents(indexed), tokens = haul_indexed_tokens(indexed);
    haul_dtype dtype = haul_indexed_dtype(indexed);
    lengths found = measure(indexed);
    haul_string_append_format(out, "data set   %s\n", haul_indexed_prefix(indexed));
    haul_string_append_format(out, "documents  %lld", (long long)documents);
    if (found.empty > 0) {
        haul_string_append_format(out, ", %lld of them empty", (long long)found.empty);
    }
    haul_string_append_format(out, "\nsequences  %lld\n",
                              (long long)haul_indexed_sequences(indexed));
    haul_string_append_format(out, "tokens     %lld, %s each, %s\n", (long long)tokens,
                              haul_dtype_name(dtype),
                              haul_format_bytes(tokens * haul_dtype_size(dtype)).text);
    if (documents > 0) {
        haul_string_append_format(
            out, "document   %lld tokens the shortest, %.1f the mean, %lld the longest\n",
            (long long)found.shortest, (double)tokens / (double)documents,
            (long long)found.longest);
    }
}

/* Appends bytes as a quoted text; what is no UTF-8, and NUL, becomes U+FFFD. */
static haul_status append_quoted(const haul_string *bytes, haul_string *out) {
    haul_string clean = {0};
    int64_t count;
    for (int64_t at = 0; at < bytes->length; at += haul_max(count, 1)) {
        count = haul_utf8_character(bytes->data + at, bytes->length - at);
        if (count == 0 || bytes->data[at] == '\0') {
            haul_string_append_text(&clean, "\xef\xbf\xbd");
        } else {
            haul_string_append(&clean, bytes->data + at, count);
        }
    }
    haul_status status = haul_string_status(&clean);
    if (status == HAUL_OK) {
        haul_string_append_json(out, clean.length > 0 ? clean.data : "");
    }
    haul_string_deinit(&clean);
    return status;
}

static haul_status append_text(const haul_tokenizer *tokenizer, const int32_t *tokens,
                               int64_t count, haul_string *out) {
    haul_string bytes = {0};
    haul_status status = HAUL_OK;
    for (int64_t i = 0; i < count && status == HAUL_OK; i++) {
        status = haul_tokenizer_decode(tokenizer, tokens[i], &bytes);
    }
    if (status == HAUL_OK) {
        status = append_quoted(&bytes, out);
    }
    haul_string_deinit(&bytes);
    return status;
}

/* Appends the beginning of a document that has a sequence. */
static haul_status append_document(const haul_indexed *indexed, const haul_tokenizer *tokenizer,
                                   int64_t document, haul_string *out) {
    int32_t tokens[TEXT_TOKENS];
    int64_t begin, end;
    haul_indexed_document(indexed, document, &begin, &end);
    int64_t all = begin < end ? haul_indexed_length(indexed, begin) : 0;
    int64_t count = haul_min(all, tokenizer != NULL ? TEXT_TOKENS : ID_TOKENS);
    if (count > 0) {
        HAUL_TRY(haul_indexed_get(indexed, begin, 0, count, tokens));
    }
    haul_string_append_format(out, "%8lld   ", (long long)document);
    if (tokenizer != NULL) {
        HAUL_TRY(append_text(tokenizer, tokens, count, out));
    } else {
        for (int64_t i = 0; i < count; i++) {
            haul_string_append_format(out, "%s%d", i > 0 ? " " : "", tokens[i]);
        }
    }
    haul_string_append_text(out, count < all ? " ...\n" : "\n");
    return HAUL_OK;
}

static haul_status append_all(const haul_indexed *indexed, const haul_tokenizer *tokenizer,
                              int64_t shown, haul_string *out) {
    append_counts(indexed, out);
    int64_t count = haul_min(shown, haul_indexed_documents(indexed));
    for (int64_t i = 0; i < count; i++) {
        HAUL_TRY(append_document(indexed, tokenizer, i, out));
    }
    return haul_string_status(out);
}

haul_status haul_inspect(const char *prefix, const haul_tokenizer *tokenizer, int64_t shown,
                         haul_string *out) {
    haul_indexed *indexed;
    HAUL_TRY(haul_indexed_open(prefix, &indexed));
    haul_status status = append_all(indexed, tokenizer, shown, out);
    if (status != HAUL_OK && tokenizer != NULL) {
        haul_hint("give the tokenizer that the data set was built with");
    }
    haul_indexed_close(indexed);
    return status;
}
