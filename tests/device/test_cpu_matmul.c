/* Products and packing of the cpu backend, by every method, against sums in double. */
#include "base/memory.h"
#include "device/cpu/matmul_rule.h"
#include "device/cpu/simd/simd.h"
#include "testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* R rows, [N, K] weight: degenerate, odd, and beyond each block size of the kernels (tile, depth,
 * strip, height). */
static const struct {
    int64_t rows, n, k;
} shapes[] = {
    {1, 1, 1},    {3, 7, 17},    {7, 1, 130},   {17, 130, 96},
    {130, 96, 3}, {96, 33, 300}, {5, 600, 260}, {120, 20, 530},
};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* One product with its operands, and what it must give. */
typedef struct matmul_case {
    haul_matmul_args args;
    haul_pack_args pack;
    void *initial;    /* of c */
    double *expected; /* [M, N] */
    double *bound;    /* of the error of each */
} matmul_case;

/* Numbers in [-1, 1) from a linear congruential generator (Knuth's MMIX). */
static haul_tensor random_tensor(haul_dtype dtype, int64_t rows, int64_t columns, int seed) {
    uint64_t bits = (uint64_t)seed;
    haul_tensor tensor = {NULL, dtype, 2, {rows, columns}};
    tensor.data = haul_calloc(rows * columns, (size_t)haul_dtype_size(dtype));
    assert_non_null(tensor.data);
    for (int64_t i = 0; i < rows * columns; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        haul_element_set(tensor.data, dtype, i, (double)(bits >> 40) * 0x1p-23 - 1.0);
    }
    return tensor;
}

/* As rows x columns doubles, transposed first if asked. */
static double *matrix(const haul_tensor *tensor, bool transposed) {
    int64_t rows = haul_tensor_rows(tensor), columns = haul_tensor_columns(tensor);
    double *result = haul_calloc(rows * columns, sizeof *result);
    assert_non_null(result);
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t index = transposed ? i % columns * rows + i / columns : i;
        result[index] = haul_element_get(tensor->data, tensor->dtype, i);
    }
    return result;
}

/* A sum of K products, bias and c in f32, in any order, and its rounding to the dtype of c. */
static void expect(matmul_case *matmul) {
    const haul_matmul_args *args = &matmul->args;
    int64_t m = haul_tensor_rows(&args->c), n = haul_tensor_columns(&args->c);
    int64_t k = haul_tensor_count(&args->a) / m;
    double *a = matrix(&args->a, args->transpose_a), *b = matrix(&args->b, !args->transpose_b);
    double roundoff = args->c.dtype == HAUL_BF16 ? 0x1p-8 : 0x1p-24;
    for (int64_t i = 0; i < m * n; i++) {
        double c = args->accumulate ? haul_element_get(matmul->initial, args->c.dtype, i) : 0.0;
        double bias = haul_tensor_present(&args->bias)
                          ? haul_element_get(args->bias.data, args->bias.dtype, i % n)
                          : 0.0;
        double sum = c + bias, magnitude = fabs(c) + fabs(bias);
        for (int64_t l = 0; l < k; l++) {
            double product = a[i / n * k + l] * b[i % n * k + l];
            sum += product;
            magnitude += fabs(product);
        }
        double error = (double)(k + 3) * 0x1p-24 * magnitude;
        matmul->expected[i] = sum;
        matmul->bound[i] = error + roundoff * (fabs(sum) + error);
    }
    free(a);
    free(b);
}

typedef enum product_kind { FORWARD, DGRAD, WGRAD, KINDS } product_kind;

typedef struct case_options {
    bool bias, accumulate, packed;
} case_options;

