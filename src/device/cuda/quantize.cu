/* QUANTIZE: a block makes the codes of a tile of 128 x 128 elements, whatever the scaling. A thread
 * keeps a patch of it, 8 rows of one group of 16 bytes, in registers: x is read once, but for the
 * pass before that finds the largest magnitude with TENSOR. */
#include "device/cuda/bits.cuh"
#include "device/cuda/kernels.h"

static const int SIDE = HAUL_SCALING_BLOCK, PATCH = 8, STRIP = 8;
static const int AMAX_THREADS = 512, AMAX_LOADS = 8, AMAX_BLOCKS_PER_MULTIPROCESSOR = 2;
static const uint32_t INFINITY_BITS = 0x7f800000u;

template <typename T> struct tile_of {
    static const int width = group_of<T>::elements; /* columns of a patch */
    static const int across = SIDE / width;         /* patches beside each other */
    static const int threads = across * SIDE / PATCH;
    static const int blocks = sizeof(T) == 2 ? 3 : 1; /* of a multiprocessor, at least */
};

struct quantize_job {
    const void *x;
    uint8_t *codes, *transposed; /* NULL: not asked for */
    float *scales, *transposed_scales;
    int64_t rows, columns, padded_rows;
    int64_t scales_stride, transposed_stride; /* of scales */
    int tile_rows, tile_columns;
    bool wide; /* groups of x and of codes are aligned and do not cross the end of a row */
    const uint32_t *partial; /* with TENSOR: largest magnitudes of parts of x */
    int partials;
};

/* The elements of a thread. */
struct patch {
    int64_t row, column;
    int64_t offset;    /* of the first one in x */
    int rows, columns; /* of it in x */
};

/* --- magnitudes ----------------------------------------------------------------------------- */

/* Magnitudes are compared by their bits, which puts NaN above infinity above the rest; those of
 * bf16 two at a time, in the halves of a word. */
template <typename T> static __device__ __forceinline__ uint32_t magnitudes(uint32_t word) {
    return word & (sizeof(T) == 2 ? 0x7fff7fffu : 0x7fffffffu);
}

template <typename T> static __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) {
    return sizeof(T) == 2 ? __vmaxu2(a, b) : max(a, b);
}

/* As an f32, from its element `index`. */
template <typename T>
static __device__ __forceinline__ uint32_t magnitude_at(uint32_t word, int index) {
    return sizeof(T) == 4 ? word : index % 2 == 0 ? word << 16 : word & 0xffff0000u;
}

template <typename T> static __device__ __forceinline__ uint32_t largest_in(uint32_t word) {
    return max(magnitude_at<T>(word, 0), magnitude_at<T>(word, 1));
}

template <typename T> static __device__ __forceinline__ uint32_t larger_of_group(uint4 bits) {
    return larger<T>(larger<T>(magnitudes<T>(bits.x), magnitudes<T>(bits.y)),
                     larger<T>(magnitudes<T>(bits.z), magnitudes<T>(bits.w)));
}

/* The largest over the threads of a block, given to all of them. `shared` has 32 elements. */
static __device__ __forceinline__ uint32_t block_max(uint32_t amax, uint32_t *shared) {
    amax = __reduce_max_sync(0xffffffffu, amax);
    if (threadIdx.x % 32 == 0) {
        shared[threadIdx.x / 32] = amax;
    }
    __syncthreads();
    for (int warp = 0; warp < (int)blockDim.x / 32; warp++) {
        amax = max(amax, shared[warp]);
    }
    return amax;
}

