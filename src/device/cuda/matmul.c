#include "device/cuda/matmul.h"

#include "base/memory.h"
#include "device/cuda/kernels.h"
#include "device/cuda/matmul_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- plans ---------------------------------------------------------------------------------- */

haul_status haul_cuda_products_open(haul_cuda_device *cuda, haul_cuda_products **out) {
    struct cudaDeviceProp card;
    int ordinal = 0;
    cudaError_t error = cudaGetDevice(&ordinal);
    if (error == cudaSuccess) {
        error = cudaGetDeviceProperties(&card, ordinal);
    }
    if (error != cudaSuccess) {
        return haul_fail(HAUL_ERROR_UNAVAILABLE, "the card: %s", cudaGetErrorString(error));
    }
    haul_cuda_products *products = haul_calloc(1, sizeof *products);
    if (products == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    cublasStatus_t status = cublasLtCreate(&products->handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
        free(products);
        return haul_fail(HAUL_ERROR_UNAVAILABLE, "cuBLASLt does not start: %s",
                         cublasLtGetStatusName(status));
    }
    products->stream = cuda->stream;
    snprintf(products->choices.library, sizeof products->choices.library, "%.100s\t%zu", card.name,
             cublasLtGetVersion());
    *out = products;
    return HAUL_OK;
}

void haul_cuda_products_close(haul_cuda_products *products) {
    if (products == NULL) {
        return;
    }
    while (products->plans != NULL) {
        haul_cuda_plan *plan = products->plans;
        products->plans = plan->next;
        free(plan);
    }
    haul_cuda_choices_deinit(&products->choices);
    cublasLtDestroy(products->handle);
    free(products);
}

haul_status haul_cuda_products_load(haul_cuda_products *products, const char *path) {
    return haul_cuda_choices_load(&products->choices, path);
}

haul_status haul_cuda_products_save(haul_cuda_products *products, const char *path) {
    return haul_cuda_choices_save(&products->choices, path);
}

/* What cuBLASLt documents: a bias is of the output's dtype, bf16 comes of bf16 or FP8; FP8 wants
 * rows of whole groups of 16 bytes, and scales of rows a multiple of 8 of them. */
static bool library_takes(const haul_cuda_product *product) {
    bool scaled = product->a_scaling != HAUL_SCALING_NONE;
    if (product->k == 0 || (product->a == HAUL_F32 && product->c == HAUL_BF16) ||
        (product->bias >= 0 && product->bias != product->c)) {
        return false;
    }
    return !scaled || (product->k % 16 == 0 && product->n % 8 == 0 && product->alignment_a == 16 &&
                       product->alignment_b == 16 && product->alignment_c == 16 &&
                       (product->bias < 0 || product->c == HAUL_BF16) &&
                       (product->a_scaling != HAUL_SCALING_ROWS || product->m % 8 == 0));
}

/* Takes the algorithm that was measured, if there is one and this library still runs it. */
static bool fill_from_choices(haul_cuda_products *products, const haul_cuda_product *product,
                              haul_cuda_plan *plan) {
    char text[HAUL_CUDA_PRODUCT_TEXT];
    cublasLtMatmulHeuristicResult_t check;
    haul_cuda_product_text(product, text);
    const haul_cuda_choice *choice = haul_cuda_choices_find(&products->choices, text);
    if (choice == NULL || haul_cuda_plan_describe(plan, product) != CUBLAS_STATUS_SUCCESS ||
        cublasLtMatmulAlgoCheck(products->handle, &plan->operation, &plan->b, &plan->a, &plan->c,
                                &plan->c, &choice->algorithm, &check) != CUBLAS_STATUS_SUCCESS ||
        check.workspaceSize > (size_t)HAUL_CUDA_PRODUCT_WORKSPACE) {
        return false;
    }
    plan->algorithm = choice->algorithm;
    plan->workspace = check.workspaceSize;
    plan->microseconds = choice->microseconds;
    return true;
}

static cublasStatus_t fill_from_library(haul_cuda_products *products,
                                        const haul_cuda_product *product, haul_cuda_plan *plan) {
    cublasLtMatmulHeuristicResult_t first;
    int count = 0;
    cublasStatus_t status = haul_cuda_plan_describe(plan, product);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = haul_cuda_plan_candidates(products->handle, plan, 1, &first, &count);
    }
    plan->plain = count == 0;
    if (count > 0) {
        plan->algorithm = first.algo;
        plan->workspace = first.workspaceSize;
    }
    return status;
}

