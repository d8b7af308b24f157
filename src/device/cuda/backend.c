#include "device/cuda/cuda.h"

#include "base/format.h"
#include "base/memory.h"
#include "device/cuda/attention_cudnn.h"
#include "device/cuda/kernels.h"
#include "device/cuda/management.h"
#include "device/cuda/matmul.h"
#include "device/cuda/plugin.h"
#include "device/cuda/profile.h"

#include <stdio.h>
#include <stdlib.h>

enum { H200_MULTIPROCESSORS = 132 };
static const int64_t h200_cache_bytes = INT64_C(50) << 20;

/* A failed call of the runtime as this thread's message. */
static haul_status fail(haul_status status, const char *what, cudaError_t error) {
    return haul_fail(status, "%s: %s", what, cudaGetErrorString(error));
}

static haul_status find_card(haul_cuda_device *cuda) {
    int count = 0, capability = 0, multiprocessors = 0, cache = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        fail(HAUL_ERROR_UNAVAILABLE, "no CUDA device", error);
        haul_hint("check nvidia-smi, or use --device cpu");
        return HAUL_ERROR_UNAVAILABLE;
    }
    cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, 0);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, 0);
    if (capability != 9) {
        haul_fail(HAUL_ERROR_UNAVAILABLE, "the card has compute capability %d.x, must be 9.0",
                  capability);
        haul_hint("this build is for Hopper (H100, H200); use --device cpu");
        return HAUL_ERROR_UNAVAILABLE;
    }
    cuda->multiprocessors = multiprocessors;
    cuda->cache_bytes = cache;
    error = cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking);
    for (int i = 0; i < HAUL_STREAM_MARKS && error == cudaSuccess; i++) {
        error = cudaEventCreateWithFlags(&cuda->marks[i], cudaEventDisableTiming);
    }
    return error == cudaSuccess ? HAUL_OK : fail(HAUL_ERROR_UNAVAILABLE, "CUDA stream", error);
}

static void close_state(haul_cuda_device *cuda) {
    haul_cuda_attention_close(cuda->attention);
    haul_cuda_products_close(cuda->products);
    haul_cuda_management_close(cuda->management);
    haul_cuda_profile_close(cuda->profile);
    for (int i = 0; i < HAUL_STREAM_MARKS; i++) {
        if (cuda->marks[i] != NULL) {
            cudaEventDestroy(cuda->marks[i]);
        }
    }
    if (cuda->stream != NULL) {
        cudaStreamDestroy(cuda->stream);
    }
    free(cuda);
}

static void close_device(haul_device *device) {
    close_state(device->state);
    device->state = NULL;
}

/* Without a card the device opens all the same: it plans, and says so when memory is asked for. */
static haul_status open_device(haul_device *device) {
    haul_cuda_device *cuda = haul_calloc(1, sizeof *cuda);
    if (cuda == NULL) {
        return haul_cuda_report(HAUL_ERROR_MEMORY);
    }
    cuda->multiprocessors = H200_MULTIPROCESSORS;
    cuda->cache_bytes = h200_cache_bytes;
    cuda->ready = find_card(cuda) == HAUL_OK;
    if (cuda->ready) {
        cuda->management = haul_cuda_management_open();
        haul_status status = haul_cuda_products_open(cuda, &cuda->products);
        if (status != HAUL_OK) {
            close_state(cuda);
            return haul_cuda_report(status);
        }
    }
    device->product = HAUL_PRODUCT_BF16;
    device->state = cuda;
    return HAUL_OK;
}

static bool ready(const haul_device *device) {
    return haul_cuda_device_of(device)->ready;
}

static haul_status allocate_zeroed(haul_cuda_device *cuda, int64_t bytes, void **out) {
    size_t available = 0, total = 0;
    if (!cuda->ready) {
        return find_card(cuda); /* says why */
    }
    cudaError_t error = cudaMalloc(out, (size_t)haul_max(bytes, 1));
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        cudaMemGetInfo(&available, &total);
        return haul_fail(HAUL_ERROR_MEMORY, "out of memory on the card: %s for tensors, %s free",
                         haul_format_bytes(bytes).text, haul_format_bytes((int64_t)available).text);
    }
    if (error == cudaSuccess) {
        error = cudaMemsetAsync(*out, 0, (size_t)haul_max(bytes, 1), cuda->stream);
    }
    return error == cudaSuccess ? HAUL_OK : fail(HAUL_ERROR_UNAVAILABLE, "memory", error);
}

