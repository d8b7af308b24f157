/* Attention of bf16 by the tensor cores (after Shah et al., "FlashAttention-3", 2024, without its
 * specialised warps): a block of warpgroups owns 64 queries each and walks over the keys they see;
 * while the softmax of one tile of keys is calculated, the tensor cores multiply the tile before it
 * with its values, and serve the other warpgroups.
 *
 * Scores, softmax and sums are f32; a probability, relative to the largest seen so far, is rounded
 * to bf16 for the product with the values. With n keys, v the largest |value| and s the largest
 * scale * sum |q k|, out errs by at most v (2^-8 + n 2^-23 + s D 2^-22) before it is rounded. */
#include "device/cuda/attention_tile.cuh"

template <int D> struct forward_tiles {
    static constexpr int groups = D > 128 ? 1 : D > 64 ? 3 : 2;
    static constexpr int keys = D > 64 ? 64 : 128;
    static constexpr int rows = groups * GROUP_ROWS;
    static constexpr int threads = groups * GROUP_THREADS;
    static constexpr int query_bytes = tile_bytes(rows, D);
    static constexpr int key_bytes = tile_bytes(keys, D);
    static constexpr int bytes = query_bytes + 4 * key_bytes; /* two stages of keys and values */
};

/* What a thread keeps of its two rows while it walks over keys. */
template <int D> struct forward_state {
    float out[D / 2];
    float maximum[2]; /* of the scores so far, unscaled */
    float sum[2];     /* of this thread's part of the powers */
    uint32_t probabilities[forward_tiles<D>::keys / 4];
};

/* Makes scores of invisible keys -inf. */
template <int N>
__device__ __forceinline__ void mask_scores(const attention_problem &p, float (&score)[N / 2],
                                            int first_query, int first_key) {
    int visible[2] = {visible_keys(p, first_query + row_of(0)) - first_key,
                      visible_keys(p, first_query + row_of(2)) - first_key};
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        score[i] = column_of(i) < visible[i % 4 / 2] ? score[i] : -INFINITY;
    }
}

/* Turns scores into powers relative to the new maximum, and returns by what the old sums shrink. */
template <int D, int N>
__device__ __forceinline__ void soften(const attention_problem &p, forward_state<D> &state,
                                       float (&score)[N / 2], float (&shrink)[2]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float maximum = state.maximum[half];
#pragma unroll
        for (int i = 2 * half; i < N / 2; i += 4) {
            maximum = fmaxf(maximum, fmaxf(score[i], score[i + 1]));
        }
        maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 1));
        maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 2));
        float base = maximum == -INFINITY ? 0.0f : maximum * p.scale_log2;
        shrink[half] = power_of_two(fmaf(state.maximum[half], p.scale_log2, -base));
        state.maximum[half] = maximum;
        float sum = 0.0f;
#pragma unroll
        for (int i = 2 * half; i < N / 2; i += 4) {
            score[i] = power_of_two(fmaf(score[i], p.scale_log2, -base));
            score[i + 1] = power_of_two(fmaf(score[i + 1], p.scale_log2, -base));
            sum += score[i] + score[i + 1];
        }
        state.sum[half] = fmaf(state.sum[half], shrink[half], sum);
    }
}

template <int N>
__device__ __forceinline__ void drop_scores(const attention_problem &p, float (&score)[N / 2],
                                            int sample, int head, int first_query, int first_key) {
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        bool kept =
            attention_keeps(p, sample, head, first_query + row_of(i), first_key + column_of(i));
        score[i] = kept ? p.dropout.factor * score[i] : 0.0f;
    }
}

/* One tile of keys: its scores, and the values of the tile before. `load` is called while the
 * tensor cores are busy. */
template <int D, bool FIRST, bool MASKED, bool DROPOUT, typename F>
__device__ __forceinline__ void forward_step(const attention_problem &p, forward_state<D> &state,
                                             uint32_t query, uint32_t key, uint32_t last_value,
                                             int first_query, int first_key, F load) {
    constexpr int keys = forward_tiles<D>::keys;
    float score[keys / 2], shrink[2];
    wgmma_fence();
    multiply_tiles<keys, D, forward_tiles<D>::rows>(score, query, key);
    wgmma_commit();
    if (!FIRST) {
        multiply_registers<keys, D>(state.out, state.probabilities, last_value);
        wgmma_commit();
    }
    load();
    wgmma_wait<FIRST ? 0 : 1>();
    wgmma_settle(score);
    if (MASKED) {
        mask_scores<keys>(p, score, first_query, first_key);
    }
    soften<D, keys>(p, state, score, shrink);
    if (DROPOUT) {
        drop_scores<keys>(p, score, (int)blockIdx.x / p.heads, (int)blockIdx.x % p.heads,
                          first_query, first_key);
    }
    if (!FIRST) {
        wgmma_wait<0>();
        wgmma_settle(state.out);
#pragma unroll
        for (int i = 0; i < D / 2; i++) {
            state.out[i] *= shrink[i % 4 / 2];
        }
    }
    pack_operand<keys>(state.probabilities, score);
}

