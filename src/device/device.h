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

/* How a backend that has several ways to compute an op finds the fastest, by measurement. What was
 * measured before on such a device is read from a file and kept in it. */
typedef struct haul_tuner {
    haul_status (*load)(haul_device *device, const char *path);
    /* Measures a launch, unless that is done; its tensors lack data. *measured: it was done now. */
    haul_status (*tune)(haul_device *device, haul_op op, const void *args, bool *measured);
    haul_status (*save)(haul_device *device, const char *path);
} haul_tuner;

/* How a device is doing now; NAN: unknown. */
typedef struct haul_condition {
    double clock_hertz; /* of what computes */
    double power_watts;
} haul_condition;

/* What a device, or a library on its way there, did. */
typedef enum haul_activity_kind {
    HAUL_ACTIVITY_KERNEL,
    HAUL_ACTIVITY_COPY,
    HAUL_ACTIVITY_FILL,
    HAUL_ACTIVITY_RUNTIME_CALL, /* by the host, as cudaLaunchKernel */
    HAUL_ACTIVITY_DRIVER_CALL   /* by the host, as cuLaunchKernelEx */
} haul_activity_kind;

typedef struct haul_activity {
    haul_activity_kind kind;
    const char *name;    /* lives until the device closes */
    int64_t begin, end;  /* haul_clock_wall_nanoseconds */
    int64_t correlation; /* a call and what it started on the device have the same */
    int64_t launch;      /* the number that begin_launch got; 0: none */
    int64_t stream;      /* of a call: the thread of the system */
    int64_t device, context;
    int64_t bytes; /* of copies and fills */
    int32_t grid[3], block[3];
    int32_t registers; /* of a thread */
    int32_t shared_bytes;
} haul_activity;

static inline bool haul_activity_is_call(const haul_activity *activity) {
    return activity->kind == HAUL_ACTIVITY_RUNTIME_CALL ||
           activity->kind == HAUL_ACTIVITY_DRIVER_CALL;
}

typedef void haul_activity_function(void *context, const haul_activity *activity);

/* A property of the device in the words of Kineto's deviceProperties, or the version of a library:
 * a text, or a number where `text` is NULL. */
typedef struct haul_device_fact {
    const char *name;
    const char *text;
    int64_t number;
    bool is_version;
} haul_device_fact;

/* How a backend tells what its device did, activity by activity. One recording at a time. */
typedef struct haul_profiler {
    /* Loads what the others need, before a training rather than in its middle; start does it too.
     * HAUL_ERROR_UNAVAILABLE says in one line what is missing. */
    haul_status (*load)(haul_device *device);
    haul_status (*start)(haul_device *device);
    /* All that this thread starts in between belongs to launch `number`, from 1. */
    void (*begin_launch)(haul_device *device, int64_t number);
    void (*end_launch)(haul_device *device);
    /* Waits for the device, ends the recording and shows all of it, in no order. *lost: activities
     * that found no room. `see` NULL only ends it. */
    haul_status (*stop)(haul_device *device, haul_activity_function *see, void *context,
                        int64_t *lost);
    /* Fact i; false when there are no more. */
    bool (*fact)(haul_device *device, int i, haul_device_fact *out);
    /* Tells a profiler that watches this process from outside to record from here on, or to stop.
     */
    void (*capture)(haul_device *device, bool on);
} haul_profiler;

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
    /* What all programs take of the device's memory now; 0: unknown. NULL: the memory is the
     * host's. */
    int64_t (*used_bytes)(const haul_device *device);
    /* What a run takes of it beside tensors: the name and bytes of part i; false when there are no
     * more. NULL: none. */
    bool (*reserved)(const haul_device *device, int i, const char **name, int64_t *bytes);
    /* NULL, all six, for a backend whose memory is the host's: see haul_device_allocate_host,
     * haul_stream_copy, haul_stream_wait, haul_stream_mark. */
    haul_status (*allocate_host)(haul_device *device, int64_t bytes, void **out);
    void (*release_host)(haul_device *device, void *memory);
    void (*copy)(haul_stream *stream, void *to, const void *from, int64_t bytes);
    void (*wait)(haul_stream *stream);
    void (*mark)(haul_stream *stream, int place);
    void (*wait_mark)(haul_stream *stream, int place);
    /* See haul_stamp; NULL, all three, where a launch is done when it returns. */
    void (*stamp)(haul_stream *stream, void **event);
    double (*elapsed)(haul_stream *stream, void *from, void *to);
    void (*release_event)(void *event);
    /* NULL: unknown. May be called from any thread, while the device computes. */
    haul_condition (*condition)(const haul_device *device);
    /* Bytes of the packed form that `args` describes; 0: this backend does not want one. */
    int64_t (*packed_bytes)(haul_device *device, const haul_pack_args *args);
    /* The entry of an op; launch is NULL when the backend lacks it. */
    const haul_op_entry *(*entry)(const haul_device *device, haul_op op);
    const haul_tuner *tuner;       /* NULL: it knows without */
    const haul_profiler *profiler; /* NULL: a launch is all that it does */
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
    /* Optional: called when the launch was started. */
    void (*observe_end)(void *context, haul_op op);
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

/* Memory that is taken now: the whole device's where it has its own, else this process's; 0:
 * unknown. */
int64_t haul_device_used_bytes(const haul_device *device);

/* Host memory, zeroed, from which copies to the device and back do not wait. */
haul_status haul_device_allocate_host(haul_device *device, int64_t bytes, void **out);
void haul_device_release_host(haul_device *device, void *memory);

/* Copies between host and device, either way, or within the device, in the order of the launches.
 * The host's side must stay as it is until haul_stream_wait; from haul_device_allocate_host copies
 * do not hold up the caller. */
void haul_stream_copy(haul_stream *stream, void *to, const void *from, int64_t bytes);

/* Returns when all that was launched is done; the stream then knows of every failure. */
haul_status haul_stream_wait(haul_stream *stream);

/* Marks how far the launches have come, at a place of HAUL_STREAM_MARKS, and returns when all that
 * came before that mark is done. */
enum { HAUL_STREAM_MARKS = 2 };
void haul_stream_mark(haul_stream *stream, int place);
haul_status haul_stream_wait_mark(haul_stream *stream, int place);

/* The moment when all that a stream was given so far is done. Zeroed at first; a stamp can be set
 * again. `elapsed`: seconds from one to another, both reached: after haul_stream_wait. */
typedef struct haul_stamp {
    double seconds; /* of the host's clock, where a launch is done when it returns */
    void *event;    /* of the backend, else */
} haul_stamp;

void haul_stream_stamp(haul_stream *stream, haul_stamp *stamp);
double haul_stream_elapsed(haul_stream *stream, const haul_stamp *from, const haul_stamp *to);
void haul_stamp_deinit(const haul_device *device, haul_stamp *stamp);

/* How the device is doing now. */
haul_condition haul_device_condition(const haul_device *device);

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
