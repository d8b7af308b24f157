/* What one rank's trace says, small enough to keep ten thousand of them: the border between reading
 * files, which is done rank by rank and on many machines, and analysing the job, which sees
 * summaries only. All integers, so that shards and orders of work cannot change a bit. Times are ns
 * on the rank's own clock. */
#ifndef HAUL_TRACE_RANK_H
#define HAUL_TRACE_RANK_H

#include "base/status.h"
#include "trace/entry.h"
#include "trace/kernel_class.h"

/* Which kind of parallelism a process group serves. */
typedef enum haul_dimension {
    HAUL_DIMENSION_TENSOR,
    HAUL_DIMENSION_CONTEXT,
    HAUL_DIMENSION_EXPERT,
    HAUL_DIMENSION_PIPELINE,
    HAUL_DIMENSION_DATA,
    HAUL_DIMENSION_OTHER, /* the whole world, or not known */
    HAUL_DIMENSIONS
} haul_dimension;

const char *haul_dimension_name(haul_dimension dimension); /* "tensor", ..., "other" */

typedef enum haul_comm_operation {
    HAUL_COMM_ALL_REDUCE,
    HAUL_COMM_ALL_GATHER,
    HAUL_COMM_REDUCE_SCATTER,
    HAUL_COMM_ALL_TO_ALL,
    HAUL_COMM_BROADCAST,
    HAUL_COMM_REDUCE,
    HAUL_COMM_GATHER,
    HAUL_COMM_SCATTER,
    HAUL_COMM_BARRIER,
    HAUL_COMM_SEND,
    HAUL_COMM_RECEIVE,
    HAUL_COMM_SEND_RECEIVE, /* one kernel that does both, or one of which is not known */
    HAUL_COMM_DISPATCH,
    HAUL_COMM_COMBINE,
    HAUL_COMM_NOTIFY,
    HAUL_COMM_UNKNOWN,
    HAUL_COMM_OPERATIONS
} haul_comm_operation;

const char *haul_comm_operation_name(haul_comm_operation operation); /* "all-reduce", ... */

/* Whether all members of its group end together, so that clocks may be aligned by it. */
bool haul_comm_synchronises(haul_comm_operation operation);

/* Why a device did nothing; docs/trace.md has the rule of each. */
typedef enum haul_idle_cause {
    HAUL_IDLE_LAUNCH,     /* gaps of at most 2 us between kernels that were queued */
    HAUL_IDLE_HOST,       /* the next kernel was launched after the gap began */
    HAUL_IDLE_DATA,       /* as HOST, while a data loader's annotation was open */
    HAUL_IDLE_ALLOCATION, /* as HOST, inside of cudaMalloc, cudaFree and their kin */
    HAUL_IDLE_SYNC,       /* as HOST, after a synchronisation of stream or device */
    HAUL_IDLE_GC,         /* as HOST, inside of a garbage collection */
    HAUL_IDLE_CHECKPOINT, /* as HOST, inside of saving */
    HAUL_IDLE_DEPENDENCY, /* queued in time: it waited for another stream */
    HAUL_IDLE_UNKNOWN,    /* the next kernel's launch is not in the file */
    HAUL_IDLE_CAUSES
} haul_idle_cause;

const char *haul_idle_cause_name(haul_idle_cause cause);

/* Where a span of a device's time went. compute + exposed_comm + exposed_copy + idle = span; where
 * kinds overlap, compute wins, then communication. */
typedef struct haul_time_split {
    int64_t span, compute, exposed_comm, exposed_copy, idle;
    int64_t comm, copy;               /* the time in which any of that kind ran: unions */
    int64_t comm_by[HAUL_DIMENSIONS]; /* union for each */
    int64_t
        exposed_by[HAUL_DIMENSIONS]; /* sums to exposed_comm: the first in the enum's order wins */
    int64_t idle_by[HAUL_IDLE_CAUSES];    /* sums to idle */
    int64_t time_by[HAUL_KERNEL_CLASSES]; /* sums of durations */
    int64_t kernels, launches;
} haul_time_split;

typedef struct haul_rank_step {
    int64_t number; /* as annotated ("ProfilerStep#12"), else counted from 0 */
    int64_t begin, end;
    bool cut; /* the file begins or ends inside of it: left out of all statistics */
    haul_time_split split;
} haul_rank_step;

/* Counts of durations in buckets of equal ratio, 16 to a doubling: bucket b holds those from
 * 2^(b/16) ns. A quantile is exact to 4.4 %; merging is adding. */
enum { HAUL_HISTOGRAM_BUCKETS = 16 * 44 };

