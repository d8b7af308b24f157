#include "data/indexed.h"

#include "base/file.h"
#include "base/memory.h"
#include "data/indexed_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct haul_indexed {
    haul_file_map index;
    haul_file_map tokens;
    const uint8_t *lengths;  /* i32[sequences] */
    const uint8_t *pointers; /* i64[sequences] */
    const uint8_t *bounds;   /* i64[documents + 1] */
    int64_t sequences;
    int64_t documents;
    int64_t token_count;
    haul_dtype dtype;
    char prefix[HAUL_INDEXED_PATH_BYTES];
};

/* Code -> dtype; HAUL_DTYPES marks codes that are no token type (6 f64, 7 f32) or not in use. */
static const haul_dtype dtype_of_code[] = {
    HAUL_DTYPES, HAUL_U8, HAUL_I8, HAUL_I16, HAUL_I32, HAUL_I64, HAUL_DTYPES, HAUL_DTYPES, HAUL_U16,
};

static int32_t load_i32(const uint8_t *array, int64_t index) {
    int32_t value;
    memcpy(&value, array + index * 4, sizeof value);
    return value;
}

static int64_t load_i64(const uint8_t *array, int64_t index) {
    int64_t value;
    memcpy(&value, array + index * 8, sizeof value);
    return value;
}

static int64_t load_token(const uint8_t *at, haul_dtype dtype) {
    uint16_t u16;
    int16_t i16;
    switch (dtype) {
    case HAUL_U8:
        return *at;
    case HAUL_I8:
        return (int8_t)*at;
    case HAUL_U16:
        memcpy(&u16, at, sizeof u16);
        return u16;
    case HAUL_I16:
        memcpy(&i16, at, sizeof i16);
        return i16;
    case HAUL_I32:
        return load_i32(at, 0);
    default:
        return load_i64(at, 0);
    }
}

haul_status haul_indexed_path(char *path, const char *prefix, const char *suffix) {
    if (snprintf(path, HAUL_INDEXED_PATH_BYTES, "%s%s", prefix, suffix) >=
        HAUL_INDEXED_PATH_BYTES) {
        return haul_fail(HAUL_ERROR_USAGE, "the data prefix %.60s... is too long", prefix);
    }
    return HAUL_OK;
}

static haul_status fail_index(const haul_indexed *indexed, const char *what, long long is,
                              const char *must) {
    haul_fail(HAUL_ERROR_DATA, "%s.idx: %s is %lld, must be %s", indexed->prefix, what, is, must);
    haul_hint("build it again with: haul data build");
    return HAUL_ERROR_DATA;
}

/* Reads the 34 bytes of the header; counts are still unchecked against the size of the file. */
static haul_status read_header(haul_indexed *indexed) {
    const uint8_t *header = indexed->index.data;
    if (indexed->index.bytes < HAUL_INDEXED_HEADER_BYTES) {
        return fail_index(indexed, "its size in bytes", indexed->index.bytes, "at least 34");
    }
    if (memcmp(header, haul_indexed_magic, HAUL_INDEXED_MAGIC_BYTES) != 0) {
        haul_fail(HAUL_ERROR_DATA, "%s.idx does not start with MMIDIDX: no Megatron index",
                  indexed->prefix);
        haul_hint("build it from text with: haul data build");
        return HAUL_ERROR_DATA;
    }
    int64_t version = load_i64(header + 9, 0);
    if (version != HAUL_INDEXED_VERSION) {
        return fail_index(indexed, "the version", version, "1");
    }
    uint8_t code = header[17];
    if (code >= sizeof dtype_of_code / sizeof *dtype_of_code ||
        dtype_of_code[code] == HAUL_DTYPES) {
        return fail_index(indexed, "the dtype code", code,
                          "of an integer (1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16)");
    }
    indexed->dtype = dtype_of_code[code];
    indexed->sequences = load_i64(header + 18, 0);
    int64_t bounds = load_i64(header + 26, 0);
    if (bounds < 1) {
        return fail_index(indexed, "the count of document bounds", bounds, "at least 1");
    }
    indexed->documents = bounds - 1;
    return HAUL_OK;
}

/* Checks the counts against the size of the file and finds the three arrays. */
static haul_status find_arrays(haul_indexed *indexed) {
    int64_t limit = indexed->index.bytes;
    char must[32];
    if (indexed->sequences < 0 || indexed->sequences > limit / 12) {
        return fail_index(indexed, "the sequence count", indexed->sequences,
                          "what the file has room for");
    }
    if (indexed->documents > limit / 8) {
        return fail_index(indexed, "the document count", indexed->documents,
                          "what the file has room for");
    }
    int64_t size =
        HAUL_INDEXED_HEADER_BYTES + 12 * indexed->sequences + 8 * (indexed->documents + 1);
    if (size != limit) {
        snprintf(must, sizeof must, "%lld", (long long)size);
        return fail_index(indexed, "its size in bytes", limit, must);
    }
    indexed->lengths = (const uint8_t *)indexed->index.data + HAUL_INDEXED_HEADER_BYTES;
    indexed->pointers = indexed->lengths + 4 * indexed->sequences;
    indexed->bounds = indexed->pointers + 8 * indexed->sequences;
    return HAUL_OK;
}

