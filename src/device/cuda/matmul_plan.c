#include "device/cuda/matmul_plan.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 16 }; /* of the widest loads; more is of no use */

/* --- products ------------------------------------------------------------------------------- */

/* The largest power of two, at most ALIGNMENT, that divides the address. */
static int32_t alignment_of(const void *data) {
    uintptr_t bits = (uintptr_t)data | ALIGNMENT;
    return (int32_t)(bits & (~bits + 1));
}

static bool supported(haul_dtype dtype) {
    return dtype == HAUL_F32 || dtype == HAUL_BF16;
}

/* f32 or bf16, both alike, or FP8 as op.h allows it. */
static bool operands_supported(const haul_matmul_args *args) {
    haul_dtype a = args->a.dtype, b = args->b.dtype;
    if (args->a_scaling == HAUL_SCALING_NONE && args->b_scaling == HAUL_SCALING_NONE) {
        return a == b && supported(a);
    }
    bool tensors = args->a_scaling == HAUL_SCALING_TENSOR;
    return (a == HAUL_E4M3 || (a == HAUL_E5M2 && b == HAUL_E4M3)) &&
           (b == HAUL_E4M3 || b == HAUL_E5M2) && args->transpose_b && !args->transpose_a &&
           tensors == (args->b_scaling == HAUL_SCALING_TENSOR) &&
           args->a_scaling != HAUL_SCALING_NONE && args->b_scaling != HAUL_SCALING_NONE;
}

bool haul_cuda_product_of(const haul_matmul_args *args, haul_cuda_product *out) {
    const haul_tensor *a = &args->a, *c = &args->c, *bias = &args->bias;
    bool biased = haul_tensor_present(bias);
    *out = (haul_cuda_product){
        .m = haul_tensor_rows(c),
        .n = haul_tensor_columns(c),
        .k = args->transpose_a ? haul_tensor_rows(a) : haul_tensor_columns(a),
        .a = (int32_t)a->dtype,
        .b = (int32_t)args->b.dtype,
        .c = (int32_t)c->dtype,
        .bias = biased ? (int32_t)bias->dtype : -1,
        .transpose_a = args->transpose_a,
        .transpose_b = args->transpose_b,
        .accumulate = args->accumulate,
        .a_scaling = (int32_t)args->a_scaling,
        .b_scaling = (int32_t)args->b_scaling,
        .fast = args->fast,
        .alignment_a = alignment_of(a->data),
        .alignment_b = alignment_of(args->b.data),
        .alignment_c =
            (int32_t)haul_min(alignment_of(c->data), alignment_of(biased ? bias->data : NULL)),
    };
    return operands_supported(args) && supported(c->dtype) && (!biased || supported(bias->dtype));
}

void haul_cuda_product_text(const haul_cuda_product *product, char text[HAUL_CUDA_PRODUCT_TEXT]) {
    static const char *const scalings[] = {"", " by tensor", " by rows", " by blocks"};
    bool biased = product->bias >= 0;
    snprintf(text, HAUL_CUDA_PRODUCT_TEXT,
             "M %" PRId64 " N %" PRId64 " K %" PRId64 " %s%s%s %s%s%s -> %s%s%s%s%s align %d %d %d",
             product->m, product->n, product->k, haul_dtype_name((haul_dtype)product->a),
             product->transpose_a ? "^T" : "", scalings[product->a_scaling],
             haul_dtype_name((haul_dtype)product->b), product->transpose_b ? "^T" : "",
             scalings[product->b_scaling], haul_dtype_name((haul_dtype)product->c),
             biased ? " bias " : "", biased ? haul_dtype_name((haul_dtype)product->bias) : "",
             product->accumulate ? " accumulate" : "", product->fast ? " fast" : "",
             product->alignment_a, product->alignment_b, product->alignment_c);
}

haul_status haul_cuda_plan_fail(const haul_cuda_product *product, cublasStatus_t status) {
    char text[HAUL_CUDA_PRODUCT_TEXT];
    haul_cuda_product_text(product, text);
    return haul_fail(status == CUBLAS_STATUS_ALLOC_FAILED ? HAUL_ERROR_MEMORY : HAUL_ERROR_INTERNAL,
                     "matmul %s: %s", text, cublasLtGetStatusName(status));
}

/* --- descriptors ---------------------------------------------------------------------------- */

static cudaDataType_t library_dtype(int32_t dtype) {
    switch (dtype) {
    case HAUL_BF16:
        return CUDA_R_16BF;
    case HAUL_E4M3:
        return CUDA_R_8F_E4M3;
    case HAUL_E5M2:
        return CUDA_R_8F_E5M2;
    default:
        return CUDA_R_32F;
    }
}

static int32_t library_scaling(int32_t scaling) {
    switch (scaling) {
    case HAUL_SCALING_ROWS:
        return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case HAUL_SCALING_BLOCKS:
        return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    default:
        return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    }
}

/* One setting of a descriptor or a preference. */
typedef struct setting {
    int attribute;
    const void *value;
    size_t bytes;
} setting;

/* A row-major matrix of which one product reads the transposed. */
static cublasStatus_t describe_matrix(cublasLtMatrixLayoutOpaque_t *layout, int32_t dtype,
                                      int64_t rows, int64_t columns, bool transposed) {
    int64_t width = transposed ? rows : columns, height = transposed ? columns : rows;
    return cublasLtMatrixLayoutInit(layout, library_dtype(dtype), (uint64_t)width, (uint64_t)height,
                                    width);
}

static cublasStatus_t set(cublasLtMatmulDescOpaque_t *operation, const setting *settings,
                          int count) {
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; i++) {
        status = cublasLtMatmulDescSetAttribute(
            operation, (cublasLtMatmulDescAttributes_t)settings[i].attribute, settings[i].value,
            settings[i].bytes);
    }
    return status;
}

