/* From figures to sentences: what is wrong, who causes it, what fixing it would gain. Faults come
 * before what is merely how the job is set up; either by what they cost. A fault is named by the
 * analyses (trace/score.c), which hold their tongue below what clocks can tell; the thresholds here
 * only keep out what nobody would act on. docs/trace.md lists them. */
#include "trace/job.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double WORTH_A_LINE = 0.03; /* share of a step, of what is no fault */
static const double IMBALANCED = 1.05;   /* slowest stage or expert over the mean */
enum { LINKS_NAMED = 5, RANKS_NAMED = 16 };

typedef struct judge {
    haul_job *job;
    int64_t capacity;
    double step; /* ns, at least 1 */
} judge;

static haul_status add(judge *j, haul_cause cause, double gain, haul_finding **out) {
    haul_job *job = j->job;
    HAUL_TRY(
        haul_grow(&job->findings, &j->capacity, job->finding_count + 1, sizeof *job->findings));
    haul_finding *finding = &job->findings[job->finding_count++];
    *finding =
        (haul_finding){.cause = cause, .rank = -1, .stage = -1, .confidence = job->confidence};
    finding->gain = (int64_t)fmax(0, fmin(gain, j->step));
    finding->share = (double)finding->gain / j->step;
    *out = finding;
    return HAUL_OK;
}

static double milliseconds(double ns) {
    return ns / 1e6;
}

/* "rank 5 (node b, stage 1)" */
static const char *rank_text(const haul_job *job, int32_t index, char text[160]) {
    const haul_rank_summary *rank = job->ranks[index];
    int32_t stage = job->pipeline.stage_of != NULL && job->pipeline.stage_count > 1
                        ? job->pipeline.stage_of[index]
                        : -1;
    char node[96] = "", place[32] = "";
    if (rank->host[0] != '\0') {
        snprintf(node, sizeof node, "node %.80s", rank->host);
    }
    if (stage >= 0) {
        snprintf(place, sizeof place, "%sstage %d", node[0] != '\0' ? ", " : "", (int)stage);
    }
    bool both = node[0] != '\0' || stage >= 0;
    snprintf(text, 160, "rank %lld%s%s%s%s", (long long)rank->rank, both ? " (" : "", node, place,
             both ? ")" : "");
    return text;
}

/* --- slow ranks and nodes ------------------------------------------------------------------- */

/* What one rank alone costs: from the replay, else from how long its peers wait for it. */
static double cost_of_rank(const haul_job *job, int32_t index) {
    const haul_job_what_if *replay = &job->what_if;
    if (replay->replayed && replay->by_rank != NULL) {
        return (replay->by_rank[index] - 1.0) * (double)replay->ideal;
    }
    return (double)job->scores[index].blame / (double)haul_max(1, job->rank_count - 1);
}

static const char *advice_for(haul_cause cause) {
    switch (cause) {
    case HAUL_CAUSE_SLOW_GPU:
        return "look at its clocks, temperature and ECC errors (nvidia-smi -q -d "
               "CLOCK,PERFORMANCE,ECC), or replace the card";
    case HAUL_CAUSE_SLOW_HOST:
        return "look at that host: other processes, Python's garbage collector, CPU frequency, "
               "data "
               "loading";
    case HAUL_CAUSE_SLOW_LINK:
        return "look at its links: NVLink and NIC errors, PCIe width, the cable and the switch "
               "port";
    case HAUL_CAUSE_DATA_IMBALANCE:
        return "balance micro-batches by their cost (sequence lengths squared), not by samples";
    case HAUL_CAUSE_EXPERT_IMBALANCE:
        return "look at the router's balance: auxiliary loss or bias, capacity, expert placement";
    default:
        return "";
    }
}

