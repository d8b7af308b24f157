/* Attention of any head size, f32 or bf16, calculated in f32 without the tensor cores: for f32
 * models, for bf16 heads of over 256, and to check the fast kernels. It keeps probabilities in f32.
 *
 * A block owns 64 rows of one head and 64 columns of the output; heads of more columns take several
 * blocks, each of which calculates the scores again. So no head is too large for registers. The
 * passes of the backward are those of attention_flash_backward.cu. */
#include "device/cuda/attention.cuh"

enum { TILE = 64, DEPTH = 32, SIDE = 4, THREADS = 256, LANES = TILE / SIDE };

/* Rows are padded by one element against bank conflicts. */
typedef struct tiles {
    float left[TILE][DEPTH + 1], right[TILE][DEPTH + 1]; /* columns of the factors of a product */
    float weights[TILE][TILE + 1];                       /* owned rows, walked columns */
    float terms[TILE][TILE + 1];                         /* walked rows, output columns */
} tiles;

/* Element (r, c) of a thread's 4 x 4 part of a tile: row 4 (thread / 16) + r, column
 * thread % 16 + 16 c. */
__device__ inline int own_row(int r) {
    return (int)threadIdx.x / LANES * SIDE + r;
}

__device__ inline int own_column(int c) {
    return (int)threadIdx.x % LANES + c * LANES;
}

template <typename T>
__device__ inline float element(attention_rows<const T> rows, int row, int count, int column,
                                int columns) {
    return row < count && column < columns ? (float)rows.data[row * rows.stride + column] : 0.0f;
}

/* product[r][c] = left row . right row, rows from `left_first` and `right_first` on, of `columns`.
 */
template <typename T>
__device__ void multiply_rows(tiles &shared, float (&product)[SIDE][SIDE],
                              attention_rows<const T> left, int left_first, int left_count,
                              attention_rows<const T> right, int right_first, int right_count,
                              int columns) {
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
#pragma unroll
        for (int c = 0; c < SIDE; c++) {
            product[r][c] = 0.0f;
        }
    }
    for (int begin = 0; begin < columns; begin += DEPTH) {
        __syncthreads();
        for (int i = (int)threadIdx.x; i < TILE * DEPTH; i += THREADS) {
            int row = i / DEPTH, k = i % DEPTH;
            shared.left[row][k] = element(left, left_first + row, left_count, begin + k, columns);
            shared.right[row][k] =
                element(right, right_first + row, right_count, begin + k, columns);
        }
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < DEPTH; k++) {
            float a[SIDE], b[SIDE];
#pragma unroll
            for (int i = 0; i < SIDE; i++) {
                a[i] = shared.left[own_row(i)][k];
                b[i] = shared.right[own_column(i)][k];
            }
#pragma unroll
            for (int r = 0; r < SIDE; r++) {
#pragma unroll
                for (int c = 0; c < SIDE; c++) {
                    product[r][c] = fmaf(a[r], b[c], product[r][c]);
                }
            }
        }
    }
}

/* sum += weights . terms, the terms being walked rows from `first` on, of columns from `column` on.
 */
template <typename T>
__device__ void add_terms(tiles &shared, float (&sum)[SIDE][SIDE],
                          const float (&weight)[SIDE][SIDE], attention_rows<const T> rows,
                          int first, int count, int column, int columns) {
    __syncthreads();
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
#pragma unroll
        for (int c = 0; c < SIDE; c++) {
            shared.weights[own_row(r)][own_column(c)] = weight[r][c];
        }
    }
    for (int i = (int)threadIdx.x; i < TILE * TILE; i += THREADS) {
        shared.terms[i / TILE][i % TILE] =
            element(rows, first + i / TILE, count, column + i % TILE, columns);
    }
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < TILE; k++) {
        float a[SIDE], b[SIDE];
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            a[i] = shared.weights[own_row(i)][k];
            b[i] = shared.terms[k][own_column(i)];
        }
#pragma unroll
        for (int r = 0; r < SIDE; r++) {
#pragma unroll
            for (int c = 0; c < SIDE; c++) {
                sum[r][c] = fmaf(a[r], b[c], sum[r][c]);
            }
        }
    }
}

