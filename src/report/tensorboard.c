#include "report/tensorboard.h"

#include "report/crc32c.h"
#include "report/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Protobuf wire types and the field numbers of tensorflow's event.proto, summary.proto and
 * tensor.proto. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1 };
enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_STRING = 8, DTYPE_STRING = 7 };
enum { SHAPE_DIMENSION = 2, DIMENSION_SIZE = 1 };

static void append_little_endian(haul_string *out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) {
        char byte = (char)(unsigned char)(value >> (8 * i));
        haul_string_append(out, &byte, 1);
    }
}

static void append_varint(haul_string *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
        append_little_endian(out, (value & 0x7f) | 0x80, 1);
    }
    append_little_endian(out, value, 1);
}

static void append_key(haul_string *out, int field, int wire) {
    append_varint(out, (uint64_t)(field << 3 | wire));
}

static void append_integer(haul_string *out, int field, int64_t value) {
    append_key(out, field, VARINT);
    append_varint(out, (uint64_t)value);
}

static void append_double(haul_string *out, int field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    append_key(out, field, FIXED64);
    append_little_endian(out, bits, 8);
}

static void append_float(haul_string *out, int field, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    append_key(out, field, FIXED32);
    append_little_endian(out, bits, 4);
}

static void append_bytes(haul_string *out, int field, const void *data, int64_t bytes) {
    append_key(out, field, BYTES);
    append_varint(out, (uint64_t)bytes);
    haul_string_append(out, data, bytes);
}

/* Appends `message` as a field, and frees it. */
static void append_message(haul_string *out, int field, haul_string *message) {
    append_bytes(out, field, message->data, message->length);
    out->failed = out->failed || message->failed;
    haul_string_deinit(message);
}

