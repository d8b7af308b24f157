#include "device/cpu/matmul.h"

#include "base/memory.h"
#include "device/cpu/launch.h"
#include "device/cpu/matmul_measure.h"
#include "device/cpu/matmul_rule.h"
#include "device/cpu/simd/simd.h"
#include "device/host.h"

#include <stdio.h>
#include <stdlib.h>

/* The arrays are short, tens of entries, and searched from the front. */
struct haul_cpu_matmul {
    haul_engines engines;
    haul_method forced; /* HAUL_METHODS: none */
    haul_packing *packings;
    haul_plan *plans;
    int64_t packing_count, plan_count;
    int64_t packing_capacity, plan_capacity;
};

/* --- packings and plans --------------------------------------------------------------------- */

static haul_method choose(const haul_cpu_matmul *matmul, const haul_product *product) {
    if (matmul->forced != HAUL_METHODS &&
        haul_method_suits(matmul->forced, &matmul->engines, product)) {
        return matmul->forced;
    }
    return haul_product_method(&matmul->engines, product);
}

/* The packing that a packed product reads: it depends on the weight's side alone. */
static haul_product packing_key(const haul_product *product) {
    haul_product key = *product;
    key.c = product->a;
    key.bias = 0;
    key.flags = product->flags & (HAUL_PRODUCT_TRANSPOSE_B | HAUL_PRODUCT_PACKED);
    return key;
}

/* The pointer is valid until the next packing is made. */
static haul_status find_packing(haul_cpu_matmul *matmul, const haul_product *product,
                                const haul_packing **out) {
    haul_product key = packing_key(product);
    for (int64_t i = 0; i < matmul->packing_count; i++) {
        if (haul_product_same(&matmul->packings[i].product, &key)) {
            *out = &matmul->packings[i];
            return HAUL_OK;
        }
    }
    HAUL_TRY(haul_grow(&matmul->packings, &matmul->packing_capacity, matmul->packing_count + 1,
                       sizeof *matmul->packings));
    haul_packing *packing = &matmul->packings[matmul->packing_count];
    haul_status status = haul_packing_init(packing, &matmul->engines, &key, choose(matmul, &key));
    if (status != HAUL_OK) {
        haul_packing_deinit(packing);
        return status;
    }
    matmul->packing_count++;
    *out = packing;
    return HAUL_OK;
}

static haul_status make_plan(haul_cpu_matmul *matmul, const haul_product *product,
                             haul_plan *plan) {
    const haul_packing *packing = NULL;
    haul_method method = choose(matmul, product);
    if (product->flags & HAUL_PRODUCT_PACKED) {
        HAUL_TRY(find_packing(matmul, product, &packing));
        method = packing->method;
    }
    return haul_plan_init(plan, &matmul->engines, product, method, packing);
}

/* The pointer is valid until the next plan is made. */
static haul_status find_plan(haul_cpu_matmul *matmul, const haul_product *product,
                             const haul_plan **out) {
    for (int64_t i = 0; i < matmul->plan_count; i++) {
        if (haul_product_same(&matmul->plans[i].product, product)) {
            *out = &matmul->plans[i];
            return HAUL_OK;
        }
    }
    HAUL_TRY(haul_grow(&matmul->plans, &matmul->plan_capacity, matmul->plan_count + 1,
                       sizeof *matmul->plans));
    haul_plan *plan = &matmul->plans[matmul->plan_count];
    haul_status status = make_plan(matmul, product, plan);
    if (status != HAUL_OK) {
        haul_plan_deinit(plan);
        return status;
    }
    matmul->plan_count++;
    *out = plan;
    return HAUL_OK;
}

static void forget_plans(haul_cpu_matmul *matmul) {
    while (matmul->plan_count > 0) {
        haul_plan_deinit(&matmul->plans[--matmul->plan_count]);
    }
    while (matmul->packing_count > 0) {
        haul_packing_deinit(&matmul->packings[--matmul->packing_count]);
    }
}

void haul_cpu_matmul_force(haul_cpu_matmul *matmul, haul_method method) {
    forget_plans(matmul);
    matmul->forced =
        method == HAUL_METHODS || matmul->engines.onednn != NULL ? method : HAUL_METHOD_OWN;
}

