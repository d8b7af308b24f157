/* What haul data build reads: the same bytes as JSONL, and as text with each kind of separator.
 * Bytes that begin like a gzip file are read as one. */
#include "base/string.h"
#include "data/text_reader.h"
#include "fuzzing.h"

#include <string.h>

static const char *const keys[] = {"text", "meta"};

/* The bytes of all documents, and how many there are. */
typedef struct collected {
    haul_string text;
    int64_t documents;
} collected;

static haul_status collect(void *context, int64_t key, const char *text, int64_t bytes, bool ends) {
    collected *all = context;
    fuzz_require(bytes >= 0 && key >= 0 && key < 2, "a document is a text of a key");
    haul_string_append(&all->text, text, bytes);
    all->documents += ends;
    return haul_string_status(&all->text);
}

static bool read_whole(const haul_text_input *input, collected *all) {
    *all = (collected){0};
    return fuzz_accepted(haul_text_each(input, collect, all));
}

/* As haul data build does it, where one document may come in several chunks. */
static bool read_chunks(const haul_text_input *input, collected *all) {
    haul_text_reader *reader;
    haul_text_chunk chunk = {0};
    bool more = true;
    *all = (collected){0};
    fuzz_require_ok(haul_text_reader_open(input, true, &reader));
    haul_status status = HAUL_OK;
    while (status == HAUL_OK && more) {
        status = haul_text_reader_next(reader, &chunk, &more);
        if (status == HAUL_OK && more) {
            status = haul_text_chunk_split(input, &chunk, collect, all);
        }
    }
    fuzz_require(haul_text_reader_done(reader) <= haul_text_reader_total(reader),
                 "no more is read than there is");
    haul_text_chunk_deinit(&chunk);
    haul_text_reader_close(reader);
    return fuzz_accepted(status);
}

static void check_input(const haul_text_input *input) {
    collected whole;
    read_whole(input, &whole);
    haul_string_deinit(&whole.text);
}

/* A file that is one document is the same in one piece and in chunks. */
static void check_document(const haul_text_input *input) {
    collected whole, chunks;
    bool read = read_whole(input, &whole);
    fuzz_require(read_chunks(input, &chunks) == read, "chunks fail where the whole does");
    if (read) {
        fuzz_require(whole.documents == chunks.documents &&
                         whole.text.length == chunks.text.length &&
                         (whole.text.length == 0 || memcmp(whole.text.data, chunks.text.data,
                                                           (size_t)whole.text.length) == 0),
                     "chunks make up the whole");
    }
    haul_string_deinit(&whole.text);
    haul_string_deinit(&chunks.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[FUZZ_PATH_BYTES];
    const char *file = fuzz_put("data.jsonl", data, size, path);
    haul_text_input input = {
        .files = &file, .file_count = 1, .json_keys = keys, .json_key_count = 2};
    check_input(&input);
    fuzz_put("data.txt", data, size, path);
    check_document(&input);
    input.separator = "";
    check_input(&input);
    input.separator = "%";
    check_input(&input);
    return 0;
}