static void describe_score(const haul_job *job, int32_t index, haul_finding *finding) {
    const haul_rank_score *score = &job->scores[index];
    double slower = 1.0 / fmax(score->compute, 1e-6) - 1.0;
    int length = snprintf(finding->evidence, sizeof finding->evidence,
                          "in %lld of %lld steps; compute %+.1f %% beside %d peers (z %.1f)",
                          (long long)score->slow_steps, (long long)score->steps, slower * 100.0,
                          (int)score->peers, score->compute_z);
    if (score->host_z > 3) {
        length += snprintf(finding->evidence + length, sizeof finding->evidence - (size_t)length,
                           "; its device waits for the host, z %.1f", score->host_z);
    }
    snprintf(finding->evidence + length, sizeof finding->evidence - (size_t)length,
             "; last to arrive in %.0f %% of its collectives; peers wait %.2f ms a step for it",
             score->late_share * 100.0, milliseconds((double)score->blame));
    double persistent = score->steps > 0 ? (double)score->slow_steps / (double)score->steps : 0.5;
    finding->confidence *= 0.5 + 0.5 * persistent;
}

static haul_status judge_rank(judge *j, int32_t index) {
    const haul_rank_score *score = &j->job->scores[index];
    haul_finding *finding;
    char who[160];
    HAUL_TRY(add(j, score->cause, cost_of_rank(j->job, index), &finding));
    finding->rank = index;
    rank_text(j->job, index, who);
    if (score->cause == HAUL_CAUSE_SLOW_GPU) {
        snprintf(finding->title, sizeof finding->title, "%.100s: GPU %.0f %% slower than its peers",
                 who, (1.0 / fmax(score->compute, 1e-6) - 1.0) * 100.0);
    } else {
        snprintf(finding->title, sizeof finding->title, "%.100s: %s", who,
                 haul_cause_name(score->cause));
    }
    describe_score(j->job, index, finding);
    snprintf(finding->advice, sizeof finding->advice, "%s", advice_for(score->cause));
    return HAUL_OK;
}

static bool is_culprit(const haul_job *job, int64_t index) {
    haul_cause cause = job->scores[index].cause;
    return cause == HAUL_CAUSE_SLOW_GPU || cause == HAUL_CAUSE_SLOW_HOST ||
           cause == HAUL_CAUSE_SLOW_LINK;
}

/* Whether most ranks of a host have the same fault as this one, which is the first of them. */
static bool speaks_for_node(const haul_job *job, int64_t index, int64_t *faulty, bool *first) {
    const haul_rank_summary *rank = job->ranks[index];
    int64_t all = 0;
    *faulty = 0;
    *first = true;
    for (int64_t i = 0; i < job->rank_count && rank->host[0] != '\0'; i++) {
        if (strcmp(job->ranks[i]->host, rank->host) == 0) {
            all++;
            if (job->scores[i].cause == job->scores[index].cause) {
                *first = *first && (*faulty > 0 || i == index);
                (*faulty)++;
            }
        }
    }
    return *faulty >= 2 && 2 * *faulty > all && all < job->rank_count;
}

static haul_status judge_node(judge *j, int32_t index, int64_t faulty) {
    haul_job *job = j->job;
    haul_cause cause = job->scores[index].cause;
    haul_finding *finding;
    double gain = 0;
    for (int32_t i = 0; i < job->rank_count; i++) {
        if (job->scores[i].cause == cause &&
            strcmp(job->ranks[i]->host, job->ranks[index]->host) == 0) {
            gain = fmax(gain, cost_of_rank(job, i));
        }
    }
    HAUL_TRY(add(j, cause, gain, &finding));
    finding->rank = index;
    snprintf(finding->title, sizeof finding->title, "node %.90s: %s on %lld of its ranks",
             job->ranks[index]->host, haul_cause_name(cause), (long long)faulty);
    describe_score(job, index, finding);
    snprintf(finding->advice, sizeof finding->advice, "%s", advice_for(cause));
    return HAUL_OK;
}

