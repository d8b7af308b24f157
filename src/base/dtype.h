/* Element types and the bf16 conversions that every backend agrees on. */
#ifndef HAUL_BASE_DTYPE_H
#define HAUL_BASE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum haul_dtype {
    HAUL_F64,
    HAUL_F32,
    HAUL_BF16,
    HAUL_F16,
    HAUL_E4M3, /* FP8 of Micikevicius et al., "FP8 formats for deep learning", 2022: no infinity */
    HAUL_E5M2,
    HAUL_I64,
    HAUL_I32,
    HAUL_I16,
    HAUL_I8,
    HAUL_U16,
    HAUL_U8,
    HAUL_DTYPES
} haul_dtype;

/* Bytes of one element. */
int64_t haul_dtype_size(haul_dtype dtype);

/* "f32", "bf16", ... for people and tables. */
const char *haul_dtype_name(haul_dtype dtype);

/* "F32", "BF16", ... as safetensors spells them; the second returns false for an unknown name. */
const char *haul_dtype_safetensors_name(haul_dtype dtype);
bool haul_dtype_from_safetensors(const char *name, haul_dtype *out);

static inline float haul_bf16_to_f32(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Round to nearest, ties to even; a NaN stays a (quiet) NaN. */
static inline uint16_t haul_f32_to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16) | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* Rounds up or down at random: `random` is uniform in [0, 2^16). Infinity and NaN stay. */
static inline uint16_t haul_bf16_round_at_random(float value, uint32_t random) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7f800000u) == 0x7f800000u) {
        return haul_f32_to_bf16(value);
    }
    return (uint16_t)((bits + random) >> 16);
}

/* FP8 codes: rounded to nearest, ties to even, saturated to the largest finite; a NaN is 0x7f. */
uint8_t haul_f32_to_e4m3(float value);
uint8_t haul_f32_to_e5m2(float value);
float haul_e4m3_to_f32(uint8_t code);
float haul_e5m2_to_f32(uint8_t code);

/* A master weight of 32 bits cut in two, as the optimizers keep it: `parameter`, the nearest bf16
 * (ties away from zero), and `low`, a signed number, with bits = (parameter << 16) + low. Joining
 * gives back the very bits; a NaN becomes the quiet NaN of its sign. */
static inline float haul_master_join(uint16_t parameter, uint16_t low) {
    uint32_t bits = ((uint32_t)parameter << 16) + (uint32_t)(int32_t)(int16_t)low;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void haul_master_split(float value, uint16_t *parameter, uint16_t *low) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        bits = (bits & 0x80000000u) | 0x7fc00000u;
    }
    *parameter = (uint16_t)((bits + 0x8000u) >> 16);
    *low = (uint16_t)bits;
}

/* One element of a floating or integer dtype as double, and back (rounded to nearest even). */
double haul_element_get(const void *data, haul_dtype dtype, int64_t index);
void haul_element_set(void *data, haul_dtype dtype, int64_t index, double value);

#endif
