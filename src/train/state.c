#include "train/state.h"

#include "base/file.h"
#include "base/memory.h"
#include "config/huggingface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = HAUL_NAME_BYTES + 32 };

typedef struct form {
    const char *prefix;
    const haul_tensor *tensor;
} form;

enum { FORMS = 4 };

static void forms_of(const haul_store_buffer *buffer, form forms[FORMS]) {
    bool adam = haul_tensor_present(&buffer->moments[1]);
    forms[0] = (form){"", &buffer->value};
    forms[1] = (form){"optimizer.low.", &buffer->low};
    forms[2] = (form){adam ? "optimizer.exp_avg." : "optimizer.momentum.", &buffer->moments[0]};
    forms[3] = (form){"optimizer.exp_avg_sq.", &buffer->moments[1]};
}

static haul_checkpoint_tensor tensor_of(const char *name, const haul_tensor *view,
                                        const haul_checkpoint_memory *memory) {
    haul_checkpoint_tensor tensor = {.name = name,
                                     .dtype = view->dtype,
                                     .ndim = view->ndim,
                                     .data = view->data,
                                     .memory = memory};
    memcpy(tensor.shape, view->shape, sizeof tensor.shape);
    return tensor;
}

static haul_status copy_bytes(void *context, void *to, const void *from, int64_t bytes) {
    haul_stream_copy(context, to, from, bytes);
    return haul_stream_wait(context);
}

