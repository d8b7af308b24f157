/* The events of one rank in compact arrays: what the per-rank analyses sweep over. Lives only while
 * that rank is worked on; its summary (trace/rank.h) stays. Times are ns on the rank's own clock:
 * since 1970 when the file has a base or absolute times. */
#ifndef HAUL_TRACE_TIMELINE_H
#define HAUL_TRACE_TIMELINE_H

#include "base/status.h"
#include "trace/entry.h"
#include "trace/kernel_class.h"

/* Each distinct text once; an index stands for it. */
typedef struct haul_names haul_names;

/* A kernel, copy or fill on the device. */
typedef struct haul_device_event {
    int64_t begin, end;
    int32_t name; /* in timeline->names */
    int32_t stream;
    int32_t launch; /* in timeline->calls, -1: not linked */
    uint32_t shape; /* hash of grid and block; 0 for copies */
    int64_t bytes;  /* of copies, else -1 */
    uint8_t kind;   /* haul_kernel_class */
} haul_device_event;

/* A call of the runtime or driver that launches or waits. */
typedef struct haul_host_call {
    int64_t begin, end;
    int64_t correlation;
    int32_t name;
    int32_t thread; /* in order of appearance */
    int32_t span;   /* the innermost annotation or op around it, in timeline->spans; -1: none */
} haul_host_call;

/* An annotation, or an operator of the framework. */
typedef struct haul_host_span {
    int64_t begin, end;
    int64_t external_id;
    int32_t name;
    int32_t thread;
    int32_t parent; /* the innermost span around it on its thread; -1: none */
    int16_t stage, chunk;
    int32_t step, micro_batch; /* from arguments or from the name ("F mb=3 chunk=0"); -1: none */
    uint8_t kind;              /* haul_entry_kind: ANNOTATION or CPU_OP */
    bool backward;             /* inside of an autograd operator, or its name says so */
} haul_host_span;

/* A collective or point-to-point call as the host made it or as the kernel tells it. */
typedef struct haul_comm_call {
    int64_t external_id, correlation; /* of the op or of the kernel, -1 */
    int32_t operation;                /* haul_comm_operation (trace/rank.h) */
    int32_t group;                    /* name of the process group in names, -1 */
    int32_t description;              /* in names, -1 */
    int32_t ranks;                    /* list as text in names, -1 */
    int64_t in_bytes, out_bytes, group_size, sequence;
    int64_t peer;                /* the other rank of a send or receive, -1 */
    int32_t in_split, out_split; /* lists as text in names, -1 */
} haul_comm_call;

typedef struct haul_memory_sample {
    int64_t time, allocated, reserved;
} haul_memory_sample;

typedef struct haul_timeline {
    haul_names *names;
    haul_device_event *device; /* sorted by begin, then end, then stream */
    int64_t device_count;
    haul_host_call *calls; /* sorted by begin */
    int64_t call_count;
    haul_host_span *spans; /* sorted by begin, the longer first */
    int64_t span_count;
    haul_comm_call *comms; /* in the order of the file */
    int64_t comm_count;
    haul_memory_sample *memory; /* in the order of time */
    int64_t memory_count;
    int64_t begin, end; /* of the device's events; without any, of all */
    haul_trace_file file;
} haul_timeline;

typedef struct haul_timeline_options {
    const haul_kernel_rules *rules;
    int64_t window_begin, window_end; /* ns; events outside are left out. 0, 0: all */
} haul_timeline_options;

/* Reads a file into arrays, links device events to their calls (by correlation) and calls to spans
 * (by thread and time). Errors as haul_trace_read. */
haul_status haul_timeline_read(const char *path, const haul_timeline_options *options,
                               haul_timeline **out);
void haul_timeline_destroy(haul_timeline *timeline);

haul_status haul_names_create(haul_names **out);
void haul_names_destroy(haul_names *names);
haul_status haul_names_add(haul_names *names, haul_text text, int32_t *index);

/* NUL-terminated; "" for index -1. */
const char *haul_names_text(const haul_names *names, int32_t index);
int64_t haul_names_count(const haul_names *names);

#endif