template <typename T>
__device__ void store_sum(const attention_problem &p, const float (&sum)[SIDE][SIDE],
                          const float (&factor)[SIDE], attention_rows<T> rows, int first, int count,
                          int column) {
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
#pragma unroll
        for (int c = 0; c < SIDE; c++) {
            int row = first + own_row(r), to = column + own_column(c);
            if (row < count && to < p.head_size) {
                rows.data[row * rows.stride + to] = (T)(factor[r] * sum[r][c]);
            }
        }
    }
}

/* The largest, or the sum, over the threads of a row. */
__device__ inline float row_maximum(float x) {
    for (int step = LANES / 2; step > 0; step /= 2) {
        x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    }
    return x;
}

__device__ inline float row_sum(float x) {
    for (int step = LANES / 2; step > 0; step /= 2) {
        x += __shfl_xor_sync(~0u, x, step);
    }
    return x;
}

/* One row of scores becomes powers relative to the largest score so far; what was summed before
 * shrinks. `query` and `key` are those of the row's first element. */
__device__ inline void soften_row(const attention_problem &p, float (&score)[SIDE],
                                  float (&out)[SIDE], float &maximum, float &sum, int query,
                                  int first_key) {
    float largest = maximum;
#pragma unroll
    for (int c = 0; c < SIDE; c++) {
        bool visible = first_key + own_column(c) < visible_keys(p, query);
        score[c] = visible ? p.scale_log2 * score[c] : -INFINITY;
        largest = fmaxf(largest, score[c]);
    }
    largest = row_maximum(largest);
    float base = largest == -INFINITY ? 0.0f : largest, shrink = exp2f(maximum - base);
    float added = 0.0f;
#pragma unroll
    for (int c = 0; c < SIDE; c++) {
        score[c] = exp2f(score[c] - base);
        added += score[c];
        out[c] *= shrink;
    }
    maximum = largest;
    sum = sum * shrink + row_sum(added);
}

/* Multiplies by what dropout makes of query `query` and the thread's keys of a tile. */
__device__ inline void drop_row(const attention_problem &p, float (&value)[SIDE], int sample,
                                int head, int query, int first_key) {
#pragma unroll
    for (int c = 0; c < SIDE; c++) {
        bool kept = attention_keeps(p, sample, head, query, first_key + own_column(c));
        value[c] = kept ? p.dropout.factor * value[c] : 0.0f;
    }
}

/* Grid: samples times heads, tiles of queries, tiles of columns. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    plain_forward(const __grid_constant__ attention_problem p) {
    extern __shared__ float memory[];
    tiles &shared = *(tiles *)memory;
    int sample = (int)blockIdx.x / p.heads, head = (int)blockIdx.x % p.heads;
    int group = head / (p.heads / p.groups), column = (int)blockIdx.z * TILE;
    int first = (int)(gridDim.y - 1 - blockIdx.y) * TILE;
    auto queries = query_rows<T>(p, p.query, sample, head);
    auto keys = key_rows<T>(p, p.key, sample, group);
    auto values = key_rows<T>(p, p.value, sample, group);
    float out[SIDE][SIDE] = {}, maximum[SIDE], sum[SIDE] = {};
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
        maximum[r] = -INFINITY;
    }
    int seen = visible_keys(p, min(p.queries, first + TILE) - 1);
    for (int key = 0; key < seen; key += TILE) {
        float score[SIDE][SIDE];
        multiply_rows(shared, score, queries, first, p.queries, keys, key, p.keys, p.head_size);
#pragma unroll
        for (int r = 0; r < SIDE; r++) {
            int query = first + own_row(r);
            soften_row(p, score[r], out[r], maximum[r], sum[r], query, key);
            if (p.dropout.threshold > 0) {
                drop_row(p, score[r], sample, head, query, key);
            }
        }
        add_terms(shared, out, score, values, key, p.keys, column, p.head_size);
    }
    float factor[SIDE];
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
        int query = first + own_row(r);
        factor[r] = sum[r] == 0.0f ? 0.0f : 1.0f / sum[r];
        if (column == 0 && query < p.queries && threadIdx.x % LANES == 0) {
            float natural = maximum[r] * 0.69314718055994531f + logf(sum[r]);
            p.log_sum_exp[(int64_t)blockIdx.x * p.queries + query] =
                sum[r] == 0.0f ? -INFINITY : natural;
        }
    }
    store_sum(p, out, factor, written(out_rows<T>(p, p.out, sample, head)), first, p.queries,
              column);
}

/* score and d_probability of a tile become P' and dS. */
template <bool OF_KEYS>
__device__ void differentiate(const attention_problem &p, float (&score)[SIDE][SIDE],
                              float (&d_probability)[SIDE][SIDE], int sample, int head, int owned,
                              int walked) {
    const float2 *statistics = p.statistics + (int64_t)(sample * p.heads + head) * p.queries;
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
#pragma unroll
        for (int c = 0; c < SIDE; c++) {
            int query = OF_KEYS ? walked + own_column(c) : owned + own_row(r);
            int key = OF_KEYS ? owned + own_row(r) : walked + own_column(c);
            bool visible = query < p.queries && key < visible_keys(p, query);
            float2 own = visible ? statistics[query] : float2{INFINITY, 0.0f};
            float probability = visible ? exp2f(p.scale_log2 * score[r][c] - own.x) : 0.0f;
            float kept = 1.0f;
            if (p.dropout.threshold > 0) {
                kept = attention_keeps(p, sample, head, query, key) ? p.dropout.factor : 0.0f;
            }
            score[r][c] = kept * probability;
            d_probability[r][c] = probability * (kept * d_probability[r][c] - own.y);
        }
    }
}

