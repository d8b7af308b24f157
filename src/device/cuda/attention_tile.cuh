/* Tiles of bf16 in shared memory, and products of them in registers.
 *
 * A tile of ROWS rows and D columns lies in blocks of 64 columns: a row of a block is 128 bytes,
 * whose 16-byte chunk c lies at place c ^ (row % 8). This is the layout that wgmma calls the
 * 128-byte swizzle; it reads tiles by rows (products over columns) and by columns (products over
 * rows) without bank conflicts. Tiles begin at multiples of 1024 bytes. */
#ifndef HAUL_DEVICE_CUDA_ATTENTION_TILE_CUH
#define HAUL_DEVICE_CUDA_ATTENTION_TILE_CUH

#include "device/cuda/attention.cuh"
#include "device/cuda/attention_wgmma.cuh"

typedef __nv_bfloat16 bf16;

enum { GROUP_ROWS = 64, GROUP_THREADS = 128 }; /* of a warpgroup */

/* The thread's warpgroup, in a way that tells the compiler that warps do not diverge by it. */
__device__ __forceinline__ int own_warpgroup() {
    return __shfl_sync(~0u, (int)threadIdx.x / GROUP_THREADS, 0);
}

__host__ __device__ constexpr int tile_bytes(int rows, int columns) {
    return rows * 128 * ((columns + 63) / 64);
}

/* The address of a 16-byte chunk of a tile. */
template <int ROWS> __device__ __forceinline__ uint32_t chunk_at(int row, int chunk) {
    return (uint32_t)(chunk / 8 * ROWS * 128 + row * 128 + ((chunk ^ row) & 7) * 16);
}

__device__ __forceinline__ void copy_async_16(uint32_t to, const void *from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void copy_async_8(uint32_t to, const void *from, bool inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from),
                 "r"(inside ? 8 : 0)
                 : "memory");
}

/* Until this thread's copies are done and visible to wgmma; a barrier must follow. */
__device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_all;\nfence.proxy.async.shared::cta;" ::: "memory");
}

/* A chunk of elements that are not aligned or not all inside. */
__device__ __forceinline__ void copy_narrow(uint32_t to, const bf16 *from, int count) {
    uint32_t word[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t low = 2 * i < count ? __bfloat16_as_ushort(from[2 * i]) : 0;
        uint32_t high = 2 * i + 1 < count ? __bfloat16_as_ushort(from[2 * i + 1]) : 0;
        word[i] = high << 16 | low;
    }
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(word[0]), "r"(word[1]),
                 "r"(word[2]), "r"(word[3])
                 : "memory");
}

/* load_tile of rows that are not aligned. */
template <int ROWS, int D, int THREADS>
__device__ __forceinline__ void load_narrow(const attention_problem &p, uint32_t tile,
                                            attention_rows<const bf16> rows, int first, int count) {
    constexpr int chunks = D / 8;
#pragma unroll 1
    for (int index = (int)threadIdx.x; index < ROWS * chunks; index += THREADS) {
        int row = index / chunks, column = index % chunks * 8;
        bool inside = first + row < count && column < p.head_size;
        const bf16 *from = inside ? rows.data + (first + row) * rows.stride + column : rows.data;
        copy_narrow(tile + chunk_at<ROWS>(row, column / 8), from,
                    inside ? p.head_size - column : 0);
    }
}

/* Starts to fill a tile with rows [first, first + ROWS) of `rows`; zeros from row `count` and
 * column head_size on. A thread keeps to one column where the threads make whole rows, 8 at a time.
 */
template <int ROWS, int D, int THREADS>
__device__ __forceinline__ void load_tile(const attention_problem &p, uint32_t tile,
                                          attention_rows<const bf16> rows, int first, int count) {
    constexpr int chunks = D / 8, copies = (ROWS * chunks + THREADS - 1) / THREADS;
    constexpr int step = THREADS / chunks; /* rows */
    if (!p.aligned) {
        load_narrow<ROWS, D, THREADS>(p, tile, rows, first, count);
    } else if constexpr (THREADS % chunks == 0 && step % 8 == 0) {
        int row = (int)threadIdx.x / chunks, column = (int)threadIdx.x % chunks * 8;
        uint32_t to = tile + chunk_at<ROWS>(row, column / 8);
        const bf16 *from = rows.data + (first + row) * rows.stride + column;
        int inside = column < p.head_size ? count - first - row : 0;
#pragma unroll
        for (int i = 0; i < copies; i++) {
            if ((i + 1) * step <= ROWS || row + i * step < ROWS) {
                copy_async_16(to + i * step * 128, from, i * step < inside);
            }
            from += step * rows.stride;
        }
    } else {
#pragma unroll
        for (int i = 0; i < copies; i++) {
            int index = i * THREADS + (int)threadIdx.x;
            int row = index / chunks, column = index % chunks * 8;
            if (ROWS * chunks % THREADS == 0 || row < ROWS) {
                copy_async_16(tile + chunk_at<ROWS>(row, column / 8),
                              rows.data + (first + row) * rows.stride + column,
                              first + row < count && column < p.head_size);
            }
        }
    }
}