template <typename T>
static __global__ void __launch_bounds__(AMAX_THREADS)
    amax_kernel(const T *x, int64_t count, uint32_t *partial) {
    __shared__ uint32_t shared[32];
    int64_t step = (int64_t)gridDim.x * AMAX_THREADS * group_of<T>::elements;
    int64_t at = (blockIdx.x * (int64_t)AMAX_THREADS + threadIdx.x) * group_of<T>::elements;
    uint32_t amax = 0;
    for (; at < count; at += AMAX_LOADS * step) {
        uint4 bits[AMAX_LOADS];
#pragma unroll
        for (int i = 0; i < AMAX_LOADS; i++) {
            bits[i] = load_bits(x, at + i * step, count);
        }
#pragma unroll
        for (int i = 0; i < AMAX_LOADS; i++) {
            amax = larger<T>(amax, larger_of_group<T>(bits[i]));
        }
    }
    amax = block_max(largest_in<T>(amax), shared);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = amax;
    }
}

/* --- factors -------------------------------------------------------------------------------- */

struct scaling_pair {
    float factor, scale;
};

static __device__ __forceinline__ scaling_pair special_pair(uint32_t amax) {
    return {1.0f, amax == 0 ? 1.0f : __uint_as_float(0x7fc00000u)};
}

template <bool E5M2> static __device__ __forceinline__ scaling_pair tensor_pair(uint32_t amax) {
    if (amax == 0 || amax >= INFINITY_BITS) {
        return special_pair(amax);
    }
    float largest = E5M2 ? 57344.0f : 448.0f;
    float factor = fminf(__fdiv_rn(largest, __uint_as_float(amax)), 0x1p100f);
    return {factor, __fdiv_rn(1.0f, factor)};
}

/* The same, rounded down to a power of two, without a division. The largest code is 1.75 * 2^n,
 * n = 8 or 15: with amax = m * 2^e the power is n - e, one less when m > 1.75. */
template <bool E5M2> static __device__ __forceinline__ scaling_pair power_pair(uint32_t amax) {
    if (amax == 0 || amax >= INFINITY_BITS) {
        return special_pair(amax);
    }
    const uint32_t bias = 127, one = 23, above = 0x1fffff; /* carries from a fraction over 1.75 */
    uint32_t exponent = (E5M2 ? 15 : 8) + 2 * bias - ((amax + above) >> one);
    exponent = min(exponent, bias + 100);
    return {__uint_as_float(exponent << one), __uint_as_float((2 * bias - exponent) << one)};
}

/* --- codes ---------------------------------------------------------------------------------- */

template <bool E5M2>
static __device__ __forceinline__ uint32_t four_codes(float a, float b, float c, float d) {
    const __nv_fp8_interpretation_t format = E5M2 ? __NV_E5M2 : __NV_E4M3;
    uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, format);
    uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, format);
    return low | high << 16;
}

/* With PASSING what is written leaves the cache to x, which is still to be read. */
template <bool PASSING, typename V> static __device__ __forceinline__ void store(V *to, V value) {
    if (PASSING) {
        __stcs(to, value);
    } else {
        *to = value;
    }
}

/* Row r of a patch. */
template <typename T, bool E5M2, bool PASSING>
static __device__ __forceinline__ void store_row(const quantize_job &job, const patch &p, int r,
                                                 uint4 bits, float factor) {
    const int width = tile_of<T>::width;
    float x[width];
    uint32_t words[width / 4];
    unpack<T>(bits, x);
#pragma unroll
    for (int e = 0; e < width; e += 4) {
        words[e / 4] = four_codes<E5M2>(x[e] * factor, x[e + 1] * factor, x[e + 2] * factor,
                                        x[e + 3] * factor);
    }
    uint8_t *to = job.codes + p.offset + r * job.columns;
    if (r >= p.rows) {
        return;
    }
    if (!job.wide) {
#pragma unroll
        for (int e = 0; e < width; e++) {
            if (e < p.columns) {
                to[e] = (uint8_t)(words[e / 4] >> (e % 4 * 8));
            }
        }
    } else if (width == 8) {
        store<PASSING>((uint2 *)to, make_uint2(words[0], words[width / 4 - 1]));
    } else {
        store<PASSING>((uint32_t *)to, words[0]);
    }
}

/* The transposed tile in shared memory has 16 units of 8 codes a row. Where unit u of row c is, so
 * that neither threads that write a unit of every eighth row meet in a bank, nor those that read a
 * row; units 2k and 2k + 1 stay side by side. */
