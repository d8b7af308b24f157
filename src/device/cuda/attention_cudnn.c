/* The forward of attention as a graph of cuDNN's backend API: product, scale, causal mask, softmax
 * and product, which cuDNN recognises as a whole and runs as one kernel. */
#include "device/cuda/attention_cudnn.h"

#include "base/memory.h"

#include <cudnn.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef cudnnBackendDescriptor_t descriptor;

/* The functions of the library that are used. */
typedef struct library {
    void *handle;
    cudnnStatus_t (*create)(cudnnHandle_t *handle);
    cudnnStatus_t (*destroy)(cudnnHandle_t handle);
    cudnnStatus_t (*set_stream)(cudnnHandle_t handle, cudaStream_t stream);
    void (*last_error)(char *message, size_t capacity);
    cudnnStatus_t (*make)(cudnnBackendDescriptorType_t type, descriptor *out);
    cudnnStatus_t (*unmake)(descriptor object);
    cudnnStatus_t (*finalize)(descriptor object);
    cudnnStatus_t (*set)(descriptor object, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t count, const void *elements);
    cudnnStatus_t (*get)(descriptor object, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t capacity, int64_t *count,
                         void *elements);
    cudnnStatus_t (*execute)(cudnnHandle_t handle, descriptor plan, descriptor pack);
} library;

/* A graph made ready for one shape; `plan` is NULL when cuDNN refused that shape. */
typedef struct plan {
    haul_attention_shape shape;
    descriptor plan;
    int64_t workspace;
} plan;

enum { PLANS = 16 }; /* shapes of a run; a run with more runs the others by our own kernels */

struct haul_cuda_attention_plans {
    library cudnn;
    cudnnHandle_t handle;
    plan plans[PLANS];
    int count;
    char refusal[256];
};

/* Tensors of the graph. The first ones are in memory, or scalars by value. */
enum {
    QUERY,
    KEY,
    VALUE,
    OUT,
    LOG_SUM_EXP,
    SCALE,
    MINUS_INFINITY,
    IN_MEMORY, /* how many */
    SCORE = IN_MEMORY,
    SCALED,
    ROW,
    COLUMN,
    VISIBLE,
    MASKED,
    MAXIMUM,
    DIFFERENCE,
    POWER,
    SUM,
    LOGARITHM,
    PROBABILITY,
    TENSORS
};

enum { DESCRIPTORS = 80, OPERATIONS = 16, CONFIGURATIONS = 8 };

/* Makes descriptors; after a failure it only remembers what failed first. */
typedef struct builder {
    const library *cudnn;
    descriptor made[DESCRIPTORS];
    int made_count;
    descriptor tensors[TENSORS];
    descriptor operations[OPERATIONS];
    int64_t operation_count;
    char *refusal; /* of 256 bytes; "" so far */
} builder;

static void refuse(builder *build, const char *what, cudnnStatus_t status) {
    char message[192] = "";
    if (status == CUDNN_STATUS_SUCCESS || build->refusal[0] != 0) {
        return;
    }
    build->cudnn->last_error(message, sizeof message);
    snprintf(build->refusal, 256, "%s: status %d, %s", what, (int)status, message);
}

static bool fine(const builder *build) {
    return build->refusal[0] == 0;
}

static descriptor make(builder *build, cudnnBackendDescriptorType_t type) {
    descriptor object = NULL;
    if (fine(build) && build->made_count < DESCRIPTORS) {
        refuse(build, "descriptor", build->cudnn->make(type, &object));
        build->made[build->made_count] = object;
        build->made_count += object != NULL;
    }
    return object;
}

static void set(builder *build, descriptor object, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *elements) {
    if (fine(build)) {
        refuse(build, "attribute", build->cudnn->set(object, name, type, count, elements));
    }
}