static cublasStatus_t describe_bias(haul_cuda_plan *plan) {
    const haul_cuda_product *product = &plan->product;
    uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    int32_t dtype = library_dtype(product->bias);
    /* Algorithms are found for a bias aligned as this pointer is; a run sets the true one. */
    const void *bias = (const void *)(uintptr_t)product->alignment_c;
    const setting settings[] = {
        {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue},
        {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &dtype, sizeof dtype},
        {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias},
    };
    return set(&plan->operation, settings, 3);
}

static cublasStatus_t describe_scaling(haul_cuda_plan *plan) {
    const haul_cuda_product *product = &plan->product;
    int32_t first = library_scaling(product->b_scaling);
    int32_t second = library_scaling(product->a_scaling);
    int8_t fast = product->fast != 0;
    const void *scales = (const void *)(uintptr_t)ALIGNMENT; /* as with the bias */
    const setting settings[] = {
        {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &first, sizeof first},
        {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &second, sizeof second},
        {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scales, sizeof scales},
        {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scales, sizeof scales},
        {CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast},
    };
    return set(&plan->operation, settings, 5);
}

/* Sums in f32, of f32 operands too: TF32 would be CUBLAS_COMPUTE_32F_FAST_TF32. */
static cublasStatus_t describe_operation(haul_cuda_plan *plan) {
    const haul_cuda_product *product = &plan->product;
    int32_t first = product->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    int32_t second = product->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const setting settings[] = {
        {CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first},
        {CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second},
    };
    cublasStatus_t status =
        cublasLtMatmulDescInit(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = set(&plan->operation, settings, 2);
    }
    if (status == CUBLAS_STATUS_SUCCESS && product->bias >= 0) {
        status = describe_bias(plan);
    }
    if (status == CUBLAS_STATUS_SUCCESS && product->a_scaling != HAUL_SCALING_NONE) {
        status = describe_scaling(plan);
    }
    return status;
}

cublasStatus_t haul_cuda_plan_describe(haul_cuda_plan *plan, const haul_cuda_product *product) {
    plan->product = *product;
    cublasStatus_t status = describe_operation(plan);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status =
            describe_matrix(&plan->a, product->a, product->m, product->k, product->transpose_a);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status =
            describe_matrix(&plan->b, product->b, product->k, product->n, product->transpose_b);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = describe_matrix(&plan->c, product->c, product->m, product->n, false);
    }
    return status;
}

/* --- algorithms ----------------------------------------------------------------------------- */

/* Of the ways to sum over a split K only the one that keeps the parts apart in f32 is allowed: it
 * repeats to the bit and rounds once. */
static cublasStatus_t describe_preference(const haul_cuda_product *product,
                                          cublasLtMatmulPreferenceOpaque_t *preference) {
    uint64_t workspace = HAUL_CUDA_PRODUCT_WORKSPACE;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t first = (uint32_t)product->alignment_b, second = (uint32_t)product->alignment_a;
    uint32_t output = (uint32_t)product->alignment_c;
    const setting settings[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &first, sizeof first},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &second, sizeof second},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &output, sizeof output},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &output, sizeof output},
    };
    cublasStatus_t status = cublasLtMatmulPreferenceInit(preference);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0] && status == CUBLAS_STATUS_SUCCESS;
         i++) {
        status = cublasLtMatmulPreferenceSetAttribute(
            preference, (cublasLtMatmulPreferenceAttributes_t)settings[i].attribute,
            settings[i].value, settings[i].bytes);
    }
    return status;
}

cublasStatus_t haul_cuda_plan_candidates(cublasLtHandle_t handle, haul_cuda_plan *plan,
                                         int capacity, cublasLtMatmulHeuristicResult_t *out,
                                         int *count) {
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasStatus_t status = describe_preference(&plan->product, &preference);
    *count = 0;
    if (status == CUBLAS_STATUS_SUCCESS) {
        status =
            cublasLtMatmulAlgoGetHeuristic(handle, &plan->operation, &plan->b, &plan->a, &plan->c,
                                           &plan->c, &preference, capacity, out, count);
    }
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) { /* no such product, or none so aligned */
        *count = 0;
        return CUBLAS_STATUS_SUCCESS;
    }
    int sound = 0;
    for (int i = 0; i < *count; i++) {
        if (out[i].state == CUBLAS_STATUS_SUCCESS) {
            out[sound++] = out[i];
        }
    }
    *count = sound;
    return status;
}

/* Where bias and scales are in this run. */
static cublasStatus_t place(haul_cuda_plan *plan, const haul_cuda_operands *operands) {
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (plan->product.bias >= 0) {
        const setting bias = {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &operands->bias,
                              sizeof operands->bias};
        status = set(&plan->operation, &bias, 1);
    }
    if (status == CUBLAS_STATUS_SUCCESS && plan->product.a_scaling != HAUL_SCALING_NONE) {
        const setting scales[] = {
            {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &operands->b_scales, sizeof(void *)},
            {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &operands->a_scales, sizeof(void *)},
        };
        status = set(&plan->operation, scales, 2);
    }
    return status;
}

cublasStatus_t haul_cuda_plan_run(cublasLtHandle_t handle, haul_cuda_plan *plan,
                                  const haul_cuda_operands *operands, cudaStream_t stream) {
    const float one = 1.0f, beta = plan->product.accumulate ? 1.0f : 0.0f;
    cublasStatus_t status = place(plan, operands);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    return cublasLtMatmul(handle, &plan->operation, &one, operands->b, &plan->b, operands->a,
                          &plan->a, &beta, operands->c, &plan->c, operands->c, &plan->c,
                          &plan->algorithm, operands->workspace, plan->workspace, stream);
}
