/* Writes a trace of one rank as Chrome's JSON in the form of PyTorch's profiler (Kineto), gzip:
 * what Perfetto, chrome://tracing and HolisticTraceAnalysis open.
 *
 * Times are nanoseconds since 1970-01-01 UTC. In the file they are microseconds with three decimals
 * behind the header's `base`, so that readers who keep them as doubles lose nothing. A reader that
 * draws nested events wants those of a thread sorted by begin, the longer of two first. */
#ifndef HAUL_TRACE_WRITER_H
#define HAUL_TRACE_WRITER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct haul_trace_writer haul_trace_writer;

typedef enum haul_trace_type {
    HAUL_TRACE_INTEGER,
    HAUL_TRACE_REAL,
    HAUL_TRACE_TEXT,
    HAUL_TRACE_TRIPLE /* as of a grid of blocks */
} haul_trace_type;

/* A named value, of an event or of the header. */
typedef struct haul_trace_field {
    const char *name;
    haul_trace_type type;
    int64_t integers[3];
    double real;
    const char *text;
} haul_trace_field;

static inline haul_trace_field haul_trace_integer(const char *name, int64_t value) {
    return (haul_trace_field){.name = name, .integers = {value}};
}

static inline haul_trace_field haul_trace_real(const char *name, double value) {
    return (haul_trace_field){.name = name, .type = HAUL_TRACE_REAL, .real = value};
}

static inline haul_trace_field haul_trace_text(const char *name, const char *value) {
    return (haul_trace_field){.name = name, .type = HAUL_TRACE_TEXT, .text = value};
}

static inline haul_trace_field haul_trace_triple(const char *name, const int32_t value[3]) {
    return (haul_trace_field){
        .name = name, .type = HAUL_TRACE_TRIPLE, .integers = {value[0], value[1], value[2]}};
}

typedef struct haul_trace_header {
    const char *name;
    int64_t base;
    int64_t rank, world_size;
    const haul_trace_field *device; /* of the card, in Kineto's names ("numSms"); 0: no card */
    int64_t device_count;
    const haul_trace_field *fields; /* what else is known of the run ("cupti_version") */
    int64_t field_count;
} haul_trace_header;

typedef enum haul_trace_category {
    HAUL_TRACE_CPU_OP,
    HAUL_TRACE_USER_ANNOTATION,
    HAUL_TRACE_GPU_USER_ANNOTATION,
    HAUL_TRACE_CUDA_RUNTIME,
    HAUL_TRACE_CUDA_DRIVER,
    HAUL_TRACE_KERNEL,
    HAUL_TRACE_GPU_MEMCPY,
    HAUL_TRACE_GPU_MEMSET
} haul_trace_category;

/* Where an event is drawn: a process of the system and a thread of it, or a card and a stream. */
typedef struct haul_trace_place {
    int64_t process, thread;
} haul_trace_place;

typedef struct haul_trace_event {
    haul_trace_category category;
    const char *name;
    haul_trace_place place;
    int64_t begin, end; /* an end before the begin is taken for the begin */
    const haul_trace_field *fields;
    int64_t field_count;
} haul_trace_event;

/* Begins the file under a temporary name beside `path`. A base that suits every rank of a run and
 * its neighbours in time: haul_trace_base of any of its times. */
haul_status haul_trace_create(const char *path, const haul_trace_header *header,
                              haul_trace_writer **out);
int64_t haul_trace_base(int64_t time);

/* Names for people; `label` as "CPU" or "GPU 0". Smaller `order` is drawn further up. The first
 * failure of a write is kept and returned by finish. */
void haul_trace_name_process(haul_trace_writer *writer, int64_t process, const char *name,
                             const char *label, int64_t order);
void haul_trace_name_thread(haul_trace_writer *writer, haul_trace_place place, const char *name);

void haul_trace_add(haul_trace_writer *writer, const haul_trace_event *event);

/* One end of an arrow from a call to what it started on the device; both have the same id, and each
 * time is the begin of its event. */
void haul_trace_add_flow(haul_trace_writer *writer, bool arrives, int64_t id,
                         haul_trace_place place, int64_t time);

/* Ends the file and gives it its name, or removes it after a failure. Frees the writer. */
haul_status haul_trace_finish(haul_trace_writer *writer);

/* Removes the file and frees the writer. */
void haul_trace_abandon(haul_trace_writer *writer);

#endif
