#include "base/memory.h"
#include "checkpoint/safetensors.h"

#include <string.h>

enum { LENGTH_BYTES = 8, DATA_ALIGNMENT = 64 };

static void append_metadata(haul_string *header, const haul_safetensors_pair *metadata,
                            int64_t pairs) {
    haul_string_append_text(header, "\"__metadata__\":{");
    for (int64_t i = 0; i < pairs; i++) {
        haul_string_append_text(header, i > 0 ? "," : "");
        haul_string_append_json(header, metadata[i].key);
        haul_string_append_text(header, ":");
        haul_string_append_json(header, metadata[i].value);
    }
    haul_string_append_text(header, "}");
}

static haul_status append_tensor(haul_string *header, const haul_checkpoint_tensor *tensor,
                                 int64_t *offset) {
    int64_t size = haul_dtype_size(tensor->dtype), bytes = 0, end = 0;
    if (!haul_shape_bytes(tensor->ndim, tensor->shape, size, &bytes) ||
        !haul_size_add(*offset, bytes, &end)) {
        return haul_fail(HAUL_ERROR_INTERNAL, "the size of tensor %s overflows", tensor->name);
    }
    if (*offset % size != 0) {
        return haul_fail(HAUL_ERROR_INTERNAL, "tensor %s comes after one of a smaller dtype",
                         tensor->name);
    }
    haul_string_append_json(header, tensor->name);
    haul_string_append_format(header, ":{\"dtype\":\"%s\",\"shape\":[",
                              haul_dtype_safetensors_name(tensor->dtype));
    for (int i = 0; i < tensor->ndim; i++) {
        haul_string_append_format(header, "%s%lld", i > 0 ? "," : "", (long long)tensor->shape[i]);
    }
    haul_string_append_format(header, "],\"data_offsets\":[%lld,%lld]}", (long long)*offset,
                              (long long)end);
    *offset = end;
    return HAUL_OK;
}

/* The length field and the header, padded with spaces as the format allows. */
static haul_status build_header(const haul_checkpoint_tensor *tensors, int64_t count,
                                const haul_safetensors_pair *metadata, int64_t pairs,
                                haul_string *header, int64_t *data_bytes) {
    unsigned char length[LENGTH_BYTES] = {0};
    haul_string_append(header, length, LENGTH_BYTES);
    haul_string_append_text(header, "{");
    if (pairs > 0) {
        append_metadata(header, metadata, pairs);
    }
    *data_bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        haul_string_append_text(header, i > 0 || pairs > 0 ? "," : "");
        HAUL_TRY(append_tensor(header, &tensors[i], data_bytes));
    }
    haul_string_append_text(header, "}");
    while (!header->failed && header->length % DATA_ALIGNMENT != 0) {
        haul_string_append_text(header, " ");
    }
    HAUL_TRY(haul_string_status(header));
    for (int i = 0; i < LENGTH_BYTES; i++) {
        length[i] = (unsigned char)((header->length - LENGTH_BYTES) >> (8 * i));
    }
    memcpy(header->data, length, LENGTH_BYTES);
    return HAUL_OK;
}

static haul_status write_hashed(haul_safetensors_writer *writer, const void *data, int64_t bytes) {
    haul_hasher_update(writer->hasher, data, bytes);
    return haul_file_write(&writer->file, data, bytes);
}

haul_status haul_safetensors_create(const char *path, const haul_checkpoint_tensor *tensors,
                                    int64_t count, const haul_safetensors_pair *metadata,
                                    int64_t pairs, haul_safetensors_writer *out) {
    haul_safetensors_writer writer = {.file = {.descriptor = -1}};
    haul_string header = {0};
    haul_status status = build_header(tensors, count, metadata, pairs, &header, &writer.data_bytes);
    if (status == HAUL_OK) {
        writer.hasher = haul_hasher_create();
        status = writer.hasher != NULL ? haul_file_create(path, &writer.file) : HAUL_ERROR_MEMORY;
    }
    if (status == HAUL_OK) {
        status = write_hashed(&writer, header.data, header.length);
    }
    haul_string_deinit(&header);
    if (status != HAUL_OK) {
        haul_safetensors_abandon(&writer);
        return status;
    }
    *out = writer;
    return HAUL_OK;
}

haul_status haul_safetensors_write(haul_safetensors_writer *writer, const void *data,
                                   int64_t bytes) {
    if (bytes > writer->data_bytes) {
        return haul_fail(HAUL_ERROR_INTERNAL, "%s: more data than declared", writer->file.path);
    }
    writer->data_bytes -= bytes;
    return write_hashed(writer, data, bytes);
}

haul_status haul_safetensors_finish(haul_safetensors_writer *writer, haul_hash128 *hash) {
    if (writer->data_bytes != 0) {
        return haul_fail(HAUL_ERROR_INTERNAL, "%s: %lld bytes of data are missing",
                         writer->file.path, (long long)writer->data_bytes);
    }
    HAUL_TRY(haul_file_finish(&writer->file));
    *hash = haul_hasher_digest(writer->hasher);
    return HAUL_OK;
}

void haul_safetensors_abandon(haul_safetensors_writer *writer) {
    haul_file_abandon(&writer->file);
    haul_hasher_destroy(writer->hasher);
    writer->hasher = NULL;
}
