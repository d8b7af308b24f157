/* A job: the summaries of its ranks, what was matched between them, and what was found. The reduce
 * side of the analysis; every figure of every report is read from here. Aligned time is a rank's
 * own time plus its clock offset. */
#ifndef HAUL_TRACE_JOB_H
#define HAUL_TRACE_JOB_H

#include "base/status.h"
#include "trace/rank.h"

/* A process group over all ranks of the job. */
typedef struct haul_job_group {
    uint64_t key;
    char name[64], description[128];
    haul_dimension dimension;
    int64_t size;                       /* as declared */
    int64_t first_member, member_count; /* of job->members: indices into job->ranks, by rank */
} haul_job_group;

/* One member's part in a collective. */
typedef struct haul_set_member {
    int32_t rank; /* index into job->ranks */
    int32_t comm; /* index into its comms */
} haul_set_member;

/* One collective, or one send with its receive, seen on several ranks. Times are aligned. */
typedef struct haul_job_set {
    int32_t group; /* of job->groups */
    haul_comm_operation operation;
    int32_t step; /* its number in the job's list of steps, -1 */
    int64_t sequence, bytes;
    int64_t first_member, member_count; /* of job->set_members, by rank */
    int64_t first_begin, last_begin, first_end, last_end;
    int64_t transfer;     /* the shortest duration over members: the time in which data moved */
    int32_t last_arrival; /* index into job->ranks of who began last */
    bool complete;        /* all members of the group are here */
} haul_job_set;

typedef struct haul_alignment {
    int64_t *offsets;    /* ns, to be added to the times of each rank of job->ranks */
    int64_t *drifts;     /* parts per 1e9, behind the job's first time; 0 when not fitted */
    int32_t *components; /* ranks that collectives connect have the same number */
    int64_t component_count;
    int64_t observations;               /* ends of collectives used */
    int64_t residual_p50, residual_p99; /* ns, |end - common end| after alignment; -1: no set */
} haul_alignment;

typedef enum haul_cause {
    HAUL_CAUSE_NONE, /* healthy */
    HAUL_CAUSE_SLOW_GPU,
    HAUL_CAUSE_SLOW_HOST,
    HAUL_CAUSE_SLOW_LINK,
    HAUL_CAUSE_DATA_IMBALANCE,  /* varies from step to step with the data */
    HAUL_CAUSE_STAGE_IMBALANCE, /* every rank of a stage, every step */
    HAUL_CAUSE_EXPERT_IMBALANCE,
    HAUL_CAUSE_VICTIM, /* slow only because it waits */
    HAUL_CAUSES
} haul_cause;

const char *haul_cause_name(haul_cause cause);

/* How one rank does beside those that do the same work. Scores are 1 for the typical rank and
 * smaller for slower ones; z is in robust standard deviations of its class. */
typedef struct haul_rank_score {
    double compute, compute_z;
    double host, host_z;       /* time that the device waited for the host */
    double late_share;         /* of its collectives, in which it arrived last */
    double late_p;             /* chance of that many by luck */
    int64_t slow_steps, steps; /* in which it was slow, of how many */
    int64_t blame;             /* ns a step that its peers waited for it */
    int64_t waited;            /* ns a step that it waited for peers */
    int32_t peers;             /* how many ranks do the same work */
    haul_cause cause;
} haul_rank_score;

/* Two members of a group between which data moves slower than between the others. */
typedef struct haul_job_link {
    int32_t from, to; /* indices into job->ranks; to = -1: all links of `from` */
    haul_comm_operation operation;
    double slowdown; /* its transfer time beside the median of its peers */
    double z;
    int64_t lost; /* ns a step */
    int64_t count;
} haul_job_link;

/* A stage of the pipeline: medians over its ranks, micro-batches and steps, in ns. Per step:
 * warm_up + steady + cool_down = idle = upstream + downstream + imbalance + transfer + other. */
typedef struct haul_job_stage {
    int64_t stage, ranks;
    int64_t forward, backward, weight; /* of one micro-batch and chunk; weight 0 when not split */
    int64_t busy, idle;
    int64_t warm_up, steady, cool_down;
    int64_t upstream, downstream, imbalance, transfer, other;
    double bubble; /* idle / step */
} haul_job_stage;

typedef enum haul_pipeline_schedule {
    HAUL_PIPELINE_UNKNOWN,
    HAUL_PIPELINE_1F1B,
    HAUL_PIPELINE_INTERLEAVED,
    HAUL_PIPELINE_ZERO_BUBBLE,
    HAUL_PIPELINE_DUAL,
    HAUL_PIPELINE_GPIPE
} haul_pipeline_schedule;

const char *haul_pipeline_schedule_name(haul_pipeline_schedule schedule);

typedef struct haul_job_pipeline {
    int64_t stage_count; /* 0 or 1: no pipeline */
    haul_job_stage *stages;
    int32_t *stage_of;             /* of each of job->ranks, -1 */
    int64_t micro_batches, chunks; /* a step; chunks a stage */
    haul_pipeline_schedule schedule;
    double bubble;              /* measured: mean idle share of the stages */
    double ideal;               /* the schedule's closed form on the measured medians */
    double imbalance;           /* slowest stage over the mean */
    int64_t ideal_idle, excess; /* ns a step */
    bool inferred;              /* micro-batches told from the order of work */
} haul_job_pipeline;

