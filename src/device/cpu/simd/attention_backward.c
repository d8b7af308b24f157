/* With P = 2^(score - log_sum_exp) and its kept part P', delta = d_out . out:
 * d_value += P'^T d_out, d_score = P (kept d_out.value - delta), d_query = scale d_score key,
 * d_key += scale d_score^T query.
 *
 * A thread takes a head, walks its query blocks and for each the key blocks, so that d_query stays
 * in the cache; d_key and d_value of the head are summed in f32. Where heads share keys, their sums
 * are added in a second pass, in ascending order of the heads. */
#include "device/cpu/simd/attention.h"

#include "device/cpu/launch.h"
#include "device/cpu/simd/attention_block.h"

typedef struct backward {
    const haul_attention_backward_args *args;
    bool bf16;
    float *scratch; /* thread_floats for each thread */
    float *heads;   /* where heads share keys: head_floats for each head of the batch */
    int64_t thread_floats, head_floats;
} backward;

/* The scratch of a thread. */
typedef struct blocks {
    float *query, *d_out;               /* [QUERY_BLOCK, D] */
    float *query_across, *d_out_across; /* [D, QUERY_BLOCK]; query scaled, in units of ln 2 */
    float *d_query;                     /* [QUERY_BLOCK, D] */
    float *key, *value;                 /* [KEY_BLOCK, D] */
    float *probability, *d_score;       /* [KEY_BLOCK, QUERY_BLOCK] */
    float *kept;                        /* [KEY_BLOCK, TILE]: dropout factors */
    float *log_sum_exp;                 /* [QUERY_BLOCK], in units of ln 2 */
    float *delta;                       /* [QUERY_BLOCK]: d_out . out */
    float *head; /* d_key and d_value of one head, when no others share them */
} blocks;

/* d_key, then d_value of one head: [keys, D] each. */
static int64_t head_sums_floats(const haul_attention_shape *shape) {
    return 2 * shape->keys * block_row(shape->head_size);
}

static blocks cut_scratch(scratch_cut *cut, const haul_attention_shape *shape) {
    int64_t size = shape->head_size;
    return (blocks){
        .query = take(cut, QUERY_BLOCK * block_row(size)),
        .d_out = take(cut, QUERY_BLOCK * block_row(size)),
        .query_across = take(cut, haul_round_up(size, 4) * block_row(QUERY_BLOCK)),
        .d_out_across = take(cut, haul_round_up(size, 4) * block_row(QUERY_BLOCK)),
        .d_query = take(cut, QUERY_BLOCK * block_row(size)),
        .key = take(cut, KEY_BLOCK * block_row(size)),
        .value = take(cut, KEY_BLOCK * block_row(size)),
        .probability = take(cut, KEY_BLOCK * block_row(QUERY_BLOCK)),
        .d_score = take(cut, KEY_BLOCK * block_row(QUERY_BLOCK)),
        .kept = take(cut, KEY_BLOCK * TILE),
        .log_sum_exp = take(cut, QUERY_BLOCK),
        .delta = take(cut, QUERY_BLOCK),
        .head = take(cut, shape->heads == shape->groups ? head_sums_floats(shape) : 0),
    };
}

static int64_t thread_floats(const haul_attention_shape *shape) {
    scratch_cut cut = {0};
    cut_scratch(&cut, shape);
    return cut.floats;
}

static void load_queries(const backward *work, int64_t sample, int64_t head, int64_t first,
                         int64_t count, const blocks *block) {
    const haul_attention_backward_args *args = work->args;
    const haul_attention_shape *shape = &args->shape;
    int64_t size = shape->head_size, row = sample * shape->queries + first;
    int64_t out_row = shape->heads * size, out_at = row * out_row + head * size;
    bool bf16 = work->bf16;
    load_block(element(&args->query, row * shape->query_stride + head * size, bf16), bf16, count,
               size, shape->query_stride, block->query);
    load_block(element(&args->d_out, out_at, bf16), bf16, count, size, out_row, block->d_out);
    int64_t across = block_row(QUERY_BLOCK), padded = haul_round_up(count, TILE);
    transpose(block->query, block_row(size), padded, size, (float)shape->scale * log2_e,
              block->query_across, across);
    transpose(block->d_out, block_row(size), padded, size, 1.0f, block->d_out_across, across);
    const float *log_sum_exp = (const float *)args->log_sum_exp.data +
                               (sample * shape->heads + head) * shape->queries + first;
    /* For delta, out visits the place of d_query. */
    load_block(element(&args->out, out_at, bf16), bf16, count, size, out_row, block->d_query);
    for (int64_t i = 0; i < count; i++) {
        const float *out = block->d_query + i * block_row(size);
        const float *d_out = block->d_out + i * block_row(size);
        float delta = 0.0f;
#pragma omp simd reduction(+ : delta)
        for (int64_t d = 0; d < size; d++) {
            delta += out[d] * d_out[d];
        }
        block->delta[i] = delta;
        /* A query that saw no key has -inf; all of its scores are masked. */
        block->log_sum_exp[i] = log_sum_exp[i] == -INFINITY ? 0.0f : log_sum_exp[i] * log2_e;
    }
    for (int64_t i = count; i < haul_round_up(count, TILE); i++) {
        block->delta[i] = block->log_sum_exp[i] = 0.0f;
    }
    memset(block->d_query, 0, (size_t)(QUERY_BLOCK * block_row(size)) * sizeof(float));
}

