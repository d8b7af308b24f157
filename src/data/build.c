/* Workers take chunks of the input in turn, encode them at once, and write them in the order in
 * which they were taken, so the output is the same for any number of workers. Which chunk failed
 * first is decided in that order too. */
#include "data/build.h"

#include "base/memory.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "data/indexed.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATH_BYTES = 1024, TEXT_BYTES = 512, TARGETS = 2, LANES = 16 };

/* The encoded documents of one key in one chunk. */
typedef struct batch {
    haul_token_list tokens;
    int64_t *lengths; /* [documents], in tokens */
    int64_t documents, lengths_capacity;
    uint16_t *narrow; /* the tokens again, when the files hold u16 */
    int64_t narrow_capacity;
} batch;

/* What one worker holds. */
typedef struct worker {
    const haul_build_options *options;
    haul_text_chunk chunk;
    batch *batches; /* [keys] */
    haul_dtype dtype;
    int64_t text_bytes;
} worker;

typedef struct pipeline {
    haul_build_options options;
    haul_dtype dtype;
    haul_indexed_writer **writers; /* [keys][TARGETS] */
    worker *workers;

    pthread_mutex_t reading; /* guards reader, taken and exhausted */
    haul_text_reader *reader;
    int64_t taken;
    bool exhausted;

    pthread_mutex_t turn; /* guards all below */
    pthread_cond_t turned;
    int64_t written;  /* chunks */
    int64_t document; /* the ordinal of the next one */
    int64_t text_bytes;
    haul_status status; /* the first failure; its message is of another thread */
    char message[TEXT_BYTES], hint[TEXT_BYTES];
} pipeline;

static const char *const text_key[] = {"text"};

haul_status haul_build_prefix(const char *output_prefix, const char *key, bool held_out, char *path,
                              int64_t capacity) {
    int length = snprintf(path, (size_t)capacity, "%s_%s%s_document", output_prefix,
                          held_out ? "valid_" : "", key);
    if (length >= capacity) {
        return haul_fail(HAUL_ERROR_USAGE, "--output-prefix %.60s... is too long", output_prefix);
    }
    return HAUL_OK;
}

bool haul_build_holds_out(uint64_t seed, int64_t document, double share) {
    if (share <= 0) {
        return false; /* most data sets: no need to draw */
    }
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)document, (uint32_t)((uint64_t)document >> 32), 0,
                                 0x686f6c64}; /* "hold": no other stream uses it */
    return haul_uniform(haul_philox_4x32(key, counter).word[0]) < share;
}

static haul_status add_document(void *context, int64_t key, const char *text, int64_t bytes,
                                bool ends) {
    worker *self = context;
    batch *to = &self->batches[key];
    const haul_build_options *options = self->options;
    int64_t before = to->tokens.count;
    bool continues = to->documents == 0 && self->chunk.continues;
    HAUL_TRY(haul_tokenizer_encode(options->tokenizer, text, bytes, &to->tokens));
    if (options->append_eod && ends && (continues || to->tokens.count > before)) {
        int32_t eod = haul_tokenizer_eod(options->tokenizer);
        HAUL_TRY(haul_token_list_append(&to->tokens, &eod, 1));
    }
    HAUL_TRY(haul_grow((void **)&to->lengths, &to->lengths_capacity, to->documents + 1,
                       sizeof *to->lengths));
    to->lengths[to->documents++] = to->tokens.count - before;
    self->text_bytes += bytes;
    return HAUL_OK;
}

static haul_status narrow(batch *of) {
    int64_t count = of->tokens.count, i = 0;
    HAUL_TRY(haul_grow((void **)&of->narrow, &of->narrow_capacity, count, sizeof *of->narrow));
    const int32_t *ids = of->tokens.ids;
    for (; i + LANES <= count; i += LANES) { /* the fixed inner length makes it a vector loop */
        for (int lane = 0; lane < LANES; lane++) {
            of->narrow[i + lane] = (uint16_t)ids[i + lane];
        }
    }
    for (; i < count; i++) {
        of->narrow[i] = (uint16_t)ids[i];
    }
    return HAUL_OK;
}

static haul_status encode_chunk(worker *self) {
    int64_t keys = self->options->input.json_key_count;
    for (int64_t key = 0; key < keys; key++) {
        self->batches[key].tokens.count = 0;
        self->batches[key].documents = 0;
    }
    self->text_bytes = 0;
    HAUL_TRY(haul_text_chunk_split(&self->options->input, &self->chunk, add_document, self));
    for (int64_t key = 0; key < keys && self->dtype == HAUL_U16; key++) {
        HAUL_TRY(narrow(&self->batches[key]));
    }
    return HAUL_OK;
}