static __device__ __forceinline__ int unit_at(int c, int u) {
    return c * (SIDE / 8) + (u ^ c / 8);
}

template <typename T, bool E5M2>
static __device__ __forceinline__ void turn_patch(const uint4 x[PATCH],
                                                  const float factors[tile_of<T>::width],
                                                  uint2 *tile) {
    const int width = tile_of<T>::width, across = tile_of<T>::across;
    int first = threadIdx.x % across * width, unit = threadIdx.x / across;
#pragma unroll
    for (int e = 0; e < width; e++) {
        float column[PATCH];
#pragma unroll
        for (int r = 0; r < PATCH; r++) {
            column[r] = to_float(((const T *)&x[r])[e]) * factors[e];
        }
        tile[unit_at(first + e, unit)] =
            make_uint2(four_codes<E5M2>(column[0], column[1], column[2], column[3]),
                       four_codes<E5M2>(column[4], column[5], column[6], column[7]));
    }
}

template <int THREADS, bool PASSING>
static __device__ __forceinline__ void store_turned(const quantize_job &job, int64_t row,
                                                    int64_t column, const uint2 *tile) {
#pragma unroll
    for (int i = 0; i < SIDE * SIDE / 16; i += THREADS) {
        int c = (i + threadIdx.x) / (SIDE / 16), at = (i + threadIdx.x) % (SIDE / 16) * 16;
        uint4 pair = *(const uint4 *)&tile[unit_at(c, at / 8) & ~1];
        bool swapped = c / 8 % 2 != 0;
        uint4 codes = swapped ? make_uint4(pair.z, pair.w, pair.x, pair.y) : pair;
        if (column + c < job.columns && row + at < job.padded_rows) {
            uint8_t *to = job.transposed + (column + c) * job.padded_rows + row + at;
            store<PASSING>((uint4 *)to, codes);
        }
    }
}

/* --- tiles ---------------------------------------------------------------------------------- */

/* Where a tile stands among tiles: row and column. They come by strips of 8 rows of tiles, column
 * by column, so that the blocks that run at a time write neighbouring codes both ways. */
static __device__ __forceinline__ int2 tile_at(const quantize_job &job, int tile) {
    int strip = tile / (STRIP * job.tile_columns), rest = tile - strip * STRIP * job.tile_columns;
    int height = min(STRIP, job.tile_rows - strip * STRIP);
    return make_int2(strip * STRIP + rest % height, rest / height);
}

template <typename T>
static __device__ __forceinline__ patch patch_at(const quantize_job &job, int2 tile) {
    const int width = tile_of<T>::width, across = tile_of<T>::across;
    patch p;
    p.row = tile.x * (int64_t)SIDE + threadIdx.x / across * PATCH;
    p.column = tile.y * (int64_t)SIDE + threadIdx.x % across * width;
    p.offset = p.row * job.columns + p.column;
    p.rows = (int)max((int64_t)0, min((int64_t)PATCH, job.rows - p.row));
    p.columns = (int)max((int64_t)0, min((int64_t)width, job.columns - p.column));
    p.rows = p.columns > 0 ? p.rows : 0;
    return p;
}

/* Zeros beyond the ends of x. */
template <typename T>
static __device__ __forceinline__ void load_patch(const quantize_job &job, const patch &p,
                                                  uint4 out[PATCH]) {
    const T *x = (const T *)job.x + p.offset;
#pragma unroll
    for (int r = 0; r < PATCH; r++) {
        out[r] = make_uint4(0, 0, 0, 0);
    }
    if (job.wide) {
#pragma unroll
        for (int r = 0; r < PATCH; r++) {
            if (r < p.rows) {
                out[r] = __ldcs((const uint4 *)(x + r * job.columns));
            }
        }
        return;
    }
#pragma unroll
    for (int r = 0; r < PATCH; r++) {
        T *values = (T *)&out[r];
#pragma unroll
        for (int e = 0; e < tile_of<T>::width; e++) {
            if (r < p.rows && e < p.columns) {
                values[e] = x[r * job.columns + e];
            }
        }
    }
}