/* A checksum of data that may itself hold checksums, as TFRecord masks it. */
static uint32_t masked_crc(const void *data, int64_t bytes) {
    uint32_t crc = haul_crc32c(data, bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Writes one record: length, its checksum, the event, its checksum. Frees the event. */
static haul_status write_event(haul_tensorboard *board, haul_string *event) {
    haul_string record = {0};
    append_little_endian(&record, (uint64_t)event->length, 8);
    append_little_endian(&record, masked_crc(record.data, record.length), 4);
    haul_string_append(&record, event->data, event->length);
    append_little_endian(&record, masked_crc(event->data, event->length), 4);
    record.failed = record.failed || event->failed;
    haul_string_deinit(event);
    haul_status status = haul_string_status(&record);
    if (status == HAUL_OK) {
        status = haul_file_write(&board->file, record.data, record.length);
    }
    haul_string_deinit(&record);
    return status;
}

haul_status haul_tensorboard_create(const char *path, double wall, haul_tensorboard *out) {
    static const char version[] = "brain.Event:2";
    haul_tensorboard board;
    HAUL_TRY(haul_file_create(path, &board.file));
    haul_string event = {0};
    append_double(&event, EVENT_WALL_TIME, wall);
    append_bytes(&event, EVENT_FILE_VERSION, version, sizeof version - 1);
    haul_status status = write_event(&board, &event);
    if (status != HAUL_OK) {
        haul_file_abandon(&board.file);
        return status;
    }
    *out = board;
    return HAUL_OK;
}

haul_status haul_tensorboard_open(const char *directory, double wall, haul_tensorboard *out) {
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    char path[1024];
    int length = snprintf(path, sizeof path, "%s/events.out.tfevents.%010lld.%s.%ld", directory,
                          (long long)wall, host, (long)getpid());
    if (length >= (int)sizeof path) {
        return haul_fail(HAUL_ERROR_CREATE, "the path %s is too long", directory);
    }
    HAUL_TRY(haul_directory_create(directory));
    return haul_tensorboard_create(path, wall, out);
}

void haul_tensorboard_close(haul_tensorboard *board) {
    haul_file_abandon(&board->file);
}

/* Writes the event that carries one summary value, and frees the value. */
static haul_status write_value(haul_tensorboard *board, haul_string *value, int64_t step,
                               double wall) {
    haul_string summary = {0};
    append_message(&summary, SUMMARY_VALUE, value);
    haul_string event = {0};
    append_double(&event, EVENT_WALL_TIME, wall);
    append_integer(&event, EVENT_STEP, step);
    append_message(&event, EVENT_SUMMARY, &summary);
    return write_event(board, &event);
}

haul_status haul_tensorboard_scalar(haul_tensorboard *board, const char *tag, double value,
                                    int64_t step, double wall) {
    haul_string message = {0};
    append_bytes(&message, VALUE_TAG, tag, (int64_t)strlen(tag));
    append_float(&message, VALUE_SIMPLE, (float)value);
    return write_value(board, &message, step, wall);
}

/* A string tensor of shape [1]. */
static void append_text_tensor(haul_string *out, int field, const char *text) {
    haul_string dimension = {0};
    append_integer(&dimension, DIMENSION_SIZE, 1);
    haul_string shape = {0};
    append_message(&shape, SHAPE_DIMENSION, &dimension);
    haul_string valid = {0};
    haul_text_append_utf8(&valid, text, (int64_t)strlen(text));
    haul_string tensor = {0};
    append_integer(&tensor, TENSOR_DTYPE, DTYPE_STRING);
    append_message(&tensor, TENSOR_SHAPE, &shape);
    append_message(&tensor, TENSOR_STRING, &valid);
    append_message(out, field, &tensor);
}

haul_status haul_tensorboard_text(haul_tensorboard *board, const char *tag, const char *text,
                                  int64_t step, double wall) {
    haul_string plugin = {0};
    append_bytes(&plugin, PLUGIN_NAME, "text", 4);
    haul_string metadata = {0};
    append_message(&metadata, METADATA_PLUGIN, &plugin);
    haul_string message = {0};
    append_bytes(&message, VALUE_TAG, tag, (int64_t)strlen(tag));
    append_text_tensor(&message, VALUE_TENSOR, text);
    append_message(&message, VALUE_METADATA, &metadata);
    return write_value(board, &message, step, wall);
}

/* A curve against iterations and, as Megatron-LM has it, once more against samples. */
typedef struct curve {
    const char *tag;
    double value; /* NAN leaves it out */
    bool against_samples;
} curve;

static haul_status write_curves(haul_tensorboard *board, const curve *curves, size_t count,
                                int64_t iteration, int64_t samples, double wall) {
    for (size_t i = 0; i < count; i++) {
        if (isnan(curves[i].value)) {
            continue;
        }
        HAUL_TRY(haul_tensorboard_scalar(board, curves[i].tag, curves[i].value, iteration, wall));
        if (curves[i].against_samples) {
            char tag[64];
            snprintf(tag, sizeof tag, "%s vs samples", curves[i].tag);
            HAUL_TRY(haul_tensorboard_scalar(board, tag, curves[i].value, samples, wall));
        }
    }
    return HAUL_OK;
}

haul_status haul_tensorboard_iteration(haul_tensorboard *board, const haul_iteration *iteration,
                                       double wall) {
    const curve curves[] = {
        {"lm loss", iteration->loss, true},
        {"learning-rate", iteration->learning_rate, true},
        {"batch-size", (double)iteration->global_batch_size, true},
        {"loss-scale", iteration->loss_scale, true},
        {"grad-norm", iteration->grad_norm, true},
        {"iteration-time", iteration->elapsed_ms / 1000, false},
        {"throughput", iteration->throughput, false},
    };
    return write_curves(board, curves, sizeof curves / sizeof curves[0], iteration->iteration,
                        iteration->consumed_samples, wall);
}

haul_status haul_tensorboard_validation(haul_tensorboard *board, double loss, int64_t iteration,
                                        int64_t consumed_samples, double wall) {
    const curve curves[] = {
        {"lm loss validation", loss, true},
        {"lm loss validation ppl", exp(fmin(20, loss)), true},
    };
    return write_curves(board, curves, sizeof curves / sizeof curves[0], iteration,
                        consumed_samples, wall);
}
