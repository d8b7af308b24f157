/* PREFIX.idx beside a .bin of 64 bytes. */
#include "base/memory.h"
#include "data/dataset.h"
#include "data/indexed.h"
#include "data/inspect.h"
#include "fuzzing.h"

enum { BIN_BYTES = 64, SEQUENCE = 4, SAMPLES = 3 };

static void check_sequence(const haul_indexed *indexed, int64_t sequence, int64_t *tokens) {
    int32_t out[BIN_BYTES + 1];
    int64_t length = haul_indexed_length(indexed, sequence);
    fuzz_require(length >= 0 && length * haul_dtype_size(haul_indexed_dtype(indexed)) <= BIN_BYTES,
                 "a sequence lies in the .bin file");
    if (fuzz_accepted(haul_indexed_get(indexed, sequence, 0, length, out))) {
        for (int64_t i = 0; i < length; i++) {
            fuzz_require(out[i] >= 0, "tokens are not negative");
        }
    }
    fuzz_require(haul_indexed_get(indexed, sequence, 0, length + 1, out) == HAUL_ERROR_INTERNAL,
                 "nothing is read behind a sequence");
    *tokens += length;
}

static void check_index(const haul_indexed *indexed) {
    int64_t next = 0, tokens = 0;
    for (int64_t i = 0; i < haul_indexed_documents(indexed); i++) {
        int64_t begin, end;
        haul_indexed_document(indexed, i, &begin, &end);
        fuzz_require(begin == next && end >= begin && end <= haul_indexed_sequences(indexed),
                     "documents follow one another");
        for (next = begin; next < end; next++) {
            check_sequence(indexed, next, &tokens);
        }
    }
    fuzz_require(next == haul_indexed_sequences(indexed), "documents are all sequences");
    fuzz_require(tokens == haul_indexed_tokens(indexed), "tokens are counted");
}

static void read_samples(const char *prefix) {
    haul_dataset *dataset;
    const haul_dataset_options options = {.data_path = &prefix,
                                          .data_path_count = 1,
                                          .split = "2,1,1",
                                          .seq_length = SEQUENCE,
                                          .samples = {SAMPLES, SAMPLES, -1},
                                          .vocab_size = 1 << 20};
    for (int split = 0; split < HAUL_SPLITS; split++) {
        if (!fuzz_accepted(haul_dataset_open(&options, split, &dataset))) {
            continue;
        }
        for (int64_t i = 0; i < haul_dataset_samples(dataset); i++) {
            int32_t tokens[SEQUENCE + 1];
            fuzz_accepted(haul_dataset_sample(dataset, i, tokens));
        }
        haul_dataset_close(dataset);
    }
}

static void read_windows(const char *prefix) {
    haul_windows *windows;
    const haul_dataset_options options = {
        .data_path = &prefix, .data_path_count = 1, .seq_length = SEQUENCE};
    if (!fuzz_accepted(haul_windows_open(&options, 0, &windows))) {
        return;
    }
    for (int64_t i = 0; i < haul_windows_count(windows); i++) {
        int32_t tokens[SEQUENCE + 1];
        int64_t labels;
        if (fuzz_accepted(haul_windows_get(windows, i, tokens, &labels))) {
            fuzz_require(labels > 0 && labels <= SEQUENCE, "a window has labels");
        }
    }
    haul_windows_close(windows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[FUZZ_PATH_BYTES], prefix[FUZZ_PATH_BYTES];
    uint8_t bin[BIN_BYTES];
    haul_indexed *indexed;
    for (int i = 0; i < BIN_BYTES; i++) {
        bin[i] = (uint8_t)(i % 7 == 0 ? i : 0);
    }
    fuzz_put("data.bin", bin, sizeof bin, path);
    fuzz_put("data.idx", data, size, path);
    fuzz_path("data", prefix);
    if (fuzz_accepted(haul_indexed_open(prefix, &indexed))) {
        check_index(indexed);
        haul_indexed_close(indexed);
        read_samples(prefix);
        read_windows(prefix);
        haul_string text = {0};
        fuzz_accepted(haul_inspect(prefix, NULL, 2, &text));
        haul_string_deinit(&text);
    }
    return 0;
}
