#include "checkpoint/safetensors.h"

#include "base/memory.h"
#include "checkpoint/path.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, HEADER_LIMIT = 100000000 };

struct haul_safetensors {
    char path[HAUL_PATH_BYTES];
    haul_file_map map;
    json_t *header; /* owns the names and the metadata */
    const json_t *metadata;
    const char *data;
    int64_t data_bytes;
    haul_safetensors_entry *entries;
    int64_t count;
    const haul_safetensors_entry **by_name;
};

/* What the format knows beyond the types that haul computes with. */
static const struct {
    const char *name;
    int64_t size;
} other_dtypes[] = {{"BOOL", 1}, {"U32", 4}, {"U64", 8}, {"F8_E8M0", 1}, {"C64", 8}};

static bool find_dtype(const char *name, haul_dtype *dtype, int64_t *size) {
    if (haul_dtype_from_safetensors(name, dtype)) {
        *size = haul_dtype_size(*dtype);
        return true;
    }
    for (size_t i = 0; i < sizeof other_dtypes / sizeof other_dtypes[0]; i++) {
        if (strcmp(other_dtypes[i].name, name) == 0) {
            *dtype = HAUL_DTYPES;
            *size = other_dtypes[i].size;
            return true;
        }
    }
    return false;
}

/* A plain integer that is not negative: no 1e3, no 1.0. */
static bool read_size(const json_t *value, int64_t *out) {
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0;
}

static haul_status read_shape(const haul_safetensors *file, const json_t *shape,
                              haul_safetensors_entry *entry) {
    if (!json_is_array(shape) || json_array_size(shape) > HAUL_SAFETENSORS_DIMENSIONS) {
        return haul_fail(HAUL_ERROR_DATA,
                         "%s: the shape of tensor %s must be a list of at most %d sizes",
                         file->path, entry->name, HAUL_SAFETENSORS_DIMENSIONS);
    }
    entry->ndim = (int)json_array_size(shape);
    for (int i = 0; i < entry->ndim; i++) {
        if (!read_size(json_array_get(shape, (size_t)i), &entry->shape[i])) {
            return haul_fail(HAUL_ERROR_DATA,
                             "%s: size %d of tensor %s must be an integer of at least 0",
                             file->path, i, entry->name);
        }
    }
    return HAUL_OK;
}

static haul_status read_entry(const haul_safetensors *file, const char *name, const json_t *info,
                              haul_safetensors_entry *entry) {
    if (!haul_text_is_printable(name)) {
        return haul_fail(HAUL_ERROR_DATA, "%s: a tensor name holds control characters", file->path);
    }
    entry->name = name;
    const char *dtype = json_string_value(json_object_get(info, "dtype"));
    int64_t element_bytes = 0;
    if (dtype == NULL || !find_dtype(dtype, &entry->dtype, &element_bytes)) {
        return haul_fail(HAUL_ERROR_DATA, "%s: tensor %s has the unknown dtype %s", file->path,
                         name, haul_text_for_message(dtype));
    }
    HAUL_TRY(read_shape(file, json_object_get(info, "shape"), entry));
    int64_t expected = 0;
    if (!haul_shape_bytes(entry->ndim, entry->shape, element_bytes, &expected)) {
        return haul_fail(HAUL_ERROR_DATA, "%s: the size of tensor %s overflows", file->path, name);
    }
    const json_t *offsets = json_object_get(info, "data_offsets");
    int64_t begin = 0, end = 0;
    if (json_array_size(offsets) != 2 || !read_size(json_array_get(offsets, 0), &begin) ||
        !read_size(json_array_get(offsets, 1), &end) || begin > end || end > file->data_bytes) {
        return haul_fail(HAUL_ERROR_DATA,
                         "%s: the data_offsets of tensor %s must be two ascending offsets within "
                         "the %lld bytes of data",
                         file->path, name, (long long)file->data_bytes);
    }
    if (end - begin != expected) {
        return haul_fail(HAUL_ERROR_DATA,
                         "%s: tensor %s has %lld bytes of data, must be %lld by its shape",
                         file->path, name, (long long)(end - begin), (long long)expected);
    }
    entry->bytes = expected;
    entry->data = file->data + begin;
    return HAUL_OK;
}

static haul_status check_metadata(const haul_safetensors *file) {
    bool good = json_is_object(file->metadata);
    void *at = json_object_iter((json_t *)(uintptr_t)file->metadata);
    while (good && at != NULL) {
        good = json_is_string(json_object_iter_value(at));
        at = json_object_iter_next((json_t *)(uintptr_t)file->metadata, at);
    }
    if (!good) {
        return haul_fail(HAUL_ERROR_DATA, "%s: __metadata__ must map strings to strings",
                         file->path);
    }
    return HAUL_OK;
}

