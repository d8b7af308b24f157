/* Attention in blocks (Dao et al., "FlashAttention", NeurIPS 2022): scores exist for one block of
 * queries and one block of keys at a time, never for T x T. Results do not depend on the number of
 * threads. f32 and bf16, sums in f32. */
#ifndef HAUL_DEVICE_CPU_SIMD_ATTENTION_H
#define HAUL_DEVICE_CPU_SIMD_ATTENTION_H

#include "device/cpu/simd/isa.h"
#include "device/device.h"

/* The entries of HAUL_OP_ATTENTION and HAUL_OP_ATTENTION_BACKWARD. */
void HAUL_ISA(haul_cpu_attention)(haul_stream *stream, const void *args);
int64_t HAUL_ISA(haul_cpu_attention_workspace)(haul_device *device, const void *args);
void HAUL_ISA(haul_cpu_attention_backward)(haul_stream *stream, const void *args);
int64_t HAUL_ISA(haul_cpu_attention_backward_workspace)(haul_device *device, const void *args);

/* The forward of one query a sample, where that goes faster by itself: when `decodes` says so. */
bool HAUL_ISA(haul_cpu_attention_decodes)(const haul_attention_shape *shape);
void HAUL_ISA(haul_cpu_attention_decode)(haul_stream *stream, const haul_attention_args *args,
                                         bool bf16);
int64_t HAUL_ISA(haul_cpu_attention_decode_workspace)(haul_device *device,
                                                      const haul_attention_args *args);

#endif
