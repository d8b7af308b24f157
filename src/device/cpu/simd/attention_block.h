/* What the two directions of attention share: blocks of rows in f32, one product, the mask and the
 * dropout of a tile of scores.
 *
 * Scores are kept transposed, [key][query]: with a vector's lanes being queries, the softmax over
 * keys never looks across lanes, and keys and values are read as they lie in memory. A tile is
 * TILE queries (or TILE elements of a head) wide. */
#ifndef HAUL_DEVICE_CPU_SIMD_ATTENTION_BLOCK_H
#define HAUL_DEVICE_CPU_SIMD_ATTENTION_BLOCK_H

#include "base/memory.h"
#include "device/cpu/simd/random.h"
#include "device/cpu/simd/vector.h"

enum {
    TILE = 2 * LANES,
    TILE_ROWS = 6, /* 12 sums, 2 vectors of b, one of a: all but one of 16 registers */
    QUERY_BLOCK = 64,
    KEY_BLOCK = 96,
    UNBOUNDED = 1 << 30,
};

/* The floats between two rows of a block: whole tiles, plus a cache line so that the rows do not
 * all fall in the same few sets of the cache. */
HAUL_INLINE int64_t block_row(int64_t columns) {
    return haul_round_up(columns, TILE) + 16;
}

/* Hands out pieces of one thread's scratch, each on a cache line. Without memory it only counts. */
typedef struct scratch_cut {
    float *memory;
    int64_t floats; /* handed out */
} scratch_cut;

HAUL_INLINE float *take(scratch_cut *cut, int64_t floats) {
    float *piece = cut->memory == NULL ? NULL : cut->memory + cut->floats;
    cut->floats += haul_round_up(floats, 16);
    return piece;
}

/* A block in f32 of rows of `data`, padded by zeros to whole tiles both ways. */
HAUL_INLINE void load_block_as(const void *data, bool bf16, int64_t rows, int64_t columns,
                               int64_t stride, float *block) {
    int64_t width = haul_round_up(columns, TILE), padded_rows = haul_round_up(rows, TILE);
    for (int64_t r = 0; r < padded_rows; r++) {
        float *row = block + r * block_row(columns);
        int64_t count = r < rows ? columns : 0;
#pragma omp simd
        for (int64_t c = 0; c < count; c++) {
            row[c] = load(data, r * stride + c, bf16);
        }
        for (int64_t c = count; c < width; c++) {
            row[c] = 0.0f;
        }
    }
}

static inline void load_block(const void *data, bool bf16, int64_t rows, int64_t columns,
                              int64_t stride, float *block) {
    if (bf16) {
        load_block_as(data, true, rows, columns, stride, block);
    } else {
        load_block_as(data, false, rows, columns, stride, block);
    }
}

typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

/* Four of the elements 0 to 3 of a and 4 to 7 of b. gcc learned clang's builtin in version 12. */
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int quad_places __attribute__((vector_size(16)));
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (quad_places){i, j, k, l})
#endif

/* to[c][r] = scale * from[r][c]. Works on 4 x 4 elements at a time: rows and columns are rounded
 * up to multiples of 4. */
static inline void transpose(const float *from, int64_t from_row, int64_t rows, int64_t columns,
                             float scale, float *to, int64_t to_row) {
    for (int64_t r = 0; r < rows; r += 4) {
        for (int64_t c = 0; c < columns; c += 4) {
            const float *x = from + r * from_row + c;
            float *y = to + c * to_row + r;
            quad x0 = scale * *(const quad *)x, x1 = scale * *(const quad *)(x + from_row);
            quad x2 = scale * *(const quad *)(x + 2 * from_row);
            quad x3 = scale * *(const quad *)(x + 3 * from_row);
            quad low01 = SHUFFLE(x0, x1, 0, 4, 1, 5);
            quad low23 = SHUFFLE(x2, x3, 0, 4, 1, 5);
            quad high01 = SHUFFLE(x0, x1, 2, 6, 3, 7);
            quad high23 = SHUFFLE(x2, x3, 2, 6, 3, 7);
            *(quad *)y = SHUFFLE(low01, low23, 0, 1, 4, 5);
            *(quad *)(y + to_row) = SHUFFLE(low01, low23, 2, 3, 6, 7);
            *(quad *)(y + 2 * to_row) = SHUFFLE(high01, high23, 0, 1, 4, 5);
            *(quad *)(y + 3 * to_row) = SHUFFLE(high01, high23, 2, 3, 6, 7);
        }
    }
}

static const float log2_e = 0x1.715476p+0f;
static const float ln_2 = 0x1.62e430p-1f;

/* Where a running maximum begins: below every score, and finite, so that a difference with it
 * never is NaN. */
static const float lowest_score = -1e30f;

/* 2^x for x <= 0 (or a little above) within an ulp; 0 below 2^-126, NaN for NaN. Scores are kept in
 * units of ln 2, so that this does where e^x would cost half as much again. With n = round(x),
 * 2^x = 2^n (1 + r p(r)), p fitted for the least relative error on |r| <= 1/2 and
 * evaluated in short chains, which is what the loops around this wait for. */
