/* What backends that compute in host memory share. */
#ifndef HAUL_DEVICE_HOST_H
#define HAUL_DEVICE_HOST_H

#include "device/device.h"

void haul_host_verdict(haul_stream *stream, const void *args);

#endif