/* Scores and d(probability) become probability and d(score), in place; what no lane sees, 0. */
static void differentiate_softmax(const score_tile *tile, int64_t keys, const float *log_sum_exp,
                                  const float *delta, float *d_score, const float *kept) {
    for (int64_t j = 0; j < tile->rows; j++) {
        float *p = tile->scores + j * tile->stride, *ds = d_score + j * tile->stride;
        const float *factor = kept + j * TILE;
#pragma omp simd
        for (int i = 0; i < TILE; i++) {
            float probability = exp2_f32(p[i] - log_sum_exp[i]);
            ds[i] = probability * (factor[i] * ds[i] - delta[i]);
            p[i] = probability * factor[i];
        }
    }
    for (int64_t j = tile->rows; j < keys; j++) {
        memset(tile->scores + j * tile->stride, 0, TILE * sizeof(float));
        memset(d_score + j * tile->stride, 0, TILE * sizeof(float));
    }
}

/* probability and d_score of a whole query block against a key block, [key][query]. */
static void compute_scores(const haul_attention_shape *shape, int64_t sample, int64_t head,
                           int64_t query, int64_t queries, int64_t key, int64_t keys,
                           const blocks *block) {
    int64_t stride = block_row(QUERY_BLOCK), size = shape->head_size;
    for (int64_t lane = 0; lane < queries; lane += TILE) {
        score_tile tile = {
            .scores = block->probability + lane,
            .stride = stride,
            .rows = visible_keys(shape, query + lane + TILE - 1, key, keys),
            .first_query = query + lane,
            .first_key = key,
        };
        tile_product product = {
            .rows = tile.rows,
            .depth = size,
            .a = block->key,
            .a_row = block_row(size),
            .a_depth = 1,
            .b = block->query_across + lane,
            .b_depth = stride,
            .c = tile.scores,
            .c_row = stride,
            .begin = -UNBOUNDED,
            .end = UNBOUNDED,
        };
        multiply_tile(&product);
        product.a = block->value;
        product.b = block->d_out_across + lane;
        product.c = block->d_score + lane;
        multiply_tile(&product);
        mask_tile(shape, &tile);
        if (shape->dropout.probability > 0.0) {
            load_dropout(shape, sample, head, &tile, block->kept);
        }
        differentiate_softmax(&tile, keys, block->log_sum_exp + lane, block->delta + lane,
                              block->d_score + lane, block->kept);
    }
}

/* c[r] += sum over l of a[r, l] b[l], all [.., D], where row r needs l in [r + begin, r + 1 + end).
 */
static void add_product(int64_t size, tile_product product) {
    product.b_depth = product.c_row = block_row(size);
    product.accumulate = true;
    const float *b = product.b;
    float *c = product.c;
    for (int64_t d = 0; d < size; d += TILE) {
        product.b = b + d;
        product.c = c + d;
        multiply_tile(&product);
    }
}

static void attend_block(const backward *work, int64_t sample, int64_t head, int64_t query,
                         float *d_key, float *d_value, const blocks *block) {
    const haul_attention_backward_args *args = work->args;
    const haul_attention_shape *shape = &args->shape;
    int64_t size = shape->head_size, group = head / (shape->heads / shape->groups);
    int64_t queries = haul_min(QUERY_BLOCK, shape->queries - query);
    int64_t seen = visible_keys(shape, query + queries - 1, 0, shape->keys);
    int64_t stride = block_row(QUERY_BLOCK);
    load_queries(work, sample, head, query, queries, block);
    for (int64_t key = 0; key < seen; key += KEY_BLOCK) {
        int64_t keys = haul_min(KEY_BLOCK, seen - key);
        int64_t at = (sample * shape->key_capacity + key) * shape->key_stride + group * size;
        load_block(element(&args->key, at, work->bf16), work->bf16, keys, size, shape->key_stride,
                   block->key);
        load_block(element(&args->value, at, work->bf16), work->bf16, keys, size, shape->key_stride,
                   block->value);
        compute_scores(shape, sample, head, query, queries, key, keys, block);
        /* Row i of the block sees its rows j <= i + diagonal. */
        int64_t diagonal = query + shape->query_offset - key;
        tile_product over_queries = {
            .rows = keys,
            .depth = queries,
            .a = block->probability,
            .a_row = stride,
            .a_depth = 1,
            .b = block->d_out,
            .c = d_value + key * block_row(size),
            .begin = -diagonal,
            .end = UNBOUNDED,
        };
        add_product(size, over_queries);
        over_queries.a = block->d_score;
        over_queries.b = block->query;
        over_queries.c = d_key + key * block_row(size);
        add_product(size, over_queries);
        add_product(size, (tile_product){
                              .rows = queries,
                              .depth = keys,
                              .a = block->d_score,
                              .a_row = 1,
                              .a_depth = stride,
                              .b = block->key,
                              .c = block->d_query,
                              .begin = -UNBOUNDED,
                              .end = diagonal,
                          });
    }
    for (int64_t i = 0; i < queries; i++) {
        float *row = block->d_query + i * block_row(size);
        for (int64_t d = 0; d < size; d++) {
            row[d] *= (float)shape->scale;
        }
        int64_t to = (sample * shape->queries + query + i) * shape->query_stride + head * size;
        store_row(element(&args->d_query, to, work->bf16), size, work->bf16, row);
    }
}