/* With ROWS: the factors of the rows of a patch, used at once, and their scales. */
template <typename T, bool E5M2>
static __device__ __forceinline__ void quantize_rows(const quantize_job &job, int block,
                                                     const patch &p, const uint4 x[PATCH]) {
    const int across = tile_of<T>::across;
    int place = threadIdx.x % across;
    float scale = 0.0f;
#pragma unroll
    for (int r = 0; r < PATCH; r++) {
        uint32_t word = larger_of_group<T>(x[r]);
#pragma unroll
        for (int step = across / 2; step > 0; step /= 2) {
            word = larger<T>(word, __shfl_xor_sync(0xffffffffu, word, step));
        }
        scaling_pair pair = power_pair<E5M2>(largest_in<T>(word));
        store_row<T, E5M2, false>(job, p, r, x[r], pair.factor);
        scale = place == r && p.row + r < job.rows ? pair.scale : scale;
    }
    if (place < PATCH && p.row + place < job.scales_stride) {
        job.scales[block * job.scales_stride + p.row + place] = scale;
    }
}

/* With ROWS: the factors of the columns of a tile, into `factors`, and their scales. `words` is
 * room for a row of magnitudes a warp. */
template <typename T, bool E5M2>
static __device__ __forceinline__ void find_columns(const quantize_job &job, int block,
                                                    int64_t first, const uint4 x[PATCH],
                                                    uint4 *words, float factors[SIDE]) {
    const int across = tile_of<T>::across, in_row = SIDE * (int)sizeof(T) / 4;
    uint32_t most[4] = {0, 0, 0, 0};
#pragma unroll
    for (int r = 0; r < PATCH; r++) {
        const uint32_t *word = (const uint32_t *)&x[r];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            most[i] = larger<T>(most[i], magnitudes<T>(word[i]));
        }
    }
#pragma unroll
    for (int step = across; step < 32; step *= 2) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            most[i] = larger<T>(most[i], __shfl_xor_sync(0xffffffffu, most[i], step));
        }
    }
    if (threadIdx.x % 32 < across) {
        words[threadIdx.x / 32 * across + threadIdx.x % 32] =
            make_uint4(most[0], most[1], most[2], most[3]);
    }
    __syncthreads();
    if (threadIdx.x < SIDE) {
        int c = threadIdx.x;
        const uint32_t *word = (const uint32_t *)words + c * (int)sizeof(T) / 4;
        uint32_t largest = 0;
#pragma unroll
        for (int warp = 0; warp < tile_of<T>::threads / 32; warp++) {
            largest = larger<T>(largest, word[warp * in_row]);
        }
        scaling_pair pair = power_pair<E5M2>(magnitude_at<T>(largest, c));
        factors[c] = pair.factor;
        if (first + c < job.transposed_stride) {
            job.transposed_scales[block * job.transposed_stride + first + c] =
                first + c < job.columns ? pair.scale : 0.0f;
        }
    }
}

/* With BLOCKS: a scale and, after the last of a row, zeros. */
static __device__ __forceinline__ void store_block_scale(float *scales, int64_t stride, int row,
                                                         int column, bool last, float scale) {
    scales[row * stride + column] = scale;
#pragma unroll 1
    for (int64_t c = column + 1; c < stride && last; c++) {
        scales[row * stride + c] = 0.0f;
    }
}