static matmul_case make_case(product_kind kind, int shape, haul_dtype dtype, case_options options) {
    int64_t rows = shapes[shape].rows, n = shapes[shape].n, k = shapes[shape].k;
    haul_dtype c_dtype = kind == WGRAD ? HAUL_F32 : dtype;
    haul_tensor x = random_tensor(dtype, rows, k, 1), dy = random_tensor(dtype, rows, n, 2);
    haul_tensor weight = random_tensor(dtype, n, k, 3);
    matmul_case matmul = {.args = {.accumulate = options.accumulate}};
    haul_matmul_args *args = &matmul.args;
    switch (kind) {
    case FORWARD:
        args->a = x, args->b = weight, args->transpose_b = true;
        args->c = random_tensor(c_dtype, rows, n, 4);
        free(dy.data);
        break;
    case DGRAD:
        args->a = dy, args->b = weight;
        args->c = random_tensor(c_dtype, rows, k, 4);
        free(x.data);
        break;
    default:
        args->a = dy, args->b = x, args->transpose_a = true;
        args->c = random_tensor(c_dtype, n, k, 4);
        free(weight.data);
    }
    int64_t columns = haul_tensor_columns(&args->c), count = haul_tensor_count(&args->c);
    if (options.bias) {
        args->bias = random_tensor(dtype, 1, columns, 5);
        args->bias.ndim = 1;
        args->bias.shape[0] = columns;
    }
    matmul.pack = (haul_pack_args){
        .weight = args->b,
        .kind = kind == FORWARD ? HAUL_PACK_FORWARD : HAUL_PACK_DGRAD,
        .rows = rows,
        .dtype = dtype,
        .bias = options.bias,
    };
    matmul.initial = haul_calloc(count, (size_t)haul_dtype_size(c_dtype));
    matmul.expected = haul_calloc(count, sizeof(double));
    matmul.bound = haul_calloc(count, sizeof(double));
    assert_true(matmul.initial != NULL && matmul.expected != NULL && matmul.bound != NULL);
    memcpy(matmul.initial, args->c.data, (size_t)haul_tensor_bytes(&args->c));
    expect(&matmul);
    return matmul;
}

static void free_case(matmul_case *matmul) {
    free(matmul->args.a.data);
    free(matmul->args.b.data);
    free(matmul->args.c.data);
    free(matmul->args.bias.data);
    free(matmul->args.packed.data);
    free(matmul->initial);
    free(matmul->expected);
    free(matmul->bound);
}

/* c as it was, or NaN where it must be overwritten. */
static void reset_c(matmul_case *matmul) {
    haul_tensor *c = &matmul->args.c;
    memcpy(c->data, matmul->initial, (size_t)haul_tensor_bytes(c));
    for (int64_t i = 0; i < haul_tensor_count(c) && !matmul->args.accumulate; i++) {
        haul_element_set(c->data, c->dtype, i, (double)NAN);
    }
}

static void check_case(const matmul_case *matmul, const char *name) {
    const haul_tensor *c = &matmul->args.c;
    for (int64_t i = 0; i < haul_tensor_count(c); i++) {
        double got = haul_element_get(c->data, c->dtype, i);
        if (!(fabs(got - matmul->expected[i]) <= matmul->bound[i])) {
            fail_msg("%s: c[%lld] of %lldx%lldx%lld is %.9g, must be %.9g +- %.3g", name,
                     (long long)i, (long long)haul_tensor_rows(c),
                     (long long)haul_tensor_columns(c),
                     (long long)(haul_tensor_count(&matmul->args.a) / haul_tensor_rows(c)), got,
                     matmul->expected[i], matmul->bound[i]);
        }
    }
}

static void launch(haul_device *device, haul_op op, const void *args) {
    enum { CANARY = 64 };
    const haul_op_entry *entry = device->backend->entry(device, op);
    int64_t bytes = entry->workspace(device, args);
    size_t size = (size_t)haul_round_up(bytes, 64);
    unsigned char *scratch = aligned_alloc(64, size + CANARY);
    assert_non_null(scratch);
    memset(scratch, 0xff, size + CANARY);
    haul_stream stream = {.device = device, .scratch = scratch, .scratch_bytes = bytes};
    haul_launch(&stream, op, args);
    assert_ok(haul_stream_status(&stream));
    for (size_t i = (size_t)bytes; i < size + CANARY; i++) {
        assert_int_equal(scratch[i], 0xff);
    }
    free(scratch);
}

/* Packs b where the backend wants that. */
static void pack_case(haul_device *device, matmul_case *matmul) {
    int64_t bytes = device->backend->packed_bytes(device, &matmul->pack);
    matmul->args.packed.data = aligned_alloc(64, (size_t)haul_round_up(bytes + 1, 64));
    assert_non_null(matmul->args.packed.data);
    matmul->args.packed.dtype = HAUL_U8;
    matmul->args.packed.ndim = 1;
    matmul->args.packed.shape[0] = bytes;
    matmul->pack.packed = matmul->args.packed;
    launch(device, HAUL_OP_PACK, &matmul->pack);
}

/* Runs twice and wants the same bits. */
static void run_case(haul_device *device, matmul_case *matmul, bool packed, const char *name) {
    haul_tensor *c = &matmul->args.c;
    size_t bytes = (size_t)haul_tensor_bytes(c);
    if (packed) {
        pack_case(device, matmul);
    }
    reset_c(matmul);
    launch(device, HAUL_OP_MATMUL, &matmul->args);
    check_case(matmul, name);
    void *first = haul_calloc((int64_t)bytes, 1);
    assert_non_null(first);
    memcpy(first, c->data, bytes);
    reset_c(matmul);
    launch(device, HAUL_OP_MATMUL, &matmul->args);
    assert_memory_equal(first, c->data, bytes);
    free(first);
}

