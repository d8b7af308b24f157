/* ctest: unit */
#include "testing.h"

#include "base/dtype.h"
#include "base/file.h"

#include <math.h>
#include <stdlib.h>

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The nearest bf16 by distance: of the two neighbours, the closer, at a tie the even one. */
static uint16_t nearest_bf16(uint32_t bits) {
    uint16_t below = (uint16_t)(bits >> 16);
    double value = fabs((double)float_of(bits));
    double low = fabs((double)haul_bf16_to_f32(below));
    uint32_t next = (uint32_t)(below & 0x7fff) + 1;
    double high = next == 0x7f80 ? 0x1p128 : (double)haul_bf16_to_f32((uint16_t)next);
    if (value - low == high - value) {
        return (uint16_t)(below + (below & 1));
    }
    return value - low < high - value ? below : (uint16_t)(below + 1);
}

static void bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    for (uint32_t high = 0; high < 0x10000; high++) {
        for (size_t i = 0; i < sizeof low / sizeof *low; i++) {
            uint32_t bits = high << 16 | low[i];
            float value = float_of(bits);
            uint16_t rounded = haul_f32_to_bf16(value);
            if (isnan(value)) {
                assert_true(isnan(haul_bf16_to_f32(rounded)));
                assert_int_equal(rounded & 0x8040, (high & 0x8000) | 0x40);
            } else {
                assert_int_equal(rounded, isinf(value) ? high : nearest_bf16(bits));
            }
        }
    }
}

static uint16_t half_of(double value) {
    uint16_t bits;
    haul_element_set(&bits, HAUL_F16, 0, value);
    return bits;
}

static double double_of(uint16_t bits) {
    return haul_element_get(&bits, HAUL_F16, 0);
}

static void f16_has_the_values_of_ieee(void **state) {
    (void)state;
    static const struct {
        uint16_t bits;
        double value;
    } cases[] = {
        {0x0000, 0},  {0x0001, 0x1p-24},     {0x03ff, 1023 * 0x1p-24}, {0x0400, 0x1p-14},
        {0x3c00, 1},  {0x3c01, 1 + 0x1p-10}, {0x4248, 3.140625},       {0x7bff, 65504},
        {0xc000, -2}, {0x7c00, INFINITY},    {0xfc00, -INFINITY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(double_of(cases[i].bits) == cases[i].value);
        assert_int_equal(half_of(cases[i].value), cases[i].bits);
    }
    assert_true(signbit(double_of(0x8000)));
    assert_int_equal(half_of(-0.0), 0x8000);
    assert_true(isnan(double_of(0x7c01)));
    assert_int_equal(half_of((double)NAN) & 0x7fff, 0x7e00);
}

/* Every finite half, and the points around the middle between it and the next. */
static void f16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint16_t bits = 0; bits < 0x7c00; bits++) {
        uint16_t even = (uint16_t)(bits + (bits & 1));
        uint16_t next = (uint16_t)(bits + 1);
        double low = double_of(bits);
        double high = next == 0x7c00 ? 65536 : double_of(next);
        double middle = (low + high) / 2;
        assert_true(high - low == ldexp(1, (bits < 0x400 ? 1 : bits >> 10) - 25));
        assert_int_equal(half_of(low), bits);
        assert_int_equal(half_of(middle), even);
        assert_int_equal(half_of(nextafter(middle, 0)), bits);
        assert_int_equal(half_of(nextafter(middle, 1e9)), next);
        assert_int_equal(half_of(-low), bits | 0x8000);
        assert_int_equal(half_of(-middle), even | 0x8000);
    }
    assert_int_equal(half_of(1e300), 0x7c00);
}

/* Near a tie, rounding to float first would move the value onto the tie. */
static void doubles_round_once_to_bf16(void **state) {
    (void)state;
    static const struct {
        double value;
        uint16_t bits;
    } cases[] = {
        {1 + 0x1p-8, 0x3f80},
        {1 + 0x1p-8 + 0x1p-40, 0x3f81},
        {-1 - 0x1p-8 - 0x1p-40, 0xbf81},
        {1 + 0x3p-8 - 0x1p-40, 0x3f81},
        {1 + 0x3p-8, 0x3f82},
        {0x1p-134, 0x0000},
        {0x1p-134 + 0x1p-160, 0x0001},
        {1e-300, 0x0000},
        {-1e-300, 0x8000},
        {1e300, 0x7f80},
        {-1e300, 0xff80},
        {-INFINITY, 0xff80},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t bits;
        haul_element_set(&bits, HAUL_BF16, 0, cases[i].value);
        assert_int_equal(bits, cases[i].bits);
    }
    uint16_t bits;
    haul_element_set(&bits, HAUL_BF16, 0, (double)NAN);
    assert_true(isnan(haul_bf16_to_f32(bits)));
}

