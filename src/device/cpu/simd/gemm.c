#include "device/cpu/simd/gemm.h"

#include "base/memory.h"
#include "base/parallel.h"
#include "device/cpu/simd/isa.h"

#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#endif

/* A tile of c is TILE_ROWS x TILE_COLUMNS sums held in registers: all but three of those that the
 * instruction set has. A panel of b, DEPTH x TILE_COLUMNS, fits half the L1 cache, and the slivers
 * of a that pass by it, HEIGHT x DEPTH, half of a small L2. */
#if defined(__AVX512F__)
enum { LANES = 16, TILE_ROWS = 14, DEPTH = 192, SLIVERS = 8 };
#elif defined(__FMA__)
enum { LANES = 8, TILE_ROWS = 6, DEPTH = 256, SLIVERS = 16 };
#else
enum { LANES = 4, TILE_ROWS = 4, DEPTH = 256, SLIVERS = 24 };
#endif

enum {
    TILE_COLUMNS = 2 * LANES,
    HEIGHT = SLIVERS * TILE_ROWS,
    STRIP = 512,              /* columns that a block of slivers visits before the next block */
    ROW_STEP = DEPTH + LANES, /* of a sliver held by rows; no power of two, so rows spread in L1 */
    SLIVER = TILE_ROWS * ROW_STEP,
    PACKED_FLOATS = 1 << 22 /* of b at a time, when it was not packed beforehand */
};

typedef float vector __attribute__((vector_size(4 * LANES)));

HAUL_INLINE vector vector_load(const float *from) {
    vector value;
    memcpy(&value, from, sizeof value);
    return value;
}

HAUL_INLINE vector vector_madd(float a, vector b, vector c) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(_mm512_set1_ps(a), b, c);
#elif defined(__FMA__)
    return _mm256_fmadd_ps(_mm256_set1_ps(a), b, c);
#else
    return a * b + c;
#endif
}

/* c[i][j] (+)= sum over l < depth of a[i * row_step + l * step] b[l][j], with b a panel. */
HAUL_INLINE void tile(int64_t depth, const float *a, int64_t row_step, int64_t step, const float *b,
                      float *c, int64_t c_step, bool add) {
    vector sums[TILE_ROWS][2];
#pragma GCC unroll 16
    for (int i = 0; i < TILE_ROWS; i++) {
        sums[i][0] = add ? vector_load(c + i * c_step) : (vector){0};
        sums[i][1] = add ? vector_load(c + i * c_step + LANES) : (vector){0};
    }
    for (int64_t l = 0; l < depth; l++) {
        vector left = vector_load(b), right = vector_load(b + LANES);
#pragma GCC unroll 16
        for (int i = 0; i < TILE_ROWS; i++) {
            float value = a[i * row_step];
            sums[i][0] = vector_madd(value, left, sums[i][0]);
            sums[i][1] = vector_madd(value, right, sums[i][1]);
        }
        a += step;
        b += TILE_COLUMNS;
    }
#pragma GCC unroll 16
    for (int i = 0; i < TILE_ROWS; i++) {
        memcpy(c + i * c_step, &sums[i][0], sizeof(vector));
        memcpy(c + i * c_step + LANES, &sums[i][1], sizeof(vector));
    }
}

/* A sliver is held as a is: by rows, or by columns of TILE_ROWS elements when a is transposed. */
static void tile_by_rows(int64_t depth, const float *a, const float *b, float *c, int64_t c_step,
                         bool add) {
    tile(depth, a, ROW_STEP, 1, b, c, c_step, add);
}

static void tile_by_columns(int64_t depth, const float *a, const float *b, float *c, int64_t c_step,
                            bool add) {
    tile(depth, a, 1, TILE_ROWS, b, c, c_step, add);
}