static void run_all_cases(haul_device *device, haul_dtype dtype, const char *name) {
    for (int index = 0; index < SHAPES * KINDS * 8; index++) {
        product_kind kind = index / 8 % KINDS;
        case_options options = {index & 1, index & 2, index & 4};
        if (kind == WGRAD && (options.bias || options.packed)) {
            continue;
        }
        matmul_case matmul = make_case(kind, index / (8 * KINDS), dtype, options);
        run_case(device, &matmul, options.packed, name);
        free_case(&matmul);
    }
}

static void test_products(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        haul_device device;
        assert_ok(haul_device_init(&device, "cpu", threads, HAUL_PRODUCT_F32));
        for (haul_method method = 0; method < HAUL_METHODS; method++) {
            haul_cpu_matmul_force(haul_cpu_matmul_of(&device), method);
            run_all_cases(&device, HAUL_F32, haul_method_name(method));
            run_all_cases(&device, HAUL_BF16, haul_method_name(method));
        }
        haul_device_deinit(&device);
    }
}

/* Where the processor has them; the same bound holds, since products of bf16 are exact in f32. */
static void test_bf16_products(void **state) {
    (void)state;
    haul_device device;
    haul_status status = haul_device_init(&device, "cpu", 2, HAUL_PRODUCT_BF16);
    if (status != HAUL_OK) {
        haul_test_assert_fails(status, HAUL_ERROR_UNAVAILABLE, "bf16");
        skip();
    }
    for (haul_method method = 0; method < HAUL_METHOD_OWN; method++) {
        haul_cpu_matmul_force(haul_cpu_matmul_of(&device), method);
        run_all_cases(&device, HAUL_BF16, haul_method_name(method));
    }
    haul_device_deinit(&device);
}

static void test_auto_decides(void **state) {
    (void)state;
    haul_device device;
    assert_ok(haul_device_init(&device, "cpu", 2, HAUL_PRODUCT_AUTO));
    assert_int_not_equal(device.product, HAUL_PRODUCT_AUTO);
    char text[128];
    haul_cpu_matmul_describe(haul_cpu_matmul_of(&device), text, sizeof text);
    assert_non_null(strstr(text, device.product == HAUL_PRODUCT_BF16 ? "in bf16" : "in f32"));
    haul_device_deinit(&device);
}

/* Activations and weights of different dtypes, and a c of a third kind. */
static void test_mixed_dtypes(void **state) {
    (void)state;
    haul_device device;
    assert_ok(haul_device_init(&device, "cpu", 2, HAUL_PRODUCT_F32));
    for (haul_method method = 0; method < HAUL_METHODS; method++) {
        haul_cpu_matmul_force(haul_cpu_matmul_of(&device), method);
        for (int mix = 0; mix < 8; mix++) {
            matmul_case matmul = make_case(FORWARD, 3, HAUL_F32, (case_options){0});
            haul_tensor *const tensors[] = {&matmul.args.a, &matmul.args.b, &matmul.args.c};
            for (int i = 0; i < 3; i++) {
                haul_tensor *tensor = tensors[i];
                free(tensor->data);
                haul_dtype dtype = mix >> i & 1 ? HAUL_BF16 : HAUL_F32;
                *tensor = random_tensor(dtype, tensor->shape[0], tensor->shape[1], i);
            }
            expect(&matmul);
            launch(&device, HAUL_OP_MATMUL, &matmul.args);
            check_case(&matmul, haul_method_name(method));
            free_case(&matmul);
        }
    }
    haul_device_deinit(&device);
}

static void run_kernels(const haul_gemm_kernels *kernels, const matmul_case *matmul, int threads,
                        bool packed) {
    const haul_matmul_args *args = &matmul->args;
    haul_gemm gemm = {
        .m = haul_tensor_rows(&args->c),
        .n = haul_tensor_columns(&args->c),
        .transpose_a = args->transpose_a,
        .transpose_b = args->transpose_b,
        .accumulate = args->accumulate,
        .a_dtype = args->a.dtype,
        .b_dtype = args->b.dtype,
        .c_dtype = args->c.dtype,
        .bias_dtype = args->bias.dtype,
        .a = args->a.data,
        .b = args->b.data,
        .bias = args->bias.data,
        .c = args->c.data,
        .threads = threads,
    };
    gemm.k = haul_tensor_count(&args->a) / gemm.m;
    float *storage =
        aligned_alloc(64, (size_t)haul_round_up(kernels->packed_bytes(gemm.n, gemm.k), 64));
    gemm.workspace =
        aligned_alloc(64, (size_t)haul_round_up(kernels->workspace(&gemm, packed), 64));
    assert_true(storage != NULL && gemm.workspace != NULL);
    if (packed) {
        kernels->pack(&gemm, storage);
        gemm.packed = storage;
        gemm.b = NULL;
    }
    kernels->multiply(&gemm);
    free(gemm.workspace);
    free(storage);
}