/* With TENSOR and BLOCKS: the factor of all elements of a tile. */
template <typename T, int SCALING, bool E5M2>
static __device__ __forceinline__ float find_factor(const quantize_job &job, int2 tile,
                                                    const uint4 x[PATCH], uint32_t *shared) {
    const bool tensor = SCALING == HAUL_SCALING_TENSOR;
    uint32_t amax = 0;
    if (tensor) {
        for (int i = threadIdx.x; i < job.partials; i += blockDim.x) {
            amax = max(amax, job.partial[i]);
        }
    } else {
#pragma unroll
        for (int r = 0; r < PATCH; r++) {
            amax = larger<T>(amax, larger_of_group<T>(x[r]));
        }
        amax = largest_in<T>(amax);
    }
    amax = block_max(amax, shared);
    scaling_pair pair = tensor ? tensor_pair<E5M2>(amax) : power_pair<E5M2>(amax);
    bool writes = threadIdx.x == 0 && (!tensor || tile.x + tile.y == 0);
    if (writes && job.codes != NULL) {
        store_block_scale(job.scales, job.scales_stride, tile.x, tile.y,
                          tile.y == job.tile_columns - 1, pair.scale);
    }
    if (writes && job.transposed != NULL) {
        store_block_scale(job.transposed_scales, job.transposed_stride, tile.y, tile.x,
                          tile.x == job.tile_rows - 1, pair.scale);
    }
    return pair.factor;
}

