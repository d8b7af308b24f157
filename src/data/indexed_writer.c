#include "data/indexed.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/string.h"
#include "data/indexed_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PACK_TOKENS = 4096 };

struct haul_indexed_writer {
    haul_file_writer tokens;
    char prefix[HAUL_INDEXED_PATH_BYTES];
    char tokens_path[HAUL_INDEXED_PATH_BYTES]; /* the temporary names */
    char index_path[HAUL_INDEXED_PATH_BYTES];
    haul_dtype dtype;
    int32_t *lengths; /* [sequences] */
    int64_t sequences, lengths_capacity;
    int64_t *bounds; /* [documents], each the sequence count after that document */
    int64_t documents, bounds_capacity;
    int64_t open_tokens; /* of the current document */
    int64_t token_count;
};

haul_dtype haul_indexed_best_dtype(int64_t vocab_size) {
    return vocab_size < 65500 ? HAUL_U16 : HAUL_I32;
}

/* Every check of the names comes before the first file, so a refusal leaves nothing behind. */
static haul_status set_paths(haul_indexed_writer *writer, const char *prefix) {
    char suffix[32], path[HAUL_INDEXED_PATH_BYTES];
    HAUL_TRY(haul_indexed_path(path, prefix, ".bin"));
    haul_text_copy(writer->prefix, sizeof writer->prefix, prefix);
    snprintf(suffix, sizeof suffix, ".bin.tmp-%ld", (long)getpid());
    HAUL_TRY(haul_indexed_path(writer->tokens_path, prefix, suffix));
    snprintf(suffix, sizeof suffix, ".idx.tmp-%ld", (long)getpid());
    return haul_indexed_path(writer->index_path, prefix, suffix);
}

