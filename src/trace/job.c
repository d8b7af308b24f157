#include "trace/job.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { MISSING_LISTED = 1000 };

/* --- ranks ---------------------------------------------------------------------------------- */

static int by_rank(const void *a, const void *b) {
    const haul_rank_summary *left = *(haul_rank_summary *const *)a;
    const haul_rank_summary *right = *(haul_rank_summary *const *)b;
    if (left->rank != right->rank) {
        return left->rank < right->rank ? -1 : 1;
    }
    if (left->begin != right->begin) {
        return left->begin < right->begin ? -1 : 1;
    }
    return strcmp(left->path, right->path);
}

/* Sorts the usable ranks from those to set aside; of equal numbers the last stays. */
static void place_ranks(haul_job *job, haul_rank_summary **ranks, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (ranks[i]->quality.crc_failed) {
            job->set_aside[job->set_aside_count++] = ranks[i];
        } else {
            job->ranks[job->rank_count++] = ranks[i];
        }
    }
    qsort(job->ranks, (size_t)job->rank_count, sizeof *job->ranks, by_rank);
    qsort(job->set_aside, (size_t)job->set_aside_count, sizeof *job->set_aside, by_rank);
    int64_t kept = 0;
    for (int64_t i = 0; i < job->rank_count; i++) {
        if (i + 1 < job->rank_count && job->ranks[i]->rank == job->ranks[i + 1]->rank) {
            haul_rank_summary_destroy(job->ranks[i]);
        } else {
            job->ranks[kept++] = job->ranks[i];
        }
    }
    job->rank_count = kept;
}

static haul_status find_missing(haul_job *job) {
    job->world_size = job->ranks[job->rank_count - 1]->rank + 1;
    for (int64_t i = 0; i < job->rank_count; i++) {
        job->world_size = haul_max(job->world_size, job->ranks[i]->world_size);
    }
    job->missing_count = job->world_size - job->rank_count;
    int64_t listed = haul_min(job->missing_count, MISSING_LISTED), found = 0, next = 0;
    job->missing = haul_calloc(listed, sizeof *job->missing);
    if (job->missing == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t rank = 0; found < listed; rank++) {
        if (next < job->rank_count && job->ranks[next]->rank == rank) {
            next++;
        } else {
            job->missing[found++] = rank;
        }
    }
    return HAUL_OK;
}

/* --- steps ---------------------------------------------------------------------------------- */

int64_t haul_rank_step_find(const haul_rank_summary *rank, int64_t number) {
    for (int64_t i = 0; i < rank->step_count; i++) {
        if (rank->steps[i].number == number && !rank->steps[i].cut) {
            return i;
        }
    }
    return -1;
}

static int by_value(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

int64_t haul_median(int64_t *values, int64_t count) {
    if (count == 0) {
        return 0;
    }
    qsort(values, (size_t)count, sizeof *values, by_value);
    int64_t low = values[(count - 1) / 2], high = values[count / 2];
    return low + (high - low) / 2;
}

/* Every number of a whole step of any rank, sorted, with repeats. */
static haul_status gather_numbers(const haul_job *job, int64_t **out, int64_t *out_count) {
    int64_t total = 0, count = 0;
    for (int64_t i = 0; i < job->rank_count; i++) {
        total += job->ranks[i]->step_count;
    }
    int64_t *numbers = haul_calloc(total, sizeof *numbers);
    if (numbers == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < job->rank_count; i++) {
        for (int64_t s = 0; s < job->ranks[i]->step_count; s++) {
            if (!job->ranks[i]->steps[s].cut) {
                numbers[count++] = job->ranks[i]->steps[s].number;
            }
        }
    }
    qsort(numbers, (size_t)count, sizeof *numbers, by_value);
    *out = numbers;
    *out_count = count;
    return HAUL_OK;
}

/* Keeps of sorted numbers one of each that occurs at least `least` times; returns how many. */
static int64_t keep_common(const int64_t *numbers, int64_t count, int64_t least, int64_t *kept) {
    int64_t found = 0;
    for (int64_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && numbers[end] == numbers[i]; end++) {
        }
        if (end - i >= least) {
            kept[found++] = numbers[i];
        }
    }
    return found;
}

static haul_status find_steps(haul_job *job) {
    int64_t *numbers, count, most = 1;
    HAUL_TRY(gather_numbers(job, &numbers, &count));
    for (int64_t i = 0, first = 0; i < count; i++) {
        first = numbers[i] == numbers[first] ? first : i;
        most = haul_max(most, i - first + 1);
    }
    job->steps = haul_calloc(count, sizeof *job->steps);
    if (job->steps != NULL) {
        int64_t least = haul_min(most, (job->rank_count * 9 + 9) / 10);
        job->step_count = keep_common(numbers, count, least, job->steps);
    }
    free(numbers);
    return job->steps == NULL ? HAUL_ERROR_MEMORY : HAUL_OK;
}

