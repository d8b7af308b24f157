/* QUANTIZE: tiles of 128 x 128 elements, which share scales or do not, whatever the scaling. */
#include "base/memory.h"
#include "device/cpu/simd/kernels.h"

enum {
    SIDE = HAUL_SCALING_BLOCK,
    CHUNK = 64 << 10, /* elements that one maximum of the first pass covers */
};

/* Magnitudes are compared by their bits, which puts NaN above infinity above the rest. */
static const uint32_t magnitude_mask = 0x7fffffff, infinity_bits = 0x7f800000;

typedef struct quantize_job {
    const haul_quantize_args *args;
    int64_t rows, columns;
    uint32_t *amax; /* with TENSOR: of each chunk */
    float factor;   /* with TENSOR */
    bool bf16, e5m2;
} quantize_job;

/* One tile, and the rounded codes of it, row by row. */
typedef struct tile {
    int64_t row, column, height, width;
    uint8_t codes[SIDE][SIDE];
} tile;

HAUL_INLINE uint32_t magnitude_bits(const void *x, int64_t index, bool bf16) {
    return float_bits(load(x, index, bf16)) & magnitude_mask;
}

/* haul_f32_to_e4m3 and haul_f32_to_e5m2 without branches. Adding `shift` to a magnitude below
 * `normal` leaves it, in units of the smallest code, in the last bits. */
HAUL_INLINE uint8_t code_of(float value, bool e5m2) {
    const int cut = e5m2 ? 21 : 20; /* bits of an f32's fraction that a code lacks */
    const uint32_t largest = e5m2 ? 0x47600000 : 0x43e00000; /* 57344 and 448 */
    const uint32_t normal = e5m2 ? 0x38800000 : 0x3c800000;  /* 2^-14 and 2^-6 */
    const float shift = e5m2 ? 0x1p7f : 0x1p14f;
    uint32_t bits = float_bits(value), magnitude = bits & magnitude_mask;
    uint32_t finite = magnitude < largest ? magnitude : largest;
    uint32_t small = float_bits(float_from_bits(finite) + shift) - float_bits(shift);
    uint32_t rounded = (finite + ((1u << (cut - 1)) - 1) + ((finite >> cut) & 1)) >> cut;
    uint32_t code = finite < normal ? small : rounded - (normal >> cut) + (1u << (23 - cut));
    return (uint8_t)(magnitude > infinity_bits ? 0x7f : code | ((bits >> 24) & 0x80));
}

/* The factor of what shares a scale, and the scale. */
static float factor_of(const quantize_job *job, uint32_t amax, float *scale) {
    if (amax == 0 || amax >= infinity_bits) {
        *scale = amax == 0 ? 1.0f : NAN;
        return 1.0f;
    }
    float factor = fminf((job->e5m2 ? 57344.0f : 448.0f) / float_from_bits(amax), 0x1p100f);
    if (job->args->scaling != HAUL_SCALING_TENSOR) {
        factor = float_from_bits(float_bits(factor) & infinity_bits); /* without its fraction */
    }
    *scale = 1.0f / factor;
    return factor;
}

HAUL_INLINE uint32_t largest_of(const void *x, int64_t begin, int64_t end, bool bf16) {
    uint32_t amax = 0;
#pragma omp simd reduction(max : amax)
    for (int64_t i = begin; i < end; i++) {
        uint32_t magnitude = magnitude_bits(x, i, bf16);
        amax = magnitude > amax ? magnitude : amax;
    }
    return amax;
}

static void find_chunk_amax(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const quantize_job *job = context;
    const void *x = job->args->x.data;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t first = chunk * CHUNK, last = haul_min(first + CHUNK, job->rows * job->columns);
        job->amax[chunk] =
            job->bf16 ? largest_of(x, first, last, true) : largest_of(x, first, last, false);
    }
}

/* Scales of the 128 (or fewer) rows of codes that a tile makes, and the padding behind the last. */
static void write_row_scales(const haul_tensor *scales, int64_t block, int64_t first, int64_t count,
                             const float *values) {
    float *row = (float *)scales->data + block * haul_tensor_columns(scales);
    int64_t end = haul_min(first + SIDE, haul_tensor_columns(scales));
    memcpy(row + first, values, (size_t)count * sizeof *values);
    for (int64_t r = first + count; r < end; r++) {
        row[r] = 0.0f;
    }
}

static void write_block_scale(const haul_tensor *scales, int64_t row, int64_t column, bool last,
                              float value) {
    int64_t stride = haul_tensor_columns(scales);
    float *to = (float *)scales->data + row * stride;
    to[column] = value;
    for (int64_t c = column + 1; c < stride && last; c++) {
        to[c] = 0.0f;
    }
}