static haul_status judge_ranks(judge *j) {
    haul_job *job = j->job;
    for (int32_t i = 0; i < job->rank_count && job->finding_count < RANKS_NAMED; i++) {
        int64_t faulty;
        bool first;
        if (!is_culprit(job, i)) {
            continue;
        }
        if (speaks_for_node(job, i, &faulty, &first)) {
            if (first) {
                HAUL_TRY(judge_node(j, i, faulty));
            }
        } else {
            HAUL_TRY(judge_rank(j, i));
        }
    }
    return HAUL_OK;
}

/* A fault that many ranks share: one line, about the worst. */
static haul_status judge_shared(judge *j, haul_cause cause) {
    haul_job *job = j->job;
    int32_t worst = -1, count = 0;
    for (int32_t i = 0; i < job->rank_count; i++) {
        if (job->scores[i].cause == cause) {
            count++;
            worst = worst < 0 || cost_of_rank(job, i) > cost_of_rank(job, worst) ? i : worst;
        }
    }
    if (worst < 0) {
        return HAUL_OK;
    }
    haul_finding *finding;
    char who[160];
    HAUL_TRY(add(j, cause, cost_of_rank(job, worst), &finding));
    finding->rank = worst;
    snprintf(finding->title, sizeof finding->title, "%s: %d ranks take turns, most %.80s",
             haul_cause_name(cause), (int)count, rank_text(job, worst, who));
    describe_score(job, worst, finding);
    snprintf(finding->advice, sizeof finding->advice, "%s", advice_for(cause));
    return HAUL_OK;
}

static haul_status judge_links(judge *j) {
    haul_job *job = j->job;
    for (int64_t i = 0; i < job->link_count && i < LINKS_NAMED; i++) {
        const haul_job_link *link = &job->links[i];
        haul_finding *finding;
        char from[160], to[160] = "its peers";
        HAUL_TRY(add(j, HAUL_CAUSE_SLOW_LINK, (double)link->lost, &finding));
        finding->rank = link->from;
        if (link->to >= 0) {
            rank_text(job, link->to, to);
        }
        snprintf(finding->title, sizeof finding->title, "%.60s to %.60s: transfers take %.2fx",
                 rank_text(job, link->from, from), to, link->slowdown);
        snprintf(finding->evidence, sizeof finding->evidence,
                 "%lld transfers (%s) take %.2f times what the same take elsewhere, z %.1f",
                 (long long)link->count, haul_comm_operation_name(link->operation), link->slowdown,
                 link->z);
        snprintf(finding->advice, sizeof finding->advice, "%s", advice_for(HAUL_CAUSE_SLOW_LINK));
    }
    return HAUL_OK;
}

/* --- the pipeline --------------------------------------------------------------------------- */

static int64_t work_of(const haul_job_stage *stage) {
    return stage->forward + stage->backward + stage->weight;
}

static haul_status judge_stages(judge *j) {
    const haul_job_pipeline *pipeline = &j->job->pipeline;
    const haul_job_what_if *replay = &j->job->what_if;
    if (pipeline->stage_count < 2 || pipeline->imbalance < IMBALANCED) {
        return HAUL_OK;
    }
    int64_t slowest = 0;
    double mean = 0;
    for (int64_t s = 0; s < pipeline->stage_count; s++) {
        slowest = work_of(&pipeline->stages[s]) > work_of(&pipeline->stages[slowest]) ? s : slowest;
        mean += (double)work_of(&pipeline->stages[s]) / (double)pipeline->stage_count;
    }
    double gain = replay->replayed && replay->by_stage != NULL
                      ? (replay->by_stage[slowest] - 1.0) * (double)replay->ideal
                      : (pipeline->imbalance - 1.0) * mean * (double)pipeline->micro_batches;
    haul_finding *finding;
    HAUL_TRY(add(j, HAUL_CAUSE_STAGE_IMBALANCE, gain, &finding));
    finding->stage = (int32_t)slowest;
    const haul_job_stage *stage = &pipeline->stages[slowest];
    snprintf(finding->title, sizeof finding->title,
             "stage %lld takes %.2f times as long as the mean stage", (long long)slowest,
             (double)work_of(stage) / fmax(mean, 1));
    snprintf(
        finding->evidence, sizeof finding->evidence,
        "a micro-batch takes %.2f ms there (forward %.2f, backward %.2f), %.2f ms in the mean; "
        "it is idle %.0f %% of the step",
        milliseconds((double)work_of(stage)), milliseconds((double)stage->forward),
        milliseconds((double)(stage->backward + stage->weight)), milliseconds(mean),
        stage->bubble * 100.0);
    snprintf(finding->advice, sizeof finding->advice,
             "move layers off stage %lld (the head counts as some), or haul trace whatif --fix "
             "stage=%lld",
             (long long)slowest, (long long)slowest);
    return HAUL_OK;
}