static haul_status check_sequences(haul_indexed *indexed) {
    int64_t size = haul_dtype_size(indexed->dtype);
    char what[64];
    for (int64_t i = 0; i < indexed->sequences; i++) {
        int64_t length = load_i32(indexed->lengths, i);
        int64_t pointer = load_i64(indexed->pointers, i);
        if (length < 0) {
            snprintf(what, sizeof what, "the length of sequence %lld", (long long)i);
            return fail_index(indexed, what, length, "at least 0");
        }
        if (pointer < 0 || pointer > indexed->tokens.bytes - length * size) {
            snprintf(what, sizeof what, "the pointer of sequence %lld", (long long)i);
            haul_fail(HAUL_ERROR_DATA,
                      "%s.idx: %s is %lld: its %lld tokens pass the %lld bytes "
                      "of the .bin file",
                      indexed->prefix, what, (long long)pointer, (long long)length,
                      (long long)indexed->tokens.bytes);
            haul_hint("copy both files again, or build them again with: haul data build");
            return HAUL_ERROR_DATA;
        }
        if (!haul_size_add(indexed->token_count, length, &indexed->token_count)) {
            return fail_index(indexed, "the token count", INT64_MAX, "smaller");
        }
    }
    return HAUL_OK;
}

static haul_status check_documents(const haul_indexed *indexed) {
    int64_t before = 0;
    char what[64];
    for (int64_t i = 0; i <= indexed->documents; i++) {
        int64_t bound = load_i64(indexed->bounds, i);
        if (bound < before || (i == 0 && bound != 0)) {
            snprintf(what, sizeof what, "document bound %lld", (long long)i);
            return fail_index(indexed, what, bound, "0 at first and never falling");
        }
        before = bound;
    }
    if (before != indexed->sequences) {
        return fail_index(indexed, "the last document bound", before, "the sequence count");
    }
    return HAUL_OK;
}

/* haul data build adds the key to the prefix that it is given; people forget that. */
static void hint_at_prefix(const char *prefix) {
    char path[HAUL_INDEXED_PATH_BYTES];
    snprintf(path, sizeof path, "%.900s_text_document.idx", prefix);
    if (haul_file_exists(path)) {
        haul_hint("did you mean %s_text_document?", prefix);
    } else {
        haul_hint("give the path without .bin or .idx; haul data build makes both files");
    }
}

haul_status haul_indexed_open(const char *prefix, haul_indexed **out) {
    char path[HAUL_INDEXED_PATH_BYTES];
    HAUL_TRY(haul_indexed_path(path, prefix, ".idx"));
    haul_indexed *indexed = haul_calloc(1, sizeof *indexed);
    if (indexed == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_text_copy(indexed->prefix, sizeof indexed->prefix, prefix);
    haul_status status = haul_file_map_open(path, &indexed->index);
    if (status == HAUL_OK) {
        haul_indexed_path(path, prefix, ".bin");
        status = haul_file_map_open(path, &indexed->tokens);
    }
    if (status == HAUL_ERROR_NO_INPUT) {
        hint_at_prefix(prefix);
    }
    if (status == HAUL_OK) {
        status = read_header(indexed);
    }
    if (status == HAUL_OK) {
        status = find_arrays(indexed);
    }
    if (status == HAUL_OK) {
        status = check_sequences(indexed);
    }
    if (status == HAUL_OK) {
        status = check_documents(indexed);
    }
    if (status != HAUL_OK) {
        haul_indexed_close(indexed);
        return status;
    }
    *out = indexed;
    return HAUL_OK;
}

void haul_indexed_close(haul_indexed *indexed) {
    if (indexed != NULL) {
        haul_file_map_close(&indexed->index);
        haul_file_map_close(&indexed->tokens);
        free(indexed);
    }
}

int64_t haul_indexed_sequences(const haul_indexed *indexed) {
    return indexed->sequences;
}

int64_t haul_indexed_documents(const haul_indexed *indexed) {
    return indexed->documents;
}

int64_t haul_indexed_tokens(const haul_indexed *indexed) {
    return indexed->token_count;
}

haul_dtype haul_indexed_dtype(const haul_indexed *indexed) {
    return indexed->dtype;
}

const char *haul_indexed_prefix(const haul_indexed *indexed) {
    return indexed->prefix;
}

int64_t haul_indexed_length(const haul_indexed *indexed, int64_t sequence) {
    return load_i32(indexed->lengths, sequence);
}

void haul_indexed_document(const haul_indexed *indexed, int64_t document, int64_t *begin,
                           int64_t *end) {
    *begin = load_i64(indexed->bounds, document);
    *end = load_i64(indexed->bounds, document + 1);
}

haul_status haul_indexed_get(const haul_indexed *indexed, int64_t sequence, int64_t offset,
                             int64_t count, int32_t *out) {
    if (sequence < 0 || sequence >= indexed->sequences || offset < 0 || count < 0 ||
        offset > haul_indexed_length(indexed, sequence) - count) {
        return haul_fail(HAUL_ERROR_INTERNAL, "%s: tokens %lld+%lld of sequence %lld are outside",
                         indexed->prefix, (long long)offset, (long long)count, (long long)sequence);
    }
    int64_t size = haul_dtype_size(indexed->dtype);
    const uint8_t *at = (const uint8_t *)indexed->tokens.data +
                        load_i64(indexed->pointers, sequence) + offset * size;
    for (int64_t i = 0; i < count; i++) {
        int64_t token = load_token(at + i * size, indexed->dtype);
        if (token < 0 || token > INT32_MAX) {
            return haul_fail(HAUL_ERROR_DATA,
                             "%s.bin: token %lld of sequence %lld is %lld, must be 0 to 2^31 - 1",
                             indexed->prefix, (long long)(offset + i), (long long)sequence,
                             (long long)token);
        }
        out[i] = (int32_t)token;
    }
    return HAUL_OK;
}

haul_status haul_indexed_remove(const char *prefix) {
    char path[HAUL_INDEXED_PATH_BYTES];
    HAUL_TRY(haul_indexed_path(path, prefix, ".idx"));
    HAUL_TRY(haul_file_remove(path));
    HAUL_TRY(haul_indexed_path(path, prefix, ".bin"));
    return haul_file_remove(path);
}
