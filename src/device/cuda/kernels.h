/* The ops of the cuda plugin: launches and workspaces, one pair an op; the contract of each is in
 * device/op.h. Workspace functions run without a card. */
#ifndef HAUL_DEVICE_CUDA_KERNELS_H
#define HAUL_DEVICE_CUDA_KERNELS_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* elementwise.cu */
void haul_cuda_fill(haul_stream *stream, const void *args);
void haul_cuda_copy(haul_stream *stream, const void *args);
void haul_cuda_add(haul_stream *stream, const void *args);
void haul_cuda_dropout(haul_stream *stream, const void *args);

/* activation.cu */
void haul_cuda_swiglu(haul_stream *stream, const void *args);
void haul_cuda_swiglu_backward(haul_stream *stream, const void *args);
void haul_cuda_gelu(haul_stream *stream, const void *args);
void haul_cuda_gelu_backward(haul_stream *stream, const void *args);
void haul_cuda_rope(haul_stream *stream, const void *args);

/* norm.cu */
void haul_cuda_norm(haul_stream *stream, const void *args);
void haul_cuda_norm_backward(haul_stream *stream, const void *args);
int64_t haul_cuda_norm_backward_workspace(haul_device *device, const void *args);

/* columns.cu */
void haul_cuda_bias_backward(haul_stream *stream, const void *args);
int64_t haul_cuda_bias_backward_workspace(haul_device *device, const void *args);

/* quantize.cu */
void haul_cuda_quantize(haul_stream *stream, const void *args);
int64_t haul_cuda_quantize_workspace(haul_device *device, const void *args);

/* embed.cu */
void haul_cuda_embed(haul_stream *stream, const void *args);
void haul_cuda_embed_backward(haul_stream *stream, const void *args);
int64_t haul_cuda_embed_backward_workspace(haul_device *device, const void *args);

/* loss.cu */
void haul_cuda_loss(haul_stream *stream, const void *args);

/* optimizer.cu */
void haul_cuda_squared_norm(haul_stream *stream, const void *args);
int64_t haul_cuda_squared_norm_workspace(haul_device *device, const void *args);
void haul_cuda_verdict(haul_stream *stream, const void *args);
void haul_cuda_adam(haul_stream *stream, const void *args);
void haul_cuda_sgd(haul_stream *stream, const void *args);

/* attention.cu */
void haul_cuda_attention(haul_stream *stream, const void *args);
int64_t haul_cuda_attention_workspace(haul_device *device, const void *args);
void haul_cuda_attention_backward(haul_stream *stream, const void *args);
int64_t haul_cuda_attention_backward_workspace(haul_device *device, const void *args);

/* matmul.c */
void haul_cuda_matmul(haul_stream *stream, const void *args);
int64_t haul_cuda_matmul_workspace(haul_device *device, const void *args);

#ifdef __cplusplus
}
#endif

#endif
