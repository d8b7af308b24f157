/* The instruction sets that the kernels are compiled for, and which of them this machine runs. */
#ifndef HAUL_DEVICE_CPU_SIMD_SIMD_H
#define HAUL_DEVICE_CPU_SIMD_SIMD_H

#include "device/device.h"

/* Entries by haul_op; launch is NULL for the products, which are not here. */
extern const haul_op_entry haul_cpu_entries_portable[HAUL_OPS];
extern const haul_op_entry haul_cpu_entries_avx2[HAUL_OPS];
extern const haul_op_entry haul_cpu_entries_avx512[HAUL_OPS];

typedef struct haul_cpu_isa {
    const char *name; /* "avx512", "avx2", "portable" */
    const haul_op_entry *entries;
} haul_cpu_isa;

/* The `index`-th best instruction set that this build has and this machine runs; NULL after the
 * last, which is "portable". A device opens with the first. */
const haul_cpu_isa *haul_cpu_isa_at(int index);

/* Makes an opened cpu device use another one (tests, benchmarks). */
void haul_cpu_use_isa(haul_device *device, const haul_cpu_isa *isa);

#endif
