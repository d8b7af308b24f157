#include "device/cpu/matmul_plan.h"

#include "base/memory.h"

#include <string.h>

enum { ALIGNMENT = 64 };

static const struct {
    const char *name;
    unsigned reorders;
} methods[HAUL_METHODS] = {
    [HAUL_METHOD_ONEDNN] = {"onednn", 0},
    [HAUL_METHOD_ONEDNN_REORDER_B] = {"onednn-reorder-b", HAUL_ONEDNN_REORDER_B},
    [HAUL_METHOD_ONEDNN_REORDER_AB] = {"onednn-reorder-ab",
                                       HAUL_ONEDNN_REORDER_A | HAUL_ONEDNN_REORDER_B},
    [HAUL_METHOD_OWN] = {"own", 0},
};

static const haul_gemm_kernels *const kernels[] = {
#ifdef HAUL_HAVE_avx512
    &haul_gemm_avx512,
#endif
#ifdef HAUL_HAVE_avx2
    &haul_gemm_avx2,
#endif
    &haul_gemm_portable,
};

const haul_gemm_kernels *haul_gemm_kernels_of(const char *isa) {
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (strcmp(kernels[i]->isa, isa) == 0) {
            return kernels[i];
        }
    }
    return NULL;
}

bool haul_product_same(const haul_product *a, const haul_product *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

const char *haul_method_name(haul_method method) {
    return methods[method].name;
}

static bool has(const haul_product *product, unsigned flag) {
    return (product->flags & flag) != 0;
}

/* The dtype in which oneDNN multiplies. */
static haul_dtype inner_dtype(const haul_engines *engines, const haul_product *product) {
    bool both = product->a == HAUL_BF16 && product->b == HAUL_BF16;
    return both && engines->bf16 ? HAUL_BF16 : HAUL_F32;
}

static haul_onednn_shape onednn_shape(const haul_engines *engines, const haul_product *product) {
    haul_dtype inner = inner_dtype(engines, product);
    bool narrows = inner == HAUL_F32 && product->c == HAUL_BF16;
    return (haul_onednn_shape){
        .m = product->m,
        .n = product->n,
        .k = product->k,
        .transpose_a = has(product, HAUL_PRODUCT_TRANSPOSE_A),
        .transpose_b = has(product, HAUL_PRODUCT_TRANSPOSE_B),
        .dtype = inner,
        .c_dtype = narrows ? HAUL_F32 : (haul_dtype)product->c,
        .bias_dtype = inner == HAUL_F32 ? HAUL_F32 : (haul_dtype)product->bias,
        .bias = has(product, HAUL_PRODUCT_BIAS),
        /* A converted c is added while it is narrowed. */
        .accumulate = has(product, HAUL_PRODUCT_ACCUMULATE) && !narrows,
    };
}

/* Waking a thread takes as long as some 30,000 multiply-adds. */
static int own_threads(const haul_engines *engines, const haul_product *product) {
    enum { LEAST_WORK = 1 << 15 };
    double work = (double)product->m * (double)product->n * (double)product->k;
    double useful = 1.0 + work / LEAST_WORK;
    return useful < engines->threads ? (int)useful : engines->threads;
}

static haul_gemm own_product(const haul_engines *engines, const haul_product *product) {
    return (haul_gemm){
        .m = product->m,
        .n = product->n,
        .k = product->k,
        .transpose_a = has(product, HAUL_PRODUCT_TRANSPOSE_A),
        .transpose_b = has(product, HAUL_PRODUCT_TRANSPOSE_B),
        .accumulate = has(product, HAUL_PRODUCT_ACCUMULATE),
        .a_dtype = (haul_dtype)product->a,
        .b_dtype = (haul_dtype)product->b,
        .c_dtype = (haul_dtype)product->c,
        .bias_dtype = (haul_dtype)product->bias,
        .threads = own_threads(engines, product),
    };
}

/* --- packing -------------------------------------------------------------------------------- */

haul_status haul_packing_init(haul_packing *packing, const haul_engines *engines,
                              const haul_product *product, haul_method method) {
    *packing = (haul_packing){.product = *product, .method = method};
    if (method == HAUL_METHOD_OWN) {
        packing->bytes = engines->own->packed_bytes(product->n, product->k);
        return HAUL_OK;
    }
    /* The layout must not depend on what else the product does. */
    haul_onednn_shape shape = onednn_shape(engines, product);
    shape.c_dtype = shape.dtype;
    shape.bias = false;
    shape.accumulate = false;
    HAUL_TRY(haul_onednn_packing_create(engines->onednn, &shape, &packing->onednn));
    packing->widen = shape.dtype == HAUL_F32 && product->b == HAUL_BF16;
    bool plain;
    int64_t bytes = haul_onednn_packing_bytes(packing->onednn, &plain);
    packing->bytes = plain && !packing->widen ? 0 : bytes;
    packing->workspace = haul_onednn_packing_workspace(packing->onednn);
    if (packing->widen) {
        packing->workspace = haul_round_up(packing->workspace, ALIGNMENT) +
                             product->n * product->k * haul_dtype_size(HAUL_F32);
    }
    return HAUL_OK;
}

void haul_packing_deinit(haul_packing *packing) {
    if (packing->onednn != NULL) {
        haul_onednn_packing_destroy(packing->onednn);
    }
    *packing = (haul_packing){0};
}

haul_status haul_packing_run(const haul_packing *packing, const haul_engines *engines,
                             const void *weight, void *packed, void *workspace) {
    const haul_product *product = &packing->product;
    if (packing->method == HAUL_METHOD_OWN) {
        haul_gemm gemm = own_product(engines, product);
        gemm.b = weight;
        engines->own->pack(&gemm, packed);
        return HAUL_OK;
    }
    if (packing->widen) {
        int64_t scratch = haul_onednn_packing_workspace(packing->onednn);
        float *wide = (float *)((char *)workspace + haul_round_up(scratch, ALIGNMENT));
        engines->own->widen(engines->threads, product->n * product->k, weight, wide);
        weight = wide;
    }
    return haul_onednn_packing_run(packing->onednn, weight, packed, workspace);
}

/* --- plans ---------------------------------------------------------------------------------- */

/* Room for `count` floats at the end of the workspace, when they are needed. */
static int64_t reserve(haul_plan *plan, bool needed, int64_t count) {
    int64_t offset = plan->workspace;
    if (!needed) {
        return -1;
    }
    plan->workspace += haul_round_up(count * haul_dtype_size(HAUL_F32), ALIGNMENT);
    return offset;
}

static haul_status plan_onednn(haul_plan *plan, const haul_engines *engines,
                               const haul_packing *packing) {
    const haul_product *product = &plan->product;
    bool packed = has(product, HAUL_PRODUCT_PACKED);
    haul_onednn_shape shape = onednn_shape(engines, product);
    HAUL_TRY(haul_onednn_product_create(engines->onednn, &shape, methods[plan->method].reorders,
                                        packed ? packing->onednn : NULL, &plan->onednn));
    bool f32 = shape.dtype == HAUL_F32;
    plan->a_offset = reserve(plan, f32 && product->a == HAUL_BF16, product->m * product->k);
    plan->b_offset =
        reserve(plan, f32 && product->b == HAUL_BF16 && !packed, product->k * product->n);
    plan->c_offset = reserve(plan, f32 && product->c == HAUL_BF16, product->m * product->n);
    plan->bias_offset = reserve(plan, f32 && shape.bias && product->bias == HAUL_BF16, product->n);
    plan->rest_offset = plan->workspace;
    plan->workspace += haul_onednn_product_workspace(plan->onednn);
    return HAUL_OK;
}

haul_status haul_plan_init(haul_plan *plan, const haul_engines *engines,
                           const haul_product *product, haul_method method,
                           const haul_packing *packing) {
    *plan = (haul_plan){.product = *product, .method = method};
    if (method != HAUL_METHOD_OWN) {
        return plan_onednn(plan, engines, packing);
    }
    haul_gemm gemm = own_product(engines, product);
    plan->workspace = engines->own->workspace(&gemm, has(product, HAUL_PRODUCT_PACKED));
    return HAUL_OK;
}

void haul_plan_deinit(haul_plan *plan) {
    if (plan->onednn != NULL) {
        haul_onednn_product_destroy(plan->onednn);
    }
    *plan = (haul_plan){0};
}

/* `data`, or its f32 form in the workspace. */
static const void *widened(const haul_engines *engines, const void *data, int64_t count,
                           void *workspace, int64_t offset) {
    if (offset < 0) {
        return data;
    }
    float *wide = (float *)((char *)workspace + offset);
    engines->own->widen(engines->threads, count, data, wide);
    return wide;
}

static haul_status run_onednn(const haul_plan *plan, const haul_engines *engines, const void *a,
                              const void *b, const void *bias, void *c, void *workspace) {
    const haul_product *product = &plan->product;
    int64_t m = product->m, n = product->n, k = product->k;
    a = widened(engines, a, m * k, workspace, plan->a_offset);
    b = widened(engines, b, k * n, workspace, plan->b_offset);
    bias = widened(engines, bias, n, workspace, plan->bias_offset);
    void *rest = (char *)workspace + plan->rest_offset;
    if (plan->c_offset < 0) {
        return haul_onednn_product_run(plan->onednn, a, b, bias, c, rest);
    }
    float *wide = (float *)((char *)workspace + plan->c_offset);
    HAUL_TRY(haul_onednn_product_run(plan->onednn, a, b, bias, wide, rest));
    engines->own->narrow(engines->threads, m * n, wide, c, has(product, HAUL_PRODUCT_ACCUMULATE));
    return HAUL_OK;
}

haul_status haul_plan_run(const haul_plan *plan, const haul_engines *engines, const void *a,
                          const void *b, const void *bias, void *c, void *workspace) {
    if (plan->method != HAUL_METHOD_OWN) {
        return run_onednn(plan, engines, a, b, bias, c, workspace);
    }
    haul_gemm gemm = own_product(engines, &plan->product);
    bool packed = has(&plan->product, HAUL_PRODUCT_PACKED);
    gemm.a = a;
    gemm.b = packed ? NULL : b;
    gemm.packed = packed ? b : NULL;
    gemm.bias = has(&plan->product, HAUL_PRODUCT_BIAS) ? bias : NULL;
    gemm.c = c;
    gemm.workspace = workspace;
    engines->own->multiply(&gemm);
    return HAUL_OK;
}
