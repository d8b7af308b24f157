#include "data/tokenizer_bpe.h"

#include <stdlib.h>
#include <string.h>

typedef struct encoding {
    const haul_tokenizer_bpe *tokenizer;
    haul_bpe_scratch scratch;
    haul_token_list *out;
} encoding;

static haul_status encode_piece(void *context, const char *piece, int64_t bytes) {
    encoding *job = context;
    const haul_tokenizer_bpe *tokenizer = job->tokenizer;
    if (tokenizer->ignore_merges) {
        int64_t token = haul_byte_map_get(&tokenizer->tokens, piece, bytes);
        if (token >= 0 && tokenizer->id_of_token[token] >= 0) {
            return haul_token_list_append(job->out, &tokenizer->id_of_token[token], 1);
        }
    }
    return haul_bpe_encode(&tokenizer->bpe, piece, bytes, &job->scratch, job->out);
}

/* The longest added token that text starts with, or NULL. */
static const haul_added_token *match_added(const haul_tokenizer_bpe *tokenizer, const char *text,
                                           int64_t bytes) {
    for (int64_t i = 0; i < tokenizer->added_count; i++) {
        const haul_added_token *added = &tokenizer->added[i];
        if (added->bytes <= bytes && memcmp(added->content, text, (size_t)added->bytes) == 0) {
            return added;
        }
    }
    return NULL;
}

/* Encodes text up to the next added token, and that token. Sets *used to the bytes consumed. */
static haul_status encode_stretch(encoding *job, const char *text, int64_t bytes, int64_t *used) {
    const haul_tokenizer_bpe *tokenizer = job->tokenizer;
    const haul_added_token *added = NULL;
    int64_t at = 0;
    for (; at < bytes; at++) {
        if (tokenizer->starts_added[(uint8_t)text[at]]) {
            added = match_added(tokenizer, text + at, bytes - at);
            if (added != NULL) {
                break;
            }
        }
    }
    HAUL_TRY(haul_pretokenizer_split(tokenizer->pretokenizer, text, at, encode_piece, job));
    *used = at;
    if (added != NULL) {
        *used += added->bytes;
        return haul_token_list_append(job->out, &added->id, 1);
    }
    return HAUL_OK;
}

static haul_status encode(const haul_tokenizer *base, const char *text, int64_t bytes,
                          haul_token_list *out) {
    const haul_tokenizer_bpe *tokenizer = (const haul_tokenizer_bpe *)base;
    encoding job = {.tokenizer = tokenizer, .out = out};
    haul_status status =
        haul_token_list_append(out, tokenizer->prefix.ids, tokenizer->prefix.count);
    while (bytes > 0 && status == HAUL_OK) {
        int64_t used = 0;
        status = encode_stretch(&job, text, bytes, &used);
        text += used;
        bytes -= used;
    }
    haul_bpe_scratch_deinit(&job.scratch);
    HAUL_TRY(status);
    return haul_token_list_append(out, tokenizer->suffix.ids, tokenizer->suffix.count);
}

static haul_status decode(const haul_tokenizer *base, int32_t id, haul_string *out) {
    const haul_tokenizer_bpe *tokenizer = (const haul_tokenizer_bpe *)base;
    int64_t token = tokenizer->token_of_id[id], bytes;
    if (token < 0) {
        return haul_fail(HAUL_ERROR_DATA, "token %d has no text in this tokenizer", id);
    }
    const char *text = haul_byte_map_key(&tokenizer->tokens, token, &bytes);
    haul_string_append(out, text, bytes);
    return haul_string_status(out);
}

static void destroy(haul_tokenizer *base) {
    haul_tokenizer_bpe *tokenizer = (haul_tokenizer_bpe *)base;
    haul_bpe_deinit(&tokenizer->bpe);
    haul_pretokenizer_destroy(tokenizer->pretokenizer);
    haul_byte_map_deinit(&tokenizer->tokens);
    for (int64_t i = 0; i < tokenizer->added_count; i++) {
        free(tokenizer->added[i].content);
    }
    free(tokenizer->added);
    free(tokenizer->token_of_id);
    free(tokenizer->id_of_token);
    haul_token_list_deinit(&tokenizer->prefix);
    haul_token_list_deinit(&tokenizer->suffix);
    free(tokenizer);
}

const haul_tokenizer_class haul_tokenizer_bpe_class = {"HuggingFaceTokenizer", false, encode,
                                                       decode, destroy};
const haul_tokenizer_class haul_tokenizer_gpt2_class = {"GPT2BPETokenizer", false, encode, decode,
                                                        destroy};
