/* Clock and power of the card, from NVIDIA's management library where that is installed. */
#ifndef HAUL_DEVICE_CUDA_MANAGEMENT_H
#define HAUL_DEVICE_CUDA_MANAGEMENT_H

#include "device/cuda/cuda.h"

/* For the current card; NULL without the library. */
haul_cuda_management *haul_cuda_management_open(void);
void haul_cuda_management_close(haul_cuda_management *management);

/* All unknown for NULL. */
haul_condition haul_cuda_management_ask(const haul_cuda_management *management);

#endif
