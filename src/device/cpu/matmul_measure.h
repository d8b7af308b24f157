/* Which method computes a product fastest here. */
#ifndef HAUL_DEVICE_CPU_MATMUL_MEASURE_H
#define HAUL_DEVICE_CPU_MATMUL_MEASURE_H

#include "device/cpu/matmul_plan.h"

/* The product that stands for `product` when methods are compared: without bias and accumulation,
 * its widths cut to 768, its rows (of activations) rounded up to a power of two, or cut where that
 * would be more than half a billion multiply-adds. So a measurement takes milliseconds, and
 * products that differ in the number of rows alone share it. */
haul_product haul_product_proxy(const haul_product *product);

/* Whether a method could compute such a product; it may still prove unavailable. */
bool haul_method_suits(haul_method method, const haul_engines *engines,
                       const haul_product *product);

/* The fastest method for `proxy`. One other than oneDNN's plain product must be 5 % faster than
 * it, so that the choice seldom hangs on noise. */
haul_status haul_product_choose(const haul_engines *engines, const haul_product *proxy,
                                haul_method *out);

/* Seconds of one run, the best of a few. HAUL_ERROR_UNAVAILABLE: the method cannot. */
haul_status haul_product_seconds(const haul_engines *engines, const haul_product *product,
                                 haul_method method, double *out);

#endif
