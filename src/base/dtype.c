#include "base/dtype.h"

#include <math.h>

static const struct {
    int size;
    const char *name;
    const char *safetensors;
} dtypes[HAUL_DTYPES] = {
    [HAUL_F64] = {8, "f64", "F64"},       [HAUL_F32] = {4, "f32", "F32"},
    [HAUL_BF16] = {2, "bf16", "BF16"},    [HAUL_F16] = {2, "f16", "F16"},
    [HAUL_E4M3] = {1, "e4m3", "F8_E4M3"}, [HAUL_E5M2] = {1, "e5m2", "F8_E5M2"},
    [HAUL_I64] = {8, "i64", "I64"},       [HAUL_I32] = {4, "i32", "I32"},
    [HAUL_I16] = {2, "i16", "I16"},       [HAUL_I8] = {1, "i8", "I8"},
    [HAUL_U16] = {2, "u16", "U16"},       [HAUL_U8] = {1, "u8", "U8"},
};

int64_t haul_dtype_size(haul_dtype dtype) {
    return dtypes[dtype].size;
}

const char *haul_dtype_name(haul_dtype dtype) {
    return dtypes[dtype].name;
}

const char *haul_dtype_safetensors_name(haul_dtype dtype) {
    return dtypes[dtype].safetensors;
}

bool haul_dtype_from_safetensors(const char *name, haul_dtype *out) {
    for (int i = 0; i < HAUL_DTYPES; i++) {
        if (strcmp(dtypes[i].safetensors, name) == 0) {
            *out = (haul_dtype)i;
            return true;
        }
    }
    return false;
}

static double half_to_double(uint16_t bits) {
    int exponent = (bits >> 10) & 31;
    double fraction = bits & 1023;
    double magnitude;
    if (exponent == 31) {
        magnitude = fraction == 0 ? (double)INFINITY : (double)NAN;
    } else if (exponent == 0) {
        magnitude = ldexp(fraction, -24);
    } else {
        magnitude = ldexp(fraction + 1024, exponent - 25);
    }
    return bits & 0x8000 ? -magnitude : magnitude;
}

static uint16_t double_to_half(double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    if (isnan(value)) {
        return (uint16_t)(sign | 0x7e00);
    }
    if (magnitude >= 65520) {
        return (uint16_t)(sign | 0x7c00);
    }
    int exponent = 0;
    if (magnitude >= ldexp(1, -14)) {
        frexp(magnitude, &exponent);
        exponent += 14;
    } else {
        exponent = 1;
    }
    /* The mantissa in units of the last place; a carry out of it moves into the exponent. */
    double units = nearbyint(ldexp(magnitude, 25 - exponent));
    return (uint16_t)(sign | ((int)units + (exponent - 1) * 1024));
}

/* Through the float beside `value` with the odd last bit when inexact, since rounding twice to
 * nearest would move values next to a tie. */
static uint16_t double_to_bf16(double value) {
    float near = (float)value;
    uint32_t bits;
    memcpy(&bits, &near, sizeof bits);
    if ((double)near != value && !isnan(value)) {
        bits = (fabs((double)near) > fabs(value) ? bits - 1 : bits) | 1u;
        memcpy(&near, &bits, sizeof near);
    }
    return haul_f32_to_bf16(near);
}

/* An FP8 format: bits of the fraction, exponent of the smallest normal number, largest finite. */
typedef struct fp8_format {
    int fraction_bits, least_exponent;
    double largest;
    bool has_infinity;
} fp8_format;

static const fp8_format e4m3 = {3, -6, 448, false}, e5m2 = {2, -14, 57344, true};

