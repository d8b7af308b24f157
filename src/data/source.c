#include "data/source.h"

#include "base/memory.h"
#include "data/numpy_random.h"

#include <stdlib.h>

enum { MOCK_SEQUENCES = 100000, MOCK_LENGTH_END = 4096 };

haul_status haul_source_open(const char *prefix, haul_source *out) {
    haul_source source = {0};
    HAUL_TRY(haul_indexed_open(prefix, &source.indexed));
    *out = source;
    return HAUL_OK;
}

haul_status haul_source_open_mock(int64_t vocab, int32_t eod, haul_source *out) {
    if (vocab < 1) {
        return haul_fail(HAUL_ERROR_CONFIG, "mock data needs a vocabulary; its size is %lld",
                         (long long)vocab);
    }
    haul_source source = {.mock_vocab = vocab, .mock_eod = eod};
    source.mock_lengths = haul_calloc(MOCK_SEQUENCES, sizeof *source.mock_lengths);
    if (source.mock_lengths == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_pcg64 generator;
    haul_pcg64_seed(&generator, 0);
    haul_pcg64_integers(&generator, 1, MOCK_LENGTH_END, source.mock_lengths, MOCK_SEQUENCES);
    *out = source;
    return HAUL_OK;
}

void haul_source_close(haul_source *source) {
    haul_indexed_close(source->indexed);
    free(source->mock_lengths);
    *source = (haul_source){0};
}

const char *haul_source_name(const haul_source *source) {
    return source->indexed != NULL ? haul_indexed_prefix(source->indexed) : "mock data";
}

int64_t haul_source_sequences(const haul_source *source) {
    return source->indexed != NULL ? haul_indexed_sequences(source->indexed) : MOCK_SEQUENCES;
}

int64_t haul_source_length(const haul_source *source, int64_t sequence) {
    return source->indexed != NULL ? haul_indexed_length(source->indexed, sequence)
                                   : source->mock_lengths[sequence];
}

haul_status haul_source_get(const haul_source *source, int64_t sequence, int64_t offset,
                            int64_t count, int32_t *out) {
    if (source->indexed != NULL) {
        return haul_indexed_get(source->indexed, sequence, offset, count, out);
    }
    int64_t last = source->mock_lengths[sequence] - 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = offset + i;
        out[i] = at == last ? source->mock_eod : (int32_t)((at + 1) % source->mock_vocab);
    }
    return HAUL_OK;
}
