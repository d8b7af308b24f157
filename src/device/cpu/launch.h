/* What the launch functions of the cpu backend do before they compute. */
#ifndef HAUL_DEVICE_CPU_LAUNCH_H
#define HAUL_DEVICE_CPU_LAUNCH_H

#include "base/parallel.h"
#include "device/device.h"

/* True when the present ones among `count` tensors share one of the dtypes f32 and bf16, which
 * then is in *bf16. Fails the stream otherwise. */
bool haul_cpu_dtype(haul_stream *stream, haul_op op, const haul_tensor *const *tensors, int count,
                    bool *bf16);

/* True when all tensors (the absent ones aside) are f32. Fails the stream otherwise. */
bool haul_cpu_f32(haul_stream *stream, haul_op op, const haul_tensor *const *tensors, int count);

/* True when all of an i32 tensor is in [0, limit). Fails the stream otherwise, naming the place. */
bool haul_cpu_indices(haul_stream *stream, haul_op op, const haul_tensor *indices, int64_t limit);

/* haul_parallel_for over `count` units that each move about `unit_bytes`. Work of a few
 * microseconds stays in the calling thread: waking the others would take longer. */
void haul_cpu_parallel(haul_stream *stream, int64_t count, int64_t grain, int64_t unit_bytes,
                       haul_parallel_function *function, void *context);

#endif
