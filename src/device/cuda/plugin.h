/* What the plugin has from the program. */
#ifndef HAUL_DEVICE_CUDA_PLUGIN_H
#define HAUL_DEVICE_CUDA_PLUGIN_H

#include "device/plugin.h"

/* Hands a failure, described by haul_fail in the plugin's own copy of base/, to the program. */
haul_status haul_cuda_report(haul_status status);

extern const haul_backend haul_cuda_backend;

#endif