static haul_status judge_bubble(judge *j) {
    const haul_job_pipeline *pipeline = &j->job->pipeline;
    if (pipeline->stage_count < 2 || pipeline->bubble < WORTH_A_LINE) {
        return HAUL_OK;
    }
    haul_finding *finding;
    HAUL_TRY(add(j, HAUL_CAUSE_NONE, (double)pipeline->excess, &finding));
    snprintf(finding->title, sizeof finding->title,
             "pipeline bubble %.1f %%; the schedule's own (%s, %lld micro-batches) is %.1f %%",
             pipeline->bubble * 100.0, haul_pipeline_schedule_name(pipeline->schedule),
             (long long)pipeline->micro_batches, pipeline->ideal * 100.0);
    double parts[5] = {0};
    for (int64_t s = 0; s < pipeline->stage_count; s++) {
        const haul_job_stage *stage = &pipeline->stages[s];
        const int64_t of[5] = {stage->upstream, stage->downstream, stage->imbalance,
                               stage->transfer, stage->other};
        for (int i = 0; i < 5; i++) {
            parts[i] += (double)of[i] / (double)pipeline->stage_count;
        }
    }
    snprintf(finding->evidence, sizeof finding->evidence,
             "idle a step and stage, ms: %.2f for earlier stages, %.2f for later ones, %.2f from "
             "imbalance, %.2f for transfers, %.2f other",
             milliseconds(parts[0]), milliseconds(parts[1]), milliseconds(parts[2]),
             milliseconds(parts[3]), milliseconds(parts[4]));
    snprintf(finding->advice, sizeof finding->advice,
             "more micro-batches a step, more chunks a stage, or a zero-bubble schedule");
    return HAUL_OK;
}

/* --- how the job is set up ------------------------------------------------------------------ */

/* Of the exposed communication of each dimension, what is waiting for members that come late: ns a
 * step and rank. */
static void find_waits(const haul_job *job, double waits[HAUL_DIMENSIONS]) {
    double places = (double)job->rank_count * (double)haul_max(1, job->step_count);
    memset(waits, 0, HAUL_DIMENSIONS * sizeof *waits);
    for (int64_t s = 0; s < job->set_count; s++) {
        const haul_job_set *set = &job->sets[s];
        for (int64_t m = 0; m < set->member_count && set->step >= 0 && set->group >= 0; m++) {
            const haul_set_member *member = &job->set_members[set->first_member + m];
            const haul_rank_comm *comm = &job->ranks[member->rank]->comms[member->comm];
            int64_t duration = comm->end - comm->begin;
            int64_t wait = haul_max(0, duration - set->transfer);
            waits[job->groups[set->group].dimension] +=
                (double)haul_min(wait, comm->exposed) / places;
        }
    }
}

