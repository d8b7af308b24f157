/* Workers read chunks in turn, each into the next slot of a ring, and encode them at once. Whoever
 * completes the next chunk in order writes it, and all that are complete behind it, while the
 * others go on. So the output is the same for any number of workers, and which chunk failed first
 * is decided in that order too. */
#include "data/build.h"

#include "base/memory.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "data/indexed.h"
#include "data/text_tail.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024, TEXT_BYTES = 512, TARGETS = 2, SLOTS_A_WORKER = 3 };

/* The encoded documents of one key in one chunk. */
typedef struct batch {
    char *packed; /* [bytes], the tokens as the files hold them */
    int64_t bytes, capacity;
    int64_t *lengths; /* [documents], in tokens */
    int64_t documents, lengths_capacity;
} batch;

typedef struct failure {
    haul_status status;
    char message[TEXT_BYTES], hint[TEXT_BYTES]; /* of the thread that failed */
} failure;

/* A chunk on its way. */
typedef struct slot {
    const haul_build_options *options;
    haul_dtype dtype;
    haul_text_chunk chunk;
    haul_token_list document;       /* one at a time, to stay in the cache */
    batch *batches;                 /* [keys] */
    int64_t text_bytes, file_bytes; /* of its documents; of the files up to its end */
    failure failure;
    bool complete; /* encoded, or failed; guarded by the pipeline's turn */
} slot;

