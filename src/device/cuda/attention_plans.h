/* The plans of cuDNN that a device has made: one for each shape of a forward or backward. */
#ifndef HAUL_DEVICE_CUDA_ATTENTION_PLANS_H
#define HAUL_DEVICE_CUDA_ATTENTION_PLANS_H

#include "device/cuda/attention_graph.h"
#include "device/cuda/cuda.h"

/* Adds the tensors and operations of one pass over `shape`. */
typedef void haul_cuda_attention_describe(haul_cudnn_graph *graph,
                                          const haul_attention_shape *shape);

/* Whether cuDNN is asked for such a shape at all: long, causal, without dropout. */
bool haul_cuda_attention_suits(const haul_attention_shape *shape, haul_dtype dtype);

/* The plan of `describe`, made at its first use, of at most `workspace` bytes; NULL when cuDNN
 * cannot (kept for haul_cuda_attention_refusal), or too many were made. */
haul_cudnn_object haul_cuda_attention_plan(haul_cuda_device *cuda,
                                           haul_cuda_attention_describe *describe,
                                           const haul_attention_shape *shape, int64_t workspace);

/* haul_cudnn_run with the device's library; keeps a refusal likewise. */
bool haul_cuda_attention_run(haul_cuda_device *cuda, haul_cudnn_object plan, void *const *data,
                             int count, void *workspace);

#endif
