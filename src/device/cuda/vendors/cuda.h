/* The one place that includes NVIDIA's headers. Code of the plugin spells runtime names as CUDA
 * does; vendors/musa.h maps them to Moore Threads' runtime. */
#ifndef HAUL_DEVICE_CUDA_VENDOR_H
#define HAUL_DEVICE_CUDA_VENDOR_H

#ifdef HAUL_MUSA
#include "device/cuda/vendors/musa.h"
#else
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#endif

#endif
