/* A backend is a table of ops; a device is a backend made ready for one rank; a stream is where
 * that rank launches work, in order. */
#ifndef HAUL_DEVICE_DEVICE_H
#define HAUL_DEVICE_DEVICE_H

#include "base/status.h"
#include "device/op.h"

typedef struct haul_device haul_device;
typedef struct haul_stream haul_stream;

typedef struct haul_op_entry {
    /* Starts the op; its errors go to the stream (haul_stream_fail). */
    void (*launch)(haul_stream *stream, const void *args);
    /* Bytes of scratch that the launch will find at stream->scratch; NULL: none. */
    int64_t (*workspace)(haul_device *device, const void *args);
} haul_op_entry;

typedef struct haul_backend {
    const char *name;
    haul_status (*open)(haul_device *device);
    void (*close)(haul_device *device);
    /* Whether it can run; false: it only plans. NULL: always. */
    bool (*ready)(const haul_device *device);
    /* Zeroed memory, aligned to 64 bytes at least. */
    haul_status (*allocate)(haul_device *device, int64_t bytes, void **out);
    void (*release)(haul_device *device, void *memory, int64_t bytes);
    /* What `allocate` could give now; 0: unknown. NULL: the host's. */
    int64_t (*available_bytes)(const haul_device *device);
    /* NULL, all four, for a backend whose memory is the host's: see haul_device_allocate_host,
     * haul_stream_copy, haul_stream_wait. */
    haul_status (*allocate_host)(haul_device *device, int64_t bytes, void **out);
    void (*release_host)(haul_device *device, void *memory);
    void (*copy)(haul_stream *stream, void *to, const void *from, int64_t bytes);
    void (*wait)(haul_stream *stream);
    /* Bytes of the packed form that `args` describes; 0: this backend does not want one. */
    int64_t (*packed_bytes)(haul_device *device, const haul_pack_args *args);
    /* The entry of an op; launch is NULL when the backend lacks it. */
    const haul_op_entry *(*entry)(const haul_device *device, haul_op op);
    /* One line that tells ISA, libraries and their versions, into `text`. */
    void (*describe)(const haul_device *device, char *text, int64_t capacity);
} haul_backend;

/* How the CPU multiplies bf16 matrices; results differ in their bits. */
typedef enum haul_product_dtype {
    HAUL_PRODUCT_AUTO, /* by a short measurement when the device opens */
    HAUL_PRODUCT_BF16,
    HAUL_PRODUCT_F32
} haul_product_dtype;

struct haul_device {
    const haul_backend *backend;
    int threads;
    haul_product_dtype product; /* never AUTO once open */
    void *state;                /* the backend's own */
};

/* What a stream that only plans has counted. */
typedef struct haul_recording {
    int64_t launches[HAUL_OPS];
    int64_t flops[HAUL_OPS];
    int64_t bytes[HAUL_OPS];
    int64_t workspace; /* the largest of one launch */
} haul_recording;

struct haul_stream {
    haul_device *device;
    haul_status status; /* of the first launch that failed; later launches do nothing */
    char message[256];
    void *scratch; /* workspace of the op being launched */
    int64_t scratch_bytes;
    haul_recording *recording; /* not NULL: the stream is `meta`: it counts and runs nothing */
    /* Optional: sees each launch just before it starts (tracing, poisoning, counting). */
    void (*observe)(void *context, haul_op op, const void *args);
    void *observe_context;
};

/* "ref", "cpu", "cuda" (a plugin; without a card it plans), or "auto": cuda where it can run, else
 * cpu. HAUL_ERROR_UNAVAILABLE for a name that this build lacks. threads 0: all cores. Fills the
 * caller's struct; deinit is legal on a zeroed one. */
haul_status haul_device_init(haul_device *device, const char *backend, int threads,
                             haul_product_dtype product);
void haul_device_deinit(haul_device *device);

/* Whether the host may read and write what `allocate` gives. */
static inline bool haul_device_in_host_memory(const haul_device *device) {
    return device->backend->copy == NULL;
}

/* Memory that the device could give now; 0: unknown. */
int64_t haul_device_available_bytes(const haul_device *device);

/* Host memory, zeroed, from which copies to the device and back do not wait. */
haul_status haul_device_allocate_host(haul_device *device, int64_t bytes, void **out);
void haul_device_release_host(haul_device *device, void *memory);

/* Copies between host and device, either way, in the order of the launches. The host's side must
 * stay as it is until haul_stream_wait; from haul_device_allocate_host copies do not hold up the
 * caller. */
void haul_stream_copy(haul_stream *stream, void *to, const void *from, int64_t bytes);

/* Returns when all that was launched is done; the stream then knows of every failure. */
haul_status haul_stream_wait(haul_stream *stream);

/* Starts an op. Does nothing on a stream that has failed. */
void haul_launch(haul_stream *stream, haul_op op, const void *args);

/* Records the first failure of a stream. */
void haul_stream_fail(haul_stream *stream, haul_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The stream's failure as this thread's message; HAUL_OK when there was none. */
haul_status haul_stream_status(const haul_stream *stream);

/* The backends that are part of the main program. */
extern const haul_backend haul_backend_ref;
extern const haul_backend haul_backend_cpu;

#endif