/* FP8 formats by their definition. */
typedef struct format {
    haul_dtype dtype;
    uint8_t (*encode)(float);
    float (*decode)(uint8_t);
    int fraction_bits, bias;
    uint8_t largest; /* code of the largest finite number */
} format;

static const format formats[] = {
    {HAUL_E4M3, haul_f32_to_e4m3, haul_e4m3_to_f32, 3, 7, 0x7e},
    {HAUL_E5M2, haul_f32_to_e5m2, haul_e5m2_to_f32, 2, 15, 0x7b},
};

enum { FORMATS = 2 };

static double magnitude_of(const format *f, int code) {
    int exponent = code >> f->fraction_bits, units = 1 << f->fraction_bits;
    int fraction = code % units;
    return exponent == 0 ? ldexp(fraction, 1 - f->bias - f->fraction_bits)
                         : ldexp(units + fraction, exponent - f->bias - f->fraction_bits);
}

static void fp8_codes_have_their_values(void **state) {
    (void)state;
    for (const format *f = formats; f < formats + FORMATS; f++) {
        for (int code = 0; code < 0x80; code++) {
            float value = f->decode((uint8_t)code), negative = f->decode((uint8_t)(code | 0x80));
            if (code <= f->largest) {
                assert_true((double)value == magnitude_of(f, code));
                assert_true(negative == -value && signbit(negative));
                assert_int_equal(f->encode(value), code);
                assert_int_equal(f->encode(negative), code | 0x80);
            } else if (f->dtype == HAUL_E5M2 && code == 0x7c) {
                assert_true(isinf(value) && value > 0 && isinf(negative) && negative < 0);
            } else {
                assert_true(isnan(value) && isnan(negative));
            }
        }
        assert_int_equal(f->encode(NAN), 0x7f);
        assert_int_equal(f->encode(-NAN), 0x7f);
        assert_int_equal(f->encode(INFINITY), f->largest);
        assert_int_equal(f->encode(-INFINITY), f->largest | 0x80);
    }
}

/* The nearest code by distance, at a tie the even one; beyond the largest, the largest. */
static uint8_t nearest_code(const format *f, double value) {
    int low = 0, high = f->largest;
    double magnitude = fabs(value);
    if (magnitude >= magnitude_of(f, high)) {
        low = high;
    }
    while (high - low > 1) {
        int middle = (low + high) / 2;
        *(magnitude_of(f, middle) <= magnitude ? &low : &high) = middle;
    }
    double below = magnitude - magnitude_of(f, low), above = magnitude_of(f, high) - magnitude;
    int code = below < above || (below == above && low % 2 == 0) ? low : high;
    return (uint8_t)(code | (signbit(value) ? 0x80 : 0));
}

static void fp8_rounds_to_nearest_even(void **state) {
    (void)state;
    const uint32_t step = 0x10ff1; /* prime, so that all kinds of fractions come */
    for (const format *f = formats; f < formats + FORMATS; f++) {
        for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
            float value = float_of((uint32_t)bits);
            if (!isnan(value)) {
                assert_int_equal(f->encode(value), nearest_code(f, (double)value));
            }
        }
    }
}

/* Around the middle between two codes, as float and, with more bits, as double. */
static void fp8_rounds_once(void **state) {
    (void)state;
    for (const format *f = formats; f < formats + FORMATS; f++) {
        for (int code = 0; code < f->largest; code++) {
            double middle = (magnitude_of(f, code) + magnitude_of(f, code + 1)) / 2;
            uint8_t even = (uint8_t)(code + code % 2), element;
            assert_int_equal(f->encode((float)middle), even);
            assert_int_equal(f->encode(nextafterf((float)middle, 0)), code);
            assert_int_equal(f->encode(nextafterf((float)middle, 1e9f)), code + 1);
            haul_element_set(&element, f->dtype, 0, nextafter(middle, 0));
            assert_int_equal(element, code);
            haul_element_set(&element, f->dtype, 0, -nextafter(middle, 1e9));
            assert_int_equal(element, (code + 1) | 0x80);
        }
    }
}

