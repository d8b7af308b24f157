#include "data/bpe.h"

#include "base/memory.h"

#include <stdlib.h>

/* Symbols form a list over the bytes of the piece; a merge keeps the left one. */
struct haul_bpe_symbol {
    int32_t id;            /* -1 once merged into its left neighbour */
    int64_t before, after; /* -1 at the ends */
};

/* A merge that was possible when it entered the heap. It is stale when either id has changed. */
struct haul_bpe_candidate {
    int64_t rank;
    int64_t left;
    int32_t left_id, right_id;
};

void haul_bpe_deinit(haul_bpe *bpe) {
    haul_pair_map_deinit(&bpe->ranks);
    free(bpe->results);
    bpe->results = NULL;
    bpe->merges = bpe->results_capacity = 0;
}

haul_status haul_bpe_add_merge(haul_bpe *bpe, int32_t left, int32_t right, int32_t result) {
    HAUL_TRY(
        haul_grow(&bpe->results, &bpe->results_capacity, bpe->merges + 1, sizeof *bpe->results));
    bpe->results[bpe->merges] = result;
    return haul_pair_map_put(&bpe->ranks, haul_pair_key(left, right), bpe->merges++);
}

void haul_bpe_scratch_deinit(haul_bpe_scratch *scratch) {
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (haul_bpe_scratch){0};
}

static bool goes_first(const struct haul_bpe_candidate *a, const struct haul_bpe_candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void push(haul_bpe_scratch *scratch, struct haul_bpe_candidate candidate) {
    struct haul_bpe_candidate *heap = scratch->heap;
    int64_t at = scratch->heap_count++;
    while (at > 0 && goes_first(&candidate, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = candidate;
}

static struct haul_bpe_candidate pop(haul_bpe_scratch *scratch) {
    struct haul_bpe_candidate *heap = scratch->heap;
    struct haul_bpe_candidate first = heap[0], last = heap[--scratch->heap_count];
    int64_t at = 0, child;
    while ((child = 2 * at + 1) < scratch->heap_count) {
        if (child + 1 < scratch->heap_count && goes_first(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (!goes_first(&heap[child], &last)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

/* Offers the merge of symbol `left` with the one after it, if there is one. */
static void offer(const haul_bpe *bpe, haul_bpe_scratch *scratch, int64_t left) {
    if (left < 0 || scratch->symbols[left].after < 0) {
        return;
    }
    int32_t left_id = scratch->symbols[left].id;
    int32_t right_id = scratch->symbols[scratch->symbols[left].after].id;
    int64_t rank = haul_pair_map_get(&bpe->ranks, haul_pair_key(left_id, right_id));
    if (rank >= 0) {
        push(scratch, (struct haul_bpe_candidate){rank, left, left_id, right_id});
    }
}

static void merge(const haul_bpe *bpe, haul_bpe_scratch *scratch,
                  struct haul_bpe_candidate candidate) {
    struct haul_bpe_symbol *symbols = scratch->symbols;
    struct haul_bpe_symbol *left = &symbols[candidate.left];
    if (left->id != candidate.left_id || left->after < 0 ||
        symbols[left->after].id != candidate.right_id) {
        return;
    }
    struct haul_bpe_symbol *right = &symbols[left->after];
    left->id = bpe->results[candidate.rank];
    left->after = right->after;
    right->id = -1;
    if (left->after >= 0) {
        symbols[left->after].before = candidate.left;
    }
    offer(bpe, scratch, left->before);
    offer(bpe, scratch, candidate.left);
}

haul_status haul_bpe_encode(const haul_bpe *bpe, const char *piece, int64_t bytes,
                            haul_bpe_scratch *scratch, haul_token_list *out) {
    HAUL_TRY(
        haul_grow(&scratch->symbols, &scratch->symbols_capacity, bytes, sizeof *scratch->symbols));
    /* Each pair of neighbours is offered once: bytes - 1 at first, at most two a merge. */
    HAUL_TRY(haul_grow(&scratch->heap, &scratch->heap_capacity, 3 * bytes, sizeof *scratch->heap));
    HAUL_TRY(haul_grow(&out->ids, &out->capacity, out->count + bytes, sizeof *out->ids));
    for (int64_t i = 0; i < bytes; i++) {
        int32_t id = bpe->byte_ids[(uint8_t)piece[i]];
        scratch->symbols[i] = (struct haul_bpe_symbol){id, i - 1, i + 1 < bytes ? i + 1 : -1};
    }
    scratch->heap_count = 0;
    for (int64_t i = 0; i < bytes; i++) {
        offer(bpe, scratch, i);
    }
    while (scratch->heap_count > 0) {
        merge(bpe, scratch, pop(scratch));
    }
    for (int64_t i = 0; i >= 0 && i < bytes; i = scratch->symbols[i].after) {
        out->ids[out->count++] = scratch->symbols[i].id;
    }
    return HAUL_OK;
}