static uint8_t double_to_fp8(double value, const fp8_format *format) {
    uint8_t sign = signbit(value) ? 0x80 : 0;
    double magnitude = fabs(value);
    int exponent = format->least_exponent;
    if (isnan(value)) {
        return 0x7f; /* as Hopper has it, in both formats */
    }
    if (magnitude > format->largest) {
        magnitude = format->largest;
    }
    if (magnitude >= ldexp(1, exponent)) {
        frexp(magnitude, &exponent);
        exponent--;
    }
    /* The fraction in units of the last place; a carry out of it moves into the exponent. */
    int units = (int)nearbyint(ldexp(magnitude, format->fraction_bits - exponent));
    int code = units + ((exponent - format->least_exponent) << format->fraction_bits);
    return (uint8_t)(sign | code);
}

static double fp8_to_double(uint8_t code, const fp8_format *format) {
    int fraction = code & ((1 << format->fraction_bits) - 1);
    int exponent = (code & 0x7f) >> format->fraction_bits;
    if ((code & 0x7f) > double_to_fp8(format->largest, format)) {
        double infinity = code & 0x80 ? -(double)INFINITY : (double)INFINITY;
        return format->has_infinity && fraction == 0 ? infinity : (double)NAN;
    }
    int normal = exponent > 0;
    double magnitude = ldexp(fraction + (normal << format->fraction_bits),
                             exponent - normal + format->least_exponent - format->fraction_bits);
    return code & 0x80 ? -magnitude : magnitude;
}

uint8_t haul_f32_to_e4m3(float value) {
    return double_to_fp8((double)value, &e4m3);
}

uint8_t haul_f32_to_e5m2(float value) {
    return double_to_fp8((double)value, &e5m2);
}

float haul_e4m3_to_f32(uint8_t code) {
    return (float)fp8_to_double(code, &e4m3);
}

float haul_e5m2_to_f32(uint8_t code) {
    return (float)fp8_to_double(code, &e5m2);
}

double haul_element_get(const void *data, haul_dtype dtype, int64_t index) {
    switch (dtype) {
    case HAUL_F64:
        return ((const double *)data)[index];
    case HAUL_F32:
        return (double)((const float *)data)[index];
    case HAUL_BF16:
        return (double)haul_bf16_to_f32(((const uint16_t *)data)[index]);
    case HAUL_F16:
        return half_to_double(((const uint16_t *)data)[index]);
    case HAUL_E4M3:
        return fp8_to_double(((const uint8_t *)data)[index], &e4m3);
    case HAUL_E5M2:
        return fp8_to_double(((const uint8_t *)data)[index], &e5m2);
    case HAUL_I64:
        return (double)((const int64_t *)data)[index];
    case HAUL_I32:
        return (double)((const int32_t *)data)[index];
    case HAUL_I16:
        return (double)((const int16_t *)data)[index];
    case HAUL_I8:
        return (double)((const int8_t *)data)[index];
    case HAUL_U16:
        return (double)((const uint16_t *)data)[index];
    default:
        return (double)((const uint8_t *)data)[index];
    }
}

void haul_element_set(void *data, haul_dtype dtype, int64_t index, double value) {
    switch (dtype) {
    case HAUL_F64:
        ((double *)data)[index] = value;
        break;
    case HAUL_F32:
        ((float *)data)[index] = (float)value;
        break;
    case HAUL_BF16:
        ((uint16_t *)data)[index] = double_to_bf16(value);
        break;
    case HAUL_F16:
        ((uint16_t *)data)[index] = double_to_half(value);
        break;
    case HAUL_E4M3:
        ((uint8_t *)data)[index] = double_to_fp8(value, &e4m3);
        break;
    case HAUL_E5M2:
        ((uint8_t *)data)[index] = double_to_fp8(value, &e5m2);
        break;
    case HAUL_I64:
        ((int64_t *)data)[index] = (int64_t)value;
        break;
    case HAUL_I32:
        ((int32_t *)data)[index] = (int32_t)value;
        break;
    case HAUL_I16:
        ((int16_t *)data)[index] = (int16_t)value;
        break;
    case HAUL_I8:
        ((int8_t *)data)[index] = (int8_t)value;
        break;
    case HAUL_U16:
        ((uint16_t *)data)[index] = (uint16_t)value;
        break;
    default:
        ((uint8_t *)data)[index] = (uint8_t)value;
        break;
    }
}
