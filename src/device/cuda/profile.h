/* What the card did, from CUPTI's activity records. The library is opened by name when a profile is
 * wanted: neither the build nor a training needs it. */
#ifndef HAUL_DEVICE_CUDA_PROFILE_H
#define HAUL_DEVICE_CUDA_PROFILE_H

#include "device/cuda/cuda.h"

extern const haul_profiler haul_cuda_profiler;

void haul_cuda_profile_close(haul_cuda_profile *profile);

#endif
