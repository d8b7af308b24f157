/* One query a sample, as in generation: no tile of queries would be full, and reading the keys and
 * values takes all the time. So the lanes of a vector are elements of a head here, keys and values
 * are used where they lie, and the heads of a group look at a block of keys while it is in the
 * cache. */
#include "device/cpu/simd/attention.h"

#include "device/cpu/launch.h"
#include "device/cpu/simd/attention_block.h"

typedef struct decode {
    const haul_attention_args *args;
    bool bf16;
    float *scratch;
    int64_t thread_floats;
} decode;

/* The scratch of a thread; everything is in f32 and by head of the group. */
typedef struct blocks {
    float *query;   /* [N / G, D], scaled, in units of ln 2 */
    float *out;     /* [N / G, D] */
    float *maximum; /* [N / G] */
    float *sum;     /* [N / G] */
    float *scores;  /* [KEY_BLOCK], then the probabilities */
} blocks;

static blocks cut_scratch(scratch_cut *cut, const haul_attention_shape *shape) {
    int64_t sharing = shape->heads / shape->groups;
    return (blocks){
        .query = take(cut, sharing * shape->head_size),
        .out = take(cut, sharing * shape->head_size),
        .maximum = take(cut, sharing),
        .sum = take(cut, sharing),
        .scores = take(cut, KEY_BLOCK),
    };
}

static int64_t thread_floats(const haul_attention_shape *shape) {
    scratch_cut cut = {0};
    cut_scratch(&cut, shape);
    return cut.floats;
}

/* The probabilities of `keys` scores, not normalised; returns what earlier sums shrink by. */
static float update_softmax(float *scores, int64_t keys, float *maximum, float *sum) {
    float before = *maximum, now = before, added = 0.0f;
    for (int64_t j = 0; j < keys; j++) {
        now = scores[j] > now ? scores[j] : now;
    }
#pragma omp simd reduction(+ : added)
    for (int64_t j = 0; j < keys; j++) {
        scores[j] = exp2_f32(scores[j] - now);
        added += scores[j];
    }
    float shrink = exp2_f32(before - now);
    *maximum = now;
    *sum = *sum * shrink + added;
    return shrink;
}

/* scores[j] = query . key[j] */
HAUL_INLINE void score_keys(int64_t size, bool bf16, const float *query, const void *key,
                            int64_t stride, int64_t keys, float *scores) {
    int64_t j = 0;
    for (; j + 4 <= keys; j += 4) {
        float score0 = 0.0f, score1 = 0.0f, score2 = 0.0f, score3 = 0.0f;
        int64_t at = j * stride;
#pragma omp simd reduction(+ : score0, score1, score2, score3)
        for (int64_t d = 0; d < size; d++) {
            score0 = madd(query[d], load(key, at + d, bf16), score0);
            score1 = madd(query[d], load(key, at + stride + d, bf16), score1);
            score2 = madd(query[d], load(key, at + 2 * stride + d, bf16), score2);
            score3 = madd(query[d], load(key, at + 3 * stride + d, bf16), score3);
        }
        scores[j] = score0;
        scores[j + 1] = score1;
        scores[j + 2] = score2;
        scores[j + 3] = score3;
    }
    for (; j < keys; j++) {
        float score = 0.0f;
#pragma omp simd reduction(+ : score)
        for (int64_t d = 0; d < size; d++) {
            score = madd(query[d], load(key, j * stride + d, bf16), score);
        }
        scores[j] = score;
    }
}

/* out += sum over j of probability[j] value[j] */
HAUL_INLINE void add_values(int64_t size, bool bf16, const float *probability, const void *value,
                            int64_t stride, int64_t keys, float *out) {
    int64_t j = 0;
    for (; j + 4 <= keys; j += 4) {
        float p0 = probability[j], p1 = probability[j + 1];
        float p2 = probability[j + 2], p3 = probability[j + 3];
        int64_t at = j * stride;
#pragma omp simd
        for (int64_t d = 0; d < size; d++) {
            float sum = madd(p0, load(value, at + d, bf16), out[d]);
            sum = madd(p1, load(value, at + stride + d, bf16), sum);
            sum = madd(p2, load(value, at + 2 * stride + d, bf16), sum);
            out[d] = madd(p3, load(value, at + 3 * stride + d, bf16), sum);
        }
    }
    for (; j < keys; j++) {
        float p = probability[j];
#pragma omp simd
        for (int64_t d = 0; d < size; d++) {
            out[d] = madd(p, load(value, j * stride + d, bf16), out[d]);
        }
    }
}