static int64_t ceil_divide(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* K is cut into equal blocks of at most DEPTH. */
static int64_t block_depth(int64_t k) {
    return ceil_divide(k, ceil_divide(k, DEPTH));
}

static const void *at(const void *data, haul_dtype dtype, int64_t index) {
    return (const char *)data + index * (dtype == HAUL_BF16 ? 2 : 4);
}

/* --- packing ------------------------------------------------------------------------------- */

/* The packing of columns [column, column + columns) of b, block of depth by block. */
typedef struct panel_range {
    const haul_gemm *gemm;
    int64_t column, columns;
    float *packed;
} panel_range;

/* `count` elements as floats; a constant count makes it a few vector instructions. */
HAUL_INLINE void copy_row(float *to, const void *from, int64_t count, bool bf16) {
    if (bf16) {
        load_row(from, count, true, to);
    } else {
        memcpy(to, from, (size_t)count * sizeof *to);
    }
}

static void pack_panel(const haul_gemm *gemm, int64_t column, int64_t columns, int64_t row,
                       int64_t depth, float *out) {
    bool bf16 = gemm->b_dtype == HAUL_BF16;
    if (columns < TILE_COLUMNS) {
        memset(out, 0, (size_t)(depth * TILE_COLUMNS) * sizeof *out);
    }
    if (!gemm->transpose_b) {
        for (int64_t l = 0; l < depth; l++) {
            const void *from = at(gemm->b, gemm->b_dtype, (row + l) * gemm->n + column);
            if (columns == TILE_COLUMNS) {
                copy_row(out + l * TILE_COLUMNS, from, TILE_COLUMNS, bf16);
            } else {
                copy_row(out + l * TILE_COLUMNS, from, columns, bf16);
            }
        }
        return;
    }
    float buffer[DEPTH];
    for (int64_t j = 0; j < columns; j++) {
        const void *from = at(gemm->b, gemm->b_dtype, (column + j) * gemm->k + row);
        const float *values = load_row(from, depth, bf16, buffer);
        for (int64_t l = 0; l < depth; l++) {
            out[l * TILE_COLUMNS + j] = values[l];
        }
    }
}

/* Numbers [begin, end) of the panels, which are counted through the first block of depth, then
 * through the next. */
static void pack_panels(void *context, int64_t begin, int64_t end, int thread) {
    const panel_range *all = context;
    (void)thread;
    const haul_gemm *gemm = all->gemm;
    int64_t across = ceil_divide(all->columns, TILE_COLUMNS), depth = block_depth(gemm->k);
    for (int64_t index = begin; index < end; index++) {
        int64_t row = index / across * depth, column = index % across * TILE_COLUMNS;
        int64_t rows = haul_min(depth, gemm->k - row);
        float *out = all->packed + row * across * TILE_COLUMNS + column * rows;
        pack_panel(gemm, all->column + column, haul_min(TILE_COLUMNS, all->columns - column), row,
                   rows, out);
    }
}

static void pack_columns(const haul_gemm *gemm, int64_t column, int64_t columns, float *packed) {
    panel_range all = {gemm, column, columns, packed};
    int64_t blocks = ceil_divide(gemm->k, block_depth(gemm->k));
    haul_parallel_for(gemm->threads, blocks * ceil_divide(columns, TILE_COLUMNS), 1, pack_panels,
                      &all);
}

static void pack(const haul_gemm *gemm, float *packed) {
    pack_columns(gemm, 0, gemm->n, packed);
}

static int64_t packed_bytes(int64_t n, int64_t k) {
    return k * haul_round_up(n, TILE_COLUMNS) * (int64_t)sizeof(float);
}

/* Rows [row, row + rows) and columns [column, column + depth) of op(a) as slivers; the last is
 * filled up with zeros. */
static void pack_slivers(const haul_gemm *gemm, int64_t row, int64_t rows, int64_t column,
                         int64_t depth, float *slivers) {
    bool bf16 = gemm->a_dtype == HAUL_BF16;
    int64_t whole = rows / TILE_ROWS * TILE_ROWS;
    if (whole < rows) {
        memset(slivers + whole / TILE_ROWS * SLIVER, 0, SLIVER * sizeof *slivers);
    }
    if (!gemm->transpose_a) {
        for (int64_t i = 0; i < rows; i++) {
            const void *from = at(gemm->a, gemm->a_dtype, (row + i) * gemm->k + column);
            copy_row(slivers + i / TILE_ROWS * SLIVER + i % TILE_ROWS * ROW_STEP, from, depth,
                     bf16);
        }
        return;
    }
    float buffer[HEIGHT];
    for (int64_t l = 0; l < depth; l++) {
        const void *from = at(gemm->a, gemm->a_dtype, (column + l) * gemm->m + row);
        const float *values = load_row(from, rows, bf16, buffer);
        float *to = slivers + l * TILE_ROWS;
        for (int64_t i = 0; i < whole; i += TILE_ROWS, to += SLIVER) {
            memcpy(to, values + i, TILE_ROWS * sizeof *to);
        }
        memcpy(to, values + whole, (size_t)(rows - whole) * sizeof *to);
    }
}

/* --- the product --------------------------------------------------------------------------- */

/* A pass over c: columns [column, column + columns), whose b is packed, in grid_rows x
 * grid_columns cells, one a thread. */
typedef struct column_pass {
    const haul_gemm *gemm;
    const float *packed;
    int64_t column, columns;
    int64_t grid_rows, grid_columns;
    float *private; /* private_floats() for each cell */
} column_pass;

/* A block of c that one thread works on: at most HEIGHT x STRIP. The sums go to `target`: c itself,
 * or while c is bf16 a buffer, so that partial sums stay in f32. */
typedef struct c_block {
    int64_t row, rows;
    int64_t column, columns;
    float *target;
    int64_t step;
} c_block;

static int64_t private_floats(const haul_gemm *gemm) {
    return SLIVERS * SLIVER + (gemm->c_dtype == HAUL_BF16 ? HEIGHT * STRIP : 0);
}

/* Puts what the sums start from into the target; false when that is 0, which is not stored. */
static bool start_block(const haul_gemm *gemm, const c_block *block) {
    bool bf16 = gemm->c_dtype == HAUL_BF16;
    if (gemm->bias == NULL && !(bf16 && gemm->accumulate)) {
        return gemm->accumulate;
    }
    float bias_buffer[STRIP], buffer[STRIP];
    memset(bias_buffer, 0, sizeof bias_buffer);
    const float *bias = bias_buffer;
    if (gemm->bias != NULL) {
        bias = load_row(at(gemm->bias, gemm->bias_dtype, block->column), block->columns,
                        gemm->bias_dtype == HAUL_BF16, bias_buffer);
    }
    for (int64_t i = 0; i < block->rows; i++) {
        float *target = block->target + i * block->step;
        if (!gemm->accumulate) {
            memcpy(target, bias, (size_t)block->columns * sizeof *target);
            continue;
        }
        int64_t first = (block->row + i) * gemm->n + block->column;
        const float *c = load_row(at(gemm->c, gemm->c_dtype, first), block->columns, bf16, buffer);
        for (int64_t j = 0; j < block->columns; j++) {
            target[j] = c[j] + bias[j];
        }
    }
    return true;
}

/* A tile at the right or lower edge of c: computed beside it, then copied. */
static void edge_tile(const haul_gemm *gemm, int64_t depth, const float *a, const float *b,
                      float *c, int64_t step, int64_t rows, int64_t columns, bool add) {
    float whole[TILE_ROWS * TILE_COLUMNS] = {0};
    for (int64_t i = 0; i < rows && add; i++) {
        memcpy(whole + i * TILE_COLUMNS, c + i * step, (size_t)columns * sizeof *c);
    }
    (gemm->transpose_a ? tile_by_columns : tile_by_rows)(depth, a, b, whole, TILE_COLUMNS, add);
    for (int64_t i = 0; i < rows; i++) {
        memcpy(c + i * step, whole + i * TILE_COLUMNS, (size_t)columns * sizeof *c);
    }
}

/* Adds one block of depth: `b` is its first panel of this block of c. A panel stays in L1 while the
 * slivers pass by. */
static void add_depth(const haul_gemm *gemm, const c_block *block, int64_t depth,
                      const float *slivers, const float *b, bool add) {
    for (int64_t j = 0; j < block->columns; j += TILE_COLUMNS) {
        int64_t columns = haul_min(TILE_COLUMNS, block->columns - j);
        for (int64_t i = 0; i < block->rows; i += TILE_ROWS) {
            int64_t rows = haul_min(TILE_ROWS, block->rows - i);
            const float *a = slivers + i / TILE_ROWS * SLIVER;
            float *c = block->target + i * block->step + j;
            if (rows < TILE_ROWS || columns < TILE_COLUMNS) {
                edge_tile(gemm, depth, a, b + j * depth, c, block->step, rows, columns, add);
            } else if (gemm->transpose_a) {
                tile_by_columns(depth, a, b + j * depth, c, block->step, add);
            } else {
                tile_by_rows(depth, a, b + j * depth, c, block->step, add);
            }
        }
    }
}

static void multiply_block(const column_pass *pass, const c_block *block, float *slivers) {
    const haul_gemm *gemm = pass->gemm;
    int64_t step = block_depth(gemm->k);
    int64_t padded = haul_round_up(pass->columns, TILE_COLUMNS);
    bool add = start_block(gemm, block);
    for (int64_t l = 0; l < gemm->k; l += step) {
        int64_t depth = haul_min(step, gemm->k - l);
        const float *b = pass->packed + l * padded + (block->column - pass->column) * depth;
        pack_slivers(gemm, block->row, block->rows, l, depth, slivers);
        add_depth(gemm, block, depth, slivers, b, add);
        add = true;
    }
    for (int64_t i = 0; i < block->rows && gemm->c_dtype == HAUL_BF16; i++) {
        uint16_t *c = gemm->c;
        store_row(c + (block->row + i) * gemm->n + block->column, block->columns, true,
                  block->target + i * block->step);
    }
}

/* Cell `index` of the grid: its rows in blocks of HEIGHT, its columns in strips. */
static void multiply_cell(const column_pass *pass, int64_t index) {
    const haul_gemm *gemm = pass->gemm;
    float *slivers = pass->private + index * private_floats(gemm);
    int64_t i = index / pass->grid_columns, j = index % pass->grid_columns;
    int64_t tiles_down = ceil_divide(gemm->m, TILE_ROWS);
    int64_t tiles_across = ceil_divide(pass->columns, TILE_COLUMNS);
    int64_t row_end = haul_min(tiles_down * (i + 1) / pass->grid_rows * TILE_ROWS, gemm->m);
    int64_t column_end =
        haul_min(tiles_across * (j + 1) / pass->grid_columns * TILE_COLUMNS, pass->columns);
    int64_t first_column = tiles_across * j / pass->grid_columns * TILE_COLUMNS;
    for (int64_t row = tiles_down * i / pass->grid_rows * TILE_ROWS; row < row_end; row += HEIGHT) {
        for (int64_t column = first_column; column < column_end; column += STRIP) {
            c_block block = {
                .row = row,
                .rows = haul_min(HEIGHT, row_end - row),
                .column = pass->column + column,
                .columns = haul_min(STRIP, column_end - column),
                .target = slivers + SLIVERS * SLIVER,
                .step = STRIP,
            };
            if (gemm->c_dtype != HAUL_BF16) {
                block.target = (float *)gemm->c + row * gemm->n + block.column;
                block.step = gemm->n;
            }
            multiply_block(pass, &block, slivers);
        }
    }
}

static void multiply_cells(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    for (int64_t index = begin; index < end; index++) {
        multiply_cell(context, index);
    }
}

/* The grid whose largest cell has the fewest tiles; of several, the one with the most rows, whose
 * cells share no slivers. */
static void choose_grid(column_pass *pass) {
    int threads = pass->gemm->threads;
    int64_t down = ceil_divide(pass->gemm->m, TILE_ROWS);
    int64_t across = ceil_divide(pass->columns, TILE_COLUMNS);
    int64_t best = INT64_MAX;
    for (int64_t rows = haul_min(threads, down); rows > 0; rows--) {
        int64_t columns = haul_min(threads / rows, across);
        int64_t tiles = ceil_divide(down, rows) * ceil_divide(across, columns);
        if (tiles < best) {
            best = tiles;
            pass->grid_rows = rows;
            pass->grid_columns = columns;
        }
    }
}

/* Columns of b that are packed at a time. */
static int64_t pass_columns(const haul_gemm *gemm) {
    int64_t fitting = haul_max(PACKED_FLOATS / gemm->k / TILE_COLUMNS * TILE_COLUMNS, TILE_COLUMNS);
    return haul_min(fitting, haul_round_up(gemm->n, TILE_COLUMNS));
}

static int64_t workspace(const haul_gemm *gemm, bool packed) {
    int64_t floats = gemm->threads * private_floats(gemm);
    floats += packed ? 0 : gemm->k * pass_columns(gemm);
    return floats * (int64_t)sizeof(float);
}

static void multiply(const haul_gemm *gemm) {
    column_pass pass = {.gemm = gemm, .packed = gemm->packed, .private = gemm->workspace};
    float *panel = gemm->workspace + gemm->threads * private_floats(gemm);
    int64_t step = gemm->packed != NULL ? gemm->n : pass_columns(gemm);
    for (int64_t column = 0; column < gemm->n; column += step) {
        pass.column = column;
        pass.columns = haul_min(step, gemm->n - column);
        if (gemm->packed == NULL) {
            pack_columns(gemm, column, pass.columns, panel);
            pass.packed = panel;
        }
        choose_grid(&pass);
        haul_parallel_for(gemm->threads, pass.grid_rows * pass.grid_columns, 1, multiply_cells,
                          &pass);
    }
}

/* --- conversions of whole arrays ------------------------------------------------------------ */

typedef struct conversion_args {
    const void *from;
    void *to;
    bool accumulate;
} conversion_args;

static void widen_range(void *context, int64_t begin, int64_t end, int thread) {
    const conversion_args *conversion = context;
    (void)thread;
    const uint16_t *x = conversion->from;
    float *y = conversion->to;
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        y[i] = haul_bf16_to_f32(x[i]);
    }
}

