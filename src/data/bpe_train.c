#include "data/bpe_train.h"

#include "base/file.h"
#include "base/memory.h"
#include "data/byte_alphabet.h"
#include "data/maps.h"
#include "data/pretokenizer.h"
#include "data/tokenizer_gpt2.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_VOCAB = 1 << 24 };

/* Numbers of words, growing. */
typedef struct word_list {
    int64_t *words;
    int64_t count, capacity;
} word_list;

typedef struct pair {
    int32_t left, right;
    int64_t count;     /* occurrences in all words, as of now */
    word_list arrived; /* words that gained the pair in this round */
} pair;

/* A merge to consider: the pair's count when it was queued, and the words that may hold it. */
typedef struct candidate {
    int64_t count;
    int64_t pair;
    word_list words;
} candidate;

typedef struct merge {
    int32_t left, right;
} merge;

struct haul_bpe_trainer {
    haul_pretokenizer *pretokenizer;
    haul_byte_map pieces; /* the distinct words */
    int64_t *piece_counts;
    int64_t piece_counts_capacity;

    int32_t *symbols;     /* all words, each from its piece's begin in `pieces` */
    int64_t *lengths;     /* [words], in symbols */
    haul_byte_map tokens; /* number = id */
    pair *pairs;
    int64_t pair_count, pairs_capacity;
    haul_pair_map pair_numbers;
    int64_t *touched; /* pairs with arrivals in this round */
    int64_t touched_count, touched_capacity;
    candidate *queue; /* a heap */
    int64_t queue_count, queue_capacity;
    merge *merges;
    int64_t merge_count, merges_capacity;
};