/* Bits 0-13 the address, 16-29 the stride between blocks of 64 columns (of use when the product
 * goes over rows), 32-45 that between groups of 8 rows, 62-63 the swizzle. */
template <int ROWS> __device__ __forceinline__ uint64_t describe_tile(uint32_t address) {
    return (uint64_t)((address & 0x3FFFF) >> 4) | (uint64_t)(ROWS * 128 >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/* The descriptor `bytes` further on. */
__device__ __forceinline__ uint64_t advance(uint64_t tile, int bytes) {
    return tile + (uint64_t)(bytes / 16);
}

/* acc [64, N] = a b^T: a, 64 rows of a tile of A_ROWS, b, a tile of N rows, both of D columns. */
template <int N, int D, int A_ROWS>
__device__ __forceinline__ void multiply_tiles(float (&acc)[N / 2], uint32_t a, uint32_t b) {
    uint64_t left = describe_tile<A_ROWS>(a), right = describe_tile<N>(b);
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        wgmma_tiles(acc, advance(left, k / 4 * A_ROWS * 128 + k % 4 * 32),
                    advance(right, k / 4 * N * 128 + k % 4 * 32), k > 0);
    }
}

/* acc [64, D] += a b: a [64, K] in registers, as pack_operand made it, b a tile of K rows. */
template <int K, int D>
__device__ __forceinline__ void multiply_registers(float (&acc)[D / 2], const uint32_t (&a)[K / 4],
                                                   uint32_t b) {
    uint64_t right = describe_tile<K>(b);
#pragma unroll
    for (int k = 0; k < K / 16; k++) {
#pragma unroll
        for (int column = 0; column < D; column += 128) {
            uint64_t part = advance(right, column / 64 * K * 128 + k * 2048);
            if constexpr (D % 128 == 0) {
                wgmma_registers_128(&acc[column / 2], &a[4 * k], part);
            } else if constexpr (D == 32) {
                wgmma_registers_32(acc, &a[4 * k], part);
            } else {
                wgmma_registers_64(acc, &a[4 * k], part);
            }
        }
        if constexpr (D == 96) {
            wgmma_registers_32(&acc[32], &a[4 * k], advance(right, K * 128 + k * 2048));
        }
    }
}

/* Two elements that are neighbours in a row, rounded to nearest even. */
__device__ __forceinline__ uint32_t pack_pair(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* An accumulator [64, K] as the left operand of a product over K. */
template <int K>
__device__ __forceinline__ void pack_operand(uint32_t (&a)[K / 4], const float (&acc)[K / 2]) {
#pragma unroll
    for (int i = 0; i < K / 4; i++) {
        a[i] = pack_pair(acc[2 * i], acc[2 * i + 1]);
    }
}

__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The row (of the warpgroup's 64) and the column of element i of an accumulator in this thread. */
__device__ __forceinline__ int row_of(int i) {
    return (int)threadIdx.x % GROUP_THREADS / 32 * 16 + (int)threadIdx.x % 32 / 4 + i % 4 / 2 * 8;
}

__device__ __forceinline__ int column_of(int i) {
    return i / 4 * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
}

/* Writes factor[row] * acc, rounded, to rows [first, count) of `rows`, 16 bytes at a time by way of
 * the tile `own` of ROWS rows, whose 64 rows from `own` on nobody else uses. `factor` belongs to
 * the two rows of a thread. */
template <int D, int ROWS>
__device__ __forceinline__ void store_rows(const attention_problem &p, const float (&acc)[D / 2],
                                           const float (&factor)[2], uint32_t own,
                                           attention_rows<bf16> rows, int first, int count) {
#pragma unroll
    for (int i = 0; i < D / 2; i += 2) {
        float f = factor[i % 4 / 2];
        uint32_t at = own + chunk_at<ROWS>(row_of(i), i / 4) + (threadIdx.x % 4) * 4;
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(pack_pair(f * acc[i], f * acc[i + 1]))
                     : "memory");
    }
    __syncwarp(); /* a warp reads back what it wrote */
    constexpr int chunks = D / 8;
    int warp_row = (int)threadIdx.x % GROUP_THREADS / 32 * 16;
#pragma unroll
    for (int i = 0; i < 16 * chunks / 32; i++) {
        int index = i * 32 + (int)threadIdx.x % 32;
        int row = warp_row + index / chunks, column = index % chunks * 8;
        if (first + row >= count || column >= p.head_size) {
            continue;
        }
        uint4 chunk;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(chunk.x), "=r"(chunk.y), "=r"(chunk.z), "=r"(chunk.w)
                     : "r"(own + chunk_at<ROWS>(row, column / 8))
                     : "memory");
        bf16 *to = rows.data + (first + row) * rows.stride + column;
        if (p.aligned) {
            *(uint4 *)to = chunk;
        } else {
            const uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
            for (int e = 0; e < 8; e++) {
                if (column + e < p.head_size) {
                    to[e] = __ushort_as_bfloat16((unsigned short)(words[e / 2] >> e % 2 * 16));
                }
            }
        }
    }
    __syncwarp();
}

#endif
