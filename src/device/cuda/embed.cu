/* EMBED and its backward. Rows of one token must be added in ascending order for results to repeat:
 * the backward lists the rows of each token, sorts each list, and lets one thread a group of
 * columns walk it. Where a list lies in the workspace depends on timing; a sorted list does not. */
#include "device/cuda/bits.cuh"
#include "device/cuda/kernels.h"

enum {
    THREADS = 256,
    LOOKUP_THREADS = 128,
    LOOKUPS = 4,        /* groups that a thread fetches at a time */
    SORT_SHARED = 4096, /* rows of a list that are sorted in shared memory */
    SUM_THREADS = 128,
    UNDER_WAY = 4 /* rows that a thread fetches at a time */
};

typedef struct lookup_job {
    const int32_t *tokens;
    const void *table, *positions;
    void *y;
    int64_t rows, vocabulary, hidden, sequence_length, position_offset;
} lookup_job;

/* A block a row. A token out of range makes its row NaN, for the verdict to see. */
template <typename T>
static __global__ void __launch_bounds__(LOOKUP_THREADS) look_up(lookup_job job) {
    const int width = group_of<T>::elements;
    int64_t r = blockIdx.x, hidden = job.hidden, token = job.tokens[r];
    int64_t position = r % job.sequence_length + job.position_offset;
    bool known = token >= 0 && token < job.vocabulary, placed = job.positions != NULL;
    const T *word = (const T *)job.table + (known ? token : 0) * hidden;
    const T *place = (const T *)job.positions + (placed ? position * hidden : 0);
    int64_t step = blockDim.x * width;
    for (int64_t first = threadIdx.x * width; first < hidden; first += LOOKUPS * step) {
        uint4 words[LOOKUPS], places[LOOKUPS];
#pragma unroll
        for (int k = 0; k < LOOKUPS; k++) {
            words[k] = load_bits(word, first + k * step, hidden);
            if (placed) {
                places[k] = load_bits(place, first + k * step, hidden);
            }
        }
#pragma unroll
        for (int k = 0; k < LOOKUPS; k++) {
            float x[width], p[width];
            unpack<T>(words[k], x);
            unpack<T>(places[k], p);
#pragma unroll
            for (int i = 0; i < width; i++) {
                x[i] = known ? (placed ? x[i] + p[i] : x[i]) : NAN;
            }
            store_group((T *)job.y + r * hidden, first + k * step, hidden, x);
        }
    }
}

void haul_cuda_embed(haul_stream *stream, const void *args) {
    const haul_embed_args *embed = (const haul_embed_args *)args;
    const haul_tensor *const tensors[] = {&embed->y, &embed->table, &embed->positions};
    bool placed = haul_tensor_present(&embed->positions);
    lookup_job job = {(const int32_t *)embed->tokens.data,
                      embed->table.data,
                      placed ? embed->positions.data : NULL,
                      embed->y.data,
                      haul_tensor_rows(&embed->y),
                      embed->table.shape[0],
                      haul_tensor_columns(&embed->y),
                      embed->sequence_length,
                      embed->position_offset};
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_EMBED, tensors, 3, &narrow) || job.rows == 0) {
        return;
    }
    auto kernel = narrow ? look_up<bf16> : look_up<float>;
    int threads = row_threads(job.hidden, narrow ? 8 : 4, LOOKUP_THREADS);
    kernel<<<(unsigned)job.rows, threads, 0, haul_cuda_stream_of(stream)>>>(job);
    haul_cuda_check_launch(stream, HAUL_OP_EMBED);
}

/* The workspace: the list of token t is rows[begins[t]] and the counts[t] - 1 after it; row r is
 * number slots[r] of it before it is sorted, -1 when its token is out of range. */
typedef struct token_lists {
    const int32_t *tokens;
    int32_t *counts; /* [V], and behind it `cursor`: both start from 0 */
    int32_t *cursor; /* [1], where the next list begins */
    int32_t *begins; /* [V] */
    int32_t *slots;  /* [R] */
    int32_t *rows;   /* [R] */
    int64_t row_count, vocabulary;
} token_lists;

static token_lists lists_of(const haul_embed_backward_args *embed, void *workspace) {
    token_lists lists = {};
    lists.tokens = (const int32_t *)embed->tokens.data;
    lists.row_count = haul_tensor_rows(&embed->dy);
    lists.vocabulary = embed->d_table.shape[0];
    lists.counts = (int32_t *)workspace;
    lists.cursor = lists.counts + lists.vocabulary;
    lists.begins = lists.cursor + 1;
    lists.slots = lists.begins + lists.vocabulary;
    lists.rows = lists.slots + lists.row_count;
    return lists;
}