haul_status haul_indexed_writer_create(const char *prefix, haul_dtype dtype,
                                       haul_indexed_writer **out) {
    haul_indexed_writer *writer = haul_calloc(1, sizeof *writer);
    if (writer == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    writer->dtype = dtype;
    haul_status status = set_paths(writer, prefix);
    if (status == HAUL_OK) {
        status = haul_file_create(writer->tokens_path, &writer->tokens);
    }
    if (status != HAUL_OK) {
        free(writer);
        return status;
    }
    *out = writer;
    return HAUL_OK;
}

void haul_indexed_writer_destroy(haul_indexed_writer *writer) {
    if (writer == NULL) {
        return;
    }
    haul_file_abandon(&writer->tokens);
    unlink(writer->tokens_path);
    unlink(writer->index_path);
    free(writer->lengths);
    free(writer->bounds);
    free(writer);
}

int64_t haul_indexed_writer_documents(const haul_indexed_writer *writer) {
    return writer->documents;
}

int64_t haul_indexed_writer_tokens(const haul_indexed_writer *writer) {
    return writer->token_count;
}

static haul_status grow_document(haul_indexed_writer *writer, int64_t tokens) {
    writer->open_tokens += tokens;
    writer->token_count += tokens;
    if (writer->open_tokens > INT32_MAX) {
        haul_fail(HAUL_ERROR_DATA,
                  "document %lld of %s has more than 2^31 - 1 tokens, the limit of an .idx file",
                  (long long)writer->documents, writer->prefix);
        haul_hint("cut the text into documents with --document-separator");
        return HAUL_ERROR_DATA;
    }
    return HAUL_OK;
}

haul_status haul_indexed_writer_end_document(haul_indexed_writer *writer) {
    if (writer->open_tokens > 0) {
        HAUL_TRY(haul_grow(&writer->lengths, &writer->lengths_capacity, writer->sequences + 1,
                           sizeof *writer->lengths));
        writer->lengths[writer->sequences++] = (int32_t)writer->open_tokens;
        writer->open_tokens = 0;
    }
    HAUL_TRY(haul_grow(&writer->bounds, &writer->bounds_capacity, writer->documents + 1,
                       sizeof *writer->bounds));
    writer->bounds[writer->documents++] = writer->sequences;
    return HAUL_OK;
}

haul_status haul_indexed_writer_append(haul_indexed_writer *writer, const void *packed,
                                       const int64_t *lengths, int64_t documents, bool complete) {
    int64_t tokens = 0;
    for (int64_t i = 0; i < documents; i++) {
        HAUL_TRY(grow_document(writer, lengths[i]));
        if (complete || i + 1 < documents) {
            HAUL_TRY(haul_indexed_writer_end_document(writer));
        }
        tokens += lengths[i];
    }
    return haul_file_write(&writer->tokens, packed, tokens * haul_dtype_size(writer->dtype));
}

haul_status haul_indexed_writer_add(haul_indexed_writer *writer, const int32_t *tokens,
                                    int64_t count) {
    uint16_t packed[PACK_TOKENS];
    if (writer->dtype == HAUL_I32) {
        return haul_indexed_writer_append(writer, tokens, &count, 1, false);
    }
    for (int64_t done = 0; done < count; done += PACK_TOKENS) {
        int64_t part = haul_min(count - done, PACK_TOKENS);
        for (int64_t i = 0; i < part; i++) {
            int32_t token = tokens[done + i];
            if (token < 0 || token > UINT16_MAX) {
                return haul_fail(HAUL_ERROR_DATA, "token %d does not fit the u16 of %s.bin", token,
                                 writer->prefix);
            }
            packed[i] = (uint16_t)token;
        }
        HAUL_TRY(haul_indexed_writer_append(writer, packed, &part, 1, false));
    }
    return HAUL_OK;
}

/* Pointers follow from the lengths, so they are made here, a buffer at a time. */
static haul_status write_pointers(const haul_indexed_writer *writer, haul_file_writer *file) {
    int64_t pointers[512];
    int64_t at = 0, count = 0, size = haul_dtype_size(writer->dtype);
    for (int64_t i = 0; i < writer->sequences; i++) {
        pointers[count++] = at;
        at += writer->lengths[i] * size;
        if (count == 512 || i + 1 == writer->sequences) {
            HAUL_TRY(haul_file_write(file, pointers, count * 8));
            count = 0;
        }
    }
    return HAUL_OK;
}

static haul_status write_index(const haul_indexed_writer *writer, haul_file_writer *file) {
    uint8_t header[HAUL_INDEXED_HEADER_BYTES];
    int64_t version = HAUL_INDEXED_VERSION, bounds = writer->documents + 1, zero = 0;
    memcpy(header, haul_indexed_magic, HAUL_INDEXED_MAGIC_BYTES);
    memcpy(header + 9, &version, 8);
    header[17] = writer->dtype == HAUL_U16 ? HAUL_INDEXED_CODE_U16 : HAUL_INDEXED_CODE_I32;
    memcpy(header + 18, &writer->sequences, 8);
    memcpy(header + 26, &bounds, 8);
    HAUL_TRY(haul_file_write(file, header, HAUL_INDEXED_HEADER_BYTES));
    HAUL_TRY(haul_file_write(file, writer->lengths, writer->sequences * 4));
    HAUL_TRY(write_pointers(writer, file));
    HAUL_TRY(haul_file_write(file, &zero, 8));
    HAUL_TRY(haul_file_write(file, writer->bounds, writer->documents * 8));
    return haul_file_finish(file);
}

/* The index comes last: a reader that finds it finds its tokens too. An old index goes first, so
 * that it never stands beside new tokens. */
static haul_status publish(const haul_indexed_writer *writer) {
    char tokens[HAUL_INDEXED_PATH_BYTES], index[HAUL_INDEXED_PATH_BYTES];
    HAUL_TRY(haul_indexed_path(tokens, writer->prefix, ".bin"));
    HAUL_TRY(haul_indexed_path(index, writer->prefix, ".idx"));
    HAUL_TRY(haul_file_remove(index));
    HAUL_TRY(haul_file_rename(writer->tokens_path, tokens));
    return haul_file_rename(writer->index_path, index);
}

haul_status haul_indexed_writer_finish(haul_indexed_writer *writer) {
    if (writer->open_tokens > 0) {
        HAUL_TRY(haul_indexed_writer_end_document(writer));
    }
    HAUL_TRY(haul_file_finish(&writer->tokens));
    haul_file_writer index;
    HAUL_TRY(haul_file_create(writer->index_path, &index));
    haul_status status = write_index(writer, &index);
    haul_file_abandon(&index);
    HAUL_TRY(status);
    return publish(writer);
}