/* The bits must depend neither on the threads nor on whether b was packed before. */
static void check_kernels(const haul_gemm_kernels *kernels) {
    for (int index = 0; index < SHAPES * KINDS * 4; index++) {
        product_kind kind = index / 4 % KINDS;
        case_options options = {.bias = index & 1, .accumulate = index & 2};
        matmul_case matmul =
            make_case(kind, index / (4 * KINDS), index % 3 ? HAUL_F32 : HAUL_BF16, options);
        size_t bytes = (size_t)haul_tensor_bytes(&matmul.args.c);
        void *first = haul_calloc((int64_t)bytes, 1);
        assert_non_null(first);
        for (int run = 0; run < 4; run++) {
            reset_c(&matmul);
            run_kernels(kernels, &matmul, run < 2 ? 1 : 3, run % 2);
            check_case(&matmul, kernels->isa);
            if (run > 0) {
                assert_memory_equal(first, matmul.args.c.data, bytes);
            }
            memcpy(first, matmul.args.c.data, bytes);
        }
        free(first);
        free_case(&matmul);
    }
}

static void test_kernels(void **state) {
    (void)state;
    for (int i = 0; haul_cpu_isa_at(i) != NULL; i++) {
        check_kernels(haul_gemm_kernels_of(haul_cpu_isa_at(i)->name));
    }
}

/* The rule behind the bits of a run: it must not change by accident, nor with threads. */
static void test_rule(void **state) {
    (void)state;
    haul_device device;
    assert_ok(haul_device_init(&device, "cpu", 1, HAUL_PRODUCT_F32));
    haul_engines engines = *haul_cpu_matmul_engines(haul_cpu_matmul_of(&device));
    haul_product wgrad = {.m = 768,
                          .n = 3072,
                          .k = 64,
                          .a = HAUL_F32,
                          .b = HAUL_F32,
                          .c = HAUL_F32,
                          .flags = HAUL_PRODUCT_TRANSPOSE_A};
    haul_product forward = wgrad;
    forward.flags = HAUL_PRODUCT_TRANSPOSE_B | HAUL_PRODUCT_PACKED;
    if (engines.onednn != NULL) {
        assert_int_equal(haul_product_method(&engines, &wgrad), HAUL_METHOD_ONEDNN_REORDER_B);
        assert_int_equal(haul_product_method(&engines, &forward), HAUL_METHOD_ONEDNN);
        wgrad.n = 768;
        assert_int_equal(haul_product_method(&engines, &wgrad), HAUL_METHOD_ONEDNN);
    }
    engines.onednn = NULL;
    assert_int_equal(haul_product_method(&engines, &forward), HAUL_METHOD_OWN);
    haul_device_deinit(&device);
}

static void test_errors(void **state) {
    (void)state;
    haul_device device;
    assert_ok(haul_device_init(&device, "cpu", 1, HAUL_PRODUCT_F32));
    haul_cpu_matmul_force(haul_cpu_matmul_of(&device), HAUL_METHOD_OWN);
    matmul_case matmul = make_case(FORWARD, 3, HAUL_F32, (case_options){0});
    haul_stream stream = {.device = &device};
    haul_launch(&stream, HAUL_OP_MATMUL, &matmul.args);
    haul_test_assert_fails(haul_stream_status(&stream), HAUL_ERROR_INTERNAL, "scratch is 0 bytes");
    stream = (haul_stream){.device = &device};
    matmul.args.b.shape[1]++;
    haul_launch(&stream, HAUL_OP_MATMUL, &matmul.args);
    haul_test_assert_fails(haul_stream_status(&stream), HAUL_ERROR_INTERNAL, "17x96 by 130x97");
    stream = (haul_stream){.device = &device};
    matmul.args.a.dtype = HAUL_F64;
    haul_launch(&stream, HAUL_OP_MATMUL, &matmul.args);
    haul_test_assert_fails(haul_stream_status(&stream), HAUL_ERROR_UNAVAILABLE,
                           "f32, bf16 and scaled FP8");
    free_case(&matmul);
    haul_device_deinit(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),     cmocka_unit_test(test_bf16_products),
        cmocka_unit_test(test_auto_decides), cmocka_unit_test(test_mixed_dtypes),
        cmocka_unit_test(test_kernels),      cmocka_unit_test(test_rule),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
