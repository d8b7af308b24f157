#include "device/cuda/attention_graph.h"

#include "base/memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIGURATIONS = 8 }; /* that cuDNN is asked to propose */

/* Object and function pointers have the same size wherever there is dlsym. */
static bool find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load(haul_cudnn *cudnn) {
    cudnn->library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    void *library = cudnn->library;
    return library != NULL && find(library, "cudnnCreate", &cudnn->create) &&
           find(library, "cudnnDestroy", &cudnn->destroy) &&
           find(library, "cudnnSetStream", &cudnn->set_stream) &&
           find(library, "cudnnGetLastErrorString", &cudnn->last_error) &&
           find(library, "cudnnBackendCreateDescriptor", &cudnn->make) &&
           find(library, "cudnnBackendDestroyDescriptor", &cudnn->unmake) &&
           find(library, "cudnnBackendFinalize", &cudnn->finalize) &&
           find(library, "cudnnBackendSetAttribute", &cudnn->set) &&
           find(library, "cudnnBackendGetAttribute", &cudnn->get) &&
           find(library, "cudnnBackendExecute", &cudnn->execute);
}

bool haul_cudnn_open(haul_cudnn *cudnn, cudaStream_t stream, char *refusal) {
    *cudnn = (haul_cudnn){0};
    if (!load(cudnn)) {
        const char *message = dlerror();
        snprintf(refusal, HAUL_CUDNN_REFUSAL, "%s",
                 message == NULL ? "libcudnn.so.9 lacks a function" : message);
        return false;
    }
    if (cudnn->create(&cudnn->handle) != CUDNN_STATUS_SUCCESS ||
        cudnn->set_stream(cudnn->handle, stream) != CUDNN_STATUS_SUCCESS) {
        cudnn->last_error(refusal, HAUL_CUDNN_REFUSAL);
        return false;
    }
    return true;
}

void haul_cudnn_close(haul_cudnn *cudnn) {
    if (cudnn->handle != NULL) {
        cudnn->destroy(cudnn->handle);
    }
    if (cudnn->library != NULL) {
        dlclose(cudnn->library);
    }
    *cudnn = (haul_cudnn){0};
}

static bool fine(const haul_cudnn_graph *graph) {
    return graph->refusal[0] == 0;
}

static void refuse(haul_cudnn_graph *graph, const char *what, cudnnStatus_t status) {
    char message[192] = "";
    if (status == CUDNN_STATUS_SUCCESS || !fine(graph)) {
        return;
    }
    graph->cudnn->last_error(message, sizeof message);
    snprintf(graph->refusal, sizeof graph->refusal, "%s: status %d, %s", what, (int)status,
             message);
}

static haul_cudnn_object make(haul_cudnn_graph *graph, cudnnBackendDescriptorType_t type) {
    haul_cudnn_object object = NULL;
    if (fine(graph) && graph->made_count < HAUL_CUDNN_OBJECTS) {
        refuse(graph, "descriptor", graph->cudnn->make(type, &object));
        graph->made[graph->made_count] = object;
        graph->made_count += object != NULL;
    }
    return object;
}

static void set(haul_cudnn_graph *graph, haul_cudnn_object object, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *elements) {
    if (fine(graph)) {
        refuse(graph, "attribute", graph->cudnn->set(object, name, type, count, elements));
    }
}

