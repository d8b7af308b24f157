/* The backward of attention.cu, of bf16 by the tensor cores. With P the probabilities, P' those
 * that dropout kept (times its scale) and dP' = d_out value^T:
 *
 *     d_value = P'^T d_out,  dS = P (kept dP' - d_out . out),
 *     d_query = scale dS key,  d_key = scale dS^T query.
 *
 * One kernel, two kinds of pass, each recomputing P and dS: "of queries", whose blocks own queries
 * and walk over keys, and "of keys", whose blocks own keys and walk over the queries of all heads
 * of their group, in ascending order. So every output has one owner that adds in a fixed order:
 * there are no atomics, and the result has the same bits every run. A tile of owned rows is
 * multiplied with a tile of walked rows, so the pass of keys holds P and dS transposed.
 *
 * P and dS are rounded to bf16 for the products: an output, before it is rounded, errs relative to
 * its sum of magnitudes by at most 2^-9 + n 2^-23 and the relative error of P and dS in f32. */
#include "device/cuda/attention_tile.cuh"

enum { WALKED = 64 }; /* rows of a walked tile */

/* What a pass calculates. A head of over 128 leaves registers for one accumulator a pass. */
typedef enum outputs { D_QUERY, D_KEY_AND_VALUE, D_KEY, D_VALUE } outputs;

template <int D, bool OF_KEYS> struct backward_tiles {
    static constexpr int groups = D > 128 ? 1 : OF_KEYS || D > 64 ? 2 : 3;
    static constexpr int rows = groups * GROUP_ROWS;
    static constexpr int threads = groups * GROUP_THREADS;
    static constexpr int owned_bytes = tile_bytes(rows, D);
    static constexpr int walked_bytes = tile_bytes(WALKED, D);
    static constexpr int statistics_bytes = WALKED * (int)sizeof(float2);
    static constexpr int bytes = 2 * (owned_bytes + 2 * walked_bytes + statistics_bytes);
};

/* Addresses of the walked tiles of a stage. */
typedef struct walked_tiles {
    uint32_t first;      /* key, or query */
    uint32_t second;     /* value, or d_out */
    uint32_t statistics; /* of queries */
} walked_tiles;

/* Behind the two owned tiles at `base` lie two stages of walked tiles, then their statistics. */
template <int D, bool OF_KEYS>
__device__ __forceinline__ walked_tiles stage(uint32_t base, int index) {
    typedef backward_tiles<D, OF_KEYS> tiles;
    uint32_t walked = base + 2 * tiles::owned_bytes + (uint32_t)index * 2 * tiles::walked_bytes;
    uint32_t statistics = base + 2 * tiles::owned_bytes + 4 * tiles::walked_bytes;
    return {walked, walked + tiles::walked_bytes,
            statistics + (uint32_t)index * tiles::statistics_bytes};
}

/* Where a tile stands. */
typedef struct place {
    int sample, head, group;
    int owned;  /* the warpgroup's first row */
    int walked; /* the tile's first row */
} place;

template <bool OF_KEYS> __device__ __forceinline__ int query_of(const place &at, int i) {
    return OF_KEYS ? at.walked + column_of(i) : at.owned + row_of(i);
}

template <bool OF_KEYS> __device__ __forceinline__ int key_of(const place &at, int i) {
    return OF_KEYS ? at.owned + row_of(i) : at.walked + column_of(i);
}

/* Bit i: dropout kept element i. */
template <bool OF_KEYS>
__device__ __forceinline__ uint32_t kept_elements(const attention_problem &p, const place &at) {
    uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < WALKED / 2; i++) {
        bool keeps = attention_keeps(p, at.sample, at.head, query_of<OF_KEYS>(at, i),
                                     key_of<OF_KEYS>(at, i));
        kept |= (uint32_t)keeps << i;
    }
    return kept;
}

