/* How long a product takes here. */
#ifndef HAUL_DEVICE_CPU_MATMUL_MEASURE_H
#define HAUL_DEVICE_CPU_MATMUL_MEASURE_H

#include "device/cpu/matmul_plan.h"

/* Seconds of one run by a method, the lower quartile of a few. HAUL_ERROR_UNAVAILABLE: it cannot.
 */
haul_status haul_product_seconds(const haul_engines *engines, const haul_product *product,
                                 haul_method method, double *out);

#endif