/* --- opening -------------------------------------------------------------------------------- */

/* Seconds of a middling forward product of bf16 matrices, by oneDNN in bf16 or in f32. */
static haul_status bf16_seconds(haul_cpu_matmul *matmul, bool bf16, double *out) {
    const haul_product product = {
        .m = 512,
        .n = 768,
        .k = 768,
        .a = HAUL_BF16,
        .b = HAUL_BF16,
        .c = HAUL_BF16,
        .flags = HAUL_PRODUCT_TRANSPOSE_B | HAUL_PRODUCT_PACKED,
    };
    matmul->engines.bf16 = bf16;
    return haul_product_seconds(&matmul->engines, &product, HAUL_METHOD_ONEDNN, out);
}

/* Decides how bf16 matrices are multiplied: as the device asks, or by what is faster. */
static haul_status choose_product_dtype(haul_cpu_matmul *matmul, haul_product_dtype *product) {
    if (*product == HAUL_PRODUCT_F32) {
        return HAUL_OK;
    }
    double seconds = 0.0, wide_seconds = 0.0;
    haul_status status = HAUL_ERROR_UNAVAILABLE;
    if (matmul->engines.onednn != NULL) {
        status = bf16_seconds(matmul, true, &seconds);
    }
    if (status == HAUL_ERROR_UNAVAILABLE && *product == HAUL_PRODUCT_BF16) {
        haul_fail(status, "this processor, or this build without oneDNN, has no bf16 products");
        haul_hint("multiply in f32; tensors stay bf16");
        return status;
    }
    if (status != HAUL_ERROR_UNAVAILABLE) {
        HAUL_TRY(status);
    }
    if (status == HAUL_OK && *product == HAUL_PRODUCT_AUTO) {
        HAUL_TRY(bf16_seconds(matmul, false, &wide_seconds));
    }
    bool bf16 = status == HAUL_OK && (*product == HAUL_PRODUCT_BF16 || seconds < wide_seconds);
    matmul->engines.bf16 = bf16;
    *product = bf16 ? HAUL_PRODUCT_BF16 : HAUL_PRODUCT_F32;
    return HAUL_OK;
}

