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

static haul_checkpoint_tensor tensor_of(const char *name, const haul_tensor *view) {
    haul_checkpoint_tensor tensor = {
        .name = name, .dtype = view->dtype, .ndim = view->ndim, .data = view->data};
    memcpy(tensor.shape, view->shape, sizeof tensor.shape);
    return tensor;
}

haul_status haul_state_list_init(const haul_store *store, haul_state_list *out) {
    int64_t most = store->chunk->buffer_count * HAUL_BUFFER_VIEWS * FORMS;
    haul_state_list list = {.tensors = haul_calloc(most, sizeof *list.tensors),
                            .names = haul_calloc(most, NAME_BYTES)};
    if (list.tensors == NULL || list.names == NULL) {
        haul_state_list_deinit(&list);
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t b = 0; b < store->chunk->buffer_count; b++) {
        const haul_buffer_plan *plan = &store->chunk->buffers[b];
        form forms[FORMS];
        forms_of(&store->buffers[b], forms);
        for (int f = 0; f < FORMS; f++) {
            for (int v = 0; v < plan->view_count && haul_tensor_present(forms[f].tensor); v++) {
                char *name = list.names + list.count * NAME_BYTES;
                haul_tensor view = haul_store_view(store, b, v, forms[f].tensor);
                snprintf(name, NAME_BYTES, "%s%s", forms[f].prefix, plan->views[v].name);
                list.tensors[list.count++] = tensor_of(name, &view);
            }
        }
    }
    *out = list;
    return HAUL_OK;
}

void haul_state_list_deinit(haul_state_list *list) {
    free(list->tensors);
    free(list->names);
    *list = (haul_state_list){0};
}

haul_status haul_state_load(haul_store *store, haul_checkpoint *checkpoint) {
    haul_state_list list;
    HAUL_TRY(haul_state_list_init(store, &list));
    haul_status status = HAUL_OK;
    for (int64_t i = 0; i < list.count && status == HAUL_OK; i++) {
        status = haul_checkpoint_read(checkpoint, &list.tensors[i]);
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
    char single[1100], sharded[1100];
    snprintf(single, sizeof single, "%s/model.safetensors", directory);
    snprintf(sharded, sizeof sharded, "%s/model.safetensors.index.json", directory);
    return haul_file_exists(single) || haul_file_exists(sharded);
}

static haul_status import_view(haul_store *store, const haul_config *config,
                               const haul_huggingface *model, int64_t b, int v) {
    const haul_buffer_plan *plan = &store->chunk->buffers[b];
    haul_store_buffer *buffer = &store->buffers[b];
    haul_tensor view = haul_store_view(store, b, v, &buffer->value);
    int64_t first =
        ((char *)view.data - (char *)buffer->value.data) / haul_dtype_size(buffer->value.dtype);
    haul_tensor part = part_in_file(config, plan, &view);
    int64_t count = haul_tensor_count(&part);
    part.dtype = HAUL_F64;
    part.data = haul_calloc(count, sizeof(double));
    if (part.data == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_checkpoint_tensor target = tensor_of(plan->views[v].name, &part);
    haul_status status = haul_huggingface_read(model, plan->transposed, &target);
    for (int64_t i = 0; i < haul_tensor_count(&view) && status == HAUL_OK; i++) {
        haul_store_set(buffer, first + i, i < count ? ((double *)part.data)[i] : 0);
    }
    free(part.data);
    return status;
}

haul_status haul_state_import(haul_store *store, const haul_config *config, const char *directory) {
    haul_huggingface *model;
    HAUL_TRY(haul_huggingface_open(directory, &model));
    haul_status status = HAUL_OK;
    for (int64_t b = 0; b < store->chunk->buffer_count; b++) {
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

/* A view as its file wants it: a matrix of GPT-2 is written from a transposed copy, which *copy
 * then owns. */
static haul_status export_view(const haul_store *store, const haul_config *config, int64_t b, int v,
                               haul_checkpoint_tensor *out, void **copy) {
    const haul_buffer_plan *plan = &store->chunk->buffers[b];
    haul_tensor view = haul_store_view(store, b, v, &store->buffers[b].value);
    view = part_in_file(config, plan, &view);
    *copy = NULL;
    if (plan->transposed && view.ndim == 2) {
        *copy = haul_calloc(haul_tensor_bytes(&view), 1);
        if (*copy == NULL) {
            return HAUL_ERROR_MEMORY;
        }
        transpose(view.data, *copy, view.shape[0], view.shape[1], haul_dtype_size(view.dtype));
        view = haul_tensor_2d(*copy, view.dtype, view.shape[1], view.shape[0]);
    }
    *out = tensor_of(plan->views[v].name, &view);
    return HAUL_OK;
}

haul_status haul_state_export(const haul_store *store, const haul_config *config,
                              const char *directory) {
    int64_t most = store->chunk->buffer_count * HAUL_BUFFER_VIEWS, count = 0;
    haul_checkpoint_tensor *tensors = haul_calloc(most, sizeof *tensors);
    void **copies = haul_calloc(most, sizeof *copies);
    haul_string json = {0};
    haul_status status = tensors != NULL && copies != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
    for (int64_t b = 0; b < store->chunk->buffer_count; b++) {
        for (int v = 0; v < store->chunk->buffers[b].view_count && status == HAUL_OK; v++) {
            status = export_view(store, config, b, v, &tensors[count], &copies[count]);
            count++;
        }
    }
    if (status == HAUL_OK) {
        status = haul_config_to_huggingface(config, &json);
    }
    if (status == HAUL_OK) {
        status = haul_huggingface_write(directory, tensors, count, 0, json.data);
    }
    for (int64_t i = 0; i < count && copies != NULL; i++) {
        free(copies[i]);
    }
    haul_string_deinit(&json);
    free(copies);
    free(tensors);
    return status;
}