/* Statistics of the two queries that elements 4 b .. 4 b + 3 belong to: those of the thread's two
 * rows, or of columns 8 b + 2 (lane % 4) and the next. */
template <bool OF_KEYS>
__device__ __forceinline__ float4 statistics_of(const float4 &rows, uint32_t walked, int b) {
    if (!OF_KEYS) {
        return rows;
    }
    float4 columns;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(columns.x), "=f"(columns.y), "=f"(columns.z), "=f"(columns.w)
                 : "r"(walked + (b * 8 + threadIdx.x % 4 * 2) * (uint32_t)sizeof(float2))
                 : "memory");
    return columns;
}

/* Turns scores into probabilities. */
template <bool OF_KEYS, bool MASKED>
__device__ __forceinline__ void recompute(const attention_problem &p, const place &at,
                                          float (&score)[WALKED / 2], const float4 &rows,
                                          uint32_t walked) {
#pragma unroll
    for (int b = 0; b < WALKED / 8; b++) {
        float4 statistics = statistics_of<OF_KEYS>(rows, walked, b);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            bool second = OF_KEYS ? c % 2 : c / 2;
            int i = 4 * b + c;
            float log_sum = second ? statistics.z : statistics.x;
            float probability = power_of_two(fmaf(score[i], p.scale_log2, -log_sum));
            if (MASKED) {
                bool visible = key_of<OF_KEYS>(at, i) < visible_keys(p, query_of<OF_KEYS>(at, i));
                probability = visible ? probability : 0.0f;
            }
            score[i] = probability;
        }
    }
}

/* d_probability becomes dS. */
template <bool OF_KEYS, bool DROPOUT>
__device__ __forceinline__ void differentiate(const attention_problem &p,
                                              const float (&probability)[WALKED / 2],
                                              float (&d_probability)[WALKED / 2], uint32_t kept,
                                              const float4 &rows, uint32_t walked) {
#pragma unroll
    for (int b = 0; b < WALKED / 8; b++) {
        float4 statistics = statistics_of<OF_KEYS>(rows, walked, b);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            bool second = OF_KEYS ? c % 2 : c / 2;
            int i = 4 * b + c;
            float dot = second ? statistics.w : statistics.y;
            float gradient = d_probability[i];
            if (DROPOUT) {
                gradient = kept >> i & 1 ? p.dropout.factor * gradient : 0.0f;
            }
            d_probability[i] = probability[i] * (gradient - dot);
        }
    }
}

template <bool DROPOUT>
__device__ __forceinline__ void pack_kept(const attention_problem &p,
                                          uint32_t (&operand)[WALKED / 4],
                                          const float (&probability)[WALKED / 2], uint32_t kept) {
    float product[WALKED / 2];
#pragma unroll
    for (int i = 0; i < WALKED / 2; i++) {
        float dropped = kept >> i & 1 ? p.dropout.factor * probability[i] : 0.0f;
        product[i] = DROPOUT ? dropped : probability[i];
    }
    pack_operand<WALKED>(operand, product);
}

/* One walked tile: `first` += dS (walked.first), `second` += P' (walked.second). `load` is called
 * while the tensor cores are busy. */
