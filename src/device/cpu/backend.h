/* The state of an opened cpu device. */
#ifndef HAUL_DEVICE_CPU_BACKEND_H
#define HAUL_DEVICE_CPU_BACKEND_H

#include "device/cpu/matmul.h"
#include "device/cpu/simd/simd.h"

typedef struct haul_cpu_state {
    haul_cpu_matmul *matmul;
    const haul_cpu_isa *isa;
} haul_cpu_state;

#endif