static void set_object(haul_cudnn_graph *graph, haul_cudnn_object object,
                       cudnnBackendAttributeName_t name, haul_cudnn_object value) {
    set(graph, object, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(haul_cudnn_graph *graph, haul_cudnn_object object, const char *what) {
    if (fine(graph)) {
        refuse(graph, what, graph->cudnn->finalize(object));
    }
}

haul_cudnn_graph *haul_cudnn_begin(const haul_cudnn *cudnn) {
    haul_cudnn_graph *graph = haul_calloc(1, sizeof *graph);
    if (graph != NULL) {
        graph->cudnn = cudnn;
    }
    return graph;
}

static void unmake_all(haul_cudnn_graph *graph) {
    while (graph->made_count > 0) {
        graph->cudnn->unmake(graph->made[--graph->made_count]);
    }
}

void haul_cudnn_end(haul_cudnn_graph *graph) {
    if (graph != NULL) {
        unmake_all(graph);
        free(graph);
    }
}

static void add_tensor(haul_cudnn_graph *graph, int64_t id, const haul_cudnn_tensor *as,
                       bool by_value, bool is_virtual) {
    const int64_t alignment = 16;
    haul_cudnn_object tensor = make(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(graph, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(graph, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &as->dtype);
    set(graph, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, as->size);
    set(graph, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, as->stride);
    set(graph, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(graph, tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    set(graph, tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    finalize(graph, tensor, "tensor");
    graph->tensors[id] = tensor;
}

void haul_cudnn_add_tensors(haul_cudnn_graph *graph, const haul_cudnn_tensor *const *tensors,
                            int count, int stored, int scalars) {
    for (int id = 0; id < count; id++) {
        if (tensors[id] != NULL) {
            add_tensor(graph, id, tensors[id], id >= stored && id < stored + scalars,
                       id >= stored + scalars);
        }
    }
}

static void add_operation(haul_cudnn_graph *graph, haul_cudnn_object operation, const char *what) {
    finalize(graph, operation, what);
    if (fine(graph) && graph->operation_count < HAUL_CUDNN_OPERATIONS) {
        graph->operations[graph->operation_count++] = operation;
    }
}

void haul_cudnn_add_product(haul_cudnn_graph *graph, int a, int b, int c) {
    const cudnnDataType_t wide = CUDNN_DATA_FLOAT;
    haul_cudnn_object kind = make(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(graph, kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &wide);
    finalize(graph, kind, "product");
    haul_cudnn_object operation = make(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_object(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
    set_object(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, graph->tensors[a]);
    set_object(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, graph->tensors[b]);
    set_object(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, graph->tensors[c]);
    add_operation(graph, operation, "product");
}

void haul_cudnn_add_reduction(haul_cudnn_graph *graph, cudnnReduceTensorOp_t how, int x, int y) {
    const cudnnDataType_t wide = CUDNN_DATA_FLOAT;
    haul_cudnn_object kind = make(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(graph, kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &wide);
    set(graph, kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    finalize(graph, kind, "reduction");
    haul_cudnn_object operation = make(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_object(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
    set_object(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, graph->tensors[x]);
    set_object(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, graph->tensors[y]);
    add_operation(graph, operation, "reduction");
}

void haul_cudnn_add_view(haul_cudnn_graph *graph, int x, int y) {
    haul_cudnn_object operation = make(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_object(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, graph->tensors[x]);
    set_object(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, graph->tensors[y]);
    add_operation(graph, operation, "view");
}

static void add_pointwise(haul_cudnn_graph *graph, const haul_cudnn_pointwise *what) {
    const struct {
        cudnnBackendAttributeName_t name;
        int tensor;
    } operands[] = {
        {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, what->x},
        {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, what->b},
        {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, what->t},
        {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, what->y},
    };
    haul_cudnn_object kind = make(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(graph, kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &what->mode);
    set(graph, kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &what->dtype);
    if (what->mode == CUDNN_POINTWISE_GEN_INDEX) {
        set(graph, kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &what->axis);
    }
    finalize(graph, kind, "pointwise");
    haul_cudnn_object operation = make(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_object(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    for (size_t i = 0; i < sizeof operands / sizeof operands[0]; i++) {
        if (operands[i].tensor >= 0) {
            set_object(graph, operation, operands[i].name, graph->tensors[operands[i].tensor]);
        }
    }
    add_operation(graph, operation, "pointwise");
}

void haul_cudnn_add_pointwise(haul_cudnn_graph *graph, const haul_cudnn_pointwise *operations,
                              int count) {
    for (int i = 0; i < count; i++) {
        add_pointwise(graph, &operations[i]);
    }
}

static haul_cudnn_object finish_graph(haul_cudnn_graph *graph) {
    haul_cudnn_object whole = make(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
        &graph->cudnn->handle);
    set(graph, whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        graph->operation_count, graph->operations);
    finalize(graph, whole, "graph");
    return whole;
}

/* cuDNN's proposals, best first; how many. */
static int64_t propose(haul_cudnn_graph *graph, haul_cudnn_object whole,
                       haul_cudnn_object (*configurations)[CONFIGURATIONS]) {
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    haul_cudnn_object heuristic = make(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_object(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole);
    set(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(graph, heuristic, "heuristic");
    for (int i = 0; i < CONFIGURATIONS; i++) {
        (*configurations)[i] = make(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    int64_t count = 0;
    if (fine(graph)) {
        refuse(graph, "configurations",
               graph->cudnn->get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGURATIONS, &count,
                                 *configurations));
    }
    return haul_min(count, CONFIGURATIONS);
}

haul_cudnn_object haul_cudnn_plan(haul_cudnn_graph *graph, int64_t workspace) {
    const haul_cudnn *cudnn = graph->cudnn;
    haul_cudnn_object configurations[CONFIGURATIONS];
    int64_t count = propose(graph, finish_graph(graph), &configurations);
    for (int64_t i = 0; i < count && fine(graph); i++) {
        haul_cudnn_object plan = NULL;
        if (cudnn->make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) != CUDNN_STATUS_SUCCESS) {
            break;
        }
        set(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &cudnn->handle);
        set_object(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configurations[i]);
        int64_t found = 0, needed = 0;
        if (cudnn->finalize(plan) == CUDNN_STATUS_SUCCESS &&
            cudnn->get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &found,
                       &needed) == CUDNN_STATUS_SUCCESS &&
            needed <= workspace) {
            return plan;
        }
        cudnn->unmake(plan);
    }
    refuse(graph, "no plan within the workspace", CUDNN_STATUS_NOT_SUPPORTED);
    return NULL;
}

bool haul_cudnn_run(const haul_cudnn *cudnn, haul_cudnn_object plan, void *const *data, int count,
                    void *workspace, char *refusal) {
    haul_cudnn_graph graph = {.cudnn = cudnn}; /* of the pack alone */
    int64_t ids[HAUL_CUDNN_TENSORS], given = 0;
    void *pointers[HAUL_CUDNN_TENSORS];
    for (int id = 0; id < count; id++) {
        if (data[id] != NULL) {
            ids[given] = id;
            pointers[given++] = data[id];
        }
    }
    haul_cudnn_object pack = make(&graph, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&graph, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, given, ids);
    set(&graph, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, given, pointers);
    set(&graph, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finalize(&graph, pack, "pack");
    if (fine(&graph)) {
        refuse(&graph, "execution", cudnn->execute(cudnn->handle, plan, pack));
    }
    unmake_all(&graph);
    if (!fine(&graph)) {
        snprintf(refusal, HAUL_CUDNN_REFUSAL, "%s", graph.refusal);
    }
    return fine(&graph);
}

bool haul_cudnn_aligned(void *const *data, int count) {
    uintptr_t bits = 0;
    for (int i = 0; i < count; i++) {
        bits |= (uintptr_t)data[i];
    }
    return bits % 16 == 0;
}
