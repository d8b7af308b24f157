/* Which method computes a product: a rule of its shape and dtypes alone, so that equal machines
 * give equal bits. The figures behind it are in bench/results/ and docs/speed.md. */
#ifndef HAUL_DEVICE_CPU_MATMUL_RULE_H
#define HAUL_DEVICE_CPU_MATMUL_RULE_H

#include "device/cpu/matmul_plan.h"

haul_method haul_product_method(const haul_engines *engines, const haul_product *product);

/* Whether a method could compute such a product; it may still prove unavailable. */
bool haul_method_suits(haul_method method, const haul_engines *engines,
                       const haul_product *product);

#endif
