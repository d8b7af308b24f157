/* Attention by cuDNN, where it is faster than the kernels of attention_flash*.cu: causal training
 * without dropout. The library is loaded at the first use; without it our own kernels run. Its
 * results repeat to the bit: the backward keeps the gradients of scores, as PyTorch's does when
 * asked to be deterministic, instead of adding to d_query in no fixed order. */
#ifndef HAUL_DEVICE_CUDA_ATTENTION_CUDNN_H
#define HAUL_DEVICE_CUDA_ATTENTION_CUDNN_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch for cuDNN, 0 when it is not asked for an op of that kind. Runs without a card. */
int64_t haul_cuda_attention_cudnn_workspace(const haul_attention_args *args);
int64_t haul_cuda_attention_backward_cudnn_workspace(const haul_attention_backward_args *args);

/* Run an op whose workspace above is not 0; false when the library is missing or refuses, and our
 * own kernels have to run. The first reason is kept for haul_cuda_attention_refusal. */
bool haul_cuda_attention_cudnn(haul_stream *stream, const haul_attention_args *args);
bool haul_cuda_attention_backward_cudnn(haul_stream *stream,
                                        const haul_attention_backward_args *args);

/* Why own kernels ran where cuDNN was asked; "" when that never happened. Owned by the device. */
const char *haul_cuda_attention_refusal(const haul_cuda_device *cuda);

void haul_cuda_attention_close(haul_cuda_attention_plans *plans);

#ifdef __cplusplus
}
#endif

#endif