int64_t haul_cuda_embed_backward_workspace(haul_device *device, const void *args) {
    (void)device;
    const haul_embed_backward_args *embed = (const haul_embed_backward_args *)args;
    int64_t rows = haul_tensor_rows(&embed->dy), vocabulary = embed->d_table.shape[0];
    return (2 * vocabulary + 1 + 2 * rows) * (int64_t)sizeof(int32_t);
}

static __device__ __forceinline__ int64_t thread_row() {
    return blockIdx.x * (int64_t)THREADS + threadIdx.x;
}

static __global__ void number_rows(token_lists lists) {
    int64_t r = thread_row();
    if (r < lists.row_count) {
        int32_t token = lists.tokens[r];
        bool known = token >= 0 && token < lists.vocabulary;
        lists.slots[r] = known ? atomicAdd(&lists.counts[token], 1) : -1;
    }
}

static __global__ void place_lists(token_lists lists) {
    int64_t r = thread_row();
    if (r < lists.row_count && lists.slots[r] == 0) {
        int32_t token = lists.tokens[r];
        lists.begins[token] = atomicAdd(lists.cursor, lists.counts[token]);
    }
}

static __global__ void fill_lists(token_lists lists) {
    int64_t r = thread_row();
    if (r < lists.row_count && lists.slots[r] >= 0) {
        lists.rows[lists.begins[lists.tokens[r]] + lists.slots[r]] = (int32_t)r;
    }
}

/* Exchanges elements i and i ^ mask that are out of order. */
static __device__ __forceinline__ void compare(int32_t *x, int count, int mask) {
    for (int i = threadIdx.x; i < count; i += THREADS) {
        int other = i ^ mask;
        if (other > i && other < count && x[i] > x[other]) {
            int32_t larger = x[i];
            x[i] = x[other];
            x[other] = larger;
        }
    }
    __syncthreads();
}

/* By Batcher's bitonic network, in the form that always puts the smaller element first, so that
 * `count` need not be a power of two. */
static __device__ __forceinline__ void sort(int32_t *x, int count) {
    for (int64_t length = 2; length < 2 * (int64_t)count; length *= 2) {
        compare(x, count, (int)(length - 1));
        for (int64_t distance = length / 4; distance > 0; distance /= 2) {
            compare(x, count, (int)distance);
        }
    }
}

/* Block r sorts the list that row r is the first to enter, if it is. */
static __global__ void __launch_bounds__(THREADS) sort_lists(token_lists lists) {
    __shared__ int32_t shared[SORT_SHARED];
    if (lists.slots[blockIdx.x] != 0) {
        return;
    }
    int32_t token = lists.tokens[blockIdx.x], count = lists.counts[token];
    int32_t *rows = lists.rows + lists.begins[token];
    if (count > SORT_SHARED) {
        sort(rows, count);
    } else if (count > 1) {
        for (int i = threadIdx.x; i < count; i += THREADS) {
            shared[i] = rows[i];
        }
        __syncthreads();
        sort(shared, count);
        for (int i = threadIdx.x; i < count; i += THREADS) {
            rows[i] = shared[i];
        }
    }
}

/* Rows to add: listed, or `first` and every `step` after it. */
typedef struct addends {
    const int32_t *listed;
    int64_t first, step, count;
} addends;

/* sums[at...] (+)= the addends' rows, in order. */
template <typename T>
static __device__ __forceinline__ void add_rows(const T *dy, addends rows, float *sums, int64_t at,
                                                int64_t hidden, bool accumulate) {
    const int width = group_of<T>::elements, part = group_of<float>::elements;
    float sum[width] = {}, x[width];
    for (int h = 0; h < width && accumulate; h += part) {
        load_group(sums, at + h, hidden, sum + h);
    }
    for (int64_t i = 0; i < rows.count; i += UNDER_WAY) {
        uint4 bits[UNDER_WAY];
#pragma unroll
        for (int k = 0; k < UNDER_WAY; k++) {
            if (i + k < rows.count) {
                int64_t r =
                    rows.listed != NULL ? rows.listed[i + k] : rows.first + (i + k) * rows.step;
                bits[k] = load_bits(dy + r * hidden, at, hidden);
            }
        }
#pragma unroll
        for (int k = 0; k < UNDER_WAY; k++) {
            if (i + k < rows.count) {
                unpack<T>(bits[k], x);
#pragma unroll
                for (int h = 0; h < width; h++) {
                    sum[h] += x[h];
                }
            }
        }
    }
    for (int h = 0; h < width; h += part) {
        store_group(sums, at + h, hidden, sum + h);
    }
}