/* Grid: samples times heads, tiles of queries, tiles of columns. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    plain_backward_queries(const __grid_constant__ attention_problem p) {
    extern __shared__ float memory[];
    tiles &shared = *(tiles *)memory;
    int sample = (int)blockIdx.x / p.heads, head = (int)blockIdx.x % p.heads;
    int group = head / (p.heads / p.groups), column = (int)blockIdx.z * TILE;
    int first = (int)(gridDim.y - 1 - blockIdx.y) * TILE;
    auto queries = query_rows<T>(p, p.query, sample, head);
    auto d_out = out_rows<T>(p, p.d_out, sample, head);
    auto keys = key_rows<T>(p, p.key, sample, group);
    auto values = key_rows<T>(p, p.value, sample, group);
    float d_query[SIDE][SIDE] = {}, score[SIDE][SIDE], d_probability[SIDE][SIDE];
    int seen = visible_keys(p, min(p.queries, first + TILE) - 1);
    for (int key = 0; key < seen; key += TILE) {
        multiply_rows(shared, score, queries, first, p.queries, keys, key, p.keys, p.head_size);
        multiply_rows(shared, d_probability, d_out, first, p.queries, values, key, p.keys,
                      p.head_size);
        differentiate<false>(p, score, d_probability, sample, head, first, key);
        add_terms(shared, d_query, d_probability, keys, key, p.keys, column, p.head_size);
    }
    const float factor[SIDE] = {p.scale, p.scale, p.scale, p.scale};
    store_sum(p, d_query, factor, written(query_rows<T>(p, p.d_query, sample, head)), first,
              p.queries, column);
}

/* Grid: samples times groups, tiles of keys, tiles of columns. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    plain_backward_keys(const __grid_constant__ attention_problem p) {
    extern __shared__ float memory[];
    tiles &shared = *(tiles *)memory;
    int sample = (int)blockIdx.x / p.groups, group = (int)blockIdx.x % p.groups;
    int first = (int)blockIdx.y * TILE, column = (int)blockIdx.z * TILE;
    int ratio = p.heads / p.groups;
    auto keys = key_rows<T>(p, p.key, sample, group);
    auto values = key_rows<T>(p, p.value, sample, group);
    float d_key[SIDE][SIDE] = {}, d_value[SIDE][SIDE] = {};
    float score[SIDE][SIDE], d_probability[SIDE][SIDE];
    for (int head = group * ratio; head < (group + 1) * ratio; head++) {
        auto queries = query_rows<T>(p, p.query, sample, head);
        auto d_out = out_rows<T>(p, p.d_out, sample, head);
        for (int query = first_viewer(p, first) / TILE * TILE; query < p.queries; query += TILE) {
            multiply_rows(shared, score, keys, first, p.keys, queries, query, p.queries,
                          p.head_size);
            multiply_rows(shared, d_probability, values, first, p.keys, d_out, query, p.queries,
                          p.head_size);
            differentiate<true>(p, score, d_probability, sample, head, first, query);
            add_terms(shared, d_value, score, d_out, query, p.queries, column, p.head_size);
            add_terms(shared, d_key, d_probability, queries, query, p.queries, column, p.head_size);
        }
    }
    const float scaled[SIDE] = {p.scale, p.scale, p.scale, p.scale};
    const float plain[SIDE] = {1.0f, 1.0f, 1.0f, 1.0f};
    store_sum(p, d_key, scaled, written(key_rows<T>(p, p.d_key, sample, group)), first, p.keys,
              column);
    store_sum(p, d_value, plain, written(key_rows<T>(p, p.d_value, sample, group)), first, p.keys,
              column);
}

/* A warp for each query of each head, in the order of out. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    measure_queries(const __grid_constant__ attention_problem p) {
    int64_t index = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32;
    int lane = (int)threadIdx.x % 32;
    if (index >= (int64_t)p.batch * p.queries * p.heads) {
        return;
    }
    const T *out = (const T *)p.out + index * p.head_size;
    const T *d_out = (const T *)p.d_out + index * p.head_size;
    float sum = 0.0f;
    if (p.aligned && sizeof(T) == 2) {
        for (int column = 8 * lane; column < p.head_size; column += 256) {
            uint4 a = *(const uint4 *)(out + column), b = *(const uint4 *)(d_out + column);
            const __nv_bfloat162 *x = (const __nv_bfloat162 *)&a, *y = (const __nv_bfloat162 *)&b;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float2 u = __bfloat1622float2(x[i]), v = __bfloat1622float2(y[i]);
                sum = fmaf(u.x, v.x, fmaf(u.y, v.y, sum));
            }
        }
    } else {
        for (int column = lane; column < p.head_size; column += 32) {
            sum = fmaf((float)out[column], (float)d_out[column], sum);
        }
    }
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
    }
    if (lane == 0) {
        int head = (int)(index % p.heads);
        int64_t row = index / p.heads, sample = row / p.queries;
        int64_t at = (sample * p.heads + head) * p.queries + row % p.queries;
        float log_sum = p.log_sum_exp[at];
        /* A query that sees nothing: its probabilities must come to 0. */
        p.statistics[at] = {log_sum == -INFINITY ? INFINITY : log_sum * 1.4426950408889634f, sum};
    }
}