haul_status haul_cpu_matmul_open(haul_device *device, haul_cpu_matmul **out) {
    haul_cpu_matmul *matmul = haul_calloc(1, sizeof *matmul);
    if (matmul == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    matmul->forced = HAUL_METHODS;
    matmul->engines.threads = device->threads;
    matmul->engines.own = haul_gemm_kernels_of(haul_cpu_isa_at(0)->name);
    haul_status status = haul_onednn_open(device->threads, &matmul->engines.onednn);
    if (status == HAUL_OK) {
        status = choose_product_dtype(matmul, &device->product);
    }
    if (status != HAUL_OK) {
        haul_cpu_matmul_close(matmul);
        return status;
    }
    *out = matmul;
    return HAUL_OK;
}

void haul_cpu_matmul_close(haul_cpu_matmul *matmul) {
    if (matmul != NULL) {
        forget_plans(matmul);
        free(matmul->plans);
        free(matmul->packings);
        haul_onednn_close(matmul->engines.onednn);
        free(matmul);
    }
}

void haul_cpu_matmul_describe(const haul_cpu_matmul *matmul, char *text, int64_t capacity) {
    char library[32];
    haul_onednn_describe(library, sizeof library);
    snprintf(text, (size_t)capacity, "%s, bf16 products in %s", library,
             matmul->engines.bf16 ? "bf16" : "f32");
}

const haul_engines *haul_cpu_matmul_engines(const haul_cpu_matmul *matmul) {
    return &matmul->engines;
}

/* --- ops ------------------------------------------------------------------------------------ */

static bool is_real(const haul_tensor *tensor) {
    return tensor->dtype == HAUL_F32 || tensor->dtype == HAUL_BF16;
}

static haul_status product_of_matmul(const haul_matmul_args *args, haul_product *out) {
    const haul_tensor *a = &args->a, *b = &args->b, *c = &args->c;
    bool bias = haul_tensor_present(&args->bias);
    if (!is_real(a) || !is_real(b) || !is_real(c) || (bias && !is_real(&args->bias))) {
        return haul_fail(HAUL_ERROR_UNAVAILABLE,
                         "a product on the cpu takes f32, bf16 and scaled FP8");
    }
    int64_t m = haul_tensor_rows(c), n = haul_tensor_columns(c);
    int64_t k = args->transpose_a ? haul_tensor_rows(a) : haul_tensor_columns(a);
    if (haul_tensor_count(a) != m * k || haul_tensor_count(b) != k * n || m * n * k == 0 ||
        (bias && haul_tensor_count(&args->bias) != n)) {
        return haul_fail(HAUL_ERROR_INTERNAL,
                         "a product of %lldx%lld by %lldx%lld cannot give %lldx%lld",
                         (long long)haul_tensor_rows(a), (long long)haul_tensor_columns(a),
                         (long long)haul_tensor_rows(b), (long long)haul_tensor_columns(b),
                         (long long)m, (long long)n);
    }
    unsigned flags = 0;
    flags |= args->transpose_a ? HAUL_PRODUCT_TRANSPOSE_A : 0;
    flags |= args->transpose_b ? HAUL_PRODUCT_TRANSPOSE_B : 0;
    flags |= haul_tensor_count(&args->packed) > 0 ? HAUL_PRODUCT_PACKED : 0;
    flags |= bias ? HAUL_PRODUCT_BIAS : 0;
    flags |= args->accumulate ? HAUL_PRODUCT_ACCUMULATE : 0;
    *out = (haul_product){
        .m = m,
        .n = n,
        .k = k,
        .a = (uint8_t)a->dtype,
        .b = (uint8_t)b->dtype,
        .c = (uint8_t)c->dtype,
        .bias = bias ? (uint8_t)args->bias.dtype : 0,
        .flags = (uint8_t)flags,
    };
    return HAUL_OK;
}

/* The product for which a weight [N, K] is packed. */
static haul_product product_of_pack(const haul_pack_args *args) {
    int64_t rows = haul_tensor_rows(&args->weight), columns = haul_tensor_columns(&args->weight);
    bool forward = args->kind == HAUL_PACK_FORWARD;
    return (haul_product){
        .m = args->rows,
        .n = forward ? rows : columns,
        .k = forward ? columns : rows,
        .a = (uint8_t)args->dtype,
        .b = (uint8_t)args->weight.dtype,
        .c = (uint8_t)args->dtype,
        .flags = (uint8_t)(HAUL_PRODUCT_PACKED | (forward ? HAUL_PRODUCT_TRANSPOSE_B : 0)),
    };
}

/* --- FP8: both operands are decoded into scratch, and multiplied in f32 ---------------------- */

static bool is_scaled(const haul_matmul_args *args) {
    return args->a_scaling != HAUL_SCALING_NONE;
}

/* The product of the decoded operands, which lie at `memory`; they take *bytes. */
static haul_matmul_args decoded(const haul_matmul_args *args, char *memory, int64_t *bytes) {
    haul_matmul_args wide = *args;
    wide.a.dtype = wide.b.dtype = HAUL_F32;
    wide.a_scaling = wide.b_scaling = HAUL_SCALING_NONE;
    int64_t first = haul_round_up(haul_tensor_bytes(&wide.a), 64);
    *bytes = first + haul_round_up(haul_tensor_bytes(&wide.b), 64);
    wide.a.data = memory;
    wide.b.data = memory == NULL ? NULL : memory + first;
    return wide;
}

typedef struct decoding {
    const haul_tensor *codes, *scales, *out;
    haul_scaling scaling;
} decoding;

static void decode_rows(void *context, int64_t begin, int64_t end, int thread) {
    const decoding *d = context;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        haul_host_decode_row(d->codes, d->scaling, d->scales, row,
                             haul_tensor_at(d->out, row * haul_tensor_columns(d->out)));
    }
}

static void decode(haul_stream *stream, const haul_tensor *codes, haul_scaling scaling,
                   const haul_tensor *scales, const haul_tensor *out) {
    decoding d = {.codes = codes, .scales = scales, .out = out, .scaling = scaling};
    haul_cpu_parallel(stream, haul_tensor_rows(codes), 1,
                      haul_tensor_columns(codes) * (int64_t)sizeof(float), decode_rows, &d);
}

