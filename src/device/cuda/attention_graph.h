/* Graphs of cuDNN's backend API: operations that cuDNN recognises as a whole and runs as a few
 * kernels. The library is loaded at run time, so that there need not be one. */
#ifndef HAUL_DEVICE_CUDA_ATTENTION_GRAPH_H
#define HAUL_DEVICE_CUDA_ATTENTION_GRAPH_H

#include <cudnn.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HAUL_CUDNN_TENSORS = 40, /* of a graph, at most */
    HAUL_CUDNN_OPERATIONS = 32,
    HAUL_CUDNN_OBJECTS = 128,
    HAUL_CUDNN_REFUSAL = 256, /* bytes of a message */
};

typedef cudnnBackendDescriptor_t haul_cudnn_object;

/* The library, one handle, and the functions that are used. */
typedef struct haul_cudnn {
    void *library;
    cudnnHandle_t handle;
    cudnnStatus_t (*create)(cudnnHandle_t *handle);
    cudnnStatus_t (*destroy)(cudnnHandle_t handle);
    cudnnStatus_t (*set_stream)(cudnnHandle_t handle, cudaStream_t stream);
    void (*last_error)(char *message, size_t capacity);
    cudnnStatus_t (*make)(cudnnBackendDescriptorType_t type, haul_cudnn_object *out);
    cudnnStatus_t (*unmake)(haul_cudnn_object object);
    cudnnStatus_t (*finalize)(haul_cudnn_object object);
    cudnnStatus_t (*set)(haul_cudnn_object object, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t count, const void *elements);
    cudnnStatus_t (*get)(haul_cudnn_object object, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t capacity, int64_t *count,
                         void *elements);
    cudnnStatus_t (*execute)(cudnnHandle_t handle, haul_cudnn_object plan, haul_cudnn_object pack);
} haul_cudnn;

/* Loads the library for one stream; false with the reason in `refusal` (HAUL_CUDNN_REFUSAL bytes).
 * Close it in both cases. */
bool haul_cudnn_open(haul_cudnn *cudnn, cudaStream_t stream, char *refusal);
void haul_cudnn_close(haul_cudnn *cudnn);

/* A tensor [d0, d1, d2, d3] of any strides, in elements. */
typedef struct haul_cudnn_tensor {
    cudnnDataType_t dtype;
    int64_t size[4];
    int64_t stride[4];
} haul_cudnn_tensor;

/* A graph being built. After a failure the functions below do nothing, and `refusal` says what
 * failed first. */
typedef struct haul_cudnn_graph {
    const haul_cudnn *cudnn;
    haul_cudnn_object made[HAUL_CUDNN_OBJECTS];
    int made_count;
    haul_cudnn_object tensors[HAUL_CUDNN_TENSORS];
    haul_cudnn_object operations[HAUL_CUDNN_OPERATIONS];
    int64_t operation_count;
    char refusal[HAUL_CUDNN_REFUSAL];
} haul_cudnn_graph;

/* NULL without memory. */
haul_cudnn_graph *haul_cudnn_begin(const haul_cudnn *cudnn);
void haul_cudnn_end(haul_cudnn_graph *graph);

/* Tensors 0 .. count - 1: `stored` of them in memory at multiples of 16 bytes, then `scalars` that
 * are given by value; the rest is virtual. Entries that are NULL are left out. */
void haul_cudnn_add_tensors(haul_cudnn_graph *graph, const haul_cudnn_tensor *const *tensors,
                            int count, int stored, int scalars);

/* c = a b, in f32; y, x summed or maximised over the axes in which y has size 1; y, x as another
 * view. */
void haul_cudnn_add_product(haul_cudnn_graph *graph, int a, int b, int c);
void haul_cudnn_add_reduction(haul_cudnn_graph *graph, cudnnReduceTensorOp_t how, int x, int y);
void haul_cudnn_add_view(haul_cudnn_graph *graph, int x, int y);

/* y = mode(x, b, t); b and t are absent when negative. `axis` is of GEN_INDEX. */
typedef struct haul_cudnn_pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t dtype; /* of the calculation */
    int x, b, t, y;
    int64_t axis;
} haul_cudnn_pointwise;

void haul_cudnn_add_pointwise(haul_cudnn_graph *graph, const haul_cudnn_pointwise *operations,
                              int count);

/* The first plan that cuDNN proposes for the graph and that needs at most `workspace` bytes; NULL
 * with the graph's refusal. The caller unmakes it. */
haul_cudnn_object haul_cudnn_plan(haul_cudnn_graph *graph, int64_t workspace);

/* Starts a plan on tensors 0 .. count - 1 (pointers to values for scalars; NULL are left out).
 * False, and nothing runs, with the reason in `refusal`. */
bool haul_cudnn_run(const haul_cudnn *cudnn, haul_cudnn_object plan, void *const *data, int count,
                    void *workspace, char *refusal);

/* Whether addresses are multiples of 16, as tensors in memory must be. */
bool haul_cudnn_aligned(void *const *data, int count);

#endif