static haul_status judge_exposed(judge *j) {
    haul_job *job = j->job;
    double waits[HAUL_DIMENSIONS];
    find_waits(job, waits);
    for (int d = 0; d < HAUL_DIMENSIONS; d++) {
        double exposed = (double)job->split.exposed_by[d];
        if (exposed / j->step < WORTH_A_LINE ||
            (d == HAUL_DIMENSION_PIPELINE && job->pipeline.stage_count > 1)) {
            continue; /* the bubble has said it */
        }
        haul_finding *finding;
        double waited = fmin(waits[d], exposed);
        HAUL_TRY(add(j, HAUL_CAUSE_NONE, exposed - waited, &finding));
        snprintf(finding->title, sizeof finding->title,
                 "%s communication without compute beside it: %.1f %% of the step",
                 haul_dimension_name((haul_dimension)d), exposed / j->step * 100.0);
        snprintf(finding->evidence, sizeof finding->evidence,
                 "%.2f of %.2f ms a step are exposed; %.2f ms of that is waiting for members that "
                 "come late, the rest moves data",
                 milliseconds(exposed), milliseconds((double)job->split.comm_by[d]),
                 milliseconds(waited));
        snprintf(finding->advice, sizeof finding->advice, "%s",
                 waited > exposed / 2
                     ? "find out why members come late: the heat map of haul trace "
                       "report --html"
                     : "overlap it with compute, or send fewer bytes");
    }
    return HAUL_OK;
}

static const char *advice_for_idle(haul_idle_cause cause) {
    switch (cause) {
    case HAUL_IDLE_LAUNCH:
    case HAUL_IDLE_HOST:
        return "fewer and larger kernels: fusion, CUDA graphs, a larger micro-batch";
    case HAUL_IDLE_DATA:
        return "more workers for the data loader, or prefetching";
    case HAUL_IDLE_ALLOCATION:
        return "fixed memory: avoid cudaMalloc and cudaFree inside of a step";
    case HAUL_IDLE_SYNC:
        return "look for .item(), .cpu() and cudaDeviceSynchronize inside of a step";
    case HAUL_IDLE_GC:
        return "freeze or schedule Python's garbage collector (Megatron: --manual-gc)";
    case HAUL_IDLE_CHECKPOINT:
        return "save in the background (Megatron: --async-save)";
    default:
        return "look at the longest gaps: haul trace report --html";
    }
}

/* In a pipeline, waiting for other streams is the bubble, which has its own line. */
static haul_status judge_idle(judge *j) {
    const haul_job *job = j->job;
    for (int c = 0; c < HAUL_IDLE_CAUSES; c++) {
        double idle = (double)job->split.idle_by[c];
        bool bubble =
            job->pipeline.stage_count > 1 && (c == HAUL_IDLE_DEPENDENCY || c == HAUL_IDLE_UNKNOWN);
        if (idle / j->step < WORTH_A_LINE || bubble) {
            continue;
        }
        haul_finding *finding;
        HAUL_TRY(add(j, HAUL_CAUSE_NONE, idle, &finding));
        snprintf(finding->title, sizeof finding->title, "the GPUs are idle %.1f %% of the step: %s",
                 idle / j->step * 100.0, haul_idle_cause_name((haul_idle_cause)c));
        snprintf(finding->evidence, sizeof finding->evidence,
                 "%.2f ms a step and rank, of %.2f ms idle in all", milliseconds(idle),
                 milliseconds((double)job->split.idle));
        snprintf(finding->advice, sizeof finding->advice, "%s",
                 advice_for_idle((haul_idle_cause)c));
    }
    return HAUL_OK;
}

static haul_status judge_copies(judge *j) {
    double exposed = (double)j->job->split.exposed_copy;
    if (exposed / j->step < WORTH_A_LINE) {
        return HAUL_OK;
    }
    haul_finding *finding;
    HAUL_TRY(add(j, HAUL_CAUSE_NONE, exposed, &finding));
    snprintf(finding->title, sizeof finding->title,
             "copies without compute beside them: %.1f %% of the step", exposed / j->step * 100.0);
    snprintf(finding->evidence, sizeof finding->evidence, "%.2f of %.2f ms of copies and fills",
             milliseconds(exposed), milliseconds((double)j->job->split.copy));
    snprintf(finding->advice, sizeof finding->advice,
             "pinned memory and a stream of their own for copies");
    return HAUL_OK;
}

