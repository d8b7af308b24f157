/* Attention by cuDNN, where it is faster than the kernels of attention_flash.cu: the forward of
 * training. (Its backward adds in no fixed order on Hopper, or takes memory quadratic in the
 * sequence, so the backward is always our own.) The library is loaded at the first use; without it
 * our own kernels run. */
#ifndef HAUL_DEVICE_CUDA_ATTENTION_CUDNN_H
#define HAUL_DEVICE_CUDA_ATTENTION_CUDNN_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the forward is of a kind that cuDNN is asked for, and the workspace it may take. Runs
 * without a card. */
bool haul_cuda_attention_suits(const haul_attention_args *args);
#define HAUL_CUDA_ATTENTION_WORKSPACE (INT64_C(1) << 20)

/* Runs a forward that suits; false, and nothing has run, when the library is missing or refuses.
 * The first reason is kept for haul_cuda_attention_refusal. */
bool haul_cuda_attention_cudnn(haul_stream *stream, const haul_attention_args *args);

/* Why own kernels ran where cuDNN was asked; "" when that never happened. Owned by the device. */
const char *haul_cuda_attention_refusal(const haul_cuda_device *cuda);

void haul_cuda_attention_close(haul_cuda_attention_plans *plans);

#ifdef __cplusplus
}
#endif

#endif
