#include "data/text_reader.h"

#include "base/memory.h"
#include "data/separator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { SLAB_BYTES = 128 * 1024 };

struct haul_text_reader {
    const haul_text_input *input;
    bool json, may_cut;
    int64_t next_file;
    gzFile file; /* NULL between files */
    int64_t line;
    int64_t offset; /* in the file, of the next chunk */
    bool inside;    /* the last chunk left a document open */
    char *pending;  /* read, but belongs to the next chunk */
    int64_t pending_bytes, pending_capacity;
    int64_t done, total; /* bytes of finished files, of all files */
};

static bool is_json(const char *name) {
    static const char *const endings[] = {".json", ".jsonl", ".json.gz", ".jsonl.gz"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t ending = strlen(endings[i]);
        if (length > ending && strcmp(name + length - ending, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

haul_status haul_text_input_check(const haul_text_input *input, bool *json) {
    if (input->file_count < 1) {
        return haul_fail(HAUL_ERROR_USAGE, "--input names no file");
    }
    *json = is_json(input->files[0]);
    for (int64_t i = 1; i < input->file_count; i++) {
        if (is_json(input->files[i]) != *json) {
            haul_fail(HAUL_ERROR_USAGE, "--input mixes text and JSONL: %s and %s", input->files[0],
                      input->files[i]);
            haul_hint("build one data set of each, and blend them with --data-path");
            return HAUL_ERROR_USAGE;
        }
    }
    return HAUL_OK;
}

void haul_text_chunk_deinit(haul_text_chunk *chunk) {
    free(chunk->text);
    *chunk = (haul_text_chunk){0};
}

static haul_status fail_open(const char *name) {
    int code = errno;
    haul_fail(HAUL_ERROR_NO_INPUT, "cannot open %s: %s", name,
              code != 0 ? strerror(code) : "out of memory");
    haul_hint("check the name after --input");
    return HAUL_ERROR_NO_INPUT;
}

haul_status haul_text_reader_open(const haul_text_input *input, bool may_cut,
                                  haul_text_reader **out) {
    bool json;
    int64_t total = 0;
    HAUL_TRY(haul_text_input_check(input, &json));
    for (int64_t i = 0; i < input->file_count; i++) {
        struct stat info;
        if (stat(input->files[i], &info) != 0) {
            return fail_open(input->files[i]);
        }
        total += info.st_size;
    }
    haul_text_reader *reader = haul_calloc(1, sizeof *reader);
    if (reader == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    reader->input = input;
    reader->json = json;
    reader->may_cut = may_cut && !json && input->separator == NULL;
    reader->total = total;
    *out = reader;
    return HAUL_OK;
}

void haul_text_reader_close(haul_text_reader *reader) {
    if (reader != NULL) {
        if (reader->file != NULL) {
            gzclose_r(reader->file);
        }
        free(reader->pending);
        free(reader);
    }
}

int64_t haul_text_reader_done(const haul_text_reader *reader) {
    return reader->done + (reader->file != NULL ? gzoffset(reader->file) : 0);
}

int64_t haul_text_reader_total(const haul_text_reader *reader) {
    return reader->total;
}

static const char *current_name(const haul_text_reader *reader) {
    return reader->input->files[reader->next_file - 1];
}

/* Adds up to a slab of the file to the chunk. *count is 0 at its end. */
static haul_status read_slab(haul_text_reader *reader, haul_text_chunk *chunk, int64_t *count) {
    HAUL_TRY(haul_grow(&chunk->text, &chunk->capacity, chunk->bytes + SLAB_BYTES, 1));
    int got = gzread(reader->file, chunk->text + chunk->bytes, SLAB_BYTES);
    int code = Z_OK;
    const char *reason = gzerror(reader->file, &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
        haul_fail(code == Z_ERRNO ? HAUL_ERROR_IO : HAUL_ERROR_DATA, "cannot read %s: %s",
                  current_name(reader), code == Z_ERRNO ? strerror(errno) : reason);
        return code == Z_ERRNO ? HAUL_ERROR_IO : HAUL_ERROR_DATA;
    }
    *count = got;
    chunk->bytes += got;
    return HAUL_OK;
}

static void finish_file(haul_text_reader *reader) {
    reader->done += gzoffset(reader->file);
    gzclose_r(reader->file);
    reader->file = NULL;
}

/* Where the last whole document in text[0 .. bytes) ends, 0 for nowhere. *from, the start of a line
 * before which nothing ends, moves on so that no line is looked at twice. */
static int64_t find_cut(const haul_text_reader *reader, const haul_text_chunk *chunk,
                        int64_t *from) {
    int64_t end = chunk->bytes, last_line = *from, cut = 0;
    while (cut == 0 && end > *from) {
        const char *newline = memrchr(chunk->text + *from, '\n', (size_t)(end - *from));
        if (newline == NULL) {
            break;
        }
        int64_t line_end = newline - chunk->text;
        last_line = haul_max(last_line, line_end + 1);
        newline = memrchr(chunk->text + *from, '\n', (size_t)(line_end - *from));
        end = newline != NULL ? newline + 1 - chunk->text : *from;
        if (reader->json ||
            haul_is_separator(chunk->text + end, line_end - end, reader->input->separator)) {
            cut = line_end + 1;
        }
    }
    *from = last_line;
    return cut;
}

static haul_status keep_rest(haul_text_reader *reader, haul_text_chunk *chunk, int64_t cut) {
    int64_t rest = chunk->bytes - cut;
    chunk->bytes = cut;
    reader->pending_bytes = rest;
    if (rest > 0) {
        HAUL_TRY(haul_grow(&reader->pending, &reader->pending_capacity, rest, 1));
        memcpy(reader->pending, chunk->text + cut, (size_t)rest);
    }
    return HAUL_OK;
}

/* Where in the chunk input->cut is, 0 when it is not in what was read so far. */
static int64_t find_forced_cut(const haul_text_reader *reader, const haul_text_chunk *chunk) {
    const haul_text_place *cut = &reader->input->cut;
    int64_t place = cut->offset - reader->offset;
    bool here = cut->file == reader->next_file - 1 && place > 0 && place <= chunk->bytes;
    return here ? place : 0;
}

/* Reads until a document ends, or one slab when documents may be cut. */
static haul_status fill(haul_text_reader *reader, haul_text_chunk *chunk) {
    int64_t from = 0, count, cut = 0;
    HAUL_TRY(haul_grow(&chunk->text, &chunk->capacity, reader->pending_bytes, 1));
    if (reader->pending_bytes > 0) {
        memcpy(chunk->text, reader->pending, (size_t)reader->pending_bytes);
    }
    chunk->bytes = reader->pending_bytes;
    reader->pending_bytes = 0;
    do {
        HAUL_TRY(read_slab(reader, chunk, &count));
        cut = find_forced_cut(reader, chunk);
        if (cut > 0) {
            break;
        }
        if (count == 0) {
            finish_file(reader);
            return HAUL_OK;
        }
        if (reader->may_cut) {
            chunk->open = true;
            return HAUL_OK;
        }
        /* Only here can a line end behind `from`, so a long line is searched once. */
        bool ends = memchr(chunk->text + chunk->bytes - count, '\n', (size_t)count) != NULL;
        if (ends && (reader->json || reader->input->separator != NULL)) {
            cut = find_cut(reader, chunk, &from);
        }
    } while (cut == 0);
    return keep_rest(reader, chunk, cut);
}

static int64_t count_lines(const haul_text_chunk *chunk) {
    int64_t lines = 0;
    const char *at = chunk->text, *end = chunk->text + chunk->bytes;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        lines++;
        at++;
    }
    return lines;
}

haul_status haul_text_reader_next(haul_text_reader *reader, haul_text_chunk *chunk, bool *more) {
    chunk->bytes = 0;
    chunk->open = false;
    *more = reader->file != NULL || reader->next_file < reader->input->file_count;
    if (!*more) {
        return HAUL_OK;
    }
    if (reader->file == NULL) {
        errno = 0;
        reader->file = gzopen(reader->input->files[reader->next_file++], "rbe");
        if (reader->file == NULL) {
            return fail_open(current_name(reader));
        }
        reader->line = 1;
        reader->offset = 0;
    }
    chunk->file = current_name(reader);
    chunk->begin = (haul_text_place){reader->next_file - 1, reader->offset};
    chunk->line = reader->line;
    chunk->continues = reader->inside;
    HAUL_TRY(fill(reader, chunk));
    reader->inside = chunk->open;
    reader->offset += chunk->bytes;
    reader->line += reader->json ? count_lines(chunk) : 0;
    return HAUL_OK;
}