typedef struct pipeline {
    haul_build_options options;
    haul_dtype dtype;
    haul_text_tail tail;
    haul_indexed_writer **writers; /* [keys][TARGETS] */
    slot *slots;                   /* [slot_count], that of chunk n at n % slot_count */
    int64_t slot_count;

    pthread_mutex_t reading; /* guards reader, taken and exhausted; taken before `turn` */
    haul_text_reader *reader;
    int64_t taken;
    bool exhausted;

    pthread_mutex_t turn; /* guards written, writing and failure */
    pthread_cond_t turned;
    int64_t written; /* chunks */
    bool writing;
    failure failure; /* the first */

    int64_t document; /* the ordinal of the next one; this and below of the thread that writes */
    int64_t text_bytes;
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

static void narrow(const haul_token_list *tokens, uint16_t *packed) {
    const int32_t *ids = tokens->ids;
#pragma omp simd
    for (int64_t i = 0; i < tokens->count; i++) {
        packed[i] = (uint16_t)ids[i];
    }
}

static haul_status pack(const haul_token_list *tokens, haul_dtype dtype, batch *to) {
    int64_t bytes = tokens->count * haul_dtype_size(dtype);
    HAUL_TRY(haul_grow(&to->packed, &to->capacity, to->bytes + bytes, 1));
    if (dtype == HAUL_U16) {
        narrow(tokens, (uint16_t *)(void *)(to->packed + to->bytes)); /* bytes is even */
    } else if (bytes > 0) {
        memcpy(to->packed + to->bytes, tokens->ids, (size_t)bytes);
    }
    to->bytes += bytes;
    return HAUL_OK;
}

static haul_status add_document(void *context, int64_t key, const char *text, int64_t bytes,
                                bool ends) {
    slot *self = context;
    batch *to = &self->batches[key];
    haul_token_list *tokens = &self->document;
    const haul_build_options *options = self->options;
    bool continues = to->documents == 0 && self->chunk.continues;
    tokens->count = 0;
    HAUL_TRY(haul_tokenizer_encode(options->tokenizer, text, bytes, tokens));
    if (options->append_eod && ends && (continues || tokens->count > 0)) {
        int32_t eod = haul_tokenizer_eod(options->tokenizer);
        HAUL_TRY(haul_token_list_append(tokens, &eod, 1));
    }
    HAUL_TRY(
        haul_grow(&to->lengths, &to->lengths_capacity, to->documents + 1, sizeof *to->lengths));
    to->lengths[to->documents++] = tokens->count;
    self->text_bytes += bytes;
    return pack(tokens, self->dtype, to);
}

static haul_status encode(slot *self) {
    for (int64_t key = 0; key < self->options->input.json_key_count; key++) {
        self->batches[key].bytes = 0;
        self->batches[key].documents = 0;
    }
    self->text_bytes = 0;
    return haul_text_chunk_split(&self->options->input, &self->chunk, add_document, self);
}

static bool holds_out(const pipeline *line, int64_t document) {
    return line->tail.bytes > 0
               ? document >= line->tail.document
               : haul_build_holds_out(line->options.seed, document, line->options.holdout);
}

/* Writes a batch as runs of documents that go to the same file. */
static haul_status write_batch(pipeline *line, const slot *self, int64_t key) {
    const batch *from = &self->batches[key];
    const char *packed = from->packed;
    for (int64_t begin = 0, end; begin < from->documents; begin = end) {
        bool held_out = holds_out(line, line->document + begin);
        int64_t tokens = 0;
        for (end = begin; end < from->documents; end++) {
            if (holds_out(line, line->document + end) != held_out) {
                break;
            }
            tokens += from->lengths[end];
        }
        bool complete = end < from->documents || !self->chunk.open;
        HAUL_TRY(haul_indexed_writer_append(line->writers[TARGETS * key + held_out], packed,
                                            from->lengths + begin, end - begin, complete));
        packed += tokens * haul_dtype_size(line->dtype);
    }
    return HAUL_OK;
}

static haul_status write_slot(pipeline *line, const slot *self) {
    for (int64_t key = 0; key < line->options.input.json_key_count; key++) {
        HAUL_TRY(write_batch(line, self, key));
    }
    line->document += self->batches[0].documents - self->chunk.open;
    line->text_bytes += self->text_bytes;
    if (line->options.progress != NULL) {
        line->options.progress(line->options.progress_context, self->file_bytes,
                               haul_text_reader_total(line->reader));
    }
    return HAUL_OK;
}

static void keep_failure(failure *to, haul_status status) {
    to->status = status;
    if (status != HAUL_OK) {
        haul_text_copy(to->message, TEXT_BYTES, haul_error_message());
        haul_text_copy(to->hint, TEXT_BYTES, haul_error_hint());
    }
}

/* Waits until the slot of a chunk is free. False when the build has failed. */
static bool await_slot(pipeline *line, int64_t chunk) {
    pthread_mutex_lock(&line->turn);
    while (chunk - line->written >= line->slot_count && line->failure.status == HAUL_OK) {
        pthread_cond_wait(&line->turned, &line->turn);
    }
    bool ok = line->failure.status == HAUL_OK;
    pthread_mutex_unlock(&line->turn);
    return ok;
}

/* Reads the next chunk into its slot; a failure to read is that of the chunk. NULL at the end. */
static slot *take_chunk(pipeline *line) {
    slot *taken = NULL;
    pthread_mutex_lock(&line->reading);
    if (!line->exhausted && await_slot(line, line->taken)) {
        bool more = false;
        slot *next = &line->slots[line->taken % line->slot_count];
        keep_failure(&next->failure, haul_text_reader_next(line->reader, &next->chunk, &more));
        next->file_bytes = haul_text_reader_done(line->reader);
        line->exhausted = !more || next->failure.status != HAUL_OK;
        if (more || next->failure.status != HAUL_OK) {
            line->taken++;
            taken = next;
        }
    }
    pthread_mutex_unlock(&line->reading);
    return taken;
}

/* The chunk to write next, NULL when it is still on its way or the build has failed. */
static slot *next_complete(const pipeline *line) {
    slot *next = &line->slots[line->written % line->slot_count];
    return next->complete && line->failure.status == HAUL_OK ? next : NULL;
}

/* Writes what is complete, in order, unless another thread is at it. Called with `turn` held, which
 * is released while it writes. */
static void write_complete(pipeline *line) {
    slot *next;
    if (line->writing) {
        return;
    }
    line->writing = true;
    while ((next = next_complete(line)) != NULL) {
        pthread_mutex_unlock(&line->turn);
        if (next->failure.status == HAUL_OK) {
            keep_failure(&next->failure, write_slot(line, next));
        }
        pthread_mutex_lock(&line->turn);
        if (next->failure.status != HAUL_OK) {
            line->failure = next->failure;
        }
        next->complete = false;
        line->written++;
        pthread_cond_broadcast(&line->turned);
    }
    line->writing = false;
}

static void work(void *context, int64_t begin, int64_t end, int thread) {
    pipeline *line = context;
    slot *self;
    (void)begin;
    (void)end;
    (void)thread;
    while ((self = take_chunk(line)) != NULL) {
        if (self->failure.status == HAUL_OK) {
            keep_failure(&self->failure, encode(self));
        }
        pthread_mutex_lock(&line->turn);
        self->complete = true;
        write_complete(line);
        pthread_mutex_unlock(&line->turn);
    }
}

static haul_status make_slots(pipeline *line) {
    int64_t count = (int64_t)line->options.workers * SLOTS_A_WORKER;
    line->slots = haul_calloc(count, sizeof *line->slots);
    if (line->slots == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    line->slot_count = count;
    for (int64_t i = 0; i < count; i++) {
        slot *self = &line->slots[i];
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
    *result = (haul_build_result){.text_bytes = line->text_bytes, .tail_bytes = line->tail.bytes};
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
    for (int64_t i = 0; i < line->slot_count; i++) {
        slot *self = &line->slots[i];
        for (int64_t key = 0; self->batches != NULL && key < keys; key++) {
            free(self->batches[key].packed);
            free(self->batches[key].lengths);
        }
        free(self->batches);
        haul_token_list_deinit(&self->document);
        haul_text_chunk_deinit(&self->chunk);
    }
    free(line->slots);
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

/* Too few documents for some of them to be held out: the end of the text is. */
static haul_status cut_tail(pipeline *line) {
    if (line->options.holdout > 0 && line->options.holdout < 1) {
        HAUL_TRY(haul_text_find_tail(&line->options.input, line->options.holdout, &line->tail));
        line->options.input.cut = line->tail.cut;
    }
    return HAUL_OK;
}

static haul_status run(pipeline *line, haul_build_result *result) {
    const haul_tokenizer *tokenizer = line->options.tokenizer;
    HAUL_TRY(cut_tail(line));
    HAUL_TRY(haul_text_reader_open(&line->options.input, haul_tokenizer_is_bytewise(tokenizer),
                                   &line->reader));
    HAUL_TRY(make_slots(line));
    HAUL_TRY(make_writers(line));
    haul_parallel_for(line->options.workers, line->options.workers, 1, work, line);
    const failure *first = &line->failure;
    if (first->status != HAUL_OK) {
        haul_fail(first->status, "%s", first->message);
        if (first->hint[0] != '\0') {
            haul_hint("%s", first->hint);
        }
        return first->status;
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