static void set_descriptor(builder *build, descriptor object, cudnnBackendAttributeName_t name,
                           descriptor value) {
    set(build, object, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(builder *build, descriptor object, const char *what) {
    if (fine(build)) {
        refuse(build, what, build->cudnn->finalize(object));
    }
}

static void unmake_all(builder *build) {
    while (build->made_count > 0) {
        build->cudnn->unmake(build->made[--build->made_count]);
    }
}

/* A tensor [d0, d1, d2, d3] of any strides. */
typedef struct layout {
    cudnnDataType_t dtype;
    int64_t size[4];
    int64_t stride[4];
} layout;

static void add_tensor(builder *build, int64_t id, const layout *as) {
    const int64_t alignment = id < SCALE ? 16 : 4;
    bool by_value = id == SCALE || id == MINUS_INFINITY, is_virtual = id >= IN_MEMORY;
    descriptor tensor = make(build, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(build, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(build, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &as->dtype);
    set(build, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, as->size);
    set(build, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, as->stride);
    set(build, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(build, tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    set(build, tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    finalize(build, tensor, "tensor");
    build->tensors[id] = tensor;
}

static void add_tensors(builder *build, const haul_attention_shape *shape) {
    int64_t b = shape->batch, n = shape->heads, g = shape->groups, d = shape->head_size;
    int64_t queries = shape->queries, keys = shape->keys;
    int64_t query_stride = shape->query_stride, key_stride = shape->key_stride;
    int64_t key_sample = shape->key_capacity * key_stride;
    const cudnnDataType_t narrow = CUDNN_DATA_BFLOAT16, wide = CUDNN_DATA_FLOAT;
    const layout scalar = {wide, {1, 1, 1, 1}, {1, 1, 1, 1}};
    const layout row = {wide, {b, n, queries, 1}, {n * queries, queries, 1, 1}};
    layout square = {wide, {b, n, queries, keys}, {n * queries * keys, queries * keys, keys, 1}};
    layout query = {narrow, {b, n, queries, d}, {queries * query_stride, d, query_stride, 1}};
    layout key = {narrow, {b, g, d, keys}, {key_sample, d, 1, key_stride}};
    layout value = {narrow, {b, g, keys, d}, {key_sample, d, key_stride, 1}};
    layout out = {narrow, {b, n, queries, d}, {queries * n * d, d, n * d, 1}};
    layout index = square, visible = square, probability = square;
    index.dtype = CUDNN_DATA_INT32;
    visible.dtype = CUDNN_DATA_BOOLEAN;
    probability.dtype = narrow;
    const layout *layouts[TENSORS] = {
        [QUERY] = &query,
        [KEY] = &key,
        [VALUE] = &value,
        [OUT] = &out,
        [LOG_SUM_EXP] = &row,
        [SCALE] = &scalar,
        [SCORE] = &square,
        [SCALED] = &square,
        [MINUS_INFINITY] = &scalar,
        [ROW] = &index,
        [COLUMN] = &index,
        [VISIBLE] = &visible,
        [MASKED] = &square,
        [MAXIMUM] = &row,
        [DIFFERENCE] = &square,
        [POWER] = &square,
        [SUM] = &row,
        [LOGARITHM] = &row,
        [PROBABILITY] = &probability,
    };
    for (int id = 0; id < TENSORS; id++) {
        add_tensor(build, id, layouts[id]);
    }
}

static void add_operation(builder *build, descriptor operation, const char *what) {
    finalize(build, operation, what);
    build->operations[build->operation_count++] = operation;
}

static void add_product(builder *build, int a, int b, int c) {
    const cudnnDataType_t wide = CUDNN_DATA_FLOAT;
    descriptor kind = make(build, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(build, kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &wide);
    finalize(build, kind, "product");
    descriptor operation = make(build, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(build, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
    set_descriptor(build, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, build->tensors[a]);
    set_descriptor(build, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, build->tensors[b]);
    set_descriptor(build, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, build->tensors[c]);
    add_operation(build, operation, "product");
}

static void add_reduction(builder *build, cudnnReduceTensorOp_t how, int x, int y) {
    const cudnnDataType_t wide = CUDNN_DATA_FLOAT;
    descriptor kind = make(build, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(build, kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &wide);
    set(build, kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    finalize(build, kind, "reduction");
    descriptor operation = make(build, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(build, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
    set_descriptor(build, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, build->tensors[x]);
    set_descriptor(build, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, build->tensors[y]);
    add_operation(build, operation, "reduction");
}

/* y = mode(x, b, t); b and t are absent when negative. `axis` is of GEN_INDEX. */
typedef struct pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t dtype; /* of the calculation */
    int x, b, t, y;
    int64_t axis;
} pointwise;

static void add_pointwise(builder *build, const pointwise *what) {
    descriptor kind = make(build, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(build, kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &what->mode);
    set(build, kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &what->dtype);
    if (what->mode == CUDNN_POINTWISE_GEN_INDEX) {
        set(build, kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &what->axis);
    }
    finalize(build, kind, "pointwise");
    descriptor operation = make(build, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(build, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    set_descriptor(build, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, build->tensors[what->x]);
    if (what->b >= 0) {
        set_descriptor(build, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                       build->tensors[what->b]);
    }
    if (what->t >= 0) {
        set_descriptor(build, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
                       build->tensors[what->t]);
    }
    set_descriptor(build, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, build->tensors[what->y]);
    add_operation(build, operation, "pointwise");
}

/* The order and form of these operations is what cuDNN recognises. */
static void add_operations(builder *build) {
    static const pointwise masked[] = {
        {CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, SCORE, SCALE, -1, SCALED, 0},
        {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, SCALED, -1, -1, ROW, 2},
        {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, SCALED, -1, -1, COLUMN, 3},
        {CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, ROW, COLUMN, -1, VISIBLE, 0},
        {CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, SCALED, MINUS_INFINITY, VISIBLE, MASKED,
         0},
    };
    static const pointwise powers[] = {
        {CUDNN_POINTWISE_SUB, CUDNN_DATA_FLOAT, MASKED, MAXIMUM, -1, DIFFERENCE, 0},
        {CUDNN_POINTWISE_EXP, CUDNN_DATA_FLOAT, DIFFERENCE, -1, -1, POWER, 0},
    };
    static const pointwise normalised[] = {
        {CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, SUM, -1, -1, LOGARITHM, 0},
        {CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, MAXIMUM, LOGARITHM, -1, LOG_SUM_EXP, 0},
        {CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, POWER, SUM, -1, PROBABILITY, 0},
    };
    add_product(build, QUERY, KEY, SCORE);
    for (size_t i = 0; i < sizeof masked / sizeof masked[0]; i++) {
        add_pointwise(build, &masked[i]);
    }
    add_reduction(build, CUDNN_REDUCE_TENSOR_MAX, MASKED, MAXIMUM);
    for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++) {
        add_pointwise(build, &powers[i]);
    }
    add_reduction(build, CUDNN_REDUCE_TENSOR_ADD, POWER, SUM);
    for (size_t i = 0; i < sizeof normalised / sizeof normalised[0]; i++) {
        add_pointwise(build, &normalised[i]);
    }
    add_product(build, PROBABILITY, VALUE, OUT);
}

/* The first configuration that cuDNN proposes and that becomes a plan within the workspace. */
static descriptor choose_plan(builder *build, cudnnHandle_t handle, descriptor graph,
                              int64_t *workspace) {
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    descriptor heuristic = make(build, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_descriptor(build, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(build, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(build, heuristic, "heuristic");
    descriptor configurations[CONFIGURATIONS];
    for (int i = 0; i < CONFIGURATIONS; i++) {
        configurations[i] = make(build, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    int64_t count = 0, found = 0;
    if (fine(build)) {
        refuse(build, "configurations",
               build->cudnn->get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGURATIONS, &count,
                                 configurations));
    }
    for (int64_t i = 0; i < haul_min(count, CONFIGURATIONS) && fine(build); i++) {
        descriptor chosen = NULL;
        if (build->cudnn->make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &chosen) != 0) {
            break;
        }
        set(build, chosen, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
        set_descriptor(build, chosen, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configurations[i]);
        if (build->cudnn->finalize(chosen) == CUDNN_STATUS_SUCCESS &&
            build->cudnn->get(chosen, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                              &found, workspace) == CUDNN_STATUS_SUCCESS &&
            *workspace <= HAUL_CUDA_ATTENTION_WORKSPACE) {
            return chosen;
        }
        build->cudnn->unmake(chosen);
    }
    refuse(build, "no plan within the workspace", CUDNN_STATUS_NOT_SUPPORTED);
    return NULL;
}

static descriptor build_plan(haul_cuda_attention_plans *plans, const haul_attention_shape *shape,
                             int64_t *workspace) {
    char refusal[256] = "";
    builder *build = haul_calloc(1, sizeof *build);
    if (build == NULL) {
        return NULL;
    }
    build->cudnn = &plans->cudnn;
    build->refusal = refusal;
    add_tensors(build, shape);
    add_operations(build);
    descriptor graph = make(build, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(build, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &plans->handle);
    set(build, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        build->operation_count, build->operations);
    finalize(build, graph, "graph");
    descriptor chosen = choose_plan(build, plans->handle, graph, workspace);
    if (chosen == NULL && plans->refusal[0] == 0) {
        snprintf(plans->refusal, sizeof plans->refusal, "%s", refusal);
    }
    unmake_all(build);
    free(build);
    return chosen;
}

/* Object and function pointers have the same size wherever there is dlsym. */
static bool find(void *handle, const char *name, void *function) {
    void *symbol = dlsym(handle, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load_library(library *cudnn) {
    cudnn->handle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    void *handle = cudnn->handle;
    return handle != NULL && find(handle, "cudnnCreate", &cudnn->create) &&
           find(handle, "cudnnDestroy", &cudnn->destroy) &&
           find(handle, "cudnnSetStream", &cudnn->set_stream) &&
           find(handle, "cudnnGetLastErrorString", &cudnn->last_error) &&
           find(handle, "cudnnBackendCreateDescriptor", &cudnn->make) &&
           find(handle, "cudnnBackendDestroyDescriptor", &cudnn->unmake) &&
           find(handle, "cudnnBackendFinalize", &cudnn->finalize) &&
           find(handle, "cudnnBackendSetAttribute", &cudnn->set) &&
           find(handle, "cudnnBackendGetAttribute", &cudnn->get) &&
           find(handle, "cudnnBackendExecute", &cudnn->execute);
}

/* The device's plans, made at the first call; NULL without memory. */
static haul_cuda_attention_plans *plans_of(haul_cuda_device *cuda) {
    if (cuda->attention != NULL) {
        return cuda->attention;
    }
    haul_cuda_attention_plans *plans = haul_calloc(1, sizeof *plans);
    if (plans == NULL) {
        return NULL;
    }
    cuda->attention = plans;
    if (!load_library(&plans->cudnn)) {
        const char *message = dlerror();
        snprintf(plans->refusal, sizeof plans->refusal, "%s",
                 message == NULL ? "libcudnn.so.9 lacks a function" : message);
    } else if (plans->cudnn.create(&plans->handle) != CUDNN_STATUS_SUCCESS ||
               plans->cudnn.set_stream(plans->handle, cuda->stream) != CUDNN_STATUS_SUCCESS) {
        plans->cudnn.last_error(plans->refusal, sizeof plans->refusal);
    }
    return plans;
}

static bool same_shape(const haul_attention_shape *a, const haul_attention_shape *b) {
    return a->batch == b->batch && a->queries == b->queries && a->keys == b->keys &&
           a->key_capacity == b->key_capacity && a->heads == b->heads && a->groups == b->groups &&
           a->head_size == b->head_size && a->query_stride == b->query_stride &&
           a->key_stride == b->key_stride;
}

/* NULL when cuDNN cannot, or the table is full. */
static const plan *plan_of(haul_cuda_attention_plans *plans, const haul_attention_shape *shape) {
    if (plans == NULL || plans->handle == NULL) {
        return NULL;
    }
    for (int i = 0; i < plans->count; i++) {
        if (same_shape(&plans->plans[i].shape, shape)) {
            return &plans->plans[i];
        }
    }
    if (plans->count == PLANS) {
        return NULL;
    }
    plan *made = &plans->plans[plans->count++];
    made->shape = *shape;
    made->plan = build_plan(plans, shape, &made->workspace);
    return made;
}

bool haul_cuda_attention_suits(const haul_attention_args *args) {
    const haul_attention_shape *shape = &args->shape;
    const int64_t shortest = 512; /* below, a launch costs more than the kernel */
    return args->query.dtype == HAUL_BF16 && shape->dropout.probability <= 0.0 &&
           shape->queries == shape->keys && shape->query_offset == 0 &&
           shape->queries >= shortest && shape->head_size % 8 == 0 && shape->head_size <= 128 &&
           shape->query_stride % 8 == 0 && shape->key_stride % 8 == 0;
}

static bool aligned(const haul_attention_args *args) {
    uintptr_t bits = (uintptr_t)args->query.data | (uintptr_t)args->key.data |
                     (uintptr_t)args->value.data | (uintptr_t)args->out.data;
    return bits % 16 == 0;
}

bool haul_cuda_attention_cudnn(haul_stream *stream, const haul_attention_args *args) {
    haul_cuda_attention_plans *plans = plans_of(haul_cuda_device_of(stream->device));
    const plan *ready = aligned(args) ? plan_of(plans, &args->shape) : NULL;
    if (ready == NULL || ready->plan == NULL) {
        return false;
    }
    float scale = (float)args->shape.scale, minus_infinity = -INFINITY;
    const int64_t ids[IN_MEMORY] = {QUERY, KEY, VALUE, OUT, LOG_SUM_EXP, SCALE, MINUS_INFINITY};
    void *const data[IN_MEMORY] = {args->query.data, args->key.data,         args->value.data,
                                   args->out.data,   args->log_sum_exp.data, &scale,
                                   &minus_infinity};
    char refusal[256] = "";
    builder build = {.cudnn = &plans->cudnn, .refusal = refusal};
    descriptor pack = make(&build, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&build, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, IN_MEMORY, ids);
    set(&build, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, IN_MEMORY, data);
    set(&build, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &stream->scratch);
    finalize(&build, pack, "pack");
    if (fine(&build)) {
        refuse(&build, "execution", plans->cudnn.execute(plans->handle, ready->plan, pack));
    }
    unmake_all(&build);
    if (!fine(&build) && plans->refusal[0] == 0) {
        snprintf(plans->refusal, sizeof plans->refusal, "%s", refusal);
    }
    return fine(&build);
}

const char *haul_cuda_attention_refusal(const haul_cuda_device *cuda) {
    return cuda->attention == NULL ? "" : cuda->attention->refusal;
}

void haul_cuda_attention_close(haul_cuda_attention_plans *plans) {
    if (plans == NULL) {
        return;
    }
    for (int i = 0; i < plans->count; i++) {
        if (plans->plans[i].plan != NULL) {
            plans->cudnn.unmake(plans->plans[i].plan);
        }
    }
    if (plans->handle != NULL) {
        plans->cudnn.destroy(plans->handle);
    }
    if (plans->cudnn.handle != NULL) {
        dlclose(plans->cudnn.handle);
    }
    free(plans);
}