static haul_status find_step_time(haul_job *job) {
    int64_t *times = haul_calloc(job->rank_count + job->step_count, sizeof *times);
    if (times == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    int64_t *of_step = times + job->rank_count;
    for (int64_t s = 0; s < job->step_count; s++) {
        int64_t count = 0;
        for (int64_t r = 0; r < job->rank_count; r++) {
            int64_t at = haul_rank_step_find(job->ranks[r], job->steps[s]);
            if (at >= 0) {
                times[count++] = job->ranks[r]->steps[at].end - job->ranks[r]->steps[at].begin;
            }
        }
        of_step[s] = haul_median(times, count);
    }
    job->step_time = haul_median(of_step, job->step_count);
    free(times);
    return HAUL_OK;
}

/* --- the mean split ------------------------------------------------------------------------- */

/* A split is int64_t throughout, so that sums and means may walk it as an array. */
enum { SPLIT_FIELDS = sizeof(haul_time_split) / sizeof(int64_t) };

_Static_assert(sizeof(haul_time_split) % sizeof(int64_t) == 0, "a split is an array of int64_t");

static void add_split(int64_t sum[SPLIT_FIELDS], const haul_time_split *split) {
    int64_t values[SPLIT_FIELDS];
    memcpy(values, split, sizeof values);
    for (int i = 0; i < SPLIT_FIELDS; i++) {
        sum[i] += values[i];
    }
}

/* Gives the first part what rounding took, so that parts sum to the whole again. */
static void settle(int64_t whole, int64_t *parts, int count) {
    for (int i = 0; i < count; i++) {
        whole -= parts[i];
    }
    for (int i = 0; i < count && whole != 0; i++) {
        if (parts[i] + whole >= 0) {
            parts[i] += whole;
            whole = 0;
        }
    }
}

static void find_split(haul_job *job) {
    int64_t sum[SPLIT_FIELDS] = {0}, count = 0;
    for (int64_t r = 0; r < job->rank_count; r++) {
        for (int64_t s = 0; s < job->step_count; s++) {
            int64_t at = haul_rank_step_find(job->ranks[r], job->steps[s]);
            if (at >= 0) {
                add_split(sum, &job->ranks[r]->steps[at].split);
                count++;
            }
        }
    }
    for (int64_t r = 0; count == 0 && r < job->rank_count; r++) {
        add_split(sum, &job->ranks[r]->whole);
    }
    for (int i = 0; i < SPLIT_FIELDS; i++) {
        sum[i] /= count > 0 ? count : job->rank_count;
    }
    memcpy(&job->split, sum, sizeof job->split);
    haul_time_split *mean = &job->split;
    mean->compute = mean->span - mean->exposed_comm - mean->exposed_copy - mean->idle;
    settle(mean->exposed_comm, mean->exposed_by, HAUL_DIMENSIONS);
    settle(mean->idle, mean->idle_by, HAUL_IDLE_CAUSES);
}

/* --- the job -------------------------------------------------------------------------------- */

static haul_status analyse(haul_job *job) {
    HAUL_TRY(find_missing(job));
    HAUL_TRY(find_steps(job));
    HAUL_TRY(find_step_time(job));
    find_split(job);
    HAUL_TRY(haul_job_match(job));
    HAUL_TRY(haul_job_align(job));
    HAUL_TRY(haul_job_pipeline_find(job));
    HAUL_TRY(haul_job_score(job));
    HAUL_TRY(haul_job_replay(job));
    HAUL_TRY(haul_job_experts(job));
    return haul_job_judge(job);
}

haul_status haul_job_create(haul_rank_summary **ranks, int64_t count, haul_job **out) {
    haul_job *job = haul_calloc(1, sizeof *job);
    if (job != NULL) {
        job->ranks = haul_calloc(count, sizeof *job->ranks);
        job->set_aside = haul_calloc(count, sizeof *job->set_aside);
    }
    if (job == NULL || job->ranks == NULL || job->set_aside == NULL) {
        for (int64_t i = 0; i < count; i++) {
            haul_rank_summary_destroy(ranks[i]);
        }
        haul_job_destroy(job);
        return HAUL_ERROR_MEMORY;
    }
    place_ranks(job, ranks, count);
    haul_status status = HAUL_OK;
    if (job->rank_count == 0) {
        status = haul_fail(HAUL_ERROR_DATA,
                           "no trace is left to analyse: %lld of %lld failed "
                           "their checksum",
                           (long long)job->set_aside_count, (long long)count);
        haul_hint("copy the files again, or look at one with gzip -t");
    } else {
        status = analyse(job);
    }
    if (status != HAUL_OK) {
        haul_job_destroy(job);
        return status;
    }
    *out = job;
    return HAUL_OK;
}

static void destroy_ranks(haul_rank_summary **ranks, int64_t count) {
    for (int64_t i = 0; ranks != NULL && i < count; i++) {
        haul_rank_summary_destroy(ranks[i]);
    }
    free(ranks);
}

void haul_job_destroy(haul_job *job) {
    if (job == NULL) {
        return;
    }
    destroy_ranks(job->ranks, job->rank_count);
    destroy_ranks(job->set_aside, job->set_aside_count);
    void *const arrays[] = {job->missing,
                            job->steps,
                            job->groups,
                            job->members,
                            job->alignment.offsets,
                            job->alignment.drifts,
                            job->alignment.components,
                            job->sets,
                            job->set_members,
                            job->scores,
                            job->links,
                            job->pipeline.stages,
                            job->pipeline.stage_of,
                            job->what_if.by_stage,
                            job->what_if.by_data,
                            job->what_if.by_rank,
                            job->findings};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        free(arrays[i]);
    }
    free(job);
}
