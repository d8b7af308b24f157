#include "device/device.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/process.h"
#include "device/plugin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const haul_backend *const backends[] = {&haul_backend_ref, &haul_backend_cpu};

static haul_status find_backend(const char *name, const haul_backend **out) {
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        if (strcmp(backends[i]->name, name) == 0) {
            *out = backends[i];
            return HAUL_OK;
        }
    }
    return haul_plugin_load(name, out);
}

static haul_status open_backend(haul_device *device, const char *name) {
    HAUL_TRY(find_backend(name, &device->backend));
    haul_status status = device->backend->open(device);
    if (status != HAUL_OK) {
        *device = (haul_device){0};
    }
    return status;
}

static bool is_ready(const haul_device *device) {
    return device->backend->ready == NULL || device->backend->ready(device);
}

haul_status haul_device_init(haul_device *device, const char *name, int threads,
                             haul_product_dtype product) {
    const haul_device closed = {.threads = threads > 0 ? threads : haul_parallel_cores(),
                                .product = product};
    *device = closed;
    if (strcmp(name, "auto") != 0) {
        return open_backend(device, name);
    }
    if (open_backend(device, "cuda") == HAUL_OK) {
        if (is_ready(device)) {
            return HAUL_OK;
        }
        haul_device_deinit(device);
    }
    *device = closed;
    return open_backend(device, "cpu");
}

void haul_device_deinit(haul_device *device) {
    if (device->backend != NULL) {
        device->backend->close(device);
    }
    *device = (haul_device){0};
}

int64_t haul_device_available_bytes(const haul_device *device) {
    return device->backend->available_bytes != NULL ? device->backend->available_bytes(device)
                                                    : haul_process_available_bytes();
}

int64_t haul_device_used_bytes(const haul_device *device) {
    return device->backend->used_bytes != NULL ? device->backend->used_bytes(device)
                                               : haul_process_resident_bytes();
}

haul_status haul_device_allocate_host(haul_device *device, int64_t bytes, void **out) {
    if (!haul_device_in_host_memory(device)) {
        return device->backend->allocate_host(device, bytes, out);
    }
    *out = haul_calloc(bytes, 1);
    return *out != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
}

void haul_device_release_host(haul_device *device, void *memory) {
    if (haul_device_in_host_memory(device)) {
        free(memory);
    } else if (memory != NULL) {
        device->backend->release_host(device, memory);
    }
}

void haul_stream_copy(haul_stream *stream, void *to, const void *from, int64_t bytes) {
    if (stream->status != HAUL_OK || bytes == 0) {
        return;
    }
    if (haul_device_in_host_memory(stream->device)) {
        memcpy(to, from, (size_t)bytes);
    } else {
        stream->device->backend->copy(stream, to, from, bytes);
    }
}

haul_status haul_stream_wait(haul_stream *stream) {
    if (!haul_device_in_host_memory(stream->device)) {
        stream->device->backend->wait(stream);
    }
    return haul_stream_status(stream);
}

void haul_stream_mark(haul_stream *stream, int place) {
    if (stream->device->backend->mark != NULL) {
        stream->device->backend->mark(stream, place);
    }
}

haul_status haul_stream_wait_mark(haul_stream *stream, int place) {
    if (stream->device->backend->wait_mark != NULL) {
        stream->device->backend->wait_mark(stream, place);
    }
    return haul_stream_status(stream);
}

void haul_stream_stamp(haul_stream *stream, haul_stamp *stamp) {
    if (stream->device->backend->stamp != NULL) {
        stream->device->backend->stamp(stream, &stamp->event);
    } else {
        stamp->seconds = haul_clock_seconds();
    }
}

double haul_stream_elapsed(haul_stream *stream, const haul_stamp *from, const haul_stamp *to) {
    return stream->device->backend->elapsed != NULL
               ? stream->device->backend->elapsed(stream, from->event, to->event)
               : to->seconds - from->seconds;
}

void haul_stamp_deinit(const haul_device *device, haul_stamp *stamp) {
    if (stamp->event != NULL) {
        device->backend->release_event(stamp->event);
    }
    *stamp = (haul_stamp){0};
}

haul_condition haul_device_condition(const haul_device *device) {
    const haul_condition unknown = {.clock_hertz = (double)NAN, .power_watts = (double)NAN};
    return device->backend->condition != NULL ? device->backend->condition(device) : unknown;
}

static void add_saturating(int64_t *sum, int64_t more) {
    *sum = more <= INT64_MAX - *sum ? *sum + more : INT64_MAX;
}

static void record(haul_stream *stream, haul_op op, const haul_op_entry *entry, const void *args) {
    haul_recording *recording = stream->recording;
    haul_cost cost = haul_op_cost(op, args);
    recording->launches[op]++;
    add_saturating(&recording->flops[op], cost.flops);
    add_saturating(&recording->bytes[op], cost.bytes);
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
    if (stream->observe != NULL) {
        stream->observe(stream->observe_context, op, args);
    }
    if (stream->recording != NULL) {
        record(stream, op, entry, args);
        return;
    }
    entry->launch(stream, args);
    if (stream->observe_end != NULL) {
        stream->observe_end(stream->observe_context, op);
    }
}