static haul_status allocate(haul_device *device, int64_t bytes, void **out) {
    return haul_cuda_report(allocate_zeroed(haul_cuda_device_of(device), bytes, out));
}

static void release(haul_device *device, void *memory, int64_t bytes) {
    (void)device;
    (void)bytes;
    cudaFree(memory);
}

/* Both 0 without a card. */
static void ask_memory(const haul_device *device, size_t *available, size_t *total) {
    *available = *total = 0;
    if (haul_cuda_device_of(device)->ready) {
        cudaMemGetInfo(available, total);
    }
}

static int64_t available_bytes(const haul_device *device) {
    size_t available, total;
    ask_memory(device, &available, &total);
    return (int64_t)available;
}

static int64_t used_bytes(const haul_device *device) {
    size_t available, total;
    ask_memory(device, &available, &total);
    return (int64_t)(total - available);
}

/* As measured on an H200 with driver 580; the last lines of a run show what it took (docs/gpu.md).
 */
static bool reserved(const haul_device *device, int i, const char **name, int64_t *bytes) {
    const int64_t once_open = 667;
    (void)device;
    *name = "CUDA's context and libraries, their kernels";
    *bytes = once_open << 20;
    return i == 0;
}

static haul_status allocate_host(haul_device *device, int64_t bytes, void **out) {
    (void)device;
    cudaError_t error = cudaMallocHost(out, (size_t)haul_max(bytes, 1));
    if (error != cudaSuccess) {
        return haul_cuda_report(fail(HAUL_ERROR_MEMORY, "page-locked host memory", error));
    }
    memset(*out, 0, (size_t)bytes);
    return HAUL_OK;
}

static void release_host(haul_device *device, void *memory) {
    (void)device;
    cudaFreeHost(memory);
}

static void copy(haul_stream *stream, void *to, const void *from, int64_t bytes) {
    haul_cuda_check(
        stream, "copy",
        cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, haul_cuda_stream_of(stream)));
}

static void wait(haul_stream *stream) {
    haul_cuda_check(stream, "the card", cudaStreamSynchronize(haul_cuda_stream_of(stream)));
}

static void mark(haul_stream *stream, int place) {
    haul_cuda_check(stream, "mark",
                    cudaEventRecord(haul_cuda_device_of(stream->device)->marks[place],
                                    haul_cuda_stream_of(stream)));
}

static void wait_mark(haul_stream *stream, int place) {
    haul_cuda_check(stream, "the card",
                    cudaEventSynchronize(haul_cuda_device_of(stream->device)->marks[place]));
}

static void stamp(haul_stream *stream, void **event) {
    if (*event == NULL) {
        cudaEvent_t created = NULL;
        haul_cuda_check(stream, "stamp", cudaEventCreate(&created));
        *event = created;
    }
    haul_cuda_check(stream, "stamp", cudaEventRecord(*event, haul_cuda_stream_of(stream)));
}

static double elapsed(haul_stream *stream, void *from, void *to) {
    float milliseconds = 0;
    haul_cuda_check(stream, "stamp", cudaEventElapsedTime(&milliseconds, from, to));
    return 1e-3 * (double)milliseconds;
}

static void release_event(void *event) {
    cudaEventDestroy(event);
}

static haul_condition condition(const haul_device *device) {
    return haul_cuda_management_ask(haul_cuda_device_of(device)->management);
}

/* Products read weights as they are. */
static int64_t packed_bytes(haul_device *device, const haul_pack_args *args) {
    (void)device;
    (void)args;
    return 0;
}

static haul_status load_choices(haul_device *device, const char *path) {
    return haul_cuda_report(haul_cuda_products_load(haul_cuda_device_of(device)->products, path));
}

static haul_status tune(haul_device *device, haul_op op, const void *args, bool *measured) {
    *measured = false;
    if (op != HAUL_OP_MATMUL) {
        return HAUL_OK;
    }
    haul_cuda_products *products = haul_cuda_device_of(device)->products;
    return haul_cuda_report(haul_cuda_products_prepare(products, args, measured));
}