HAUL_INLINE void find_row_amax(const quantize_job *job, const tile *t, uint32_t amax[SIDE],
                               bool bf16) {
    for (int64_t r = 0; r < t->height; r++) {
        int64_t begin = (t->row + r) * job->columns + t->column;
        amax[r] = largest_of(job->args->x.data, begin, begin + t->width, bf16);
    }
}

HAUL_INLINE void find_column_amax(const quantize_job *job, const tile *t, uint32_t amax[SIDE],
                                  bool bf16) {
    memset(amax, 0, SIDE * sizeof *amax);
    for (int64_t r = 0; r < t->height; r++) {
        const void *x = element(&job->args->x, (t->row + r) * job->columns + t->column, bf16);
#pragma omp simd
        for (int64_t c = 0; c < t->width; c++) {
            uint32_t magnitude = magnitude_bits(x, c, bf16);
            amax[c] = magnitude > amax[c] ? magnitude : amax[c];
        }
    }
}

/* The codes of a tile. Its rows have factors or, when `by_columns`, its columns. */
HAUL_INLINE void encode_tile(const quantize_job *job, tile *t, const float factors[SIDE],
                             bool by_columns, bool bf16, bool e5m2) {
    for (int64_t r = 0; r < t->height; r++) {
        const void *x = element(&job->args->x, (t->row + r) * job->columns + t->column, bf16);
        uint8_t *codes = t->codes[r];
        float factor = factors[r];
        if (by_columns) {
#pragma omp simd
            for (int64_t c = 0; c < t->width; c++) {
                codes[c] = code_of(load(x, c, bf16) * factors[c], e5m2);
            }
        } else {
#pragma omp simd
            for (int64_t c = 0; c < t->width; c++) {
                codes[c] = code_of(load(x, c, bf16) * factor, e5m2);
            }
        }
    }
}

static void write_codes(const quantize_job *job, const tile *t) {
    uint8_t *to = (uint8_t *)job->args->codes.data + t->row * job->columns + t->column;
    for (int64_t r = 0; r < t->height; r++) {
        memcpy(to + r * job->columns, t->codes[r], (size_t)t->width);
    }
}

/* Also the zeros behind the last row of x. */
static void write_transposed(const quantize_job *job, const tile *t) {
    int64_t stride = haul_tensor_columns(&job->args->transposed);
    int64_t padded = haul_min(SIDE, stride - t->row);
    for (int64_t c = 0; c < t->width; c++) {
        uint8_t *to = (uint8_t *)job->args->transposed.data + (t->column + c) * stride + t->row;
        for (int64_t r = 0; r < t->height; r++) {
            to[r] = t->codes[r][c];
        }
        memset(to + t->height, 0, (size_t)(padded - t->height));
    }
}

/* Writes the scale of a tile, too. */
HAUL_INLINE float block_factor(const quantize_job *job, const tile *t, bool bf16) {
    const haul_quantize_args *q = job->args;
    uint32_t rows[SIDE], amax = 0;
    float scale;
    find_row_amax(job, t, rows, bf16);
    for (int64_t r = 0; r < t->height; r++) {
        amax = rows[r] > amax ? rows[r] : amax;
    }
    float factor = factor_of(job, amax, &scale);
    int64_t row = t->row / SIDE, column = t->column / SIDE;
    if (haul_tensor_present(&q->codes)) {
        bool last = t->column + t->width == job->columns;
        write_block_scale(&q->scales, row, column, last, scale);
    }
    if (haul_tensor_present(&q->transposed)) {
        bool last = t->row + t->height == job->rows;
        write_block_scale(&q->transposed_scales, column, row, last, scale);
    }
    return factor;
}

/* Both copies by one factor. */
HAUL_INLINE void quantize_alike(const quantize_job *job, tile *t, bool bf16, bool e5m2) {
    float factors[SIDE], factor = job->factor;
    if (job->args->scaling == HAUL_SCALING_BLOCKS) {
        factor = block_factor(job, t, bf16);
    }
    for (int64_t r = 0; r < t->height; r++) {
        factors[r] = factor;
    }
    encode_tile(job, t, factors, false, bf16, e5m2);
    if (haul_tensor_present(&job->args->codes)) {
        write_codes(job, t);
    }
    if (haul_tensor_present(&job->args->transposed)) {
        write_transposed(job, t);
    }
}

