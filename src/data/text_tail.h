/* The end of a text, as what is held out when it has few documents. */
#ifndef HAUL_DATA_TEXT_TAIL_H
#define HAUL_DATA_TEXT_TAIL_H

#include "data/text_reader.h"

typedef struct haul_text_tail {
    haul_text_place cut; /* where the tail begins, inside of a document */
    int64_t document;    /* the ordinal of its first document, once input.cut is `cut` */
    int64_t bytes;       /* of its documents; 0: no tail */
} haul_text_tail;

/* Finds about the last `share` (0 .. 1, exclusive) of the documents' bytes, from the start of a
 * line on where that is possible, else of a word. There is no tail in JSONL, and none when the
 * input has 1 / share documents or more, of which a share can be held out; then not all of it is
 * read. HAUL_ERROR_NO_INPUT, _DATA and _IO as the reader. */
haul_status haul_text_find_tail(const haul_text_input *input, double share, haul_text_tail *out);

#endif