HAUL_INLINE void attend_keys(const haul_attention_shape *shape, bool bf16, const void *key,
                             const void *value, int64_t keys, int64_t head, const blocks *block) {
    int64_t size = shape->head_size, stride = shape->key_stride;
    const float *query = block->query + head * size;
    float *out = block->out + head * size;
    score_keys(size, bf16, query, key, stride, keys, block->scores);
    float shrink = update_softmax(block->scores, keys, block->maximum + head, block->sum + head);
#pragma omp simd
    for (int64_t d = 0; d < size; d++) {
        out[d] *= shrink;
    }
    add_values(size, bf16, block->scores, value, stride, keys, out);
}

HAUL_INLINE void decode_group(const haul_attention_args *args, bool bf16, int64_t sample,
                              int64_t group, const blocks *block) {
    const haul_attention_shape *shape = &args->shape;
    int64_t size = shape->head_size, sharing = shape->heads / shape->groups;
    int64_t first_head = group * sharing, seen = visible_keys(shape, 0, 0, shape->keys);
    float factor = (float)shape->scale * log2_e;
    for (int64_t i = 0; i < sharing * size; i++) {
        int64_t from = sample * shape->query_stride + first_head * size + i;
        block->query[i] = factor * load(args->query.data, from, bf16);
        block->out[i] = 0.0f;
    }
    for (int64_t head = 0; head < sharing; head++) {
        block->maximum[head] = lowest_score;
        block->sum[head] = 0.0f;
    }
    for (int64_t key = 0; key < seen; key += KEY_BLOCK) {
        int64_t at = (sample * shape->key_capacity + key) * shape->key_stride + group * size;
        for (int64_t head = 0; head < sharing; head++) {
            attend_keys(shape, bf16, element(&args->key, at, bf16), element(&args->value, at, bf16),
                        haul_min(KEY_BLOCK, seen - key), head, block);
        }
    }
    for (int64_t head = 0; head < sharing; head++) {
        int64_t row = sample * shape->heads + first_head + head;
        float *out = block->out + head * size;
        ((float *)args->log_sum_exp.data)[row] =
            finish_row(out, size, block->maximum[head], block->sum[head]);
        store_row(element(&args->out, row * size, bf16), size, bf16, out);
    }
}

/* A unit is a group of a sample. */
static void decode_groups(void *context, int64_t begin, int64_t end, int thread) {
    const decode *work = context;
    const haul_attention_shape *shape = &work->args->shape;
    scratch_cut cut = {.memory = work->scratch + thread * work->thread_floats};
    blocks block = cut_scratch(&cut, shape);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t sample = unit / shape->groups, group = unit % shape->groups;
        if (work->bf16) {
            decode_group(work->args, true, sample, group, &block);
        } else {
            decode_group(work->args, false, sample, group, &block);
        }
    }
}

bool HAUL_ISA(haul_cpu_attention_decodes)(const haul_attention_shape *shape) {
    return shape->queries == 1 && shape->dropout.probability <= 0.0;
}

int64_t HAUL_ISA(haul_cpu_attention_decode_workspace)(haul_device *device,
                                                      const haul_attention_args *args) {
    return device->threads * thread_floats(&args->shape) * (int64_t)sizeof(float);
}

void HAUL_ISA(haul_cpu_attention_decode)(haul_stream *stream, const haul_attention_args *args,
                                         bool bf16) {
    const haul_attention_shape *shape = &args->shape;
    decode work = {
        .args = args,
        .bf16 = bf16,
        .scratch = stream->scratch,
        .thread_floats = thread_floats(shape),
    };
    int64_t bytes = 2 * shape->keys * shape->head_size * haul_dtype_size(args->key.dtype);
    haul_cpu_parallel(stream, shape->batch * shape->groups, 1, bytes, decode_groups, &work);
}