static haul_status read_entries(haul_safetensors *file) {
    file->entries = haul_calloc((int64_t)json_object_size(file->header), sizeof *file->entries);
    if (file->entries == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    const char *name;
    json_t *info;
    json_object_foreach(file->header, name, info) {
        if (strcmp(name, "__metadata__") == 0) {
            file->metadata = info;
            HAUL_TRY(check_metadata(file));
        } else {
            HAUL_TRY(read_entry(file, name, info, &file->entries[file->count]));
            file->count++;
        }
    }
    return HAUL_OK;
}

/* In the order of the data; empty tensors come before the one that starts where they lie. */
static int compare_place(const void *a, const void *b) {
    const haul_safetensors_entry *left = a, *right = b;
    if (left->data != right->data) {
        return left->data < right->data ? -1 : 1;
    }
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

static haul_status check_layout(haul_safetensors *file) {
    qsort(file->entries, (size_t)file->count, sizeof *file->entries, compare_place);
    const char *end = file->data;
    for (int64_t i = 0; i < file->count; i++) {
        const haul_safetensors_entry *entry = &file->entries[i];
        if (entry->data != end) {
            return haul_fail(HAUL_ERROR_DATA, "%s: tensor %s starts at %lld, must be %lld: %s",
                             file->path, entry->name, (long long)(entry->data - file->data),
                             (long long)(end - file->data),
                             entry->data < end ? "tensors overlap" : "there is a hole");
        }
        end += entry->bytes;
    }
    if (end != file->data + file->data_bytes) {
        return haul_fail(HAUL_ERROR_DATA, "%s has %lld bytes of data, must be %lld by its header",
                         file->path, (long long)file->data_bytes, (long long)(end - file->data));
    }
    return HAUL_OK;
}

static int compare_names(const void *a, const void *b) {
    const haul_safetensors_entry *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static haul_status index_names(haul_safetensors *file) {
    file->by_name = haul_calloc(file->count, sizeof *file->by_name);
    if (file->by_name == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < file->count; i++) {
        file->by_name[i] = &file->entries[i];
    }
    qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, compare_names);
    return HAUL_OK;
}

static haul_status parse_header(haul_safetensors *file) {
    const unsigned char *bytes = file->map.data;
    if (file->map.bytes < LENGTH_BYTES) {
        return haul_fail(HAUL_ERROR_DATA, "%s is %lld bytes, too short for a safetensors file",
                         file->path, (long long)file->map.bytes);
    }
    uint64_t length = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) {
        length = length << 8 | bytes[i];
    }
    int64_t limit = haul_min(file->map.bytes - LENGTH_BYTES, HEADER_LIMIT);
    const char *text = (const char *)bytes + LENGTH_BYTES;
    if (length == 0 || length > (uint64_t)limit || text[0] != '{') {
        return haul_fail(HAUL_ERROR_DATA,
                         "%s is not a safetensors file: its header of %llu bytes must be a JSON "
                         "object of at most %lld",
                         file->path, (unsigned long long)length, (long long)limit);
    }
    json_error_t error;
    file->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (file->header == NULL) {
        return haul_fail(HAUL_ERROR_DATA, "%s: the header is not valid JSON: %s at byte %d",
                         file->path, haul_text_for_message(error.text), error.position);
    }
    file->data = text + length;
    file->data_bytes = file->map.bytes - LENGTH_BYTES - (int64_t)length;
    return HAUL_OK;
}

haul_status haul_safetensors_open(const char *path, haul_safetensors **out) {
    haul_safetensors *file = haul_calloc(1, sizeof *file);
    if (file == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_text_copy(file->path, sizeof file->path, path);
    static haul_status (*const steps[])(haul_safetensors *) = {parse_header, read_entries,
                                                               check_layout, index_names};
    haul_status status = haul_file_map_open(path, &file->map);
    for (size_t i = 0; status == HAUL_OK && i < sizeof steps / sizeof steps[0]; i++) {
        status = steps[i](file);
    }
    if (status != HAUL_OK) {
        haul_safetensors_close(file);
        return status;
    }
    *out = file;
    return HAUL_OK;
}

void haul_safetensors_close(haul_safetensors *file) {
    if (file != NULL) {
        json_decref(file->header);
        haul_file_map_close(&file->map);
        free(file->entries);
        free(file->by_name);
        free(file);
    }
}

int64_t haul_safetensors_count(const haul_safetensors *file) {
    return file->count;
}

const haul_safetensors_entry *haul_safetensors_at(const haul_safetensors *file, int64_t index) {
    return &file->entries[index];
}

static int compare_key(const void *key, const void *element) {
    const haul_safetensors_entry *const *entry = element;
    return strcmp(key, (*entry)->name);
}

const haul_safetensors_entry *haul_safetensors_find(const haul_safetensors *file,
                                                    const char *name) {
    const haul_safetensors_entry **found =
        bsearch(name, file->by_name, (size_t)file->count, sizeof *file->by_name, compare_key);
    return found != NULL ? *found : NULL;
}

const char *haul_safetensors_metadata(const haul_safetensors *file, const char *key) {
    return json_string_value(json_object_get(file->metadata, key));
}
