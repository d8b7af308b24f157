/* Writing a text: prompt in, pieces of text out as they come. */
#ifndef HAUL_GENERATE_STREAM_H
#define HAUL_GENERATE_STREAM_H

#include "data/tokenizer.h"
#include "generate/model.h"
#include "generate/sample.h"

#include <signal.h>

typedef enum haul_generate_end {
    HAUL_GENERATE_END_TOKENS,   /* max_new_tokens were written */
    HAUL_GENERATE_END_DOCUMENT, /* the model ended the document */
    HAUL_GENERATE_END_STOP,     /* a stop text came */
    HAUL_GENERATE_END_INTERRUPT /* *interrupt became non-zero */
} haul_generate_end;

typedef struct haul_generate_options {
    haul_sampling sampling;
    int64_t max_new_tokens;
    const char *const *stop; /* [stop_count]; the text ends in front of the first one */
    int64_t stop_count;
    /* Receives the text piece by piece, without the prompt; UTF-8 characters come whole, bytes that
     * make up none come as they are. */
    void (*text)(void *context, const char *text, int64_t bytes);
    void *context;
    volatile sig_atomic_t *interrupt; /* may be NULL */
} haul_generate_options;

typedef struct haul_generate_result {
    int64_t prompt_tokens; /* read by the model */
    int64_t cut_tokens;    /* of the prompt's start, which were left out */
    int64_t new_tokens;    /* drawn */
    double prompt_seconds;
    double seconds; /* of the new tokens */
    haul_generate_end end;
} haul_generate_result;

/* Continues `prompt`; a NULL or empty one stands for the start of a document. When the text fills
 * the generator's context, a long prompt at once, it goes on from the last half of it.
 * HAUL_ERROR_CONFIG when an empty prompt meets a tokenizer without an end-of-document token. */
haul_status haul_generate(haul_generator *generator, const haul_tokenizer *tokenizer,
                          const char *prompt, const haul_generate_options *options,
                          haul_generate_result *out);

/* The tokens of a prompt as haul_generate reads them. */
haul_status haul_generate_encode(const haul_tokenizer *tokenizer, const char *prompt,
                                 haul_token_list *out);

#endif
