/* The place that includes NVIDIA's headers, but for cuDNN's and CUPTI's, which attention_cudnn.c
 * and profile.c alone use. Code of the plugin spells names as CUDA does; vendors/musa.h maps them
 * to Moore Threads'. */
#ifndef HAUL_DEVICE_CUDA_VENDOR_H
#define HAUL_DEVICE_CUDA_VENDOR_H

#ifdef HAUL_MUSA
#include "device/cuda/vendors/musa.h"
#else
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#endif

#endif