/* Writes a batch as runs of documents that go to the same file. */
static haul_status write_batch(pipeline *line, worker *self, int64_t key) {
    const batch *from = &self->batches[key];
    const haul_build_options *options = self->options;
    const char *packed =
        self->dtype == HAUL_U16 ? (const char *)from->narrow : (const char *)from->tokens.ids;
    for (int64_t begin = 0, end; begin < from->documents; begin = end) {
        bool held_out =
            haul_build_holds_out(options->seed, line->document + begin, options->holdout);
        int64_t tokens = 0;
        for (end = begin; end < from->documents; end++) {
            if (haul_build_holds_out(options->seed, line->document + end, options->holdout) !=
                held_out) {
                break;
            }
            tokens += from->lengths[end];
        }
        bool complete = end < from->documents || !self->chunk.open;
        HAUL_TRY(haul_indexed_writer_append(line->writers[TARGETS * key + held_out], packed,
                                            from->lengths + begin, end - begin, complete));
        packed += tokens * haul_dtype_size(self->dtype);
    }
    return HAUL_OK;
}

static haul_status write_chunk(pipeline *line, worker *self) {
    for (int64_t key = 0; key < self->options->input.json_key_count; key++) {
        HAUL_TRY(write_batch(line, self, key));
    }
    line->document += self->batches[0].documents - self->chunk.open;
    line->text_bytes += self->text_bytes;
    return HAUL_OK;
}

/* Takes the next chunk and its number. False when there is none. */
static bool take_chunk(pipeline *line, worker *self, int64_t *number, haul_status *status) {
    bool more = false;
    pthread_mutex_lock(&line->reading);
    if (!line->exhausted) {
        *status = haul_text_reader_next(line->reader, &self->chunk, &more);
        line->exhausted = !more || *status != HAUL_OK;
        more = more || *status != HAUL_OK;
        *number = line->taken;
        line->taken += more;
    }
    pthread_mutex_unlock(&line->reading);
    return more;
}

static void report_progress(pipeline *line) {
    if (line->options.progress != NULL) {
        pthread_mutex_lock(&line->reading);
        int64_t done = haul_text_reader_done(line->reader);
        pthread_mutex_unlock(&line->reading);
        line->options.progress(line->options.progress_context, done,
                               haul_text_reader_total(line->reader));
    }
}

/* Waits for the chunk's turn and writes it, or records its failure. False ends the worker. */
static bool finish_chunk(pipeline *line, worker *self, int64_t number, haul_status status) {
    pthread_mutex_lock(&line->turn);
    while (line->written != number && line->status == HAUL_OK) {
        pthread_cond_wait(&line->turned, &line->turn);
    }
    if (line->status == HAUL_OK) {
        if (status == HAUL_OK) {
            status = write_chunk(line, self);
        }
        if (status == HAUL_OK) {
            report_progress(line);
        } else {
            line->status = status;
            haul_text_copy(line->message, TEXT_BYTES, haul_error_message());
            haul_text_copy(line->hint, TEXT_BYTES, haul_error_hint());
        }
        line->written++;
    }
    bool go_on = line->status == HAUL_OK;
    pthread_cond_broadcast(&line->turned);
    pthread_mutex_unlock(&line->turn);
    return go_on;
}

static void work(void *context, int64_t begin, int64_t end, int thread) {
    pipeline *line = context;
    worker *self = &line->workers[thread];
    int64_t number = 0;
    haul_status status = HAUL_OK;
    (void)begin;
    (void)end;
    while (take_chunk(line, self, &number, &status)) {
        if (status == HAUL_OK) {
            status = encode_chunk(self);
        }
        if (!finish_chunk(line, self, number, status)) {
            return;
        }
    }
}

static haul_status make_workers(pipeline *line) {
    line->workers = haul_calloc(line->options.workers, sizeof *line->workers);
    if (line->workers == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int i = 0; i < line->options.workers; i++) {
        worker *self = &line->workers[i];
        self->options = &line->options;
        self->dtype = line->dtype;
        self->batches = haul_calloc(line->options.input.json_key_count, sizeof *self->batches);
        if (self->batches == NULL) {
            return HAUL_ERROR_MEMORY;
        }
    }
    return HAUL_OK;
}