static haul_status reach_memory(haul_state_list *list, haul_device *device) {
    if (haul_device_in_host_memory(device)) {
        return HAUL_OK;
    }
    list->stream = haul_calloc(1, sizeof *list->stream);
    list->memory = haul_calloc(1, sizeof *list->memory);
    if (list->stream == NULL || list->memory == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    list->stream->device = device;
    *list->memory = (haul_checkpoint_memory){.copy = copy_bytes, .context = list->stream};
    return HAUL_OK;
}

static void list_views(haul_state_list *list, const haul_store *store, int64_t b,
                       const form *from) {
    const haul_buffer_plan *plan = &store->chunk->buffers[b];
    for (int v = 0; v < plan->view_count && haul_tensor_present(from->tensor); v++) {
        char *name = list->names + list->count * NAME_BYTES;
        haul_tensor view = haul_store_view(store, b, v, from->tensor);
        snprintf(name, NAME_BYTES, "%s%s", from->prefix, plan->views[v].name);
        list->tensors[list->count++] = tensor_of(name, &view, list->memory);
    }
}

haul_status haul_state_list_init(const haul_store *store, haul_state_list *out) {
    int64_t most = store->chunk->buffer_count * HAUL_BUFFER_VIEWS * FORMS;
    haul_state_list list = {.tensors = haul_calloc(most, sizeof *list.tensors),
                            .names = haul_calloc(most, NAME_BYTES)};
    haul_status status = list.tensors != NULL && list.names != NULL
                             ? reach_memory(&list, store->device)
                             : HAUL_ERROR_MEMORY;
    if (status != HAUL_OK) {
        haul_state_list_deinit(&list);
        return status;
    }
    for (int64_t b = 0; b < store->chunk->buffer_count; b++) {
        form forms[FORMS];
        forms_of(&store->buffers[b], forms);
        for (int f = 0; f < FORMS; f++) {
            list_views(&list, store, b, &forms[f]);
        }
    }
    *out = list;
    return HAUL_OK;
}

void haul_state_list_deinit(haul_state_list *list) {
    free(list->tensors);
    free(list->names);
    free(list->memory);
    free(list->stream);
    *list = (haul_state_list){0};
}

/* Whether a checkpoint has a tensor in another dtype than is wanted. */
static bool differs(const haul_checkpoint *checkpoint, const haul_checkpoint_tensor *target) {
    const haul_checkpoint_tensor *stored = haul_checkpoint_get(checkpoint, target->name);
    return stored != NULL && stored->dtype != target->dtype;
}

/* Reads into `plain`, as it is stored, and writes the target from `converted`. */
static haul_status convert(haul_checkpoint *checkpoint, const haul_checkpoint_tensor *target,
                           haul_checkpoint_tensor plain, void *converted) {
    int64_t count, bytes;
    haul_shape_bytes(target->ndim, target->shape, 1, &count);
    haul_shape_bytes(target->ndim, target->shape, haul_dtype_size(target->dtype), &bytes);
    HAUL_TRY(haul_checkpoint_read(checkpoint, &plain));
    for (int64_t i = 0; i < count; i++) {
        haul_element_set(converted, target->dtype, i, haul_element_get(plain.data, plain.dtype, i));
    }
    if (target->memory != NULL) {
        return target->memory->copy(target->memory->context, target->data, converted, bytes);
    }
    memcpy(target->data, converted, (size_t)bytes);
    return HAUL_OK;
}

haul_status haul_state_read(haul_checkpoint *checkpoint, const haul_checkpoint_tensor *target) {
    if (!differs(checkpoint, target)) {
        return haul_checkpoint_read(checkpoint, target);
    }
    haul_checkpoint_tensor plain = *target;
    int64_t count;
    haul_shape_bytes(target->ndim, target->shape, 1, &count);
    plain.dtype = haul_checkpoint_get(checkpoint, target->name)->dtype;
    plain.data = haul_calloc(count, (size_t)haul_dtype_size(plain.dtype));
    plain.memory = NULL;
    void *converted = haul_calloc(count, (size_t)haul_dtype_size(target->dtype));
    haul_status status = HAUL_ERROR_MEMORY;
    if (plain.data != NULL && converted != NULL) {
        status = convert(checkpoint, target, plain, converted);
    }
    free(plain.data);
    free(converted);
    return status;
}

static bool is_moment(const haul_checkpoint_tensor *tensor) {
    static const char prefix[] = "optimizer.exp_avg"; /* and optimizer.exp_avg_sq */
    return strncmp(tensor->name, prefix, sizeof prefix - 1) == 0;
}

bool haul_state_converts(const haul_store *store, const haul_checkpoint *checkpoint) {
    haul_state_list list;
    bool converts = false;
    if (haul_state_list_init(store, &list) == HAUL_OK) {
        for (int64_t i = 0; i < list.count && !converts; i++) {
            converts = is_moment(&list.tensors[i]) && differs(checkpoint, &list.tensors[i]);
        }
        haul_state_list_deinit(&list);
    }
    return converts;
}

haul_status haul_state_load(haul_store *store, haul_checkpoint *checkpoint) {
    haul_state_list list;
    HAUL_TRY(haul_state_list_init(store, &list));
    haul_status status = HAUL_OK;
    for (int64_t i = 0; i < list.count && status == HAUL_OK; i++) {
        const haul_checkpoint_tensor *tensor = &list.tensors[i];
        status = is_moment(tensor) ? haul_state_read(checkpoint, tensor)
                                   : haul_checkpoint_read(checkpoint, tensor);
    }
    haul_state_list_deinit(&list);
    return status;
}

/* Hugging Face files hold the matrices of a vocabulary without the rows of padding. */
static haul_tensor part_in_file(const haul_config *config, const haul_buffer_plan *plan,
                                const haul_tensor *view) {
    return plan->vocabulary ? haul_tensor_slice(view, 0, config->vocab_size) : *view;
}

bool haul_state_is_hugging_face(const char *directory) {
    return haul_config_is_huggingface(directory);
}

static haul_status import_view(haul_store *store, const haul_config *config,
                               const haul_huggingface *model, int64_t b, int v) {
    const haul_buffer_plan *plan = &store->chunk->buffers[b];
    const haul_tensor *value = &store->buffers[b].value;
    haul_tensor view = haul_store_view(store, b, v, value);
    int64_t first = ((char *)view.data - (char *)value->data) / haul_dtype_size(value->dtype);
    int64_t count = haul_tensor_count(&view); /* with rows of padding, which stay 0 */
    haul_tensor part = part_in_file(config, plan, &view);
    part.dtype = HAUL_F64;
    part.data = haul_calloc(count, sizeof(double));
    if (part.data == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_checkpoint_tensor target = tensor_of(plan->views[v].name, &part, NULL);
    haul_status status = haul_huggingface_read(model, plan->transposed, &target);
    if (status == HAUL_OK) {
        status = haul_store_write(store, b, first, count, part.data);
    }
    free(part.data);
    return status;
}

/* One more than the number in a name as "model.layers.11.mlp.up_proj.weight"; 0 without one. */
static int64_t layers_up_to(const char *name) {
    for (const char *part = strchr(name, '.'); part != NULL; part = strchr(part + 1, '.')) {
        char *end;
        if (part[1] >= '0' && part[1] <= '9') {
            long long number = strtoll(part + 1, &end, 10);
            if (*end == '.' && number < INT32_MAX) {
                return number + 1;
            }
        }
    }
    return 0;
}

/* Layers that the settings lack would be left behind without a word. */
static haul_status check_layers(const haul_huggingface *model, const haul_config *config,
                                const char *directory) {
    int64_t layers = 0;
    for (int64_t i = 0; i < haul_huggingface_count(model); i++) {
        layers = haul_max(layers, layers_up_to(haul_huggingface_at(model, i)->name));
    }
    if (layers <= config->num_layers) {
        return HAUL_OK;
    }
    haul_fail(HAUL_ERROR_CONFIG, "%s holds a model of %lld layers; the settings ask for %lld",
              directory, (long long)layers, (long long)config->num_layers);
    haul_hint("leave out --num-layers: the model's config.json tells");
    return HAUL_ERROR_CONFIG;
}

haul_status haul_state_import(haul_store *store, const haul_config *config, const char *directory) {
    haul_huggingface *model;
    HAUL_TRY(haul_huggingface_open(directory, &model));
    haul_status status = check_layers(model, config, directory);
    for (int64_t b = 0; b < store->chunk->buffer_count && status == HAUL_OK; b++) {
        for (int v = 0; v < store->chunk->buffers[b].view_count && status == HAUL_OK; v++) {
            status = import_view(store, config, model, b, v);
        }
    }
    haul_huggingface_close(model);
    return status;
}

static void transpose(const char *from, char *to, int64_t rows, int64_t columns, int64_t size) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            memcpy(to + (c * rows + r) * size, from + (r * columns + c) * size, (size_t)size);
        }
    }
}

