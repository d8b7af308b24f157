/* ctest: unit cuda */
/* FP8 copies: the tested backend must agree with ref to the bit, and ref with what op.h says. */
#include "device/compare.h"
#include "device/cpu/simd/simd.h"

static const char *backend = "cpu";

typedef struct outputs {
    haul_tensor codes, scales, transposed, transposed_scales;
} outputs;

enum { CODES = 1, TRANSPOSED = 2 };

static haul_tensor with_memory(haul_tensor tensor) {
    tensor.data = haul_test_allocate(haul_tensor_bytes(&tensor));
    return tensor;
}

static outputs allocate_outputs(haul_scaling scaling, haul_dtype format, int64_t rows,
                                int64_t columns, int which) {
    outputs out = {0};
    if (which & CODES) {
        out.codes = with_memory(haul_tensor_2d(NULL, format, rows, columns));
        out.scales = with_memory(haul_scales_shape(scaling, rows, columns));
    }
    if (which & TRANSPOSED) {
        int64_t padded = haul_padded(rows, HAUL_CODES_PAD);
        out.transposed = with_memory(haul_tensor_2d(NULL, format, columns, padded));
        out.transposed_scales = with_memory(haul_scales_shape(scaling, columns, rows));
    }
    return out;
}

static haul_tensor *tensors_of(outputs *out, int i) {
    haul_tensor *const tensors[] = {&out->codes, &out->scales, &out->transposed,
                                    &out->transposed_scales};
    return tensors[i];
}

static void poison(outputs *out) {
    for (int i = 0; i < 4; i++) {
        const haul_tensor *tensor = tensors_of(out, i);
        if (haul_tensor_present(tensor)) {
            memset(tensor->data, 0xa5, (size_t)haul_tensor_bytes(tensor));
        }
    }
}

static void free_outputs(outputs *out) {
    for (int i = 0; i < 4; i++) {
        haul_test_release(tensors_of(out, i)->data);
    }
}

static haul_quantize_args args_of(haul_scaling scaling, haul_tensor x, const outputs *out) {
    return (haul_quantize_args){.scaling = scaling,
                                .x = x,
                                .codes = out->codes,
                                .scales = out->scales,
                                .transposed = out->transposed,
                                .transposed_scales = out->transposed_scales};
}

/* What x is made of. */
typedef enum pattern { PLAIN, WIDE, TINY, HUGE_VALUES, INFINITE, NOT_A_NUMBER, PATTERNS } pattern;

static const char *const pattern_names[] = {"plain", "wide", "tiny", "huge", "infinite", "nan"};

/* Element i of a row-major matrix of `columns`. */
static double value_of(pattern kind, int64_t i, int64_t columns) {
    double value = haul_normal(99, (uint64_t)kind, i);
    switch (kind) {
    case WIDE: /* zero rows and columns, numbers of all sizes, both zeros */
        if (i / columns % 5 == 2 || i % columns % 7 == 3) {
            return i % 2 ? 0.0 : -0.0;
        }
        return ldexp(value, (int)(i * 37 % 41) - 20);
    case TINY: /* denormal in f32, some of them rounded to 0 */
        return ldexp(value, i % 3 == 0 ? -120 : -145);
    case HUGE_VALUES:
        return fmax(-3e38, fmin(3e38, value * 2e38));
    case INFINITE:
        return i % 1013 == 11 ? copysign(INFINITY, value) : value;
    case NOT_A_NUMBER:
        return i % 1019 == 12 ? copysign(NAN, value) : value;
    default:
        return value;
    }
}

static haul_twin make_x(haul_dtype dtype, pattern kind, int64_t rows, int64_t columns) {
    haul_twin x = haul_twin_output(dtype, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        haul_twin_set(&x, i, value_of(kind, i, columns));
    }
    return x;
}

typedef struct point {
    haul_scaling scaling;
    haul_dtype format, dtype;
    pattern kind;
    int64_t rows, columns;
    int which; /* of the outputs */
} point;

