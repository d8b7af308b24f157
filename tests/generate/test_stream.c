/* Streaming, with a model that is made to write a given text: token and layer weights are zero, the
 * embedding of position p is the p-th unit vector, and the output row of the byte that shall come
 * after position p points there. */
#include "testing.h"

#include "config/validate.h"
#include "data/utf8.h"
#include "generate/stream.h"
#include "train/session.h"

#include <string.h>

enum { POSITIONS = 64, EOD = 256, PIECES = 256 };

typedef struct writing {
    haul_config config;
    haul_session session;
    haul_generator generator;
    haul_tokenizer *tokenizer;
    haul_string text;
    int64_t ends[PIECES]; /* of the pieces in text */
    int pieces;
    volatile sig_atomic_t interrupt;
    int interrupt_after; /* pieces */
} writing;

static void set(haul_config *config, const char *flag, const char *value) {
    assert_ok(haul_config_set(config, flag, &value, 1, HAUL_SOURCE_COMMAND_LINE));
}

static double *values_of(writing *w, const char *name) {
    for (int64_t b = 0; b < w->session.chunk.buffer_count; b++) {
        if (strcmp(w->session.chunk.buffers[b].views[0].name, name) == 0) {
            return w->session.store.buffers[b].value.data;
        }
    }
    fail_msg("no buffer %s", name);
    return NULL;
}

/* What comes after position p is script[p]; eod behind its end. */
static void script(writing *w, const char *text, int64_t bytes) {
    haul_store *store = &w->session.store;
    assert_ok(haul_store_initialize(store, 1));
    for (int64_t b = 0; b < store->chunk->buffer_count; b++) {
        haul_tensor *value = &store->buffers[b].value;
        if (store->chunk->buffers[b].init == HAUL_INIT_NORMAL) {
            memset(value->data, 0, (size_t)haul_tensor_bytes(value));
        }
    }
    double *positions = values_of(w, "model.embed_positions.weight");
    double *head = values_of(w, "lm_head.weight");
    for (int64_t p = 0; p < POSITIONS; p++) {
        int64_t token = p < bytes ? (unsigned char)text[p] : EOD;
        positions[p * POSITIONS + p] = 1;
        head[token * POSITIONS + p] = 1;
    }
}

static void setup(writing *w, const char *text, int64_t bytes) {
    static const char *const flags[][2] = {{"num-layers", "1"},
                                           {"hidden-size", "64"},
                                           {"num-attention-heads", "1"},
                                           {"max-position-embeddings", "64"},
                                           {"seq-length", "1"},
                                           {"micro-batch-size", "1"},
                                           {"normalization", "RMSNorm"},
                                           {"disable-bias-linear", "true"},
                                           {"untie-embeddings-and-output-weights", "true"},
                                           {"vocab-size", "257"},
                                           {"device", "ref"}};
    memset(w, 0, sizeof *w);
    assert_ok(haul_config_init(&w->config));
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        set(&w->config, flags[i][0], flags[i][1]);
    }
    assert_ok(haul_config_finalize_model(&w->config));
    assert_ok(haul_session_plan(&w->session, &w->config, false));
    assert_ok(haul_session_allocate(&w->session));
    script(w, text, bytes);
    assert_ok(haul_generator_init(&w->generator, &w->config, &w->session.store,
                                  (haul_generator_options){.block = 16}));
    assert_ok(haul_tokenizer_open("ByteTokenizer", NULL, 0, &w->tokenizer));
}

static void teardown(writing *w) {
    haul_string_deinit(&w->text);
    haul_tokenizer_close(w->tokenizer);
    haul_generator_deinit(&w->generator);
    haul_session_deinit(&w->session);
    haul_config_deinit(&w->config);
}

static void collect(void *context, const char *text, int64_t bytes) {
    writing *w = context;
    haul_string_append(&w->text, text, bytes);
    assert_in_range(w->pieces, 0, PIECES - 1);
    w->ends[w->pieces++] = w->text.length;
    w->interrupt = w->interrupt_after > 0 && w->pieces == w->interrupt_after;
}

static haul_generate_result run(writing *w, const char *prompt, int64_t most,
                                const char *const *stop, int64_t stops) {
    haul_generate_result result;
    haul_generate_options options = {.max_new_tokens = most,
                                     .stop = stop,
                                     .stop_count = stops,
                                     .text = collect,
                                     .context = w,
                                     .interrupt = &w->interrupt};
    haul_string_clear(&w->text);
    w->pieces = 0;
    w->interrupt = 0;
    assert_ok(haul_generate(&w->generator, w->tokenizer, prompt, &options, &result));
    return result;
}

static void assert_text(const writing *w, const char *text) {
    assert_int_equal(w->text.length, strlen(text));
    assert_memory_equal(w->text.data, text, strlen(text));
}

