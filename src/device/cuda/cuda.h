/* Inside the cuda plugin: its device, and how its launches report failures. For C and CUDA C. */
#ifndef HAUL_DEVICE_CUDA_CUDA_H
#define HAUL_DEVICE_CUDA_CUDA_H

#include "device/cuda/vendors/cuda.h"

/* The headers of haul's C modules, for kernels to include from here alone. */
#ifdef __cplusplus
extern "C" {
#endif
#include "device/device.h"
#ifdef __cplusplus
}
#endif

/* What a cuBLASLt product may use; part of the workspace of HAUL_OP_MATMUL. */
#define HAUL_CUDA_PRODUCT_WORKSPACE (INT64_C(32) << 20)

typedef struct haul_cuda_products haul_cuda_products;               /* matmul.c */
typedef struct haul_cuda_attention_plans haul_cuda_attention_plans; /* plans of cuDNN */
typedef struct haul_cuda_management haul_cuda_management;           /* NVML, management.c */
typedef struct haul_cuda_profile haul_cuda_profile;                 /* CUPTI, profile.c */

/* device->state. Without a card (planning only) `ready` is false and the rest is that of an H200,
 * so that workspaces are known without a device. */
typedef struct haul_cuda_device {
    bool ready;
    int multiprocessors;
    int64_t cache_bytes; /* L2 */
    cudaStream_t stream;
    cudaEvent_t marks[HAUL_STREAM_MARKS];
    haul_cuda_products *products;
    haul_cuda_attention_plans *attention;
    haul_cuda_management *management;
    haul_cuda_profile *profile; /* NULL until one is wanted */
} haul_cuda_device;

static inline haul_cuda_device *haul_cuda_device_of(const haul_device *device) {
    return (haul_cuda_device *)device->state;
}

static inline cudaStream_t haul_cuda_stream_of(const haul_stream *stream) {
    return haul_cuda_device_of(stream->device)->stream;
}

/* Records a failed call of the runtime on the stream: "norm: an illegal memory access ...". */
static inline void haul_cuda_check(haul_stream *stream, const char *what, cudaError_t error) {
    if (error != cudaSuccess) {
        haul_stream_fail(stream, HAUL_ERROR_INTERNAL, "%s: %s", what, cudaGetErrorString(error));
    }
}

/* After a kernel launch: whether it could start. */
static inline void haul_cuda_check_launch(haul_stream *stream, haul_op op) {
    haul_cuda_check(stream, haul_op_name(op), cudaGetLastError());
}

#endif
