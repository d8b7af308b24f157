/* The launch and workspace functions of this directory, one pair an op (device/op.h). Results do
 * not depend on the number of threads. */
#ifndef HAUL_DEVICE_CPU_SIMD_KERNELS_H
#define HAUL_DEVICE_CPU_SIMD_KERNELS_H

#include "device/cpu/launch.h"
#include "device/cpu/simd/isa.h"

/* What most loops over a launch need: its arguments, and whether the activations are bf16. */
typedef struct kernel_job {
    const void *args;
    bool bf16;
} kernel_job;

void HAUL_ISA(haul_cpu_fill)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_copy)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_add)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_dropout)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_embed)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_embed_backward)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_norm)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_norm_backward)(haul_stream *stream, const void *args);
int64_t HAUL_ISA(haul_cpu_norm_backward_workspace)(haul_device *device, const void *args);
void HAUL_ISA(haul_cpu_quantize)(haul_stream *stream, const void *args);
int64_t HAUL_ISA(haul_cpu_quantize_workspace)(haul_device *device, const void *args);
void HAUL_ISA(haul_cpu_bias_backward)(haul_stream *stream, const void *args);
int64_t HAUL_ISA(haul_cpu_bias_backward_workspace)(haul_device *device, const void *args);
void HAUL_ISA(haul_cpu_rope)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_swiglu)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_swiglu_backward)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_gelu)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_gelu_backward)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_loss)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_squared_norm)(haul_stream *stream, const void *args);
int64_t HAUL_ISA(haul_cpu_squared_norm_workspace)(haul_device *device, const void *args);
void HAUL_ISA(haul_cpu_adam)(haul_stream *stream, const void *args);
void HAUL_ISA(haul_cpu_sgd)(haul_stream *stream, const void *args);

#endif
