/* Inside the products of the cpu backend: what a product is, the methods that can compute it, and
 * the plan that one method makes. */
#ifndef HAUL_DEVICE_CPU_MATMUL_PLAN_H
#define HAUL_DEVICE_CPU_MATMUL_PLAN_H

#include "device/cpu/matmul.h"
#include "device/cpu/matmul_onednn.h"
#include "device/cpu/simd/gemm.h"

/* All that a plan depends on. No padding, so that products compare and hash as bytes. */
typedef struct haul_product {
    int64_t m, n, k;
    uint8_t a, b, c, bias; /* dtypes; bias 0 without one */
    uint8_t flags;
    uint8_t zero[3];
} haul_product;

bool haul_product_same(const haul_product *a, const haul_product *b);

enum {
    HAUL_PRODUCT_TRANSPOSE_A = 1,
    HAUL_PRODUCT_TRANSPOSE_B = 2,
    HAUL_PRODUCT_PACKED = 4, /* b is given as packed for the method */
    HAUL_PRODUCT_BIAS = 8,
    HAUL_PRODUCT_ACCUMULATE = 16
};

/* "onednn", "onednn-reorder-b", ... */
const char *haul_method_name(haul_method method);

/* haul's own kernels for an instruction set, "avx512", ...; NULL when this build has none. */
const haul_gemm_kernels *haul_gemm_kernels_of(const char *isa);

/* What methods compute with. */
typedef struct haul_engines {
    haul_onednn *onednn; /* NULL: a build without it */
    const haul_gemm_kernels *own;
    int threads;
    bool bf16; /* oneDNN multiplies two bf16 operands in bf16, else in f32 */
} haul_engines;

/* Of an open device; for benchmarks that compare methods. */
const haul_engines *haul_cpu_matmul_engines(const haul_cpu_matmul *matmul);

/* The packed form of a weight under one method. */
typedef struct haul_packing {
    haul_product product;
    haul_method method;
    haul_onednn_packing *onednn;
    bool widen;        /* the weight is bf16, its packed form f32 */
    int64_t bytes;     /* 0: the weight itself is the best form */
    int64_t workspace; /* bytes */
} haul_packing;

/* Deinit is legal on a zeroed one, here and below. HAUL_ERROR_UNAVAILABLE: the method cannot. */
haul_status haul_packing_init(haul_packing *packing, const haul_engines *engines,
                              const haul_product *product, haul_method method);
void haul_packing_deinit(haul_packing *packing);
haul_status haul_packing_run(const haul_packing *packing, const haul_engines *engines,
                             const void *weight, void *packed, void *workspace);

typedef struct haul_plan {
    haul_product product;
    haul_method method;
    haul_onednn_product *onednn;
    /* oneDNN in f32 reads and writes f32 alone: offsets in the workspace of converted operands, or
     * -1, and of its own workspace. */
    int64_t a_offset, b_offset, c_offset, bias_offset;
    int64_t rest_offset;
    int64_t workspace; /* bytes, aligned to 64 */
} haul_plan;

/* `packing`, of the same method, when the product is packed; it must stay until deinit. */
haul_status haul_plan_init(haul_plan *plan, const haul_engines *engines,
                           const haul_product *product, haul_method method,
                           const haul_packing *packing);
void haul_plan_deinit(haul_plan *plan);

/* b is the packed form when the product is packed; bias may be NULL. */
haul_status haul_plan_run(const haul_plan *plan, const haul_engines *engines, const void *a,
                          const void *b, const void *bias, void *c, void *workspace);

#endif