static haul_status judge_experts(judge *j) {
    const haul_job_moe *moe = &j->job->moe;
    if (!moe->present || moe->imbalance < IMBALANCED) {
        return HAUL_OK;
    }
    haul_finding *finding;
    double expert = (double)j->job->split.time_by[HAUL_KERNEL_MOE_GEMM];
    HAUL_TRY(add(j, HAUL_CAUSE_EXPERT_IMBALANCE, (moe->imbalance - 1.0) * expert, &finding));
    snprintf(finding->title, sizeof finding->title,
             "experts are not balanced: the busiest rank has %.2f times the mean", moe->imbalance);
    snprintf(
        finding->evidence, sizeof finding->evidence,
        "variation %.2f, Gini %.2f; dispatch %.2f, combine %.2f, notify %.2f ms a step, %.2f ms "
        "of it exposed",
        moe->variation, moe->gini, milliseconds((double)moe->dispatch),
        milliseconds((double)moe->combine), milliseconds((double)moe->notify),
        milliseconds((double)moe->exposed));
    snprintf(finding->advice, sizeof finding->advice, "%s",
             advice_for(HAUL_CAUSE_EXPERT_IMBALANCE));
    return HAUL_OK;
}

/* --- the input ------------------------------------------------------------------------------ */

static double share(int64_t part, int64_t whole) {
    return whole > 0 ? fmin(1.0, (double)part / (double)whole) : 0.0;
}

/* Each shortcoming of the input takes its part; the weights are a judgement, not a measurement. */
static double input_confidence(const haul_job *job) {
    haul_trace_quality sum = {0};
    int64_t truncated = 0, kernels = 0;
    for (int64_t i = 0; i < job->rank_count; i++) {
        const haul_trace_quality *quality = &job->ranks[i]->quality;
        sum.entries += quality->entries;
        sum.malformed += quality->malformed + quality->unpaired;
        sum.dropped += quality->dropped;
        sum.unlinked += quality->unlinked;
        truncated += quality->truncated;
        kernels += job->ranks[i]->whole.kernels;
    }
    double confidence = 1.0 - 0.5 * share(job->missing_count, job->world_size);
    confidence *= 1.0 - 0.5 * share(truncated, job->rank_count);
    confidence *= 1.0 - 0.2 * share(1000 * sum.malformed, sum.entries);
    confidence *= sum.dropped > 0 ? 0.9 : 1.0;
    confidence *= 1.0 - 0.1 * share(sum.unlinked, kernels);
    confidence *= job->rank_count > 1 && job->alignment.residual_p99 < 0 ? 0.7 : 1.0;
    return confidence * (job->step_count < 3 ? 0.9 : 1.0);
}

static int by_weight(const void *a, const void *b) {
    const haul_finding *left = a, *right = b;
    bool left_fault = left->cause != HAUL_CAUSE_NONE, right_fault = right->cause != HAUL_CAUSE_NONE;
    if (left_fault != right_fault) {
        return left_fault ? -1 : 1;
    }
    if (left->gain != right->gain) {
        return left->gain > right->gain ? -1 : 1;
    }
    return strcmp(left->title, right->title);
}

haul_status haul_job_judge(haul_job *job) {
    judge j = {.job = job, .step = (double)haul_max(1, job->split.span)};
    job->confidence = input_confidence(job);
    HAUL_TRY(judge_ranks(&j));
    HAUL_TRY(judge_shared(&j, HAUL_CAUSE_DATA_IMBALANCE));
    HAUL_TRY(judge_links(&j));
    HAUL_TRY(judge_stages(&j));
    HAUL_TRY(judge_experts(&j));
    HAUL_TRY(judge_bubble(&j));
    HAUL_TRY(judge_exposed(&j));
    HAUL_TRY(judge_idle(&j));
    HAUL_TRY(judge_copies(&j));
    qsort(job->findings, (size_t)job->finding_count, sizeof *job->findings, by_weight);
    return HAUL_OK;
}
