/* The text is read twice: for its size, and for the place. */
#include "data/text_tail.h"

#include "base/memory.h"

#include <string.h>

typedef struct survey {
    double share;
    haul_text_chunk chunk;
    int64_t documents, bytes; /* so far */
    int64_t wanted;           /* bytes before the tail; the second time, 0 the first */
    haul_text_tail tail;
} survey;

/* Where to cut a text before text + last, but behind text + first: behind the last of a few kinds
 * of places, best kind first; else at the start of a character. */
static int64_t choose_cut(const char *text, int64_t first, int64_t last) {
    for (const char *kind = "\n "; *kind != '\0'; kind++) {
        const char *place = memrchr(text + first, *kind, (size_t)(last - first));
        if (place != NULL) {
            return place + 1 - text;
        }
    }
    while (last > first + 1 && (text[last] & 0xc0) == 0x80) {
        last--;
    }
    return last;
}

/* Counts a document or a part of one, and cuts it when the tail begins in it, so that both sides
 * have text. */
static haul_status look(void *context, int64_t key, const char *text, int64_t bytes, bool ends) {
    survey *self = context;
    int64_t before = self->wanted - self->bytes;
    (void)key;
    if (before > 0 && before <= bytes && bytes > 1) {
        int64_t most = (int64_t)((double)self->wanted * self->share); /* beyond the share */
        int64_t last = haul_min(before, bytes - 1);
        int64_t cut = choose_cut(text, haul_max(last - most, 0), last);
        self->tail.cut = self->chunk.begin;
        self->tail.cut.offset += text - self->chunk.text + cut;
        self->tail.document = self->documents + 1;
        self->tail.bytes = self->bytes + cut;
    }
    self->documents += ends;
    self->bytes += bytes;
    return HAUL_OK;
}

static haul_status look_at_chunks(const haul_text_input *input, haul_text_reader *reader,
                                  survey *self) {
    bool more = true;
    while (more && (double)self->documents * self->share < 1) {
        HAUL_TRY(haul_text_reader_next(reader, &self->chunk, &more));
        if (more) {
            HAUL_TRY(haul_text_chunk_split(input, &self->chunk, look, self));
        }
    }
    return HAUL_OK;
}

static haul_status look_at_all(const haul_text_input *input, survey *self) {
    haul_text_reader *reader;
    self->documents = self->bytes = 0;
    HAUL_TRY(haul_text_reader_open(input, true, &reader));
    haul_status status = look_at_chunks(input, reader, self);
    haul_text_chunk_deinit(&self->chunk);
    haul_text_reader_close(reader);
    return status;
}

haul_status haul_text_find_tail(const haul_text_input *input, double share, haul_text_tail *out) {
    survey self = {.share = share};
    bool json;
    *out = (haul_text_tail){0};
    HAUL_TRY(haul_text_input_check(input, &json));
    if (json) {
        return HAUL_OK;
    }
    HAUL_TRY(look_at_all(input, &self));
    if ((double)self.documents * share >= 1) {
        return HAUL_OK;
    }
    self.wanted = (int64_t)((double)self.bytes * (1 - share));
    HAUL_TRY(look_at_all(input, &self));
    if (self.tail.bytes > 0) {
        *out = self.tail;
        out->bytes = self.bytes - self.tail.bytes;
    }
    return HAUL_OK;
}
