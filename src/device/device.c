#include "device/device.h"

#include "base/memory.h"
#include "base/parallel.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const haul_backend *const backends[] = {&haul_backend_ref, &haul_backend_cpu};

haul_status haul_device_init(haul_device *device, const char *name, int threads,
                             haul_product_dtype product) {
    *device =
        (haul_device){.threads = threads > 0 ? threads : haul_parallel_cores(), .product = product};
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        if (strcmp(backends[i]->name, name) == 0) {
            device->backend = backends[i];
            haul_status status = device->backend->open(device);
            if (status != HAUL_OK) {
                *device = (haul_device){0};
            }
            return status;
        }
    }
    haul_fail(HAUL_ERROR_UNAVAILABLE, "this build has no device %s", name);
    haul_hint("use --device cpu");
    return HAUL_ERROR_UNAVAILABLE;
}

void haul_device_deinit(haul_device *device) {
    if (device->backend != NULL) {
        device->backend->close(device);
    }
    *device = (haul_device){0};
}

static void record(haul_stream *stream, haul_op op, const haul_op_entry *entry, const void *args) {
    haul_recording *recording = stream->recording;
    haul_cost cost = haul_op_cost(op, args);
    recording->launches[op]++;
    recording->flops[op] += cost.flops;
    recording->bytes[op] += cost.bytes;
    if (entry->workspace != NULL) {
        recording->workspace =
            haul_max(recording->workspace, entry->workspace(stream->device, args));
    }
}

void haul_launch(haul_stream *stream, haul_op op, const void *args) {
    if (stream->status != HAUL_OK) {
        return;
    }
    const haul_op_entry *entry = stream->device->backend->entry(stream->device, op);
    if (entry->launch == NULL) {
        haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE, "the %s backend has no op %s",
                         stream->device->backend->name, haul_op_name(op));
        return;
    }
    if (stream->recording != NULL) {
        record(stream, op, entry, args);
        return;
    }
    if (stream->observe != NULL) {
        stream->observe(stream->observe_context, op, args);
    }
    entry->launch(stream, args);
}

void haul_stream_fail(haul_stream *stream, haul_status status, const char *format, ...) {
    if (stream->status != HAUL_OK) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(stream->message, sizeof stream->message, format, arguments);
    va_end(arguments);
    stream->status = status;
}

haul_status haul_stream_status(const haul_stream *stream) {
    return stream->status == HAUL_OK ? HAUL_OK : haul_fail(stream->status, "%s", stream->message);
}