/* fp8.tsv is by tools/reference/base_fp8.py. */
static void fp8_is_as_in_pytorch(void **state) {
    (void)state;
    haul_string text = {0};
    assert_ok(haul_file_read(HAUL_TEST_DIR "/base/fp8.tsv", &text));
    int rows = 0;
    for (char *at = text.data; *at != '\0'; rows++) {
        float value = float_of((uint32_t)strtoul(at, &at, 16));
        assert_int_equal(haul_f32_to_e4m3(value), strtoul(at, &at, 16));
        assert_int_equal(haul_f32_to_e5m2(value), strtoul(at, &at, 16));
        at += *at == '\n';
    }
    assert_true(rows > 1000);
    haul_string_deinit(&text);
}

static const struct {
    haul_dtype dtype;
    int size;
    const char *name, *safetensors;
    double low, high; /* exact values near the ends of the range */
} dtypes[] = {
    {HAUL_F64, 8, "f64", "F64", -1e300, 1e300},
    {HAUL_F32, 4, "f32", "F32", -0x1p127, 0x1p127},
    {HAUL_BF16, 2, "bf16", "BF16", -0x1p127, 0x1p127},
    {HAUL_F16, 2, "f16", "F16", -65504, 65504},
    {HAUL_E4M3, 1, "e4m3", "F8_E4M3", -448, 448},
    {HAUL_E5M2, 1, "e5m2", "F8_E5M2", -57344, 57344},
    {HAUL_I64, 8, "i64", "I64", -0x1p63, 0x1p62},
    {HAUL_I32, 4, "i32", "I32", INT32_MIN, INT32_MAX},
    {HAUL_I16, 2, "i16", "I16", INT16_MIN, INT16_MAX},
    {HAUL_I8, 1, "i8", "I8", INT8_MIN, INT8_MAX},
    {HAUL_U16, 2, "u16", "U16", 0, UINT16_MAX},
    {HAUL_U8, 1, "u8", "U8", 0, UINT8_MAX},
};

static void every_dtype_is_described(void **state) {
    (void)state;
    assert_int_equal(sizeof dtypes / sizeof *dtypes, HAUL_DTYPES);
    haul_dtype found;
    for (int i = 0; i < HAUL_DTYPES; i++) {
        assert_int_equal(dtypes[i].dtype, i);
        assert_int_equal(haul_dtype_size(dtypes[i].dtype), dtypes[i].size);
        assert_string_equal(haul_dtype_name(dtypes[i].dtype), dtypes[i].name);
        assert_string_equal(haul_dtype_safetensors_name(dtypes[i].dtype), dtypes[i].safetensors);
        assert_true(haul_dtype_from_safetensors(dtypes[i].safetensors, &found));
        assert_int_equal(found, i);
    }
    assert_false(haul_dtype_from_safetensors("F8_E8M0", &found));
    assert_false(haul_dtype_from_safetensors("", &found));
}

/* Sets and gets the middle of three elements, which leaves its neighbours alone. */
static void elements_come_back(void **state) {
    (void)state;
    for (int i = 0; i < HAUL_DTYPES; i++) {
        const double values[] = {0, 1, 96, dtypes[i].low, dtypes[i].high};
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            uint64_t data[3] = {0};
            haul_element_set(data, dtypes[i].dtype, 1, values[j]);
            assert_true(haul_element_get(data, dtypes[i].dtype, 1) == values[j]);
            assert_true(haul_element_get(data, dtypes[i].dtype, 0) == 0);
            assert_true(haul_element_get(data, dtypes[i].dtype, 2) == 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(f16_has_the_values_of_ieee),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(doubles_round_once_to_bf16),
        cmocka_unit_test(fp8_codes_have_their_values),
        cmocka_unit_test(fp8_rounds_to_nearest_even),
        cmocka_unit_test(fp8_rounds_once),
        cmocka_unit_test(fp8_is_as_in_pytorch),
        cmocka_unit_test(every_dtype_is_described),
        cmocka_unit_test(elements_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
