/* The ops of backend `ref`: every op of device/op.h in float64, naive loops straight from its
 * definition there. It is the oracle of all tests, so it values being obviously right above all;
 * floats are f64, indices i32, and any other dtype fails the stream. */
#ifndef HAUL_DEVICE_REF_REF_H
#define HAUL_DEVICE_REF_REF_H

#include "device/device.h"

/* The elements of a tensor; NULL when it is absent. Any dtype but f64 (i32) fails the stream, which
 * the caller checks once, after it has asked for all of its tensors. */
double *haul_ref_reals(haul_stream *stream, const haul_tensor *tensor, const char *name);
int32_t *haul_ref_indices(haul_stream *stream, const haul_tensor *tensor, const char *name);

/* What element `element` of sample `sample` of the batch is multiplied by: 0 or 1 / (1 - p). */
double haul_ref_dropout_factor(const haul_dropout *dropout, int64_t sample, int64_t element);

/* The launch functions. */
void haul_ref_fill(haul_stream *stream, const void *args);
void haul_ref_copy(haul_stream *stream, const void *args);
void haul_ref_add(haul_stream *stream, const void *args);
void haul_ref_dropout(haul_stream *stream, const void *args);
void haul_ref_embed(haul_stream *stream, const void *args);
void haul_ref_embed_backward(haul_stream *stream, const void *args);
void haul_ref_norm(haul_stream *stream, const void *args);
void haul_ref_norm_backward(haul_stream *stream, const void *args);
void haul_ref_quantize(haul_stream *stream, const void *args);
void haul_ref_matmul(haul_stream *stream, const void *args);
void haul_ref_bias_backward(haul_stream *stream, const void *args);
void haul_ref_rope(haul_stream *stream, const void *args);
void haul_ref_attention(haul_stream *stream, const void *args);
void haul_ref_attention_backward(haul_stream *stream, const void *args);
void haul_ref_swiglu(haul_stream *stream, const void *args);
void haul_ref_swiglu_backward(haul_stream *stream, const void *args);
void haul_ref_gelu(haul_stream *stream, const void *args);
void haul_ref_gelu_backward(haul_stream *stream, const void *args);
void haul_ref_loss(haul_stream *stream, const void *args);
void haul_ref_squared_norm(haul_stream *stream, const void *args);
void haul_ref_adam(haul_stream *stream, const void *args);
void haul_ref_sgd(haul_stream *stream, const void *args);

#endif