static cublasStatus_t fill_plan(haul_cuda_products *products, const haul_cuda_product *product,
                                haul_cuda_plan *plan) {
    plan->product = *product;
    plan->plain = !library_takes(product);
    if (plan->plain || fill_from_choices(products, product, plan)) {
        return CUBLAS_STATUS_SUCCESS;
    }
    return fill_from_library(products, product, plan);
}

haul_status haul_cuda_products_find(haul_cuda_products *products, const haul_cuda_product *product,
                                    haul_cuda_plan **out) {
    for (haul_cuda_plan *plan = products->plans; plan != NULL; plan = plan->next) {
        if (memcmp(&plan->product, product, sizeof *product) == 0) {
            *out = plan;
            return HAUL_OK;
        }
    }
    haul_cuda_plan *plan = haul_calloc(1, sizeof *plan);
    if (plan == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    cublasStatus_t status = fill_plan(products, product, plan);
    if (status != CUBLAS_STATUS_SUCCESS) {
        free(plan);
        return haul_cuda_plan_fail(product, status);
    }
    plan->next = products->plans;
    products->plans = plan;
    *out = plan;
    return HAUL_OK;
}

/* --- the op --------------------------------------------------------------------------------- */

int64_t haul_cuda_matmul_workspace(haul_device *device, const void *args) {
    (void)device;
    (void)args;
    return HAUL_CUDA_PRODUCT_WORKSPACE;
}

static haul_status multiply(haul_stream *stream, const haul_matmul_args *matmul,
                            haul_cuda_plan *plan) {
    const haul_cuda_operands operands = {
        .a = matmul->a.data,
        .b = matmul->b.data,
        .c = matmul->c.data,
        .bias = matmul->bias.data,
        .a_scales = matmul->a_scales.data,
        .b_scales = matmul->b_scales.data,
        .workspace = stream->scratch,
    };
    if (stream->scratch_bytes < (int64_t)plan->workspace) {
        return haul_fail(HAUL_ERROR_INTERNAL, "matmul: scratch is %lld bytes, must be %lld",
                         (long long)stream->scratch_bytes, (long long)plan->workspace);
    }
    cublasLtHandle_t handle = haul_cuda_device_of(stream->device)->products->handle;
    cublasStatus_t status =
        haul_cuda_plan_run(handle, plan, &operands, haul_cuda_stream_of(stream));
    return status == CUBLAS_STATUS_SUCCESS ? HAUL_OK : haul_cuda_plan_fail(&plan->product, status);
}

void haul_cuda_matmul(haul_stream *stream, const void *args) {
    const haul_matmul_args *matmul = args;
    haul_cuda_product product;
    haul_cuda_plan *plan;
    if (!haul_cuda_product_of(matmul, &product)) {
        haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE,
                         "matmul on cuda takes f32 or bf16, a and b alike, or FP8 with scales; "
                         "is %s %s -> %s",
                         haul_dtype_name(matmul->a.dtype), haul_dtype_name(matmul->b.dtype),
                         haul_dtype_name(matmul->c.dtype));
        return;
    }
    if (product.m == 0 || product.n == 0) {
        return;
    }
    haul_status status =
        haul_cuda_products_find(haul_cuda_device_of(stream->device)->products, &product, &plan);
    if (status == HAUL_OK && plan->plain) {
        haul_cuda_matmul_plain(stream, matmul);
    } else if (status == HAUL_OK) {
        status = multiply(stream, matmul, plan);
    }
    if (status != HAUL_OK) {
        haul_stream_fail(stream, status, "%s", haul_error_message());
    }
}
