#include "data/tokenizer.h"

#include "base/hash.h"
#include "base/memory.h"
#include "data/tokenizer_class.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTE_EOD = 256 };

void haul_token_list_deinit(haul_token_list *list) {
    free(list->ids);
    *list = (haul_token_list){0};
}

haul_status haul_token_list_append(haul_token_list *list, const int32_t *ids, int64_t count) {
    if (count == 0) {
        return HAUL_OK;
    }
    HAUL_TRY(haul_grow(&list->ids, &list->capacity, list->count + count, sizeof *list->ids));
    memcpy(list->ids + list->count, ids, (size_t)count * sizeof *ids);
    list->count += count;
    return HAUL_OK;
}

static haul_status encode_bytes(const haul_tokenizer *tokenizer, const char *text, int64_t bytes,
                                haul_token_list *out) {
    (void)tokenizer;
    HAUL_TRY(haul_grow(&out->ids, &out->capacity, out->count + bytes, sizeof *out->ids));
    int32_t *ids = out->ids + out->count;
#pragma omp simd
    for (int64_t i = 0; i < bytes; i++) {
        ids[i] = (uint8_t)text[i];
    }
    out->count += bytes;
    return HAUL_OK;
}

static haul_status decode_byte(const haul_tokenizer *tokenizer, int32_t id, haul_string *out) {
    (void)tokenizer;
    char byte = (char)id;
    if (id == BYTE_EOD) {
        haul_string_append_text(out, "<|endoftext|>");
    } else {
        haul_string_append(out, &byte, 1);
    }
    return haul_string_status(out);
}

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static haul_status fail_number(const haul_tokenizer *tokenizer, const char *text, int64_t bytes) {
    haul_fail(HAUL_ERROR_DATA,
              "the text of a NullTokenizer holds \"%.*s\", must be numbers below %lld",
              (int)haul_min(bytes, 20), text, (long long)tokenizer->vocab_size);
    haul_hint("raise --vocab-size, or choose another --tokenizer-type");
    return HAUL_ERROR_DATA;
}

static haul_status encode_numbers(const haul_tokenizer *tokenizer, const char *text, int64_t bytes,
                                  haul_token_list *out) {
    int64_t at = 0;
    while (at < bytes) {
        int64_t begin = at, number = 0;
        while (at < bytes && text[at] >= '0' && text[at] <= '9' && number < tokenizer->vocab_size) {
            number = number * 10 + (text[at++] - '0');
        }
        if (at < bytes && at == begin && is_blank(text[at])) {
            at++;
            continue;
        }
        if (number >= tokenizer->vocab_size || (at < bytes && !is_blank(text[at]))) {
            return fail_number(tokenizer, text + begin, bytes - begin);
        }
        HAUL_TRY(haul_token_list_append(out, &(int32_t){(int32_t)number}, 1));
    }
    return HAUL_OK;
}

static haul_status decode_number(const haul_tokenizer *tokenizer, int32_t id, haul_string *out) {
    (void)tokenizer;
    haul_string_append_format(out, "%d ", id);
    return haul_string_status(out);
}

static void destroy_plain(haul_tokenizer *tokenizer) {
    free(tokenizer);
}

static const haul_tokenizer_class byte_class = {"ByteTokenizer", true, encode_bytes, decode_byte,
                                                destroy_plain};
static const haul_tokenizer_class null_class = {"NullTokenizer", false, encode_numbers,
                                                decode_number, destroy_plain};

static haul_status open_plain(const haul_tokenizer_class *class, int64_t vocab_size,
                              haul_tokenizer **out) {
    char identity[64];
    haul_tokenizer *tokenizer = haul_calloc(1, sizeof *tokenizer);
    if (tokenizer == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    int length = snprintf(identity, sizeof identity, "%s %lld", class->type, (long long)vocab_size);
    tokenizer->class = class;
    tokenizer->vocab_size = vocab_size;
    tokenizer->eod = (int32_t)(vocab_size - 1);
    tokenizer->fingerprint = haul_hash_64(identity, length);
    *out = tokenizer;
    return HAUL_OK;
}

static haul_status open_bytes(const char *model, int64_t vocab_size, haul_tokenizer **out) {
    (void)model;
    (void)vocab_size;
    return open_plain(&byte_class, BYTE_EOD + 1, out);
}

static haul_status open_null(const char *model, int64_t vocab_size, haul_tokenizer **out) {
    (void)model;
    if (vocab_size < 1 || vocab_size >= INT32_MAX) {
        haul_fail(HAUL_ERROR_USAGE, "a NullTokenizer has --vocab-size %lld, must be 1 to 2^31 - 2",
                  (long long)vocab_size);
        return HAUL_ERROR_USAGE;
    }
    return open_plain(&null_class, vocab_size + 1, out);
}

static haul_status open_bpe(const char *model, int64_t vocab_size, haul_tokenizer **out) {
    (void)vocab_size;
    if (model == NULL) {
        haul_fail(HAUL_ERROR_USAGE, "HuggingFaceTokenizer needs a tokenizer.json");
        haul_hint("give its file or directory with --tokenizer-model");
        return HAUL_ERROR_USAGE;
    }
    return haul_tokenizer_open_bpe(model, out);
}

haul_status haul_tokenizer_open(const char *type, const char *model, int64_t vocab_size,
                                haul_tokenizer **out) {
    static const struct {
        const char *type;
        haul_status (*open)(const char *model, int64_t vocab_size, haul_tokenizer **out);
    } kinds[] = {
        {"ByteTokenizer", open_bytes},
        {"NullTokenizer", open_null},
        {"HuggingFaceTokenizer", open_bpe},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(type, kinds[i].type) == 0) {
            return kinds[i].open(model, vocab_size, out);
        }
    }
    haul_fail(HAUL_ERROR_USAGE,
              "--tokenizer-type is \"%s\", must be ByteTokenizer, NullTokenizer or "
              "HuggingFaceTokenizer",
              type);
    return HAUL_ERROR_USAGE;
}

void haul_tokenizer_close(haul_tokenizer *tokenizer) {
    if (tokenizer != NULL) {
        tokenizer->class->destroy(tokenizer);
    }
}

const char *haul_tokenizer_type(const haul_tokenizer *tokenizer) {
    return tokenizer->class->type;
}

int64_t haul_tokenizer_vocab_size(const haul_tokenizer *tokenizer) {
    return tokenizer->vocab_size;
}

int32_t haul_tokenizer_eod(const haul_tokenizer *tokenizer) {
    return tokenizer->eod;
}

uint64_t haul_tokenizer_fingerprint(const haul_tokenizer *tokenizer) {
    return tokenizer->fingerprint;
}

bool haul_tokenizer_is_bytewise(const haul_tokenizer *tokenizer) {
    return tokenizer->class->bytewise;
}

haul_status haul_tokenizer_encode(const haul_tokenizer *tokenizer, const char *text, int64_t bytes,
                                  haul_token_list *out) {
    return tokenizer->class->encode(tokenizer, text, bytes, out);
}

haul_status haul_tokenizer_decode(const haul_tokenizer *tokenizer, int32_t id, haul_string *out) {
    if (id < 0 || id >= tokenizer->vocab_size) {
        return haul_fail(HAUL_ERROR_DATA, "token %d is outside the tokenizer's %lld ids", id,
                         (long long)tokenizer->vocab_size);
    }
    return tokenizer->class->decode(tokenizer, id, out);
}
