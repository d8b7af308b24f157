#include "device/ref/ref.h"

#include "base/memory.h"
#include "base/philox.h"
#include "device/host.h"

#include <stdio.h>
#include <stdlib.h>

static const haul_op_entry entries[HAUL_OPS] = {
    [HAUL_OP_FILL] = {.launch = haul_ref_fill},
    [HAUL_OP_COPY] = {.launch = haul_ref_copy},
    [HAUL_OP_ADD] = {.launch = haul_ref_add},
    [HAUL_OP_DROPOUT] = {.launch = haul_ref_dropout},
    [HAUL_OP_EMBED] = {.launch = haul_ref_embed},
    [HAUL_OP_EMBED_BACKWARD] = {.launch = haul_ref_embed_backward},
    [HAUL_OP_NORM] = {.launch = haul_ref_norm},
    [HAUL_OP_NORM_BACKWARD] = {.launch = haul_ref_norm_backward},
    [HAUL_OP_PACK] = {.launch = NULL}, /* packed_bytes says that there is nothing to pack */
    [HAUL_OP_QUANTIZE] = {.launch = haul_ref_quantize},
    [HAUL_OP_MATMUL] = {.launch = haul_ref_matmul},
    [HAUL_OP_BIAS_BACKWARD] = {.launch = haul_ref_bias_backward},
    [HAUL_OP_ROPE] = {.launch = haul_ref_rope},
    [HAUL_OP_ATTENTION] = {.launch = haul_ref_attention},
    [HAUL_OP_ATTENTION_BACKWARD] = {.launch = haul_ref_attention_backward},
    [HAUL_OP_SWIGLU] = {.launch = haul_ref_swiglu},
    [HAUL_OP_SWIGLU_BACKWARD] = {.launch = haul_ref_swiglu_backward},
    [HAUL_OP_GELU] = {.launch = haul_ref_gelu},
    [HAUL_OP_GELU_BACKWARD] = {.launch = haul_ref_gelu_backward},
    [HAUL_OP_LOSS] = {.launch = haul_ref_loss},
    [HAUL_OP_SQUARED_NORM] = {.launch = haul_ref_squared_norm},
    [HAUL_OP_VERDICT] = {.launch = haul_host_verdict},
    [HAUL_OP_ADAM] = {.launch = haul_ref_adam},
    [HAUL_OP_SGD] = {.launch = haul_ref_sgd},
};

static void *elements(haul_stream *stream, const haul_tensor *tensor, haul_dtype dtype,
                      const char *name) {
    if (!haul_tensor_present(tensor)) {
        return NULL;
    }
    if (tensor->dtype != dtype) {
        haul_stream_fail(stream, HAUL_ERROR_INTERNAL,
                         "the ref backend computes in f64: tensor %s is %s, must be %s", name,
                         haul_dtype_name(tensor->dtype), haul_dtype_name(dtype));
    }
    return tensor->data;
}

double *haul_ref_reals(haul_stream *stream, const haul_tensor *tensor, const char *name) {
    return elements(stream, tensor, HAUL_F64, name);
}

int32_t *haul_ref_indices(haul_stream *stream, const haul_tensor *tensor, const char *name) {
    return elements(stream, tensor, HAUL_I32, name);
}

double haul_ref_dropout_factor(const haul_dropout *dropout, int64_t sample, int64_t element) {
    if (dropout->probability <= 0.0) {
        return 1.0;
    }
    const uint32_t key[2] = {(uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)(element / 4), dropout->stream,
                                 (uint32_t)(dropout->first_sample + sample), dropout->step};
    uint32_t word = haul_philox_4x32(key, counter).word[element % 4];
    return (double)word < dropout->probability * 0x1p32 ? 0.0 : 1.0 / (1.0 - dropout->probability);
}

static haul_status open_device(haul_device *device) {
    device->threads = 1;
    device->product = HAUL_PRODUCT_F32;
    return HAUL_OK;
}

static void close_device(haul_device *device) {
    (void)device;
}

static haul_status allocate(haul_device *device, int64_t bytes, void **out) {
    (void)device;
    void *memory = haul_calloc(bytes, 1);
    if (memory == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    *out = memory;
    return HAUL_OK;
}

static void release(haul_device *device, void *memory, int64_t bytes) {
    (void)device;
    (void)bytes;
    free(memory);
}

static int64_t packed_bytes(haul_device *device, const haul_pack_args *args) {
    (void)device;
    (void)args;
    return 0;
}

static const haul_op_entry *entry(const haul_device *device, haul_op op) {
    (void)device;
    return &entries[op];
}

static void describe(const haul_device *device, char *text, int64_t capacity) {
    (void)device;
    snprintf(text, (size_t)capacity, "ref: float64, one thread");
}

const haul_backend haul_backend_ref = {
    .name = "ref",
    .open = open_device,
    .close = close_device,
    .allocate = allocate,
    .release = release,
    .packed_bytes = packed_bytes,
    .entry = entry,
    .describe = describe,
};