/* The job replayed with some durations replaced by what is typical. Slow-downs are step time over
 * the replayed step time: 1.2 says that the step takes 1.2 times as long as it would. */
typedef struct haul_job_what_if {
    bool replayed; /* false: the job holds nothing to replay, and why in `reason` */
    char reason[HAUL_TRACE_NAME];
    int64_t measured, simulated; /* ns a step: as traced, and as replayed with nothing replaced */
    int64_t ideal;               /* all durations typical */
    double slowdown;             /* simulated / ideal */
    double by_operation[HAUL_PHASE_KINDS + HAUL_DIMENSIONS]; /* only this kind as traced */
    double *by_stage; /* job->pipeline.stage_count: only this stage as traced */
    double *by_data;  /* data_count: only this data-parallel replica as traced */
    int64_t data_count;
    double *by_rank;         /* job->rank_count: only this rank as traced */
    double worst_share;      /* of the slow-down, explained by the slowest 3 % of ranks */
    double last_stage_share; /* of the slow-down, explained by the last stage */
    int64_t without_comm[HAUL_DIMENSIONS]; /* ns a step, were that communication free */
} haul_job_what_if;

typedef struct haul_job_moe {
    bool present;
    double imbalance, variation, gini; /* of tokens or of expert time over ranks of a group */
    int64_t dispatch, combine, notify; /* ns a step, mean over ranks */
    int64_t exposed;                   /* of them */
} haul_job_moe;

/* Something worth a person's time, the largest gain first. */
typedef struct haul_finding {
    haul_cause cause; /* NONE for what is no fault, as an ideal bubble */
    char title[160];  /* "rank 5 (node b, stage 1): GPU 18 % slower than its 7 peers" */
    char evidence[400];
    char advice[240];    /* the next command or change */
    int64_t gain;        /* ns a step that fixing it would save */
    double share;        /* of the step */
    double confidence;   /* 0 to 1 */
    int32_t rank, stage; /* whom it is about: index into job->ranks, stage; -1 */
} haul_finding;

typedef struct haul_job {
    haul_rank_summary **ranks; /* by rank number */
    int64_t rank_count, world_size;
    haul_rank_summary **set_aside; /* whose file failed its checksum: no figure rests on them */
    int64_t set_aside_count;
    int64_t *missing; /* ranks that the world has and `ranks` lacks, ascending; at most 1,000 */
    int64_t missing_count; /* all of them */
    int64_t
        *steps; /* numbers of those that nine of ten ranks have whole, else that the most have */
    int64_t step_count;
    int64_t step_time;     /* ns, median over steps of the median over ranks */
    haul_time_split split; /* mean over ranks and steps, ns a step */

    haul_job_group *groups;
    int64_t group_count;
    int32_t *members;
    int64_t member_count;
    haul_alignment alignment;
    haul_job_set *sets; /* by last_end */
    int64_t set_count;
    haul_set_member *set_members;
    int64_t set_member_count;
    int64_t unmatched; /* comms that found no set */

    haul_rank_score *scores; /* of each rank */
    haul_job_link *links;    /* the slow ones, the most lost first */
    int64_t link_count;
    haul_job_pipeline pipeline;
    haul_job_what_if what_if;
    haul_job_moe moe;
    haul_finding *findings;
    int64_t finding_count;
    double confidence; /* of the input: 1 for clean and complete files */
} haul_job;

/* Builds a job from summaries, which it takes over (also on failure; `ranks` itself stays the
 * caller's), and runs every analysis. Of two with one rank number the later in time is kept.
 * HAUL_ERROR_DATA without a usable one. */
haul_status haul_job_create(haul_rank_summary **ranks, int64_t count, haul_job **out);
void haul_job_destroy(haul_job *job);

/* The place of step `number` in rank->steps if the rank has it whole, else -1. */
int64_t haul_rank_step_find(const haul_rank_summary *rank, int64_t number);

/* The median of values, which are sorted by it; of an even count the mean of the middle two. */
int64_t haul_median(int64_t *values, int64_t count);

/* The parts, in the order in which haul_job_create runs them; each fills its fields of the job,
 * whose arrays are freed by free(). */
haul_status haul_job_match(haul_job *job);         /* groups, sets (match.c) */
haul_status haul_job_align(haul_job *job);         /* alignment, times of the sets (align.c) */
haul_status haul_job_pipeline_find(haul_job *job); /* pipeline (pipeline.c) */
haul_status haul_job_score(haul_job *job);         /* scores, links (score.c) */
haul_status haul_job_replay(haul_job *job);        /* what_if (replay.c) */
haul_status haul_job_experts(haul_job *job);       /* moe (experts.c) */
haul_status haul_job_judge(haul_job *job);         /* findings, confidence (judge.c) */

#endif