static haul_status plan_matmul(haul_device *device, const haul_matmul_args *args,
                               const haul_plan **out) {
    haul_product product;
    HAUL_TRY(product_of_matmul(args, &product));
    return find_plan(haul_cpu_matmul_of(device), &product, out);
}

static haul_status plan_pack(haul_device *device, const haul_pack_args *args,
                             const haul_packing **out) {
    haul_product product = product_of_pack(args);
    return find_packing(haul_cpu_matmul_of(device), &product, out);
}

/* A query has no way to fail: the launch that follows says what is wrong. */
int64_t haul_cpu_matmul_workspace(haul_device *device, const void *args) {
    const haul_matmul_args *matmul = args;
    haul_matmul_args product = *matmul;
    const haul_plan *plan;
    int64_t bytes = 0;
    if (is_scaled(matmul)) {
        product = decoded(matmul, NULL, &bytes);
    }
    return bytes + (plan_matmul(device, &product, &plan) == HAUL_OK ? plan->workspace : 0);
}

int64_t haul_cpu_pack_workspace(haul_device *device, const void *args) {
    const haul_packing *packing;
    return plan_pack(device, args, &packing) == HAUL_OK ? packing->workspace : 0;
}

int64_t haul_cpu_packed_bytes(haul_device *device, const haul_pack_args *args) {
    const haul_packing *packing;
    return plan_pack(device, args, &packing) == HAUL_OK ? packing->bytes : 0;
}

static haul_status check_scratch(const haul_stream *stream, int64_t needed) {
    if (stream->scratch_bytes < needed) {
        return haul_fail(HAUL_ERROR_INTERNAL, "scratch is %lld bytes, must be %lld",
                         (long long)stream->scratch_bytes, (long long)needed);
    }
    return HAUL_OK;
}

static haul_status run_matmul(haul_stream *stream, const haul_matmul_args *args) {
    haul_matmul_args product = *args;
    const haul_plan *plan;
    int64_t used = 0;
    if (is_scaled(args)) {
        product = decoded(args, stream->scratch, &used);
    }
    HAUL_TRY(plan_matmul(stream->device, &product, &plan));
    HAUL_TRY(check_scratch(stream, used + plan->workspace));
    if (is_scaled(args)) {
        decode(stream, &args->a, args->a_scaling, &args->a_scales, &product.a);
        decode(stream, &args->b, args->b_scaling, &args->b_scales, &product.b);
    }
    const haul_tensor *b = haul_tensor_count(&product.packed) > 0 ? &product.packed : &product.b;
    return haul_plan_run(plan, &haul_cpu_matmul_of(stream->device)->engines, product.a.data,
                         b->data, product.bias.data, product.c.data,
                         (char *)stream->scratch + used);
}

static haul_status run_pack(haul_stream *stream, const haul_pack_args *args) {
    const haul_packing *packing;
    HAUL_TRY(plan_pack(stream->device, args, &packing));
    HAUL_TRY(check_scratch(stream, packing->workspace));
    if (haul_tensor_bytes(&args->packed) != packing->bytes) {
        return haul_fail(HAUL_ERROR_INTERNAL, "a packed weight is %lld bytes, must be %lld",
                         (long long)haul_tensor_bytes(&args->packed), (long long)packing->bytes);
    }
    if (packing->bytes == 0) {
        return HAUL_OK;
    }
    return haul_packing_run(packing, &haul_cpu_matmul_of(stream->device)->engines,
                            args->weight.data, args->packed.data, stream->scratch);
}

void haul_cpu_matmul_launch(haul_stream *stream, const void *args) {
    haul_status status = run_matmul(stream, args);
    if (status != HAUL_OK) {
        haul_stream_fail(stream, status, "matmul: %s", haul_error_message());
    }
}

void haul_cpu_pack_launch(haul_stream *stream, const void *args) {
    haul_status status = run_pack(stream, args);
    if (status != HAUL_OK) {
        haul_stream_fail(stream, status, "pack: %s", haul_error_message());
    }
}