/* A kernel by name and shape over the steps that are not cut. */
typedef struct haul_rank_kernel {
    int32_t name; /* in rank->names */
    uint32_t shape;
    haul_kernel_class kernel_class;
    int64_t count, sum, minimum, maximum;
    int64_t first_bucket,
        bucket_count;    /* of rank->buckets: those from the smallest to the largest */
    int64_t bucket_base; /* the bucket that first_bucket stands for */
} haul_rank_kernel;

/* A process group that this rank is a member of. */
typedef struct haul_rank_group {
    int32_t name, description; /* in rank->names, -1 */
    haul_dimension dimension;
    int64_t size;
    int64_t first_member,
        member_count; /* of rank->members: global ranks, ascending; 0 when unknown */
    uint64_t key; /* the same on all members: a hash of the members, or of name and description */
} haul_rank_group;

/* A collective, send or receive as the device ran it. */
typedef struct haul_rank_comm {
    int64_t begin, end;
    int64_t launched; /* when the host launched it, -1 */
    int64_t exposed;  /* of its time, what no compute covered */
    int64_t bytes;    /* that this rank puts in or takes out, the larger; -1 */
    int64_t sequence; /* "Seq" of its group, -1 */
    int32_t group;    /* of rank->groups, -1 */
    int32_t step;     /* of rank->steps, -1 outside of any */
    int32_t peer;     /* the other global rank of a send or receive, -1 */
    int32_t kernel;   /* name of the kernel in rank->names */
    int32_t micro_batch, stream;
    haul_comm_operation operation;
    bool inferred; /* operation or group was told from names and order, not from arguments */
} haul_rank_comm;

/* What a stage of a pipeline does. */
typedef enum haul_phase_kind {
    HAUL_PHASE_FORWARD,
    HAUL_PHASE_BACKWARD, /* input and weight gradients together */
    HAUL_PHASE_BACKWARD_INPUT,
    HAUL_PHASE_BACKWARD_WEIGHT,
    HAUL_PHASE_OPTIMIZER,
    HAUL_PHASE_KINDS
} haul_phase_kind;

const char *haul_phase_kind_name(haul_phase_kind kind);

/* The work of one micro-batch in one direction, on the device: from its first kernel to its last.
 */
typedef struct haul_rank_phase {
    int64_t begin, end;
    int64_t compute;                   /* union of compute in it */
    int32_t step;                      /* of rank->steps */
    int32_t micro_batch, chunk, layer; /* -1 unknown */
    haul_phase_kind kind;
    bool inferred; /* told from the order of work, not from annotations */
} haul_rank_phase;

/* A long time without work: evidence that a person can look up in the file. */
typedef struct haul_rank_gap {
    int64_t begin, end;
    haul_idle_cause cause;
    int32_t step;
    int32_t where; /* what the host did then, in rank->names; -1 */
    int32_t next;  /* the kernel after it, in rank->names */
} haul_rank_gap;

typedef struct haul_rank_memory {
    int64_t time, allocated, reserved;
} haul_rank_memory;

typedef struct haul_rank_summary {
    int64_t rank, world_size; /* world_size -1: not told */
    bool rank_inferred;       /* from the file's name or its place in the list */
    char *path;
    char host[HAUL_TRACE_NAME], device[HAUL_TRACE_NAME]; /* "" unknown */
    int64_t base;                            /* ns since 1970 that was added to every time */
    int64_t stage, data_index, tensor_index; /* place in the mesh when the file tells, -1 */
    int64_t begin, end;                      /* of the device's events */
    haul_time_split whole;                   /* from begin to end */
    haul_trace_quality quality;

    char **names;
    int64_t name_count;
    haul_rank_step *steps; /* by begin */
    int64_t step_count;
    haul_rank_kernel *kernels; /* the longest sum first */
    int64_t kernel_count;
    int64_t *buckets; /* of the histograms of kernels */
    int64_t bucket_count;
    haul_rank_group *groups;
    int64_t group_count;
    int32_t *members;
    int64_t member_count;
    haul_rank_comm *comms; /* by begin */
    int64_t comm_count;
    haul_rank_phase *phases; /* by begin */
    int64_t phase_count;
    haul_rank_gap *gaps; /* the longest first, at most 32 */
    int64_t gap_count;
    haul_rank_memory *memory; /* at most 256, evenly over time, the peak among them */
    int64_t memory_count;

    int64_t
        launch_delay[HAUL_HISTOGRAM_BUCKETS / 16]; /* from the launch's end to the kernel's begin,
                                                      when the stream was free; by doublings */
    int64_t short_kernels;                         /* of at most 10 us */
    int64_t full_queue; /* ns in which 1,024 launches or more were pending */
} haul_rank_summary;

void haul_rank_summary_destroy(haul_rank_summary *rank);

#endif
