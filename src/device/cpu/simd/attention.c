#include "device/cpu/simd/attention.h"

#include "device/cpu/launch.h"
#include "device/cpu/simd/attention_block.h"

typedef struct forward {
    const haul_attention_args *args;
    bool bf16;
    float *scratch;
    int64_t thread_floats;
} forward;

/* The scratch of a thread. */
typedef struct blocks {
    float *rows;    /* [QUERY_BLOCK, D], as loaded and to be stored */
    float *query;   /* [D, QUERY_BLOCK], scaled, in units of ln 2 */
    float *key;     /* [KEY_BLOCK, D] */
    float *value;   /* [KEY_BLOCK, D] */
    float *scores;  /* [KEY_BLOCK, TILE], then the probabilities */
    float *kept;    /* [KEY_BLOCK, TILE]: dropout factors */
    float *out;     /* [D, QUERY_BLOCK] */
    float *maximum; /* [QUERY_BLOCK]: of the scores so far */
    float *sum;     /* [QUERY_BLOCK]: of 2^(score - maximum) so far */
} blocks;

static blocks cut_scratch(scratch_cut *cut, int64_t head_size) {
    return (blocks){
        .rows = take(cut, QUERY_BLOCK * block_row(head_size)),
        .query = take(cut, haul_round_up(head_size, 4) * block_row(QUERY_BLOCK)),
        .key = take(cut, KEY_BLOCK * block_row(head_size)),
        .value = take(cut, KEY_BLOCK * block_row(head_size)),
        .scores = take(cut, KEY_BLOCK * TILE),
        .kept = take(cut, KEY_BLOCK * TILE),
        .out = take(cut, haul_round_up(head_size, 4) * block_row(QUERY_BLOCK)),
        .maximum = take(cut, QUERY_BLOCK),
        .sum = take(cut, QUERY_BLOCK),
    };
}

static int64_t thread_floats(const haul_attention_shape *shape) {
    scratch_cut cut = {0};
    cut_scratch(&cut, shape->head_size);
    return cut.floats;
}

/* scores = 2^(scores - maximum) with the new maximum; sum and out are brought to it. */
static void update_softmax(const score_tile *tile, float *maximum, float *sum, float *out,
                           int64_t head_size) {
    vector m0 = vector_load(maximum), m1 = vector_load(maximum + LANES);
    for (int64_t j = 0; j < tile->rows; j++) {
        m0 = vector_max(m0, vector_load(tile->scores + j * TILE));
        m1 = vector_max(m1, vector_load(tile->scores + j * TILE + LANES));
    }
    float shrink[TILE] __attribute__((aligned(64)));
    float now[TILE] __attribute__((aligned(64)));
    vector_store(now, m0);
    vector_store(now + LANES, m1);
#pragma omp simd
    for (int i = 0; i < TILE; i++) {
        shrink[i] = exp2_f32(maximum[i] - now[i]);
        maximum[i] = now[i];
    }
    for (int64_t j = 0; j < tile->rows; j++) {
        float *row = tile->scores + j * TILE;
#pragma omp simd
        for (int i = 0; i < TILE; i++) {
            row[i] = exp2_f32(row[i] - now[i]);
        }
    }
    vector s0 = vector_load(shrink), s1 = vector_load(shrink + LANES);
    for (int64_t d = 0; d < head_size; d++) {
        float *row = out + d * block_row(QUERY_BLOCK);
        vector_store(row, s0 * vector_load(row));
        vector_store(row + LANES, s1 * vector_load(row + LANES));
    }
    vector sum0 = s0 * vector_load(sum), sum1 = s1 * vector_load(sum + LANES);
    for (int64_t j = 0; j < tile->rows; j++) {
        sum0 += vector_load(tile->scores + j * TILE);
        sum1 += vector_load(tile->scores + j * TILE + LANES);
    }
    vector_store(sum, sum0);
    vector_store(sum + LANES, sum1);
}

/* TILE queries from `lane` of the query block on, against the keys that they see of a block. */
static void attend_tile(const haul_attention_shape *shape, int64_t sample, int64_t head,
                        const blocks *block, int64_t lane, score_tile *tile) {
    int64_t size = shape->head_size;
    tile_product product = {
        .rows = tile->rows,
        .depth = size,
        .a = block->key,
        .a_row = block_row(size),
        .a_depth = 1,
        .b = block->query + lane,
        .b_depth = block_row(QUERY_BLOCK),
        .c = tile->scores,
        .c_row = TILE,
        .begin = -UNBOUNDED,
        .end = UNBOUNDED,
    };
    multiply_tile(&product);
    mask_tile(shape, tile);
    update_softmax(tile, block->maximum + lane, block->sum + lane, block->out + lane, size);
    if (shape->dropout.probability > 0.0) {
        load_dropout(shape, sample, head, tile, block->kept);
#pragma omp simd
        for (int64_t i = 0; i < tile->rows * TILE; i++) {
            tile->scores[i] *= block->kept[i];
        }
    }
    product = (tile_product){
        .rows = size,
        .depth = tile->rows,
        .a = block->value,
        .a_row = 1,
        .a_depth = block_row(size),
        .b = tile->scores,
        .b_depth = TILE,
        .c = block->out + lane,
        .c_row = block_row(QUERY_BLOCK),
        .begin = -UNBOUNDED,
        .end = UNBOUNDED,
        .accumulate = true,
    };
    multiply_tile(&product);
}