template <int D, outputs OUT, bool MASKED, bool DROPOUT, typename F>
__device__ __forceinline__ void backward_step(const attention_problem &p, const place &at,
                                              float (&first)[D / 2], float (&second)[D / 2],
                                              const uint32_t (&own)[2], const walked_tiles &walked,
                                              const float4 &rows, F load) {
    constexpr bool of_keys = OUT != D_QUERY;
    constexpr bool has_second = OUT == D_KEY_AND_VALUE || OUT == D_VALUE;
    constexpr int tile_rows = backward_tiles<D, of_keys>::rows;
    float score[WALKED / 2], d_probability[WALKED / 2];
    uint32_t operand[WALKED / 4];
    wgmma_fence();
    multiply_tiles<WALKED, D, tile_rows>(score, own[0], walked.first);
    wgmma_commit();
    if (OUT != D_VALUE) {
        multiply_tiles<WALKED, D, tile_rows>(d_probability, own[1], walked.second);
        wgmma_commit();
    }
    load();
    uint32_t kept = DROPOUT ? kept_elements<of_keys>(p, at) : 0;
    wgmma_wait<OUT != D_VALUE ? 1 : 0>();
    wgmma_settle(score);
    recompute<of_keys, MASKED>(p, at, score, rows, walked.statistics);
    if (has_second) {
        pack_kept<DROPOUT>(p, operand, score, kept);
        wgmma_fence();
        multiply_registers<WALKED, D>(second, operand, walked.second);
        wgmma_commit();
    }
    if (OUT != D_VALUE) {
        uint32_t d_operand[WALKED / 4];
        wgmma_wait<has_second ? 1 : 0>();
        wgmma_settle(d_probability);
        differentiate<of_keys, DROPOUT>(p, score, d_probability, kept, rows, walked.statistics);
        pack_operand<WALKED>(d_operand, d_probability);
        wgmma_fence();
        multiply_registers<WALKED, D>(first, d_operand, walked.first);
        wgmma_commit();
    }
    wgmma_wait<0>();
    wgmma_settle(first);
    wgmma_settle(second);
}

/* Starts to load a walked tile (and, in a pass of keys, the statistics of its queries). */
template <int D, bool OF_KEYS>
__device__ __forceinline__ void load_walked(const attention_problem &p, const walked_tiles &to,
                                            const place &at) {
    constexpr int threads = backward_tiles<D, OF_KEYS>::threads;
    if (OF_KEYS) {
        load_tile<WALKED, D, threads>(p, to.first, query_rows<bf16>(p, p.query, at.sample, at.head),
                                      at.walked, p.queries);
        load_tile<WALKED, D, threads>(p, to.second, out_rows<bf16>(p, p.d_out, at.sample, at.head),
                                      at.walked, p.queries);
        if (threadIdx.x < WALKED) {
            int query = at.walked + (int)threadIdx.x;
            const float2 *from =
                p.statistics + (int64_t)(at.sample * p.heads + at.head) * p.queries;
            copy_async_8(to.statistics + threadIdx.x * (uint32_t)sizeof(float2),
                         query < p.queries ? from + query : from, query < p.queries);
        }
    } else {
        load_tile<WALKED, D, threads>(p, to.first, key_rows<bf16>(p, p.key, at.sample, at.group),
                                      at.walked, p.keys);
        load_tile<WALKED, D, threads>(p, to.second, key_rows<bf16>(p, p.value, at.sample, at.group),
                                      at.walked, p.keys);
    }
}

/* Statistics of the thread's two rows in a pass of queries. */
__device__ __forceinline__ float4 row_statistics(const attention_problem &p, const place &at) {
    float4 rows = {INFINITY, 0.0f, INFINITY, 0.0f};
    const float2 *from = p.statistics + (int64_t)(at.sample * p.heads + at.head) * p.queries;
    int query = at.owned + row_of(0);
    if (query < p.queries) {
        float2 statistics = from[query];
        rows.x = statistics.x, rows.y = statistics.y;
    }
    if (query + 8 < p.queries) {
        float2 statistics = from[query + 8];
        rows.z = statistics.x, rows.w = statistics.y;
    }
    return rows;
}

/* The tiles that a block walks over: `count` a head, from row `first` on. */
typedef struct walk {
    int first, count, heads;
} walk;

template <int D, bool OF_KEYS>
__device__ __forceinline__ walk plan_walk(const attention_problem &p, int owned) {
    if (OF_KEYS) {
        int first = first_viewer(p, owned) / WALKED * WALKED;
        int count = max(0, (p.queries - first + WALKED - 1) / WALKED);
        return {first, count, p.heads / p.groups};
    }
    int seen = visible_keys(p, min(p.queries, owned + backward_tiles<D, OF_KEYS>::rows) - 1);
    return {0, (seen + WALKED - 1) / WALKED, 1};
}

