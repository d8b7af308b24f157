/* A product as a key, and its plan for cuBLASLt. */
#ifndef HAUL_DEVICE_CUDA_MATMUL_PLAN_H
#define HAUL_DEVICE_CUDA_MATMUL_PLAN_H

#include "device/cuda/matmul.h"
#include "device/cuda/matmul_choices.h"

/* What tells two products apart; no padding, so that memcmp compares. Where bias and scales are is
 * set at each run. */
typedef struct haul_cuda_product {
    int64_t m, n, k;
    int32_t a, b, c, bias; /* haul_dtype; bias -1: none */
    int32_t transpose_a, transpose_b, accumulate;
    int32_t a_scaling, b_scaling, fast;
    int32_t alignment_a, alignment_b; /* bytes, a power of two, at most 16 */
    int32_t alignment_c;              /* of c and bias */
    int32_t unused;
} haul_cuda_product;

typedef struct haul_cuda_plan {
    haul_cuda_product product;
    bool plain; /* by haul_cuda_matmul_plain; the fields below are not used */
    /* Row-major matrices are transposed ones to cuBLASLt: it computes c^T = op(b)^T op(a)^T. */
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
    double microseconds; /* 0: the library's first choice, not measured */
    struct haul_cuda_plan *next;
} haul_cuda_plan;

/* Where the operands of one run are; bias, scales and workspace may be NULL. */
typedef struct haul_cuda_operands {
    const void *a, *b, *bias, *a_scales, *b_scales;
    void *c, *workspace;
} haul_cuda_operands;

struct haul_cuda_products {
    cublasLtHandle_t handle;
    cudaStream_t stream;
    haul_cuda_plan *plans; /* tens of entries */
    haul_cuda_choices choices;
};

/* False: the backend has no product of these dtypes. */
bool haul_cuda_product_of(const haul_matmul_args *args, haul_cuda_product *out);

/* "M 8192 N 6144 K 4096 bf16 bf16^T -> bf16 align 16 16 16" */
void haul_cuda_product_text(const haul_cuda_product *product, char text[HAUL_CUDA_PRODUCT_TEXT]);

/* The plan of a product, made if it is the first of its kind; owned by `products`. */
haul_status haul_cuda_products_find(haul_cuda_products *products, const haul_cuda_product *product,
                                    haul_cuda_plan **out);

/* Fills in product and descriptors. */
cublasStatus_t haul_cuda_plan_describe(haul_cuda_plan *plan, const haul_cuda_product *product);

/* Up to `capacity` algorithms that repeat to the bit and fit the workspace, the most promising
 * first. *count may be 0. */
cublasStatus_t haul_cuda_plan_candidates(cublasLtHandle_t handle, haul_cuda_plan *plan,
                                         int capacity, cublasLtMatmulHeuristicResult_t *out,
                                         int *count);

/* Starts the product on a stream. */
cublasStatus_t haul_cuda_plan_run(cublasLtHandle_t handle, haul_cuda_plan *plan,
                                  const haul_cuda_operands *operands, cudaStream_t stream);

/* A failed call of the library as this thread's message, the product named. */
haul_status haul_cuda_plan_fail(const haul_cuda_product *product, cublasStatus_t status);

#endif