/* Turns *view, which may lie on the device, into a transposed copy that *copy owns. */
static haul_status transpose_view(haul_device *device, haul_tensor *view, void **copy) {
    int64_t bytes = haul_tensor_bytes(view);
    haul_stream stream = {.device = device};
    void *plain = haul_calloc(bytes, 1);
    *copy = haul_calloc(bytes, 1);
    haul_status status = HAUL_ERROR_MEMORY;
    if (plain != NULL && *copy != NULL) {
        haul_stream_copy(&stream, plain, view->data, bytes);
        status = haul_stream_wait(&stream);
    }
    if (status == HAUL_OK) {
        transpose(plain, *copy, view->shape[0], view->shape[1], haul_dtype_size(view->dtype));
        *view = haul_tensor_2d(*copy, view->dtype, view->shape[1], view->shape[0]);
    }
    free(plain);
    return status;
}

/* What a file of weights is written from. */
typedef struct export_list {
    haul_state_list memory; /* empty but for the way to the device's memory */
    haul_checkpoint_tensor *tensors;
    void **copies; /* of matrices that GPT-2 has transposed */
    int64_t count;
} export_list;

static haul_status export_view(const haul_store *store, const haul_config *config, int64_t b, int v,
                               export_list *list) {
    const haul_buffer_plan *plan = &store->chunk->buffers[b];
    haul_tensor view = haul_store_view(store, b, v, &store->buffers[b].value);
    const haul_checkpoint_memory *memory = list->memory.memory;
    view = part_in_file(config, plan, &view);
    if (plan->transposed && view.ndim == 2) {
        HAUL_TRY(transpose_view(store->device, &view, &list->copies[list->count]));
        memory = NULL;
    }
    list->tensors[list->count++] = tensor_of(plan->views[v].name, &view, memory);
    return HAUL_OK;
}

static haul_status list_exports(const haul_store *store, const haul_config *config,
                                export_list *list) {
    int64_t most = store->chunk->buffer_count * HAUL_BUFFER_VIEWS;
    list->tensors = haul_calloc(most, sizeof *list->tensors);
    list->copies = haul_calloc(most, sizeof *list->copies);
    if (list->tensors == NULL || list->copies == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    HAUL_TRY(reach_memory(&list->memory, store->device));
    for (int64_t b = 0; b < store->chunk->buffer_count; b++) {
        for (int v = 0; v < store->chunk->buffers[b].view_count; v++) {
            HAUL_TRY(export_view(store, config, b, v, list));
        }
    }
    return HAUL_OK;
}

haul_status haul_state_export(const haul_store *store, const haul_config *config,
                              const char *directory) {
    export_list list = {0};
    haul_string json = {0};
    haul_status status = list_exports(store, config, &list);
    if (status == HAUL_OK) {
        status = haul_config_to_huggingface(config, &json);
    }
    if (status == HAUL_OK) {
        status = haul_huggingface_write(directory, list.tensors, list.count, 0, json.data);
    }
    int64_t most = store->chunk->buffer_count * HAUL_BUFFER_VIEWS;
    for (int64_t i = 0; i < most && list.copies != NULL; i++) {
        free(list.copies[i]);
    }
    haul_string_deinit(&json);
    haul_state_list_deinit(&list.memory);
    free(list.copies);
    free(list.tensors);
    return status;
}
