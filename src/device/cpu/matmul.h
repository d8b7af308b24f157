/* Matrix products of the cpu backend: HAUL_OP_MATMUL and HAUL_OP_PACK.
 *
 * Each product of a step is planned once, when its workspace is asked for; a rule of shape and
 * dtypes (matmul_rule.h) says what computes it: oneDNN, in one of several ways, or haul's own
 * kernel. A launch looks its plan up and allocates nothing.
 */
#ifndef HAUL_DEVICE_CPU_MATMUL_H
#define HAUL_DEVICE_CPU_MATMUL_H

#include "base/string.h"
#include "device/device.h"

typedef struct haul_cpu_matmul haul_cpu_matmul;

/* How a product may be computed. Reorder: oneDNN first copies operands into the layout that suits
 * it best, each time. */
typedef enum haul_method {
    HAUL_METHOD_ONEDNN,
    HAUL_METHOD_ONEDNN_REORDER_B,
    HAUL_METHOD_ONEDNN_REORDER_AB,
    HAUL_METHOD_OWN,
    HAUL_METHODS
} haul_method;

/* Reads device->threads and device->product, and replaces HAUL_PRODUCT_AUTO there by what is faster
 * here. HAUL_ERROR_UNAVAILABLE when bf16 products are asked for and not to be had. */
haul_status haul_cpu_matmul_open(haul_device *device, haul_cpu_matmul **out);
void haul_cpu_matmul_close(haul_cpu_matmul *matmul);

/* The products of an open device: device->state points at a struct of backend.c, haul_cpu_state,
 * whose first member is `haul_cpu_matmul *matmul`. */
haul_cpu_matmul *haul_cpu_matmul_of(haul_device *device);

/* Launch and workspace of HAUL_OP_MATMUL and HAUL_OP_PACK; args are haul_matmul_args and
 * haul_pack_args. */
void haul_cpu_matmul_launch(haul_stream *stream, const void *args);
void haul_cpu_pack_launch(haul_stream *stream, const void *args);
int64_t haul_cpu_matmul_workspace(haul_device *device, const void *args);
int64_t haul_cpu_pack_workspace(haul_device *device, const void *args);

/* Bytes of the packed form that `args` describes (args->packed is not read); 0: the plain weight is
 * as good. */
int64_t haul_cpu_packed_bytes(haul_device *device, const haul_pack_args *args);

/* One line: the library and its version, how bf16 is multiplied. */
void haul_cpu_matmul_describe(const haul_cpu_matmul *matmul, char *text, int64_t capacity);

/* Forgets all plans, and plans by one method from now on where it suits, HAUL_METHODS: by
 * the rule again. For tests and benchmarks. */
void haul_cpu_matmul_force(haul_cpu_matmul *matmul, haul_method method);

#endif