HAUL_INLINE float exp2_f32(float x) {
    const float magic = 0x1.8p23f + 127.0f; /* leaves the exponent of 2^n in the low bits */
    float shifted = x + magic;
    float r = x - (shifted - magic);
    float square = r * r;
    float high = madd(r, 0x1.470b4ap-13f, 0x1.5f7276p-10f);
    float middle = madd(r, 0x1.3b270ep-7f, 0x1.c6ae72p-5f);
    float low = madd(r, 0x1.ebfbe2p-3f, 0x1.62e432p-1f);
    float p = madd(madd(madd(high, square, middle), square, low), r, 1.0f);
    float result = p * float_from_bits(float_bits(shifted) << 23);
    return x < -126.0f ? 0.0f : result;
}

/* Divides the output of one query by its softmax denominator; returns log_sum_exp. A query that
 * saw no key gives 0 and -inf. */
HAUL_INLINE float finish_row(float *out, int64_t size, float maximum, float sum) {
    float normalise = sum == 0.0f ? 0.0f : 1.0f / sum;
#pragma omp simd
    for (int64_t d = 0; d < size; d++) {
        out[d] *= normalise;
    }
    return maximum * ln_2 + logf(sum);
}

/* c[r][lane] (+)= sum over l of a[r, l] b[l][lane], for one tile of lanes. Row r needs only the l
 * in [r + begin, r + 1 + end), which a causal mask gives: what lies outside must be 0, since only
 * some of it is left out. */
typedef struct tile_product {
    int64_t rows, depth;
    const float *a;
    int64_t a_row, a_depth; /* floats between elements of a along r and l */
    const float *b;
    int64_t b_depth;
    float *c;
    int64_t c_row;
    int64_t begin, end;
    bool accumulate;
} tile_product;

HAUL_INLINE void multiply_rows(const tile_product *product, int64_t row, int rows) {
    int64_t begin = haul_max(0, row + product->begin);
    int64_t end = haul_min(product->depth, row + rows + product->end);
    int64_t a_row = product->a_row, a_depth = product->a_depth, b_depth = product->b_depth;
    const float *a = product->a + row * a_row + begin * a_depth;
    const float *b = product->b + begin * b_depth;
    float *c = product->c + row * product->c_row;
    int64_t c_row = product->c_row;
    bool accumulate = product->accumulate;
    vector sum[TILE_ROWS][2];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        sum[r][0] = sum[r][1] = (vector){0};
    }
    for (int64_t l = begin; l < end; l++, a += a_depth, b += b_depth) {
        vector b0 = vector_load(b), b1 = vector_load(b + LANES);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            vector x = vector_of(a[r * a_row]);
            sum[r][0] = vector_madd(x, b0, sum[r][0]);
            sum[r][1] = vector_madd(x, b1, sum[r][1]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        if (accumulate) {
            sum[r][0] += vector_load(c + r * c_row);
            sum[r][1] += vector_load(c + r * c_row + LANES);
        }
        vector_store(c + r * c_row, sum[r][0]);
        vector_store(c + r * c_row + LANES, sum[r][1]);
    }
}

static inline void multiply_tile(const tile_product *product) {
    int64_t row = 0;
    for (; row + TILE_ROWS <= product->rows; row += TILE_ROWS) {
        multiply_rows(product, row, TILE_ROWS);
    }
    switch (product->rows - row) {
    case 5:
        multiply_rows(product, row, 5);
        break;
    case 4:
        multiply_rows(product, row, 4);
        break;
    case 3:
        multiply_rows(product, row, 3);
        break;
    case 2:
        multiply_rows(product, row, 2);
        break;
    case 1:
        multiply_rows(product, row, 1);
        break;
    default:
        break;
    }
}

/* Where a tile of scores stands: lane i is query first_query + i of the sample, row j is key
 * first_key + j. `rows` of them are seen by at least one lane. */
typedef struct score_tile {
    float *scores;
    int64_t stride;
    int64_t rows;
    int64_t first_query, first_key;
} score_tile;

/* How many of `keys` keys from `first_key` on query `query` sees. */
HAUL_INLINE int64_t visible_keys(const haul_attention_shape *shape, int64_t query,
                                 int64_t first_key, int64_t keys) {
    return haul_max(0, haul_min(keys, query + shape->query_offset + 1 - first_key));
}

/* -inf where a lane must not see a row. */
static inline void mask_tile(const haul_attention_shape *shape, const score_tile *tile) {
    for (int64_t lane = 0; lane < TILE; lane++) {
        int64_t visible =
            visible_keys(shape, tile->first_query + lane, tile->first_key, tile->rows);
        for (int64_t j = visible; j < tile->rows; j++) {
            tile->scores[j * tile->stride + lane] = -INFINITY;
        }
    }
}

/* The dropout factors of a tile, kept[row][lane]. */
static inline void load_dropout(const haul_attention_shape *shape, int64_t sample, int64_t head,
                                const score_tile *tile, float *kept) {
    enum { ROW = KEY_BLOCK + 16 };
    float factors[TILE * ROW];
    dropout_rule rule = dropout_prepare(&shape->dropout);
    for (int64_t lane = 0; lane < TILE; lane++) {
        int64_t query = head * shape->queries + tile->first_query + lane;
        int64_t first = query * shape->keys + tile->first_key, phase = first % 4;
        /* Factors come by fours; those of the first key stand at 4. */
        dropout_factors_of(&rule, sample, first - phase, phase + tile->rows,
                           factors + lane * ROW + 4 - phase);
    }
    transpose(factors + 4, ROW, TILE, tile->rows, 1.0f, kept, TILE);
}

#endif