static void assert_same(const point *p, outputs *got, outputs *want, const char *isa) {
    static const char *const names[] = {"codes", "scales", "transposed", "transposed_scales"};
    for (int i = 0; i < 4; i++) {
        const unsigned char *a = tensors_of(got, i)->data, *b = tensors_of(want, i)->data;
        for (int64_t at = 0; at < haul_tensor_bytes(tensors_of(want, i)); at++) {
            if (a[at] != b[at]) {
                fail_msg("%s: %s x [%d, %d] of %s, scaling %d, to %s: byte %lld of %s is %02x, "
                         "must be %02x",
                         isa, haul_dtype_name(p->dtype), (int)p->rows, (int)p->columns,
                         pattern_names[p->kind], (int)p->scaling, haul_dtype_name(p->format),
                         (long long)at, names[i], a[at], b[at]);
            }
        }
    }
}

static void check_tested(haul_pair *pair, const point *p, const haul_twin *x, outputs *want) {
    outputs got = allocate_outputs(p->scaling, p->format, p->rows, p->columns, p->which);
    haul_quantize_args args = args_of(p->scaling, x->tested, &got);
    bool cpu = strcmp(backend, "cpu") == 0;
    for (int i = 0; cpu ? haul_cpu_isa_at(i) != NULL : i < 1; i++) {
        if (cpu) {
            haul_cpu_use_isa(&pair->tested_device, haul_cpu_isa_at(i));
        }
        for (int threads = 1; threads <= 3; threads += 2) {
            pair->tested_device.threads = threads;
            poison(&got);
            haul_test_launch(&pair->tested, HAUL_OP_QUANTIZE, &args);
            assert_same(p, &got, want, cpu ? haul_cpu_isa_at(i)->name : backend);
        }
    }
    free_outputs(&got);
}

static void check_point(haul_pair *pair, const point *p) {
    haul_twin x = make_x(p->dtype, p->kind, p->rows, p->columns);
    outputs want = allocate_outputs(p->scaling, p->format, p->rows, p->columns, p->which);
    haul_quantize_args args = args_of(p->scaling, x.ref, &want);
    poison(&want);
    haul_test_launch(&pair->ref, HAUL_OP_QUANTIZE, &args);
    check_tested(pair, p, &x, &want);
    free_outputs(&want);
    haul_twin_free(&x);
}

static const haul_scaling scalings[] = {HAUL_SCALING_TENSOR, HAUL_SCALING_ROWS,
                                        HAUL_SCALING_BLOCKS};
static const haul_dtype formats[] = {HAUL_E4M3, HAUL_E5M2};
static const haul_dtype dtypes[] = {HAUL_F32, HAUL_BF16};

/* Point i of all combinations of scaling, format and dtype. */
enum { COMBINATIONS = 3 * 2 * 2 };

static point combination(int i) {
    return (point){
        .scaling = scalings[i / 4], .format = formats[i / 2 % 2], .dtype = dtypes[i % 2]};
}

static void backends_agree(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1},     {3, 5},     {4, 130},  {127, 16},
                                        {128, 128}, {129, 129}, {130, 40}, {131, 264}};
    haul_pair pair;
    haul_pair_open(&pair, backend, 1);
    for (int i = 0; i < COMBINATIONS; i++) {
        for (int shape = 0; shape < 8; shape++) {
            for (int kind = 0; kind < PATTERNS; kind++) {
                point p = combination(i);
                p.rows = shapes[shape][0];
                p.columns = shapes[shape][1];
                p.kind = (pattern)kind;
                p.which = CODES | TRANSPOSED;
                check_point(&pair, &p);
            }
        }
    }
    haul_pair_close(&pair);
}

static void each_output_comes_alone(void **state) {
    (void)state;
    haul_pair pair;
    haul_pair_open(&pair, backend, 1);
    for (int i = 0; i < COMBINATIONS; i++) {
        for (int which = CODES; which <= TRANSPOSED; which++) {
            point p = combination(i);
            p.rows = 130;
            p.columns = 136;
            p.which = which;
            check_point(&pair, &p);
        }
    }
    haul_pair_close(&pair);
}

/* Large enough for several chunks of the first pass, blocks of a grid and threads. */
static void large_matrices_agree(void **state) {
    (void)state;
    haul_pair pair;
    haul_pair_open(&pair, backend, 1);
    for (int i = 0; i < COMBINATIONS; i += 2) {
        point p = combination(i + i / 2 % 2);
        p.kind = WIDE;
        p.rows = 389;
        p.columns = 520;
        p.which = CODES | TRANSPOSED;
        check_point(&pair, &p);
    }
    haul_pair_close(&pair);
}