/* Each row and each column of the tile by its own factor. */
HAUL_INLINE void quantize_by_rows(const quantize_job *job, tile *t, bool bf16, bool e5m2) {
    const haul_quantize_args *q = job->args;
    uint32_t amax[SIDE];
    float factors[SIDE], scales[SIDE];
    if (haul_tensor_present(&q->codes)) {
        find_row_amax(job, t, amax, bf16);
        for (int64_t r = 0; r < t->height; r++) {
            factors[r] = factor_of(job, amax[r], &scales[r]);
        }
        encode_tile(job, t, factors, false, bf16, e5m2);
        write_codes(job, t);
        write_row_scales(&q->scales, t->column / SIDE, t->row, t->height, scales);
    }
    if (haul_tensor_present(&q->transposed)) {
        find_column_amax(job, t, amax, bf16);
        for (int64_t c = 0; c < t->width; c++) {
            factors[c] = factor_of(job, amax[c], &scales[c]);
        }
        encode_tile(job, t, factors, true, bf16, e5m2);
        write_transposed(job, t);
        write_row_scales(&q->transposed_scales, t->row / SIDE, t->column, t->width, scales);
    }
}

HAUL_INLINE void quantize_tile(const quantize_job *job, tile *t, bool bf16, bool e5m2) {
    if (job->args->scaling == HAUL_SCALING_ROWS) {
        quantize_by_rows(job, t, bf16, e5m2);
    } else {
        quantize_alike(job, t, bf16, e5m2);
    }
}

static void quantize_tiles(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const quantize_job *job = context;
    int64_t across = (job->columns + SIDE - 1) / SIDE;
    tile t;
    for (int64_t i = begin; i < end; i++) {
        t.row = i / across * SIDE;
        t.column = i % across * SIDE;
        t.height = haul_min(SIDE, job->rows - t.row);
        t.width = haul_min(SIDE, job->columns - t.column);
        if (job->bf16) {
            job->e5m2 ? quantize_tile(job, &t, true, true) : quantize_tile(job, &t, true, false);
        } else {
            job->e5m2 ? quantize_tile(job, &t, false, true) : quantize_tile(job, &t, false, false);
        }
    }
}

static int64_t chunks_of(int64_t count) {
    return (count + CHUNK - 1) / CHUNK;
}

int64_t HAUL_ISA(haul_cpu_quantize_workspace)(haul_device *device, const void *args) {
    (void)device;
    const haul_quantize_args *q = args;
    bool two_passes = q->scaling == HAUL_SCALING_TENSOR;
    return two_passes ? chunks_of(haul_tensor_count(&q->x)) * (int64_t)sizeof(uint32_t) : 0;
}

/* With TENSOR: the first pass, and the scales. */
static void find_factor(haul_stream *stream, quantize_job *job) {
    const haul_tensor *const scales[] = {&job->args->scales, &job->args->transposed_scales};
    int64_t chunks = chunks_of(job->rows * job->columns);
    uint32_t amax = 0;
    float scale;
    haul_cpu_parallel(stream, chunks, 1, CHUNK * 2, find_chunk_amax, job);
    for (int64_t i = 0; i < chunks; i++) {
        amax = job->amax[i] > amax ? job->amax[i] : amax;
    }
    job->factor = factor_of(job, amax, &scale);
    for (int i = 0; i < 2; i++) {
        if (haul_tensor_present(scales[i])) {
            *(float *)scales[i]->data = scale;
        }
    }
}

void HAUL_ISA(haul_cpu_quantize)(haul_stream *stream, const void *args) {
    const haul_quantize_args *q = args;
    const haul_tensor *const activations[] = {&q->x};
    const haul_tensor *const scales[] = {&q->scales, &q->transposed_scales};
    haul_dtype format = haul_tensor_present(&q->codes) ? q->codes.dtype : q->transposed.dtype;
    quantize_job job = {.args = q,
                        .rows = haul_tensor_rows(&q->x),
                        .columns = haul_tensor_columns(&q->x),
                        .amax = stream->scratch,
                        .e5m2 = format == HAUL_E5M2};
    if (!haul_cpu_dtype(stream, HAUL_OP_QUANTIZE, activations, 1, &job.bf16) ||
        !haul_cpu_f32(stream, HAUL_OP_QUANTIZE, scales, 2)) {
        return;
    }
    if (q->scaling == HAUL_SCALING_TENSOR) {
        find_factor(stream, &job);
    }
    int64_t down = (job.rows + SIDE - 1) / SIDE, across = (job.columns + SIDE - 1) / SIDE;
    haul_cpu_parallel(stream, down * across, 1, SIDE * SIDE * 8, quantize_tiles, &job);
}