static int tiles_of(int count) {
    return (count + TILE - 1) / TILE;
}

static void launch(void (*kernel)(attention_problem), const attention_problem &p, int heads,
                   int rows, cudaStream_t stream) {
    dim3 grid((unsigned)(p.batch * heads), (unsigned)tiles_of(rows),
              (unsigned)tiles_of(p.head_size));
    if (grid.x > 0 && grid.y > 0) {
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(tiles));
        kernel<<<grid, THREADS, sizeof(tiles), stream>>>(p);
    }
}

void attention_plain(const attention_problem &p, haul_dtype dtype, cudaStream_t stream) {
    launch(dtype == HAUL_F32 ? plain_forward<float> : plain_forward<__nv_bfloat16>, p, p.heads,
           p.queries, stream);
}

void attention_statistics(const attention_problem &p, haul_dtype dtype, cudaStream_t stream) {
    int64_t blocks = ((int64_t)p.batch * p.queries * p.heads * 32 + THREADS - 1) / THREADS;
    if (blocks > 0) {
        auto kernel = dtype == HAUL_F32 ? measure_queries<float> : measure_queries<__nv_bfloat16>;
        kernel<<<(unsigned)blocks, THREADS, 0, stream>>>(p);
    }
}

void attention_plain_backward(const attention_problem &p, haul_dtype dtype, cudaStream_t stream) {
    bool wide = dtype == HAUL_F32;
    attention_statistics(p, dtype, stream);
    launch(wide ? plain_backward_queries<float> : plain_backward_queries<__nv_bfloat16>, p, p.heads,
           p.queries, stream);
    launch(wide ? plain_backward_keys<float> : plain_backward_keys<__nv_bfloat16>, p, p.groups,
           p.keys, stream);
}