/* Where the scale of element (r, c) is. */
static double scale_of(haul_scaling scaling, const haul_tensor *scales, int64_t r, int64_t c) {
    int64_t stride = haul_tensor_columns(scales), at = 0;
    if (scaling == HAUL_SCALING_ROWS) {
        at = c / 128 * stride + r;
    } else if (scaling == HAUL_SCALING_BLOCKS) {
        at = r / 128 * stride + c / 128;
    }
    return (double)((const float *)scales->data)[at];
}

/* x, by whose scale nothing saturates, is off by half a unit in the last place of its code, or of
 * the smallest normal code. Two roundings of f32 come on top, of the factor and of the scale. */
static void assert_near(const point *p, double x, double code, double scale) {
    double relative = haul_test_roundoff(p->format);
    double smallest = p->format == HAUL_E5M2 ? 0x1p-14 : 0x1p-6;
    double bound = fmax(fabs(x), smallest * scale) * (relative + 0x1p-22);
    if (!(fabs(x - code * scale) <= bound)) {
        fail_msg("%.9g became %.9g * %.9g", x, code, scale);
    }
}

static void codes_are_near(void **state) {
    (void)state;
    haul_pair pair;
    haul_pair_open(&pair, backend, 2);
    for (int i = 0; i < COMBINATIONS; i++) {
        point p = combination(i);
        const int64_t rows = 133, columns = 200;
        haul_twin x = make_x(p.dtype, i % 2 ? PLAIN : WIDE, rows, columns);
        outputs out = allocate_outputs(p.scaling, p.format, rows, columns, CODES | TRANSPOSED);
        haul_quantize_args args = args_of(p.scaling, x.tested, &out);
        haul_test_launch(&pair.tested, HAUL_OP_QUANTIZE, &args);
        int64_t stride = haul_tensor_columns(&out.transposed);
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t c = 0; c < columns; c++) {
                double value = haul_element_get(x.ref.data, HAUL_F64, r * columns + c);
                assert_near(&p, value, haul_element_get(out.codes.data, p.format, r * columns + c),
                            scale_of(p.scaling, &out.scales, r, c));
                assert_near(&p, value,
                            haul_element_get(out.transposed.data, p.format, c * stride + r),
                            scale_of(p.scaling, &out.transposed_scales, c, r));
            }
        }
        free_outputs(&out);
        haul_twin_free(&x);
    }
    haul_pair_close(&pair);
}

/* One row of two elements, the second one being amax. */
static void scales_are_as_defined(void **state) {
    (void)state;
    static const struct {
        double amax, tensor, others; /* scales, for e4m3 */
    } cases[] = {
        {896, 2, 2},
        {-1.75, 0x1p-8, 0x1p-8},
        {1.765625, 1.765625 / 448, 0x1p-7},
        {1.734375, 1.734375 / 448, 0x1p-8},
        {0, 1, 1},
        {0x1p-120, 0x1p-100, 0x1p-100},
        {0x1p-130, 0x1p-100, 0x1p-100},
        {INFINITY, NAN, NAN},
        {NAN, NAN, NAN},
    };
    haul_pair pair;
    haul_pair_open(&pair, backend, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int s = 0; s < 3; s++) {
            haul_twin x = haul_twin_output(HAUL_BF16, 1, 2);
            haul_twin_set(&x, 0, 0.0);
            haul_twin_set(&x, 1, cases[i].amax);
            outputs out = allocate_outputs(scalings[s], HAUL_E4M3, 1, 2, CODES);
            haul_quantize_args args = args_of(scalings[s], x.tested, &out);
            haul_test_launch(&pair.tested, HAUL_OP_QUANTIZE, &args);
            double got = scale_of(scalings[s], &out.scales, 0, 0);
            double want = s == 0 ? cases[i].tensor : cases[i].others;
            assert_true(fabs(got - want) <= 0x1p-22 * want || (isnan(got) && isnan(want)));
            uint8_t code = ((uint8_t *)out.codes.data)[1];
            assert_true(!isnan(cases[i].amax) || code == 0x7f);
            assert_true(!isinf(cases[i].amax) || code == 0x7e);
            free_outputs(&out);
            haul_twin_free(&x);
        }
    }
    haul_pair_close(&pair);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backends_agree),        cmocka_unit_test(each_output_comes_alone),
        cmocka_unit_test(large_matrices_agree),  cmocka_unit_test(codes_are_near),
        cmocka_unit_test(scales_are_as_defined),
    };
    backend = haul_test_backend(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