static void load_queries(const forward *work, int64_t sample, int64_t head, int64_t first,
                         int64_t count, const blocks *block) {
    const haul_attention_shape *shape = &work->args->shape;
    int64_t row = sample * shape->queries + first, size = shape->head_size;
    load_block(element(&work->args->query, row * shape->query_stride + head * size, work->bf16),
               work->bf16, count, size, shape->query_stride, block->rows);
    transpose(block->rows, block_row(size), haul_round_up(count, TILE), size,
              (float)shape->scale * log2_e, block->query, block_row(QUERY_BLOCK));
    for (int64_t i = 0; i < QUERY_BLOCK; i++) {
        block->maximum[i] = lowest_score;
        block->sum[i] = 0.0f;
    }
    memset(block->out, 0,
           (size_t)(haul_round_up(size, 4) * block_row(QUERY_BLOCK)) * sizeof(float));
}

static void store_queries(const forward *work, int64_t sample, int64_t head, int64_t first,
                          int64_t count, const blocks *block) {
    const haul_attention_shape *shape = &work->args->shape;
    int64_t size = shape->head_size;
    float *statistics = (float *)work->args->log_sum_exp.data +
                        (sample * shape->heads + head) * shape->queries + first;
    transpose(block->out, block_row(QUERY_BLOCK), size, count, 1.0f, block->rows, block_row(size));
    for (int64_t i = 0; i < count; i++) {
        float *row = block->rows + i * block_row(size);
        statistics[i] = finish_row(row, size, block->maximum[i], block->sum[i]);
        int64_t to = (sample * shape->queries + first + i) * shape->heads + head;
        store_row(element(&work->args->out, to * size, work->bf16), size, work->bf16, row);
    }
}

static void attend_block(const forward *work, int64_t sample, int64_t head, int64_t first,
                         const blocks *block) {
    const haul_attention_args *args = work->args;
    const haul_attention_shape *shape = &args->shape;
    int64_t size = shape->head_size, group = head / (shape->heads / shape->groups);
    int64_t queries = haul_min(QUERY_BLOCK, shape->queries - first);
    int64_t seen = visible_keys(shape, first + queries - 1, 0, shape->keys);
    load_queries(work, sample, head, first, queries, block);
    for (int64_t key = 0; key < seen; key += KEY_BLOCK) {
        int64_t keys = haul_min(KEY_BLOCK, seen - key);
        int64_t at = (sample * shape->key_capacity + key) * shape->key_stride + group * size;
        load_block(element(&args->key, at, work->bf16), work->bf16, keys, size, shape->key_stride,
                   block->key);
        load_block(element(&args->value, at, work->bf16), work->bf16, keys, size, shape->key_stride,
                   block->value);
        for (int64_t lane = 0; lane < queries; lane += TILE) {
            score_tile tile = {
                .scores = block->scores,
                .stride = TILE,
                .rows = visible_keys(shape, first + lane + TILE - 1, key, keys),
                .first_query = first + lane,
                .first_key = key,
            };
            attend_tile(shape, sample, head, block, lane, &tile);
        }
    }
    store_queries(work, sample, head, first, queries, block);
}

static int64_t query_blocks(const haul_attention_shape *shape) {
    return (shape->queries + QUERY_BLOCK - 1) / QUERY_BLOCK;
}

/* A unit is a head of a sample and a pair of query blocks, one from either end, so that units cost
 * the same under the causal mask. */
static void attend_units(void *context, int64_t begin, int64_t end, int thread) {
    const forward *work = context;
    const haul_attention_shape *shape = &work->args->shape;
    int64_t count = query_blocks(shape), pairs = (count + 1) / 2;
    scratch_cut cut = {.memory = work->scratch + thread * work->thread_floats};
    blocks block = cut_scratch(&cut, shape->head_size);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t pair = unit % pairs, head = unit / pairs % shape->heads;
        int64_t sample = unit / pairs / shape->heads;
        attend_block(work, sample, head, pair * QUERY_BLOCK, &block);
        if (count - 1 - pair != pair) {
            attend_block(work, sample, head, (count - 1 - pair) * QUERY_BLOCK, &block);
        }
    }
}

int64_t HAUL_ISA(haul_cpu_attention_workspace)(haul_device *device, const void *args) {
    const haul_attention_args *attention = args;
    if (HAUL_ISA(haul_cpu_attention_decodes)(&attention->shape)) {
        return HAUL_ISA(haul_cpu_attention_decode_workspace)(device, attention);
    }
    return device->threads * thread_floats(&attention->shape) * (int64_t)sizeof(float);
}

void HAUL_ISA(haul_cpu_attention)(haul_stream *stream, const void *args) {
    const haul_attention_args *attention = args;
    const haul_attention_shape *shape = &attention->shape;
    const haul_tensor *activations[] = {&attention->query, &attention->key, &attention->value,
                                        &attention->out};
    const haul_tensor *statistics[] = {&attention->log_sum_exp};
    forward work = {
        .args = attention,
        .scratch = stream->scratch,
        .thread_floats = thread_floats(shape),
    };
    if (!haul_cpu_dtype(stream, HAUL_OP_ATTENTION, activations, 4, &work.bf16) ||
        !haul_cpu_f32(stream, HAUL_OP_ATTENTION, statistics, 1)) {
        return;
    }
    if (HAUL_ISA(haul_cpu_attention_decodes)(shape)) {
        HAUL_ISA(haul_cpu_attention_decode)(stream, attention, work.bf16);
        return;
    }
    int64_t units = shape->batch * shape->heads * ((query_blocks(shape) + 1) / 2);
    haul_parallel_for(stream->device->threads, units, 1, attend_units, &work);
}