template <typename T> static __device__ __forceinline__ int64_t thread_column() {
    return (blockIdx.y * (int64_t)SUM_THREADS + threadIdx.x) * group_of<T>::elements;
}

/* Blocks (r, *) add the list that row r is the first to enter, if it is. */
template <typename T>
static __global__ void __launch_bounds__(SUM_THREADS)
    add_tokens(token_lists lists, const T *dy, float *d_table, int64_t hidden, bool accumulate) {
    int64_t at = thread_column<T>();
    if (at < hidden && lists.slots[blockIdx.x] == 0) {
        int32_t token = lists.tokens[blockIdx.x];
        addends rows = {lists.rows + lists.begins[token], 0, 0, lists.counts[token]};
        add_rows(dy, rows, d_table + token * hidden, at, hidden, accumulate);
    }
}

/* Blocks (p, *) add the rows at position p: p, p + T, ... below `row_count`. */
template <typename T>
static __global__ void __launch_bounds__(SUM_THREADS)
    add_positions(int64_t row_count, int64_t sequence_length, const T *dy, float *d_positions,
                  int64_t hidden, bool accumulate) {
    int64_t at = thread_column<T>(), p = blockIdx.x;
    if (at < hidden) {
        bool used = p < sequence_length && p < row_count;
        int64_t count = used ? (row_count - p + sequence_length - 1) / sequence_length : 0;
        addends rows = {NULL, p, sequence_length, count};
        add_rows(dy, rows, d_positions + p * hidden, at, hidden, accumulate);
    }
}

static void list_rows(haul_stream *stream, token_lists lists) {
    cudaStream_t on = haul_cuda_stream_of(stream);
    unsigned blocks = (unsigned)((lists.row_count + THREADS - 1) / THREADS);
    size_t zeros = ((size_t)lists.vocabulary + 1) * sizeof(int32_t);
    haul_cuda_check(stream, haul_op_name(HAUL_OP_EMBED_BACKWARD),
                    cudaMemsetAsync(lists.counts, 0, zeros, on));
    number_rows<<<blocks, THREADS, 0, on>>>(lists);
    place_lists<<<blocks, THREADS, 0, on>>>(lists);
    fill_lists<<<blocks, THREADS, 0, on>>>(lists);
    sort_lists<<<(unsigned)lists.row_count, THREADS, 0, on>>>(lists);
}

/* Blocks for every group of columns of `rows` rows. */
template <typename T> static dim3 sum_grid(int64_t rows, int64_t hidden) {
    int64_t columns = (int64_t)SUM_THREADS * group_of<T>::elements;
    return dim3((unsigned)rows, (unsigned)((hidden + columns - 1) / columns));
}

template <typename T>
static void launch_sums(haul_stream *stream, const haul_embed_backward_args *embed) {
    cudaStream_t on = haul_cuda_stream_of(stream);
    token_lists lists = lists_of(embed, stream->scratch);
    int64_t hidden = haul_tensor_columns(&embed->dy);
    const T *dy = (const T *)embed->dy.data;
    if (lists.row_count > 0) {
        list_rows(stream, lists);
        add_tokens<<<sum_grid<T>(lists.row_count, hidden), SUM_THREADS, 0, on>>>(
            lists, dy, (float *)embed->d_table.data, hidden, embed->accumulate_table);
    }
    if (haul_tensor_present(&embed->d_positions)) {
        add_positions<<<sum_grid<T>(embed->d_positions.shape[0], hidden), SUM_THREADS, 0, on>>>(
            lists.row_count, embed->sequence_length, dy, (float *)embed->d_positions.data, hidden,
            embed->accumulate_positions);
    }
}

void haul_cuda_embed_backward(haul_stream *stream, const void *args) {
    const haul_embed_backward_args *embed = (const haul_embed_backward_args *)args;
    const haul_tensor *const activations[] = {&embed->dy};
    const haul_tensor *const gradients[] = {&embed->d_table, &embed->d_positions};
    bool narrow;
    if (!same_dtype(stream, HAUL_OP_EMBED_BACKWARD, activations, 1, &narrow) ||
        !all_f32(stream, HAUL_OP_EMBED_BACKWARD, gradients, 2)) {
        return;
    }
    if (!embed->accumulate_table) {
        haul_cuda_check(stream, haul_op_name(HAUL_OP_EMBED_BACKWARD),
                        cudaMemsetAsync(embed->d_table.data, 0,
                                        (size_t)haul_tensor_bytes(&embed->d_table),
                                        haul_cuda_stream_of(stream)));
    }
    if (narrow) {
        launch_sums<bf16>(stream, embed);
    } else {
        launch_sums<float>(stream, embed);
    }
    haul_cuda_check_launch(stream, HAUL_OP_EMBED_BACKWARD);
}
