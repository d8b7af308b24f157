#include "generate/stream.h"

#include "base/clock.h"
#include "base/memory.h"

#include <string.h>

typedef struct writer {
    const haul_generate_options *options;
    haul_string pending; /* decoded and not yet handed out */
    bool stopped;        /* a stop text came */
} writer;

/* Bytes at the end of a text that may be the start of a longer UTF-8 character. */
static int64_t unfinished_character(const char *text, int64_t bytes) {
    for (int64_t back = 1; back <= 3 && back <= bytes; back++) {
        unsigned char byte = (unsigned char)text[bytes - back];
        if (byte >= 0xc0) {
            int64_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
            return byte <= 0xf4 && length > back ? back : 0;
        }
        if (byte < 0x80) {
            break;
        }
    }
    return 0;
}

/* Bytes at the end of a text that may be the start of `stop`. */
static int64_t unfinished_stop(const char *text, int64_t bytes, const char *stop) {
    int64_t length = haul_min(bytes, (int64_t)strlen(stop) - 1);
    while (length > 0 && memcmp(text + bytes - length, stop, (size_t)length) != 0) {
        length--;
    }
    return haul_max(length, 0);
}

/* The bytes of the pending text that can be handed out; all of them in front of a stop text. */
static int64_t finished_bytes(writer *w) {
    const haul_string *pending = &w->pending;
    int64_t held = unfinished_character(pending->data, pending->length), end = pending->length;
    for (int64_t i = 0; i < w->options->stop_count; i++) {
        const char *stop = w->options->stop[i];
        const char *found = memmem(pending->data, (size_t)end, stop, strlen(stop));
        if (found != NULL && stop[0] != '\0') {
            end = found - pending->data;
            w->stopped = true;
        }
        held = haul_max(held, unfinished_stop(pending->data, pending->length, stop));
    }
    return w->stopped ? end : end - held;
}

static void hand_out(writer *w, int64_t bytes) {
    if (bytes > 0 && w->options->text != NULL) {
        w->options->text(w->options->context, w->pending.data, bytes);
    }
    if (bytes > 0) {
        memmove(w->pending.data, w->pending.data + bytes, (size_t)(w->pending.length - bytes));
        w->pending.length -= bytes;
    }
}

static haul_status write_token(writer *w, const haul_tokenizer *tokenizer, int32_t token) {
    HAUL_TRY(haul_tokenizer_decode(tokenizer, token, &w->pending));
    HAUL_TRY(haul_string_status(&w->pending));
    if (w->pending.length > 0) {
        hand_out(w, finished_bytes(w));
    }
    return HAUL_OK;
}

/* Reads the end of the text afresh: all that fits, or half a context when it is full. */
static haul_status read_text(haul_generator *generator, const haul_token_list *text) {
    int64_t count = text->count;
    if (count >= generator->capacity) {
        count = haul_max(generator->capacity / 2, 1);
    }
    return haul_generator_start(generator, text->ids + text->count - count, count);
}

static haul_status read_next(haul_generator *generator, haul_token_list *text, int32_t token) {
    HAUL_TRY(haul_token_list_append(text, &token, 1));
    if (generator->held == generator->capacity) {
        return read_text(generator, text);
    }
    return haul_generator_next(generator, token);
}

/* Draws and writes until something ends the text; its tokens so far have been read. */
static haul_status write_tokens(haul_generator *generator, const haul_tokenizer *tokenizer,
                                haul_sampler *sampler, writer *w, haul_token_list *text,
                                haul_generate_result *result) {
    const haul_generate_options *options = w->options;
    result->end = HAUL_GENERATE_END_TOKENS;
    while (result->new_tokens < options->max_new_tokens) {
        if (options->interrupt != NULL && *options->interrupt != 0) {
            result->end = HAUL_GENERATE_END_INTERRUPT;
            break;
        }
        int32_t token = haul_sampler_draw(sampler, text->count, generator->logits);
        result->new_tokens++;
        if (token == haul_tokenizer_eod(tokenizer)) {
            result->end = HAUL_GENERATE_END_DOCUMENT;
            break;
        }
        HAUL_TRY(write_token(w, tokenizer, token));
        if (w->stopped) {
            result->end = HAUL_GENERATE_END_STOP;
            return HAUL_OK;
        }
        if (result->new_tokens < options->max_new_tokens) {
            HAUL_TRY(read_next(generator, text, token));
        }
    }
    hand_out(w, w->pending.length);
    return HAUL_OK;
}

haul_status haul_generate_encode(const haul_tokenizer *tokenizer, const char *prompt,
                                 haul_token_list *out) {
    if (prompt != NULL && prompt[0] != '\0') {
        return haul_tokenizer_encode(tokenizer, prompt, (int64_t)strlen(prompt), out);
    }
    int32_t eod = haul_tokenizer_eod(tokenizer);
    if (eod < 0) {
        haul_fail(HAUL_ERROR_CONFIG, "this tokenizer has no end-of-document token to start from");
        haul_hint("give a --prompt");
        return HAUL_ERROR_CONFIG;
    }
    return haul_token_list_append(out, &eod, 1);
}

static haul_status run(haul_generator *generator, const haul_tokenizer *tokenizer,
                       haul_sampler *sampler, writer *w, haul_token_list *text,
                       haul_generate_result *result) {
    double begin = haul_clock_seconds();
    HAUL_TRY(read_text(generator, text));
    result->prompt_tokens = generator->held;
    result->cut_tokens = text->count - generator->held;
    double read = haul_clock_seconds();
    result->prompt_seconds = read - begin;
    HAUL_TRY(write_tokens(generator, tokenizer, sampler, w, text, result));
    result->seconds = haul_clock_seconds() - read;
    return HAUL_OK;
}

haul_status haul_generate(haul_generator *generator, const haul_tokenizer *tokenizer,
                          const char *prompt, const haul_generate_options *options,
                          haul_generate_result *out) {
    /* A model may have more ids than its tokenizer: those are padding and never drawn. */
    int64_t vocabulary =
        haul_min(generator->config->vocab_size, haul_tokenizer_vocab_size(tokenizer));
    haul_generate_result result = {0};
    haul_token_list text = {0};
    haul_sampler sampler = {0};
    writer w = {.options = options};
    haul_status status = haul_generate_encode(tokenizer, prompt, &text);
    if (status == HAUL_OK) {
        status = haul_sampler_init(&sampler, options->sampling, vocabulary);
    }
    if (status == HAUL_OK) {
        status = run(generator, tokenizer, &sampler, &w, &text, &result);
    }
    haul_string_deinit(&w.pending);
    haul_sampler_deinit(&sampler);
    haul_token_list_deinit(&text);
    if (status == HAUL_OK) {
        *out = result;
    }
    return status;
}