typedef enum sight { SEES_ALL, SEES_PART, SEES_NOTHING } sight;

/* How much of a tile the warpgroup's rows see, or are seen by. */
template <bool OF_KEYS>
__device__ __forceinline__ sight sight_of(const attention_problem &p, const place &at) {
    int first_query = OF_KEYS ? at.walked : at.owned;
    int first_key = OF_KEYS ? at.owned : at.walked;
    if (first_key >= visible_keys(p, min(p.queries, first_query + 64) - 1)) {
        return SEES_NOTHING;
    }
    return first_key + 64 <= visible_keys(p, first_query) ? SEES_ALL : SEES_PART;
}

template <int D, outputs OUT>
__device__ __forceinline__ void store_outputs(const attention_problem &p, const place &at,
                                              const float (&first)[D / 2],
                                              const float (&second)[D / 2],
                                              const uint32_t (&own)[2]) {
    constexpr int tile_rows = backward_tiles<D, OUT != D_QUERY>::rows;
    const float scaled[2] = {p.scale, p.scale}, plain[2] = {1.0f, 1.0f};
    if (OUT == D_QUERY) {
        store_rows<D, tile_rows>(p, first, scaled, own[0],
                                 written(query_rows<bf16>(p, p.d_query, at.sample, at.head)),
                                 at.owned, p.queries);
    }
    if (OUT == D_KEY_AND_VALUE || OUT == D_KEY) {
        store_rows<D, tile_rows>(p, first, scaled, own[0],
                                 written(key_rows<bf16>(p, p.d_key, at.sample, at.group)), at.owned,
                                 p.keys);
    }
    if (OUT == D_KEY_AND_VALUE || OUT == D_VALUE) {
        store_rows<D, tile_rows>(p, second, plain, own[1],
                                 written(key_rows<bf16>(p, p.d_value, at.sample, at.group)),
                                 at.owned, p.keys);
    }
}

/* Grid: samples times heads (groups), owned tiles. Blocks with most work come first. */
template <int D, outputs OUT, bool DROPOUT>
__global__ void __launch_bounds__(backward_tiles<D, OUT != D_QUERY>::threads, 1)
    flash_backward(const __grid_constant__ attention_problem p) {
    typedef backward_tiles<D, OUT != D_QUERY> tiles;
    constexpr bool of_keys = OUT != D_QUERY;
    extern __shared__ __align__(1024) char memory[];
    uint32_t base = (uint32_t)__cvta_generic_to_shared(memory);
    uint32_t warpgroup = (uint32_t)own_warpgroup();
    int ratio = p.heads / p.groups, per_sample = of_keys ? p.groups : p.heads;
    int tile = (int)(of_keys ? blockIdx.y : gridDim.y - 1 - blockIdx.y), owned = tile * tiles::rows;
    place at = {(int)blockIdx.x / per_sample, 0, 0, owned + (int)warpgroup * GROUP_ROWS, 0};
    at.group = of_keys ? (int)blockIdx.x % per_sample : (int)blockIdx.x % per_sample / ratio;
    at.head = of_keys ? at.group * ratio : (int)blockIdx.x % per_sample;
    walk steps = plan_walk<D, of_keys>(p, owned);
    at.walked = steps.first;

    auto owned_rows = of_keys ? key_rows<bf16>(p, p.key, at.sample, at.group)
                              : query_rows<bf16>(p, p.query, at.sample, at.head);
    load_tile<tiles::rows, D, tiles::threads>(p, base, owned_rows, owned,
                                              of_keys ? p.keys : p.queries);
    owned_rows = of_keys ? key_rows<bf16>(p, p.value, at.sample, at.group)
                         : out_rows<bf16>(p, p.d_out, at.sample, at.head);
    load_tile<tiles::rows, D, tiles::threads>(p, base + tiles::owned_bytes, owned_rows, owned,
                                              of_keys ? p.keys : p.queries);
    const uint32_t own[2] = {base + warpgroup * GROUP_ROWS * 128,
                             base + tiles::owned_bytes + warpgroup * GROUP_ROWS * 128};
    float4 rows = of_keys ? float4{} : row_statistics(p, at);
    float first[D / 2] = {0.0f}, second[D / 2] = {0.0f};

    int end = steps.first + steps.count * WALKED, total = steps.count * steps.heads;
    if (total > 0) {
        load_walked<D, of_keys>(p, stage<D, of_keys>(base, 0), at);
    }
    for (int t = 0; t < total; t++) {
        copy_wait();
        __syncthreads(); /* tile t is here, and the one before is done with */
        place next = at;
        next.walked += WALKED;
        if (next.walked >= end) {
            next.walked = steps.first;
            next.head++;
        }
        walked_tiles walked = stage<D, of_keys>(base, t % 2);
        auto load = [&] {
            if (t + 1 < total) {
                load_walked<D, of_keys>(p, stage<D, of_keys>(base, (t + 1) % 2), next);
            }
        };
        sight sees = sight_of<of_keys>(p, at);
        if (sees == SEES_ALL && !DROPOUT) { /* with dropout, one step fewer to compile */
            backward_step<D, OUT, false, DROPOUT>(p, at, first, second, own, walked, rows, load);
        } else if (sees != SEES_NOTHING) {
            backward_step<D, OUT, true, DROPOUT>(p, at, first, second, own, walked, rows, load);
        } else {
            load();
        }
        at = next;
    }
    copy_wait(); /* the owned tiles, when there was nothing to walk over */
    __syncthreads();
    at.head = of_keys ? at.group * ratio : (int)blockIdx.x % per_sample;
    store_outputs<D, OUT>(p, at, first, second, own);
}