static haul_status make_writers(pipeline *line) {
    const haul_build_options *options = &line->options;
    int64_t keys = options->input.json_key_count;
    char path[PATH_BYTES];
    line->writers = haul_calloc(keys * TARGETS, sizeof *line->writers);
    if (line->writers == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < keys * TARGETS; i++) {
        bool held_out = i % TARGETS == 1;
        if (!held_out || options->holdout > 0) {
            HAUL_TRY(haul_build_prefix(options->output_prefix,
                                       options->input.json_keys[i / TARGETS], held_out, path,
                                       PATH_BYTES));
            HAUL_TRY(haul_indexed_writer_create(path, line->dtype, &line->writers[i]));
        }
    }
    return HAUL_OK;
}

static haul_status finish_writers(pipeline *line, haul_build_result *result) {
    *result = (haul_build_result){.text_bytes = line->text_bytes};
    for (int64_t i = 0; i < line->options.input.json_key_count * TARGETS; i++) {
        if (line->writers[i] != NULL) {
            HAUL_TRY(haul_indexed_writer_finish(line->writers[i]));
            result->documents[i % TARGETS] += haul_indexed_writer_documents(line->writers[i]);
            result->tokens[i % TARGETS] += haul_indexed_writer_tokens(line->writers[i]);
        }
    }
    return HAUL_OK;
}

static void free_pipeline(pipeline *line) {
    int64_t keys = line->options.input.json_key_count;
    for (int64_t i = 0; line->writers != NULL && i < keys * TARGETS; i++) {
        haul_indexed_writer_destroy(line->writers[i]);
    }
    free(line->writers);
    for (int w = 0; line->workers != NULL && w < line->options.workers; w++) {
        worker *self = &line->workers[w];
        for (int64_t key = 0; self->batches != NULL && key < keys; key++) {
            haul_token_list_deinit(&self->batches[key].tokens);
            free(self->batches[key].lengths);
            free(self->batches[key].narrow);
        }
        free(self->batches);
        haul_text_chunk_deinit(&self->chunk);
    }
    free(line->workers);
    haul_text_reader_close(line->reader);
    pthread_mutex_destroy(&line->reading);
    pthread_mutex_destroy(&line->turn);
    pthread_cond_destroy(&line->turned);
}

static haul_status check_options(const haul_build_options *options) {
    if (options->workers < 1 || options->workers > 1024) {
        return haul_fail(HAUL_ERROR_USAGE, "--workers is %d, must be 1 to 1024", options->workers);
    }
    if (!(options->holdout >= 0 && options->holdout <= 1)) {
        return haul_fail(HAUL_ERROR_USAGE, "--holdout is %g, must be 0 to 1", options->holdout);
    }
    if (options->append_eod && haul_tokenizer_eod(options->tokenizer) < 0) {
        haul_fail(HAUL_ERROR_CONFIG, "--append-eod: this tokenizer has no end-of-document token");
        haul_hint("name it as eos_token in tokenizer_config.json beside tokenizer.json");
        return HAUL_ERROR_CONFIG;
    }
    return HAUL_OK;
}

static haul_status run(pipeline *line, haul_build_result *result) {
    const haul_tokenizer *tokenizer = line->options.tokenizer;
    HAUL_TRY(haul_text_reader_open(&line->options.input, haul_tokenizer_is_bytewise(tokenizer),
                                   &line->reader));
    HAUL_TRY(make_workers(line));
    HAUL_TRY(make_writers(line));
    haul_parallel_for(line->options.workers, line->options.workers, 1, work, line);
    if (line->status != HAUL_OK) {
        haul_fail(line->status, "%s", line->message);
        if (line->hint[0] != '\0') {
            haul_hint("%s", line->hint);
        }
        return line->status;
    }
    if (line->text_bytes == 0) {
        haul_fail(HAUL_ERROR_DATA, "there is no text in %s%s", line->options.input.files[0],
                  line->options.input.file_count > 1 ? " and the other files" : "");
        return HAUL_ERROR_DATA;
    }
    return finish_writers(line, result);
}

haul_status haul_build(const haul_build_options *options, haul_build_result *result) {
    pipeline line = {.options = *options};
    bool json;
    HAUL_TRY(check_options(options));
    HAUL_TRY(haul_text_input_check(&options->input, &json));
    if (!json || options->input.json_key_count == 0) {
        line.options.input.json_keys = text_key;
        line.options.input.json_key_count = 1;
    }
    line.dtype = haul_indexed_best_dtype(haul_tokenizer_vocab_size(options->tokenizer));
    pthread_mutex_init(&line.reading, NULL);
    pthread_mutex_init(&line.turn, NULL);
    pthread_cond_init(&line.turned, NULL);
    haul_build_result made;
    haul_status status = run(&line, &made);
    free_pipeline(&line);
    if (status == HAUL_OK) {
        *result = made;
    }
    return status;
}