/* Rows [begin, end) of d_key and d_value of a group: the sums of its heads, in ascending order.
 * `first` are those of its first head. */
static void store_keys(const backward *work, int64_t sample, int64_t group, int64_t begin,
                       int64_t end, float *first) {
    const haul_attention_shape *shape = &work->args->shape;
    const haul_tensor *gradients[] = {&work->args->d_key, &work->args->d_value};
    int64_t size = shape->head_size, sharing = shape->heads / shape->groups;
    for (int which = 0; which < 2; which++) {
        float factor = which == 0 ? (float)shape->scale : 1.0f; /* of scores to query . key */
        for (int64_t j = begin; j < end; j++) {
            float *sum = first + (which * shape->keys + j) * block_row(size);
            for (int64_t n = 1; n < sharing; n++) {
                const float *addend = sum + n * work->head_floats;
#pragma omp simd
                for (int64_t d = 0; d < size; d++) {
                    sum[d] += addend[d];
                }
            }
#pragma omp simd
            for (int64_t d = 0; d < size; d++) {
                sum[d] *= factor;
            }
            int64_t row = sample * shape->key_capacity + j;
            int64_t to = row * shape->key_stride + group * size;
            store_row(element(gradients[which], to, work->bf16), size, work->bf16, sum);
        }
    }
}

/* A unit is a head of a sample. */
static void attend_heads(void *context, int64_t begin, int64_t end, int thread) {
    const backward *work = context;
    const haul_attention_shape *shape = &work->args->shape;
    scratch_cut cut = {.memory = work->scratch + thread * work->thread_floats};
    blocks block = cut_scratch(&cut, shape);
    bool shared = shape->heads != shape->groups;
    for (int64_t j = 0; j < KEY_BLOCK * TILE; j++) {
        block.kept[j] = 1.0f;
    }
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t sample = unit / shape->heads, head = unit % shape->heads;
        float *d_key = shared ? work->heads + unit * work->head_floats : block.head;
        float *d_value = d_key + shape->keys * block_row(shape->head_size);
        memset(d_key, 0, (size_t)work->head_floats * sizeof(float));
        for (int64_t query = 0; query < shape->queries; query += QUERY_BLOCK) {
            attend_block(work, sample, head, query, d_key, d_value, &block);
        }
        if (!shared) {
            store_keys(work, sample, head, 0, shape->keys, d_key);
        }
    }
}

/* A unit is a key row of a group of a sample. */
static void sum_heads(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const backward *work = context;
    const haul_attention_shape *shape = &work->args->shape;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t key = unit % shape->keys, group = unit / shape->keys % shape->groups;
        int64_t sample = unit / shape->keys / shape->groups;
        int64_t first = sample * shape->heads + group * (shape->heads / shape->groups);
        store_keys(work, sample, group, key, key + 1, work->heads + first * work->head_floats);
    }
}

int64_t HAUL_ISA(haul_cpu_attention_backward_workspace)(haul_device *device, const void *args) {
    const haul_attention_backward_args *attention = args;
    const haul_attention_shape *shape = &attention->shape;
    int64_t shared = shape->heads != shape->groups ? shape->batch * shape->heads : 0;
    int64_t floats = device->threads * thread_floats(shape) + shared * head_sums_floats(shape);
    return floats * (int64_t)sizeof(float);
}

void HAUL_ISA(haul_cpu_attention_backward)(haul_stream *stream, const void *args) {
    const haul_attention_backward_args *attention = args;
    const haul_attention_shape *shape = &attention->shape;
    const haul_tensor *activations[] = {&attention->query, &attention->key,    &attention->value,
                                        &attention->out,   &attention->d_out,  &attention->d_query,
                                        &attention->d_key, &attention->d_value};
    const haul_tensor *statistics[] = {&attention->log_sum_exp};
    int threads = stream->device->threads;
    backward work = {
        .args = attention,
        .scratch = stream->scratch,
        .thread_floats = thread_floats(shape),
        .head_floats = head_sums_floats(shape),
    };
    if (!haul_cpu_dtype(stream, HAUL_OP_ATTENTION_BACKWARD, activations, 8, &work.bf16) ||
        !haul_cpu_f32(stream, HAUL_OP_ATTENTION_BACKWARD, statistics, 1)) {
        return;
    }
    work.heads = work.scratch + threads * work.thread_floats;
    haul_parallel_for(threads, shape->batch * shape->heads, 1, attend_heads, &work);
    if (shape->heads != shape->groups) {
        haul_parallel_for(threads, shape->batch * shape->groups * shape->keys, 16, sum_heads,
                          &work);
    }
}