static haul_status save_choices(haul_device *device, const char *path) {
    return haul_cuda_report(haul_cuda_products_save(haul_cuda_device_of(device)->products, path));
}

static const haul_tuner tuner = {.load = load_choices, .tune = tune, .save = save_choices};

static const haul_op_entry entries[HAUL_OPS] = {
    [HAUL_OP_FILL] = {haul_cuda_fill, NULL},
    [HAUL_OP_COPY] = {haul_cuda_copy, NULL},
    [HAUL_OP_ADD] = {haul_cuda_add, NULL},
    [HAUL_OP_DROPOUT] = {haul_cuda_dropout, NULL},
    [HAUL_OP_EMBED] = {haul_cuda_embed, NULL},
    [HAUL_OP_EMBED_BACKWARD] = {haul_cuda_embed_backward, haul_cuda_embed_backward_workspace},
    [HAUL_OP_NORM] = {haul_cuda_norm, NULL},
    [HAUL_OP_NORM_BACKWARD] = {haul_cuda_norm_backward, haul_cuda_norm_backward_workspace},
    [HAUL_OP_QUANTIZE] = {haul_cuda_quantize, haul_cuda_quantize_workspace},
    [HAUL_OP_MATMUL] = {haul_cuda_matmul, haul_cuda_matmul_workspace},
    [HAUL_OP_BIAS_BACKWARD] = {haul_cuda_bias_backward, haul_cuda_bias_backward_workspace},
    [HAUL_OP_ROPE] = {haul_cuda_rope, NULL},
    [HAUL_OP_ATTENTION] = {haul_cuda_attention, haul_cuda_attention_workspace},
    [HAUL_OP_ATTENTION_BACKWARD] = {haul_cuda_attention_backward,
                                    haul_cuda_attention_backward_workspace},
    [HAUL_OP_SWIGLU] = {haul_cuda_swiglu, NULL},
    [HAUL_OP_SWIGLU_BACKWARD] = {haul_cuda_swiglu_backward, NULL},
    [HAUL_OP_GELU] = {haul_cuda_gelu, NULL},
    [HAUL_OP_GELU_BACKWARD] = {haul_cuda_gelu_backward, NULL},
    [HAUL_OP_LOSS] = {haul_cuda_loss, NULL},
    [HAUL_OP_SQUARED_NORM] = {haul_cuda_squared_norm, haul_cuda_squared_norm_workspace},
    [HAUL_OP_VERDICT] = {haul_cuda_verdict, NULL},
    [HAUL_OP_ADAM] = {haul_cuda_adam, NULL},
    [HAUL_OP_SGD] = {haul_cuda_sgd, NULL},
};

static const haul_op_entry *entry(const haul_device *device, haul_op op) {
    (void)device;
    return &entries[op];
}

static void describe(const haul_device *device, char *text, int64_t capacity) {
    const haul_cuda_device *cuda = haul_cuda_device_of(device);
    struct cudaDeviceProp card;
    if (!cuda->ready || cudaGetDeviceProperties(&card, 0) != cudaSuccess) {
        snprintf(text, (size_t)capacity, "cuda, no card: planned for an H200");
        return;
    }
    snprintf(text, (size_t)capacity, "cuda %s, %d multiprocessors, %s, cuBLASLt %zu", card.name,
             cuda->multiprocessors, haul_format_bytes((int64_t)card.totalGlobalMem).text,
             cublasLtGetVersion());
}

const haul_backend haul_cuda_backend = {
    .name = "cuda",
    .open = open_device,
    .close = close_device,
    .ready = ready,
    .allocate = allocate,
    .release = release,
    .available_bytes = available_bytes,
    .used_bytes = used_bytes,
    .reserved = reserved,
    .allocate_host = allocate_host,
    .release_host = release_host,
    .copy = copy,
    .wait = wait,
    .mark = mark,
    .wait_mark = wait_mark,
    .stamp = stamp,
    .elapsed = elapsed,
    .release_event = release_event,
    .condition = condition,
    .packed_bytes = packed_bytes,
    .entry = entry,
    .tuner = &tuner,
    .profiler = &haul_cuda_profiler,
    .describe = describe,
};
