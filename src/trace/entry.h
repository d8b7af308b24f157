/* One event of a trace as the reader hands it on: the few fields that haul's analyses use, decoded,
 * with the differences between writers (PyTorch from 1.8 to 2.12, ROCm, Moore Threads, haul)
 * levelled. docs/trace.md lists which spelling becomes what. */
#ifndef HAUL_TRACE_ENTRY_H
#define HAUL_TRACE_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that somebody else owns; not NUL-terminated. */
typedef struct haul_text {
    const char *data;
    int64_t length;
} haul_text;

typedef enum haul_entry_kind {
    HAUL_ENTRY_KERNEL,         /* "kernel", "Kernel" */
    HAUL_ENTRY_MEMCPY,         /* "gpu_memcpy", "Memcpy" */
    HAUL_ENTRY_MEMSET,         /* "gpu_memset", "Memset" */
    HAUL_ENTRY_RUNTIME,        /* "cuda_runtime", "cuda_driver", "hip_runtime", "Runtime", ... */
    HAUL_ENTRY_CPU_OP,         /* "cpu_op", "Operator" */
    HAUL_ENTRY_ANNOTATION,     /* "user_annotation" */
    HAUL_ENTRY_GPU_ANNOTATION, /* "gpu_user_annotation" */
    HAUL_ENTRY_SYNC,           /* "cuda_sync" */
    HAUL_ENTRY_OVERHEAD,       /* "overhead": of the profiler itself */
    HAUL_ENTRY_MEMORY,         /* an instant "[memory]" */
    HAUL_ENTRY_COUNTER,        /* ph C */
    HAUL_ENTRY_SPAN,           /* "Trace": the profiler's own extent */
    HAUL_ENTRY_METADATA,       /* ph M: process_name, thread_name, ... */
    HAUL_ENTRY_OTHER,          /* a complete event of another category, as of ByteDance's jobs */
    HAUL_ENTRY_KINDS
} haul_entry_kind;

/* The arguments of a collective or point-to-point call; absent: -1, an empty text. Elements are
 * counted as the writer counts them, per rank. */
typedef struct haul_entry_collective {
    haul_text name;                /* "allreduce", "all_to_allv", "send", ... */
    haul_text dtype;               /* "Float", "BFloat16", "Float8_e4m3fn", ... */
    haul_text group;               /* "Process Group Name" */
    haul_text description;         /* "Process Group Description" */
    haul_text ranks;               /* "Process Group Ranks": "[0, 1, ...]", cut at 30 items */
    haul_text in_split, out_split; /* "[1, 2, ...]", cut at 30 items */
    int64_t in_count, out_count;   /* elements */
    int64_t group_size;
    int64_t sequence;                /* "Seq" */
    int64_t source, destination;     /* global ranks: "Src Rank", "Dst Rank" */
    int64_t rank_start, rank_stride; /* "Global rank start", "Global rank stride" */
    bool present;                    /* any of the above was there */
} haul_entry_collective;

/* Times are nanoseconds behind the file's base (haul_trace_file.base). Texts live until the
 * visitor returns; escapes are resolved. Absent numbers are -1. */
typedef struct haul_trace_entry {
    haul_entry_kind kind;
    haul_text category, name;
    int64_t process, thread; /* numbers, or a hash of a text with the top bit set, never -1 */
    int64_t begin, end;      /* end = begin of instants; never before begin */
    int64_t external_id, correlation;
    int64_t device, stream;
    int64_t bytes;               /* of copies, and of "[memory]" */
    int64_t allocated, reserved; /* "Total Allocated", "Total Reserved" of "[memory]" */
    int32_t grid[3], block[3];   /* 0 when absent */
    int64_t step, micro_batch, chunk, stage, layer; /* of annotations that carry them as arguments
                                                       ("step", "mb" or "mb_id", "chunk" or
                                                       "model_chunk", "stage", "layer") */
    double value;                                   /* of a counter; NAN when absent */
    haul_text label; /* "name" or "labels" argument of metadata; counter's argument name */
    haul_text input_dims, input_types; /* "Input Dims", "Input type" as they stand in the file */
    haul_entry_collective collective;
} haul_trace_entry;

/* What was wrong with a file or had to be guessed; every count is of events unless it says bytes.
 */
typedef struct haul_trace_quality {
    int64_t bytes_read, json_bytes; /* of the file, and inflated */
    int64_t entries;                /* decoded and handed on */
    int64_t skipped;        /* of kinds that haul does not use: flows, python_function, ... */
    int64_t malformed;      /* objects given up; the reader went on at the next one */
    int64_t unescaped;      /* texts with raw control characters or bare quotes */
    int64_t negative, zero; /* durations of device events */
    int64_t unsorted;       /* device events that begin before their stream's last one */
    int64_t overlapping;    /* device events that begin before their stream's last one ends */
    int64_t unpaired;       /* B without E, E without B */
    int64_t unlinked;       /* device events without the host call that launched them */
    int64_t before_launch;  /* device events that begin before their launch */
    int64_t dropped;        /* that the profiler itself reports as dropped */
    int64_t gzip_members;
    bool truncated; /* the file ends inside of its JSON or its compressed stream */
    bool
        crc_failed; /* a checksum of the compression does not hold: no verdict rests on this file */
} haul_trace_quality;

enum { HAUL_TRACE_NAME = 256 };

/* A process group as the file's header lists it. */
typedef struct haul_file_group {
    char name[64], description[128];
    int64_t size;
    int64_t *ranks; /* as many as the file lists, which may be fewer than `size` */
    int64_t rank_count;
} haul_file_group;

/* The file's header; known in full only after the last event. Absent: -1, "". */
typedef struct haul_trace_file {
    int64_t base; /* ns since 1970 that every time is behind; 0 in old files */
    int64_t rank, world_size;
    char backend[32], host[HAUL_TRACE_NAME], device[HAUL_TRACE_NAME], trace_name[HAUL_TRACE_NAME];
    int64_t device_memory, multiprocessors;
    haul_file_group *groups;
    int64_t group_count;
    haul_trace_quality quality;
} haul_trace_file;

#endif
