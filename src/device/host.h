/* What backends that compute in host memory share. */
#ifndef HAUL_DEVICE_HOST_H
#define HAUL_DEVICE_HOST_H

#include "device/device.h"

void haul_host_verdict(haul_stream *stream, const void *args);

/* Row `row` of a matrix of FP8 codes: each times its scale. */
void haul_host_decode_row(const haul_tensor *codes, haul_scaling scaling, const haul_tensor *scales,
                          int64_t row, float *out);

#endif