template <int D, outputs OUT, bool DROPOUT>
static void launch_pass(const attention_problem &p, cudaStream_t stream) {
    typedef backward_tiles<D, OUT != D_QUERY> tiles;
    constexpr bool of_keys = OUT != D_QUERY;
    cudaFuncSetAttribute(flash_backward<D, OUT, DROPOUT>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, tiles::bytes);
    int rows = of_keys ? p.keys : p.queries;
    dim3 grid((unsigned)(p.batch * (of_keys ? p.groups : p.heads)),
              (unsigned)((rows + tiles::rows - 1) / tiles::rows));
    if (grid.x > 0 && grid.y > 0) {
        flash_backward<D, OUT, DROPOUT><<<grid, tiles::threads, tiles::bytes, stream>>>(p);
    }
}

template <int D, bool DROPOUT>
static void launch_passes(const attention_problem &p, cudaStream_t stream) {
    launch_pass<D, D_QUERY, DROPOUT>(p, stream);
    if constexpr (D > 128) {
        launch_pass<D, D_KEY, DROPOUT>(p, stream);
        launch_pass<D, D_VALUE, DROPOUT>(p, stream);
    } else {
        launch_pass<D, D_KEY_AND_VALUE, DROPOUT>(p, stream);
    }
}

template <int D> static void backward_heads(const attention_problem &p, cudaStream_t stream) {
    if (p.dropout.threshold > 0) {
        launch_passes<D, true>(p, stream);
    } else {
        launch_passes<D, false>(p, stream);
    }
}

void attention_flash_backward(const attention_problem &p, cudaStream_t stream) {
    attention_statistics(p, HAUL_BF16, stream);
    if (p.head_size <= 32) {
        backward_heads<32>(p, stream);
    } else if (p.head_size <= 64) {
        backward_heads<64>(p, stream);
    } else if (p.head_size <= 96) {
        backward_heads<96>(p, stream);
    } else if (p.head_size <= 128) {
        backward_heads<128>(p, stream);
    } else {
        backward_heads<256>(p, stream);
    }
}
