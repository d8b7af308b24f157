/* Matrix products of the cpu backend: HAUL_OP_MATMUL and HAUL_OP_PACK.
 *
 * Each product of a step is planned once, when its workspace is asked for: what computes it (oneDNN
 * or haul's own kernel), and how, is chosen by a short measurement and kept. A launch looks its
 * plan up and allocates nothing. Two choices for one shape differ in the last bits of their
 * results, so the choices can be written down (in the manifest of a run) and restored (when the run
 * resumes). */
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

/* Appends the choices made so far, one a line: M x N x K of the product that was measured, which
 * operands are transposed, the dtypes of a, b and c, whether b is packed, and the method:
 * "1024x288x96 nt f32 f32 f32 packed own". */
void haul_cpu_matmul_choices(const haul_cpu_matmul *matmul, haul_string *out);

/* Adopts the choices of an earlier run, before anything is planned, in place of measurements.
 * HAUL_ERROR_DATA for a line that is none, HAUL_ERROR_UNAVAILABLE for a method of another build. */
haul_status haul_cpu_matmul_restore(haul_cpu_matmul *matmul, const char *choices);

/* Forgets all plans, and plans by one method from now on where it suits, HAUL_METHODS: by
 * measurement again. For tests and benchmarks. */
void haul_cpu_matmul_force(haul_cpu_matmul *matmul, haul_method method);

#endif