static void narrow_range(void *context, int64_t begin, int64_t end, int thread) {
    const conversion_args *conversion = context;
    (void)thread;
    const float *x = conversion->from;
    uint16_t *y = conversion->to;
    if (!conversion->accumulate) {
        store_row(y + begin, end - begin, true, x + begin);
        return;
    }
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        y[i] = haul_f32_to_bf16(haul_bf16_to_f32(y[i]) + x[i]);
    }
}

enum { CONVERSION_GRAIN = 4096 };

static void widen(int threads, int64_t count, const uint16_t *x, float *y) {
    conversion_args conversion = {.from = x, .to = y};
    haul_parallel_for(threads, count, CONVERSION_GRAIN, widen_range, &conversion);
}

static void narrow(int threads, int64_t count, const float *x, uint16_t *y, bool accumulate) {
    conversion_args conversion = {.from = x, .to = y, .accumulate = accumulate};
    haul_parallel_for(threads, count, CONVERSION_GRAIN, narrow_range, &conversion);
}

#define HAUL_ISA_TEXT(suffix)        #suffix
#define HAUL_ISA_TEXT_EXPAND(suffix) HAUL_ISA_TEXT(suffix)

const haul_gemm_kernels HAUL_ISA(haul_gemm) = {
    .isa = HAUL_ISA_TEXT_EXPAND(HAUL_ISA_SUFFIX),
    .workspace = workspace,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .multiply = multiply,
    .widen = widen,
    .narrow = narrow,
};
