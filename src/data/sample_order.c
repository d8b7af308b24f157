#include "data/sample_order.h"

#include "base/memory.h"
#include "data/numpy_random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Above this Megatron-LM's indices turn to 64 bits; haul stops there. */
static const int64_t index_limit = 4294967293;

typedef struct builder {
    haul_sequence_length *length;
    const void *context;
    int64_t begin, end; /* sequences */
    int64_t seq_length;
    int64_t wanted; /* samples */
    haul_mt19937 generator;
} builder;

static haul_status fail_split(const char *text) {
    haul_fail(HAUL_ERROR_USAGE,
              "--split is \"%s\", must be up to three numbers such as 969,30,1 with a sum above 0",
              text);
    return HAUL_ERROR_USAGE;
}

haul_status haul_split_parse(const char *text, int64_t sequences, int64_t begin[HAUL_SPLITS],
                             int64_t end[HAUL_SPLITS]) {
    double share[HAUL_SPLITS] = {0}, sum = 0;
    int count = 0;
    const char *at = text;
    while (*at != '\0') {
        size_t digits = strspn(at, ".0123456789");
        char *number_end;
        double number = strtod(at, &number_end);
        if (count == HAUL_SPLITS || digits == 0 || number_end != at + digits) {
            return fail_split(text);
        }
        share[count++] = number;
        sum += number;
        at += digits;
        at += strspn(at, ", /");
    }
    if (!(sum > 0) || !isfinite(sum)) {
        return fail_split(text);
    }
    double bound = 0;
    for (int i = 0; i < HAUL_SPLITS; i++) {
        double next = bound + share[i] / sum;
        begin[i] = haul_min(llrint(bound * (double)sequences), sequences);
        end[i] = haul_min(llrint(next * (double)sequences), sequences);
        bound = next;
    }
    return HAUL_OK;
}

static void count_epoch_tokens(const builder *from, haul_sample_order *order) {
    for (int64_t i = from->begin; i < from->end; i++) {
        order->tokens_per_epoch += from->length(from->context, i);
    }
}

static haul_status fail_short(const builder *from, const haul_sample_order *order) {
    haul_fail(HAUL_ERROR_DATA,
              "sequences %lld to %lld hold %lld tokens, too few for one sample of --seq-length "
              "%lld",
              (long long)from->begin, (long long)from->end, (long long)order->tokens_per_epoch,
              (long long)from->seq_length);
    haul_hint("add text, give this part a larger share in --split, or lower --seq-length");
    return HAUL_ERROR_DATA;
}

/* Samples that `epochs` epochs give: each needs seq_length new tokens, the first one more. */
static int64_t samples_of_epochs(const builder *from, const haul_sample_order *order,
                                 int64_t epochs) {
    return (epochs * order->tokens_per_epoch - 1) / from->seq_length;
}

/* The smallest number of epochs with enough tokens, and whether the last is shuffled apart. */
static haul_status choose_epochs(const builder *from, haul_sample_order *order) {
    int64_t tokens, per_epoch = order->tokens_per_epoch, total;
    order->epochs = 1;
    if (per_epoch == 0) {
        return fail_short(from, order);
    }
    if (from->wanted >= 0) {
        if (!haul_size_multiply(from->wanted, from->seq_length, &tokens) ||
            !haul_size_add(tokens, per_epoch, &total)) {
            return haul_fail(HAUL_ERROR_USAGE, "%lld samples of %lld tokens are too many",
                             (long long)from->wanted, (long long)from->seq_length);
        }
        order->epochs = haul_max((tokens + per_epoch) / per_epoch, 1);
    }
    order->samples = samples_of_epochs(from, order, order->epochs);
    if (order->samples == 0) {
        return fail_short(from, order);
    }
    if (!haul_size_multiply(order->epochs, from->end - from->begin, &order->document_count) ||
        order->document_count > index_limit || order->samples > index_limit) {
        haul_fail(HAUL_ERROR_UNAVAILABLE,
                  "%lld epochs of %lld documents give %lld samples; more than 2^32 - 3 documents "
                  "or samples are not supported",
                  (long long)order->epochs, (long long)(from->end - from->begin),
                  (long long)order->samples);
        haul_hint("train for fewer samples, or use longer ones");
        return HAUL_ERROR_UNAVAILABLE;
    }
    if (order->epochs > 1) {
        int64_t last = from->wanted - samples_of_epochs(from, order, order->epochs - 1);
        int64_t threshold = (int64_t)(0.80 * (double)samples_of_epochs(from, order, 1));
        order->separate_final_epoch = last < threshold;
    }
    return HAUL_OK;
}

static haul_status build_documents(builder *from, haul_sample_order *order) {
    int64_t per_epoch = from->end - from->begin;
    int64_t apart = order->separate_final_epoch ? per_epoch : 0;
    int64_t first = order->document_count - apart;
    order->documents = haul_calloc(order->document_count, sizeof *order->documents);
    if (order->documents == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < order->document_count; i++) {
        order->documents[i] = (uint32_t)(from->begin + i % per_epoch);
    }
    haul_mt19937_shuffle(&from->generator, order->documents, first);
    haul_mt19937_shuffle(&from->generator, order->documents + first, apart);
    return HAUL_OK;
}

/* Walks the token stream once. A sample's last token is the first of the next one, so a sample
 * that ends exactly with a document leaves the next start on that document's last token. */
static haul_status build_starts(const builder *from, haul_sample_order *order) {
    order->starts = haul_calloc(order->samples + 1, sizeof *order->starts);
    if (order->starts == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_sample_start at = {0, 0};
    for (int64_t i = 1; i <= order->samples; i++) {
        int64_t remaining = from->seq_length + 1;
        for (;;) {
            int64_t left = from->length(from->context, order->documents[at.position]) - at.offset;
            if (left >= remaining) {
                at.offset += remaining - 1;
                break;
            }
            remaining -= left;
            at.position++;
            at.offset = 0;
        }
        order->starts[i] = at;
    }
    return HAUL_OK;
}

static haul_status build_shuffle(builder *from, haul_sample_order *order) {
    int64_t first = order->separate_final_epoch ? samples_of_epochs(from, order, order->epochs - 1)
                                                : order->samples;
    order->shuffle = haul_calloc(order->samples, sizeof *order->shuffle);
    if (order->shuffle == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < order->samples; i++) {
        order->shuffle[i] = (uint32_t)i;
    }
    haul_mt19937_shuffle(&from->generator, order->shuffle, first);
    haul_mt19937_shuffle(&from->generator, order->shuffle + first, order->samples - first);
    return HAUL_OK;
}

haul_status haul_sample_order_init(haul_sequence_length *length, const void *context, int64_t begin,
                                   int64_t end, int64_t seq_length, int64_t wanted, uint32_t seed,
                                   haul_sample_order *out) {
    builder from = {length, context, begin, end, seq_length, wanted, {{0}, 0}};
    haul_sample_order order = {0};
    haul_mt19937_seed(&from.generator, seed);
    count_epoch_tokens(&from, &order);
    haul_status status = choose_epochs(&from, &order);
    if (status == HAUL_OK) {
        status = build_documents(&from, &order);
    }
    if (status == HAUL_OK) {
        status = build_starts(&from, &order);
    }
    if (status == HAUL_OK) {
        status = build_shuffle(&from, &order);
    }
    if (status != HAUL_OK) {
        haul_sample_order_deinit(&order);
        return status;
    }
    *out = order;
    return HAUL_OK;
}

void haul_sample_order_deinit(haul_sample_order *order) {
    free(order->documents);
    free(order->starts);
    free(order->shuffle);
    *order = (haul_sample_order){0};
}
