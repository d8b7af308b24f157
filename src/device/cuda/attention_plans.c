#include "device/cuda/attention_plans.h"

#include "base/memory.h"
#include "device/cuda/attention_cudnn.h"

#include <stdio.h>
#include <stdlib.h>

/* A graph made ready for one shape; `plan` is NULL when cuDNN refused that shape. */
typedef struct entry {
    haul_cuda_attention_describe *describe;
    haul_attention_shape shape;
    haul_cudnn_object plan;
} entry;

enum { ENTRIES = 32 }; /* of a run; a run with more shapes runs the others by our own kernels */

struct haul_cuda_attention_plans {
    haul_cudnn cudnn;
    entry entries[ENTRIES];
    int count;
    char refusal[HAUL_CUDNN_REFUSAL];
};

bool haul_cuda_attention_suits(const haul_attention_shape *shape, haul_dtype dtype) {
    const int64_t shortest = 512; /* below, a launch costs more than the kernel */
    return dtype == HAUL_BF16 && shape->dropout.probability <= 0.0 &&
           shape->queries == shape->keys && shape->query_offset == 0 &&
           shape->queries >= shortest && shape->head_size % 8 == 0 && shape->head_size <= 128 &&
           shape->query_stride % 8 == 0 && shape->key_stride % 8 == 0;
}

/* The device's plans, made at the first call; NULL without memory. */
static haul_cuda_attention_plans *plans_of(haul_cuda_device *cuda) {
    if (cuda->attention == NULL) {
        haul_cuda_attention_plans *plans = haul_calloc(1, sizeof *plans);
        if (plans != NULL && !haul_cudnn_open(&plans->cudnn, cuda->stream, plans->refusal)) {
            haul_cudnn_close(&plans->cudnn);
        }
        cuda->attention = plans;
    }
    return cuda->attention;
}

static void keep_refusal(haul_cuda_attention_plans *plans, const char *refusal) {
    if (plans->refusal[0] == 0) {
        snprintf(plans->refusal, sizeof plans->refusal, "%s", refusal);
    }
}

static bool same_shape(const haul_attention_shape *a, const haul_attention_shape *b) {
    return a->batch == b->batch && a->queries == b->queries && a->keys == b->keys &&
           a->key_capacity == b->key_capacity && a->heads == b->heads && a->groups == b->groups &&
           a->head_size == b->head_size && a->query_stride == b->query_stride &&
           a->key_stride == b->key_stride;
}

static haul_cudnn_object make_plan(haul_cuda_attention_plans *plans,
                                   haul_cuda_attention_describe *describe,
                                   const haul_attention_shape *shape, int64_t workspace) {
    haul_cudnn_graph *graph = haul_cudnn_begin(&plans->cudnn);
    if (graph == NULL) {
        return NULL;
    }
    describe(graph, shape);
    haul_cudnn_object plan = haul_cudnn_plan(graph, workspace);
    if (plan == NULL) {
        keep_refusal(plans, graph->refusal);
    }
    haul_cudnn_end(graph);
    return plan;
}

haul_cudnn_object haul_cuda_attention_plan(haul_cuda_device *cuda,
                                           haul_cuda_attention_describe *describe,
                                           const haul_attention_shape *shape, int64_t workspace) {
    haul_cuda_attention_plans *plans = plans_of(cuda);
    if (plans == NULL || plans->cudnn.handle == NULL) {
        return NULL;
    }
    for (int i = 0; i < plans->count; i++) {
        const entry *made = &plans->entries[i];
        if (made->describe == describe && same_shape(&made->shape, shape)) {
            return made->plan;
        }
    }
    if (plans->count == ENTRIES) {
        return NULL;
    }
    haul_cudnn_object plan = make_plan(plans, describe, shape, workspace);
    plans->entries[plans->count++] = (entry){describe, *shape, plan};
    return plan;
}

bool haul_cuda_attention_run(haul_cuda_device *cuda, haul_cudnn_object plan, void *const *data,
                             int count, void *workspace) {
    char refusal[HAUL_CUDNN_REFUSAL] = "";
    haul_cuda_attention_plans *plans = cuda->attention;
    bool runs = haul_cudnn_run(&plans->cudnn, plan, data, count, workspace, refusal);
    if (!runs) {
        keep_refusal(plans, refusal);
    }
    return runs;
}

const char *haul_cuda_attention_refusal(const haul_cuda_device *cuda) {
    return cuda->attention == NULL ? "" : cuda->attention->refusal;
}

void haul_cuda_attention_close(haul_cuda_attention_plans *plans) {
    if (plans == NULL) {
        return;
    }
    for (int i = 0; i < plans->count; i++) {
        if (plans->entries[i].plan != NULL) {
            plans->cudnn.unmake(plans->entries[i].plan);
        }
    }
    haul_cudnn_close(&plans->cudnn);
    free(plans);
}