template <int D>
__device__ __forceinline__ void finish_forward(const attention_problem &p, forward_state<D> &state,
                                               uint32_t own, int first_query) {
    int sample = (int)blockIdx.x / p.heads, head = (int)blockIdx.x % p.heads;
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = state.sum[half];
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        factor[half] = sum == 0.0f ? 0.0f : 1.0f / sum;
        int query = first_query + row_of(2 * half);
        if (query < p.queries && threadIdx.x % 4 == 0) {
            float log_sum = sum == 0.0f ? -INFINITY : state.maximum[half] * p.scale + logf(sum);
            p.log_sum_exp[(int64_t)blockIdx.x * p.queries + query] = log_sum;
        }
    }
    store_rows<D, forward_tiles<D>::rows>(p, state.out, factor, own,
                                          written(out_rows<bf16>(p, p.out, sample, head)),
                                          first_query, p.queries);
}

/* Grid: samples times heads, tiles of queries. The last tiles see the most keys and come first. */
template <int D, bool DROPOUT>
__global__ void __launch_bounds__(forward_tiles<D>::threads, 1)
    flash_forward(const __grid_constant__ attention_problem p) {
    typedef forward_tiles<D> tiles;
    extern __shared__ __align__(1024) char memory[];
    uint32_t query_tile = (uint32_t)__cvta_generic_to_shared(memory);
    uint32_t key_tile = query_tile + tiles::query_bytes,
             value_tile = key_tile + 2 * tiles::key_bytes;
    int sample = (int)blockIdx.x / p.heads, head = (int)blockIdx.x % p.heads;
    int group = head / (p.heads / p.groups), warpgroup = own_warpgroup();
    int block_query = (int)(gridDim.y - 1 - blockIdx.y) * tiles::rows;
    int first_query = block_query + warpgroup * GROUP_ROWS;
    attention_rows<const bf16> keys = key_rows<bf16>(p, p.key, sample, group);
    attention_rows<const bf16> values = key_rows<bf16>(p, p.value, sample, group);
    int seen = visible_keys(p, min(p.queries, block_query + tiles::rows) - 1);
    int count = (seen + tiles::keys - 1) / tiles::keys;
    seen = visible_keys(p, min(p.queries, first_query + GROUP_ROWS) - 1);
    int own_count = first_query < p.queries ? (seen + tiles::keys - 1) / tiles::keys : 0;
    int unmasked = visible_keys(p, first_query) / tiles::keys;
    uint32_t own = query_tile + warpgroup * GROUP_ROWS * 128;

    forward_state<D> state = {{0.0f}, {-INFINITY, -INFINITY}, {0.0f, 0.0f}, {0}};
    load_tile<tiles::rows, D, tiles::threads>(
        p, query_tile, query_rows<bf16>(p, p.query, sample, head), block_query, p.queries);
    if (count > 0) {
        load_tile<tiles::keys, D, tiles::threads>(p, key_tile, keys, 0, p.keys);
    }
    for (int t = 0; t <= count; t++) {
        copy_wait();
        __syncthreads(); /* keys t and values t - 1 are here, and those before are done with */
        uint32_t stage = (uint32_t)(t % 2) * tiles::key_bytes;
        uint32_t other = tiles::key_bytes - stage;
        uint32_t key = key_tile + stage, last_value = value_tile + other;
        int first_key = t * tiles::keys;
        auto load = [&] {
            if (t + 1 < count) {
                load_tile<tiles::keys, D, tiles::threads>(p, key_tile + other, keys,
                                                          first_key + tiles::keys, p.keys);
            }
            if (t < count) {
                load_tile<tiles::keys, D, tiles::threads>(p, value_tile + stage, values, first_key,
                                                          p.keys);
            }
        };
        if (t == 0 && own_count > 0) {
            forward_step<D, true, true, DROPOUT>(p, state, own, key, 0, first_query, 0, load);
        } else if (t < unmasked && !DROPOUT) { /* with dropout, one step fewer to compile */
            forward_step<D, false, false, DROPOUT>(p, state, own, key, last_value, first_query,
                                                   first_key, load);
        } else if (t < own_count) {
            forward_step<D, false, true, DROPOUT>(p, state, own, key, last_value, first_query,
                                                  first_key, load);
        } else {
            load();
        }
        if (t == own_count && t > 0) {
            wgmma_fence();
            multiply_registers<tiles::keys, D>(state.out, state.probabilities, last_value);
            wgmma_commit();
            wgmma_wait<0>();
            wgmma_settle(state.out);
        }
    }
    finish_forward<D>(p, state, own, first_query);
}

template <int D, bool DROPOUT>
static void launch_forward(const attention_problem &p, cudaStream_t stream) {
    typedef forward_tiles<D> tiles;
    cudaFuncSetAttribute(flash_forward<D, DROPOUT>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         tiles::bytes);
    dim3 grid((unsigned)(p.batch * p.heads),
              (unsigned)((p.queries + tiles::rows - 1) / tiles::rows));
    flash_forward<D, DROPOUT><<<grid, tiles::threads, tiles::bytes, stream>>>(p);
}

template <int D> static void forward_heads(const attention_problem &p, cudaStream_t stream) {
    if (p.dropout.threshold > 0) {
        launch_forward<D, true>(p, stream);
    } else {
        launch_forward<D, false>(p, stream);
    }
}

void attention_flash(const attention_problem &p, cudaStream_t stream) {
    if (p.head_size <= 32) {
        forward_heads<32>(p, stream);
    } else if (p.head_size <= 64) {
        forward_heads<64>(p, stream);
    } else if (p.head_size <= 96) {
        forward_heads<96>(p, stream);
    } else if (p.head_size <= 128) {
        forward_heads<128>(p, stream);
    } else {
        forward_heads<256>(p, stream);
    }
}
