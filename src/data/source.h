/* Numbered sequences of tokens: a data set on disk, or Megatron-LM's made-up one (--mock-data). */
#ifndef HAUL_DATA_SOURCE_H
#define HAUL_DATA_SOURCE_H

#include "data/indexed.h"

typedef struct haul_source {
    haul_indexed *indexed; /* NULL for mock data */
    int32_t *mock_lengths; /* [100,000], 1 to 4095 */
    int64_t mock_vocab;
    int32_t mock_eod;
} haul_source;

/* The caller closes. A zeroed source may be closed too. */
haul_status haul_source_open(const char *prefix, haul_source *out);

/* Sequence i of mock data is 1, 2, ... length - 1 (modulo vocab) and eod. */
haul_status haul_source_open_mock(int64_t vocab, int32_t eod, haul_source *out);
void haul_source_close(haul_source *source);

const char *haul_source_name(const haul_source *source);
int64_t haul_source_sequences(const haul_source *source);
int64_t haul_source_length(const haul_source *source, int64_t sequence);

/* As haul_indexed_get. */
haul_status haul_source_get(const haul_source *source, int64_t sequence, int64_t offset,
                            int64_t count, int32_t *out);

#endif