haul_status haul_bpe_trainer_create(haul_bpe_trainer **out) {
    haul_bpe_trainer *trainer = haul_calloc(1, sizeof *trainer);
    if (trainer == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_status status = haul_pretokenizer_create(haul_pretokenizer_gpt2, &trainer->pretokenizer);
    if (status != HAUL_OK) {
        free(trainer);
        return status;
    }
    *out = trainer;
    return HAUL_OK;
}

void haul_bpe_trainer_destroy(haul_bpe_trainer *trainer) {
    if (trainer == NULL) {
        return;
    }
    for (int64_t i = 0; i < trainer->pair_count; i++) {
        free(trainer->pairs[i].arrived.words);
    }
    for (int64_t i = 0; i < trainer->queue_count; i++) {
        free(trainer->queue[i].words.words);
    }
    haul_pretokenizer_destroy(trainer->pretokenizer);
    haul_byte_map_deinit(&trainer->pieces);
    haul_byte_map_deinit(&trainer->tokens);
    haul_pair_map_deinit(&trainer->pair_numbers);
    free(trainer->piece_counts);
    free(trainer->symbols);
    free(trainer->lengths);
    free(trainer->pairs);
    free(trainer->touched);
    free(trainer->queue);
    free(trainer->merges);
    free(trainer);
}

static haul_status count_piece(void *context, const char *piece, int64_t bytes) {
    haul_bpe_trainer *trainer = context;
    int64_t number;
    HAUL_TRY(haul_byte_map_add(&trainer->pieces, piece, bytes, &number));
    HAUL_TRY(haul_grow(&trainer->piece_counts, &trainer->piece_counts_capacity, number + 1,
                       sizeof *trainer->piece_counts));
    trainer->piece_counts[number]++;
    return HAUL_OK;
}

haul_status haul_bpe_trainer_add(haul_bpe_trainer *trainer, const char *text, int64_t bytes) {
    return haul_pretokenizer_split(trainer->pretokenizer, text, bytes, count_piece, trainer);
}

/* The queue: the larger count first, of equals the smaller pair. */
static bool goes_first(const haul_bpe_trainer *trainer, const candidate *a, const candidate *b) {
    const pair *left = &trainer->pairs[a->pair], *right = &trainer->pairs[b->pair];
    if (a->count != b->count) {
        return a->count > b->count;
    }
    return left->left != right->left ? left->left < right->left : left->right < right->right;
}

static void sift_up(haul_bpe_trainer *trainer, candidate entry) {
    int64_t at = trainer->queue_count++;
    while (at > 0 && goes_first(trainer, &entry, &trainer->queue[(at - 1) / 2])) {
        trainer->queue[at] = trainer->queue[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    trainer->queue[at] = entry;
}

static candidate pop(haul_bpe_trainer *trainer) {
    candidate *queue = trainer->queue;
    candidate first = queue[0], last = queue[--trainer->queue_count];
    int64_t at = 0, child;
    while ((child = 2 * at + 1) < trainer->queue_count) {
        if (child + 1 < trainer->queue_count &&
            goes_first(trainer, &queue[child + 1], &queue[child])) {
            child++;
        }
        if (!goes_first(trainer, &queue[child], &last)) {
            break;
        }
        queue[at] = queue[child];
        at = child;
    }
    queue[at] = last;
    return first;
}

/* The record of a pair, made when it is new. */
static haul_status find_pair(haul_bpe_trainer *trainer, int32_t left, int32_t right,
                             int64_t *number) {
    uint64_t key = haul_pair_key(left, right);
    *number = haul_pair_map_get(&trainer->pair_numbers, key);
    if (*number < 0) {
        HAUL_TRY(haul_grow(&trainer->pairs, &trainer->pairs_capacity, trainer->pair_count + 1,
                           sizeof *trainer->pairs));
        *number = trainer->pair_count++;
        trainer->pairs[*number] = (pair){.left = left, .right = right};
        return haul_pair_map_put(&trainer->pair_numbers, key, *number);
    }
    return HAUL_OK;
}

static haul_status lose_pair(haul_bpe_trainer *trainer, int32_t left, int32_t right, int64_t word) {
    int64_t number;
    HAUL_TRY(find_pair(trainer, left, right, &number));
    trainer->pairs[number].count -= trainer->piece_counts[word];
    return HAUL_OK;
}

static haul_status gain_pair(haul_bpe_trainer *trainer, int32_t left, int32_t right, int64_t word) {
    int64_t number;
    HAUL_TRY(find_pair(trainer, left, right, &number));
    pair *gained = &trainer->pairs[number];
    gained->count += trainer->piece_counts[word];
    word_list *arrived = &gained->arrived;
    if (arrived->count == 0) {
        HAUL_TRY(haul_grow(&trainer->touched, &trainer->touched_capacity,
                           trainer->touched_count + 1, sizeof *trainer->touched));
        trainer->touched[trainer->touched_count++] = number;
    } else if (arrived->words[arrived->count - 1] == word) {
        return HAUL_OK; /* words come one after another, so a repeat is the last one */
    }
    HAUL_TRY(
        haul_grow(&arrived->words, &arrived->capacity, arrived->count + 1, sizeof *arrived->words));
    arrived->words[arrived->count++] = word;
    return HAUL_OK;
}

/* Queues the pairs of this round with the words that gained them. */
static haul_status queue_touched(haul_bpe_trainer *trainer) {
    HAUL_TRY(haul_grow(&trainer->queue, &trainer->queue_capacity,
                       trainer->queue_count + trainer->touched_count, sizeof *trainer->queue));
    for (int64_t i = 0; i < trainer->touched_count; i++) {
        int64_t number = trainer->touched[i];
        pair *gained = &trainer->pairs[number];
        if (gained->count > 0) {
            sift_up(trainer, (candidate){gained->count, number, gained->arrived});
        } else {
            free(gained->arrived.words);
        }
        gained->arrived = (word_list){0};
    }
    trainer->touched_count = 0;
    return HAUL_OK;
}

static haul_status add_token(haul_bpe_trainer *trainer, const char *text, int64_t bytes) {
    int64_t ignored;
    return haul_byte_map_add(&trainer->tokens, text, bytes, &ignored);
}

/* Ids 1 .. 256 in the order of the characters that spell the bytes. */
static haul_status add_bytes(haul_bpe_trainer *trainer, int32_t id_of_byte[256]) {
    int byte_of_code[0x144];
    memset(byte_of_code, 0xff, sizeof byte_of_code);
    for (int byte = 0; byte < 256; byte++) {
        byte_of_code[haul_byte_alphabet_code((uint8_t)byte)] = byte;
    }
    for (int code = 0; code < 0x144; code++) {
        if (byte_of_code[code] >= 0) {
            char text = (char)byte_of_code[code];
            id_of_byte[byte_of_code[code]] = (int32_t)trainer->tokens.count;
            HAUL_TRY(add_token(trainer, &text, 1));
        }
    }
    return HAUL_OK;
}

/* Every word as the ids of its bytes, and the first round of pairs. */
static haul_status start(haul_bpe_trainer *trainer) {
    int32_t id_of_byte[256];
    const haul_byte_map *pieces = &trainer->pieces;
    HAUL_TRY(add_token(trainer, haul_tokenizer_end_of_text,
                       (int64_t)strlen(haul_tokenizer_end_of_text)));
    HAUL_TRY(add_bytes(trainer, id_of_byte));
    trainer->symbols = haul_calloc(pieces->text.length, sizeof *trainer->symbols);
    trainer->lengths = haul_calloc(pieces->count, sizeof *trainer->lengths);
    if (trainer->symbols == NULL || trainer->lengths == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < pieces->text.length; i++) {
        trainer->symbols[i] = id_of_byte[(uint8_t)pieces->text.data[i]];
    }
    for (int64_t word = 0; word < pieces->count; word++) {
        const int32_t *symbols = trainer->symbols + pieces->begins[word];
        trainer->lengths[word] = pieces->begins[word + 1] - pieces->begins[word];
        for (int64_t i = 0; i + 1 < trainer->lengths[word]; i++) {
            HAUL_TRY(gain_pair(trainer, symbols[i], symbols[i + 1], word));
        }
    }
    return queue_touched(trainer);
}

/* Replaces each (left, right) of a word, from its start, and keeps the counts of the pairs around.
 * The count of the merged pair itself is left as it is: it will not be asked for again. */
static haul_status merge_in_word(haul_bpe_trainer *trainer, merge what, int32_t id, int64_t word) {
    int32_t *symbols = trainer->symbols + trainer->pieces.begins[word];
    int64_t length = trainer->lengths[word], kept = 0;
    for (int64_t i = 0; i < length; i++) {
        if (symbols[i] != what.left || i + 1 >= length || symbols[i + 1] != what.right) {
            symbols[kept++] = symbols[i];
            continue;
        }
        if (kept > 0) {
            HAUL_TRY(lose_pair(trainer, symbols[kept - 1], what.left, word));
            HAUL_TRY(gain_pair(trainer, symbols[kept - 1], id, word));
        }
        if (i + 2 < length) {
            HAUL_TRY(lose_pair(trainer, what.right, symbols[i + 2], word));
            HAUL_TRY(gain_pair(trainer, id, symbols[i + 2], word));
        }
        symbols[kept++] = id;
        i++;
    }
    trainer->lengths[word] = kept;
    return HAUL_OK;
}

/* The token of two joined ones: a new id, unless another merge has made the same bytes. */
static haul_status join_tokens(haul_bpe_trainer *trainer, merge what, int32_t *id) {
    int64_t bytes, number;
    haul_string joined = {0};
    const char *text = haul_byte_map_key(&trainer->tokens, what.left, &bytes);
    haul_string_append(&joined, text, bytes);
    text = haul_byte_map_key(&trainer->tokens, what.right, &bytes);
    haul_string_append(&joined, text, bytes);
    haul_status status = haul_string_status(&joined);
    if (status == HAUL_OK) {
        status = haul_byte_map_add(&trainer->tokens, joined.data, joined.length, &number);
    }
    haul_string_deinit(&joined);
    if (status == HAUL_OK) {
        *id = (int32_t)number;
    }
    return status;
}

static haul_status apply(haul_bpe_trainer *trainer, const candidate *best) {
    merge what = {trainer->pairs[best->pair].left, trainer->pairs[best->pair].right};
    int32_t id;
    HAUL_TRY(join_tokens(trainer, what, &id));
    HAUL_TRY(haul_grow(&trainer->merges, &trainer->merges_capacity, trainer->merge_count + 1,
                       sizeof *trainer->merges));
    trainer->merges[trainer->merge_count++] = what;
    for (int64_t i = 0; i < best->words.count; i++) {
        HAUL_TRY(merge_in_word(trainer, what, id, best->words.words[i]));
    }
    return queue_touched(trainer);
}

static haul_status learn(haul_bpe_trainer *trainer, int64_t vocab_size) {
    HAUL_TRY(start(trainer));
    while (trainer->tokens.count < vocab_size && trainer->queue_count > 0) {
        candidate best = pop(trainer);
        int64_t count = trainer->pairs[best.pair].count;
        if (best.count != count && count > 0) { /* others took some of its occurrences */
            best.count = count;
            sift_up(trainer, best);
            continue;
        }
        haul_status status = count > 0 ? apply(trainer, &best) : HAUL_OK;
        free(best.words.words);
        HAUL_TRY(status);
    }
    return HAUL_OK;
}

static haul_status append_token(const haul_bpe_trainer *trainer, int64_t id, haul_string *json) {
    haul_string spelled = {0};
    int64_t bytes;
    const char *text = haul_byte_map_key(&trainer->tokens, id, &bytes);
    haul_byte_alphabet_spell(&spelled, text, bytes);
    haul_status status = haul_string_status(&spelled);
    if (status == HAUL_OK) {
        haul_string_append_json(json, spelled.data);
    }
    haul_string_deinit(&spelled);
    return status;
}

/* A pair that was merged twice counts where it came last, as in `tokenizers`. */
static haul_status append_merges(haul_bpe_trainer *trainer, haul_string *json) {
    for (int64_t i = 0; i < trainer->merge_count; i++) {
        merge what = trainer->merges[i];
        HAUL_TRY(
            haul_pair_map_put(&trainer->pair_numbers, haul_pair_key(what.left, what.right), i));
    }
    const char *separator = "";
    for (int64_t i = 0; i < trainer->merge_count; i++) {
        merge what = trainer->merges[i];
        uint64_t key = haul_pair_key(what.left, what.right);
        if (haul_pair_map_get(&trainer->pair_numbers, key) == i) {
            haul_string_append_format(json, "%s[", separator);
            HAUL_TRY(append_token(trainer, what.left, json));
            haul_string_append_text(json, ",");
            HAUL_TRY(append_token(trainer, what.right, json));
            haul_string_append_text(json, "]");
            separator = ",";
        }
    }
    return HAUL_OK;
}

static haul_status append_file(haul_bpe_trainer *trainer, haul_string *json) {
    haul_tokenizer_append_head(json, 0);
    haul_string_append_text(json, "{");
    for (int64_t id = 0; id < trainer->tokens.count; id++) {
        HAUL_TRY(append_token(trainer, id, json));
        haul_string_append_format(json, ":%lld%s", (long long)id,
                                  id + 1 < trainer->tokens.count ? "," : "},\"merges\":[");
    }
    HAUL_TRY(append_merges(trainer, json));
    haul_string_append_text(json, "]}}");
    return haul_string_status(json);
}

haul_status haul_bpe_trainer_write(haul_bpe_trainer *trainer, int64_t vocab_size, const char *path,
                                   int64_t *made) {
    if (vocab_size < HAUL_BPE_SMALLEST_VOCAB || vocab_size > LARGEST_VOCAB) {
        return haul_fail(HAUL_ERROR_USAGE, "--vocab-size is %lld, must be %d to %d",
                         (long long)vocab_size, HAUL_BPE_SMALLEST_VOCAB, LARGEST_VOCAB);
    }
    haul_string json = {0};
    haul_status status = learn(trainer, vocab_size);
    if (status == HAUL_OK) {
        status = append_file(trainer, &json);
    }
    if (status == HAUL_OK) {
        status = haul_file_replace(path, json.data, json.length);
    }
    haul_string_deinit(&json);
    if (status == HAUL_OK) {
        *made = trainer->tokens.count;
    }
    return status;
}