/* The empty prompt is position 0, so the whole script is written. */
static void test_document(void **state) {
    (void)state;
    writing w;
    setup(&w, "some text", 9);
    haul_generate_result result = run(&w, NULL, 50, NULL, 0);
    assert_text(&w, "some text");
    assert_int_equal(w.pieces, 9);
    assert_int_equal(result.end, HAUL_GENERATE_END_DOCUMENT);
    assert_int_equal(result.prompt_tokens, 1);
    assert_int_equal(result.new_tokens, 10);
    result = run(&w, "four", 50, NULL, 0);
    assert_text(&w, "e text"); /* script[3] comes after position 3 */
    teardown(&w);
}

static void test_token_limit(void **state) {
    (void)state;
    writing w;
    setup(&w, "some text", 9);
    haul_generate_result result = run(&w, "", 4, NULL, 0);
    assert_text(&w, "some");
    assert_int_equal(result.end, HAUL_GENERATE_END_TOKENS);
    assert_int_equal(result.new_tokens, 4);
    w.interrupt_after = 2;
    result = run(&w, "", 9, NULL, 0);
    assert_text(&w, "so");
    assert_int_equal(result.end, HAUL_GENERATE_END_INTERRUPT);
    teardown(&w);
}

/* Each piece of a valid text is valid; the bytes of a character never come apart. */
static void test_characters(void **state) {
    (void)state;
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
    writing w;
    setup(&w, text, sizeof text - 1);
    run(&w, NULL, 50, NULL, 0);
    assert_text(&w, text);
    assert_int_equal(w.pieces, 5);
    for (int i = 0, begin = 0; i < w.pieces; begin = (int)w.ends[i++]) {
        assert_int_equal(haul_utf8_valid_run(w.text.data + begin, w.ends[i] - begin),
                         w.ends[i] - begin);
    }
    teardown(&w);
}

/* Bytes that are no UTF-8 come through, an unfinished character at the end too. */
static void test_malformed(void **state) {
    (void)state;
    static const char text[] = "\x80\xff\xc3(\xe2\x82|\xf0\x9f\x98";
    writing w;
    setup(&w, text, sizeof text - 1);
    run(&w, NULL, 50, NULL, 0);
    assert_text(&w, text);
    run(&w, NULL, 5, NULL, 0);
    assert_int_equal(w.text.length, 5);
    teardown(&w);
}

static void test_stop(void **state) {
    (void)state;
    static const char *const stops[] = {"xyz", "aab", ""};
    writing w;
    setup(&w, "xyaaaab|", 8);
    haul_generate_result result = run(&w, NULL, 50, stops, 3);
    assert_text(&w, "xyaa");
    assert_int_equal(result.end, HAUL_GENERATE_END_STOP);
    assert_int_equal(result.new_tokens, 7);
    result = run(&w, NULL, 6, stops, 3); /* held back for a stop text that does not come */
    assert_text(&w, "xyaaaa");
    assert_int_equal(result.end, HAUL_GENERATE_END_TOKENS);
    teardown(&w);
}

/* A full context: the text goes on from its last half. The script says at which position the model
 * is, so the new text tells where it was read again. */
static void test_long_text(void **state) {
    (void)state;
    static const char places[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-";
    char prompt[POSITIONS + 37];
    writing w;
    setup(&w, places, POSITIONS);
    haul_generate_result result = run(&w, NULL, 130, NULL, 0);
    assert_int_equal(w.text.length, 64 + 33 + 33);
    assert_memory_equal(w.text.data, places, 64);
    assert_memory_equal(w.text.data + 64, places + 31, 33);
    assert_memory_equal(w.text.data + 97, places + 31, 33);
    assert_int_equal(result.cut_tokens, 0);
    memset(prompt, 'p', sizeof prompt);
    prompt[sizeof prompt - 1] = '\0';
    result = run(&w, prompt, 3, NULL, 0);
    assert_text(&w, "vwx"); /* behind positions 31, 32, 33 */
    assert_int_equal(result.prompt_tokens, 32);
    assert_int_equal(result.cut_tokens, POSITIONS + 36 - 32);
    teardown(&w);
}

static void test_empty_prompt_needs_eod(void **state) {
    (void)state;
    haul_token_list tokens = {0};
    haul_tokenizer *tokenizer;
    assert_ok(haul_tokenizer_open("ByteTokenizer", NULL, 0, &tokenizer));
    assert_ok(haul_generate_encode(tokenizer, "", &tokens));
    assert_int_equal(tokens.count, 1);
    assert_int_equal(tokens.ids[0], EOD);
    haul_token_list_deinit(&tokens);
    haul_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document),
        cmocka_unit_test(test_token_limit),
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_empty_prompt_needs_eod),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