template <typename T, int SCALING, bool E5M2>
static __global__ void __launch_bounds__(tile_of<T>::threads, tile_of<T>::blocks)
    quantize_kernel(quantize_job job) {
    const int width = tile_of<T>::width, across = tile_of<T>::across;
    const bool tensor = SCALING == HAUL_SCALING_TENSOR, by_rows = SCALING == HAUL_SCALING_ROWS;
    __shared__ uint4 memory[SIDE * SIDE / 16];
    __shared__ float column_factors[SIDE];
    __shared__ uint32_t shared[32];
    uint2 *turned = (uint2 *)memory;
    /* With TENSOR backwards: the end of x is what the pass before has left in the cache. */
    int2 tile = tile_at(job, tensor ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    const patch p = patch_at<T>(job, tile);
    float factors[width];
    uint4 x[PATCH];
    load_patch<T>(job, p, x);
    if (by_rows) {
        if (job.transposed != NULL) {
            find_columns<T, E5M2>(job, tile.x, tile.y * (int64_t)SIDE, x, memory, column_factors);
        }
        if (job.codes != NULL) {
            quantize_rows<T, E5M2>(job, tile.y, p, x);
        }
        __syncthreads();
    } else {
        float factor = find_factor<T, SCALING, E5M2>(job, tile, x, shared);
#pragma unroll
        for (int e = 0; e < width; e++) {
            factors[e] = factor;
        }
#pragma unroll
        for (int r = 0; r < PATCH; r++) {
            if (job.codes != NULL) {
                store_row<T, E5M2, tensor>(job, p, r, x[r], factor);
            }
        }
    }
    if (job.transposed == NULL) {
        return;
    }
    if (by_rows) {
#pragma unroll
        for (int e = 0; e < width; e++) {
            factors[e] = column_factors[threadIdx.x % across * width + e];
        }
    }
    turn_patch<T, E5M2>(x, factors, turned);
    __syncthreads();
    store_turned<tile_of<T>::threads, tensor>(job, tile.x * (int64_t)SIDE, tile.y * (int64_t)SIDE,
                                              turned);
}

/* --- launches ------------------------------------------------------------------------------- */

static int amax_blocks(haul_device *device) {
    return AMAX_BLOCKS_PER_MULTIPROCESSOR * haul_cuda_device_of(device)->multiprocessors;
}

int64_t haul_cuda_quantize_workspace(haul_device *device, const void *args) {
    const haul_quantize_args *q = (const haul_quantize_args *)args;
    bool two_passes = q->scaling == HAUL_SCALING_TENSOR;
    return two_passes ? amax_blocks(device) * (int64_t)sizeof(uint32_t) : 0;
}

template <typename T, bool E5M2>
static void launch(haul_stream *stream, haul_scaling scaling, quantize_job job) {
    cudaStream_t on = haul_cuda_stream_of(stream);
    unsigned blocks = (unsigned)job.tile_rows * (unsigned)job.tile_columns;
    const int threads = tile_of<T>::threads;
    if (scaling == HAUL_SCALING_ROWS) {
        quantize_kernel<T, HAUL_SCALING_ROWS, E5M2><<<blocks, threads, 0, on>>>(job);
    } else if (scaling == HAUL_SCALING_BLOCKS) {
        quantize_kernel<T, HAUL_SCALING_BLOCKS, E5M2><<<blocks, threads, 0, on>>>(job);
    } else {
        amax_kernel<T><<<job.partials, AMAX_THREADS, 0, on>>>(
            (const T *)job.x, job.rows * job.columns, (uint32_t *)stream->scratch);
        quantize_kernel<T, HAUL_SCALING_TENSOR, E5M2><<<blocks, threads, 0, on>>>(job);
    }
}

static quantize_job make_job(haul_stream *stream, const haul_quantize_args *q) {
    quantize_job job = {};
    int64_t element = haul_dtype_size(q->x.dtype), width = 16 / element;
    job.x = q->x.data;
    if (haul_tensor_present(&q->codes)) {
        job.codes = (uint8_t *)q->codes.data;
        job.scales = (float *)q->scales.data;
    }
    if (haul_tensor_present(&q->transposed)) {
        job.transposed = (uint8_t *)q->transposed.data;
        job.transposed_scales = (float *)q->transposed_scales.data;
    }
    job.rows = haul_tensor_rows(&q->x);
    job.columns = haul_tensor_columns(&q->x);
    job.padded_rows = haul_padded(job.rows, HAUL_CODES_PAD);
    job.scales_stride = haul_tensor_columns(&q->scales);
    job.transposed_stride = haul_tensor_columns(&q->transposed_scales);
    job.tile_rows = (int)(haul_padded(job.rows, SIDE) / SIDE);
    job.tile_columns = (int)(haul_padded(job.columns, SIDE) / SIDE);
    job.wide = job.columns % width == 0 && (uintptr_t)job.x % 16 == 0 &&
               (uintptr_t)job.codes % (uintptr_t)width == 0;
    job.partial = (const uint32_t *)stream->scratch;
    job.partials = amax_blocks(stream->device);
    return job;
}

static bool takes(haul_stream *stream, const haul_quantize_args *q, bool *narrow) {
    const haul_tensor *const x[] = {&q->x}, *const scales[] = {&q->scales, &q->transposed_scales};
    const int64_t most_tiles = INT32_MAX / STRIP;
    int64_t tiles = haul_padded(haul_tensor_rows(&q->x), SIDE) / SIDE *
                    (haul_padded(haul_tensor_columns(&q->x), SIDE) / SIDE);
    if (!same_dtype(stream, HAUL_OP_QUANTIZE, x, 1, narrow) ||
        !all_f32(stream, HAUL_OP_QUANTIZE, scales, 2)) {
        return false;
    }
    if (tiles > most_tiles || (uintptr_t)q->transposed.data % 16 != 0) {
        haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE,
                         "quantize on cuda takes matrices of less than 2^42 elements, and aligns "
                         "transposed codes to 16 bytes");
        return false;
    }
    return true;
}

void haul_cuda_quantize(haul_stream *stream, const void *args) {
    const haul_quantize_args *q = (const haul_quantize_args *)args;
    bool narrow;
    if (!takes(stream, q, &narrow) || haul_tensor_count(&q->x) == 0) {
        return;
    }
    haul_dtype format = haul_tensor_present(&q->codes) ? q->codes.dtype : q->transposed.dtype;
    quantize_job job = make_job(stream, q);
    if (narrow) {
        format == HAUL_E5M2 ? launch<bf16, true>(stream, q->scaling, job)
                            : launch<bf16, false>(stream, q->scaling, job);
    } else {
        format == HAUL_E5M2 ? launch<float, true>(stream, q->scaling, job)
                            : launch<float, false>(stream, q->scaling, job);
    }
    haul_cuda_check_launch(stream, HAUL_OP_QUANTIZE);
}
