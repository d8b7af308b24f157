/* A profile as a trace: on the host the steps, in them the micro-batches, passes, launches and
 * calls of the runtime; on the device the same steps, micro-batches and passes around the kernels
 * and copies that came of them. */
#include "train/profile.h"

#include "base/memory.h"
#include "trace/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FACTS = 32, FIELDS = 12, NAME_BYTES = HAUL_NAME_BYTES + 32, GPU_ORDER = 5000000 };

/* Passes of one micro-batch in a row, all forwards or none. */
typedef struct phase {
    int64_t first, end; /* indices of passes */
} phase;

typedef enum item_kind { ITEM_STEP, ITEM_PHASE, ITEM_PASS, ITEM_LAUNCH, ITEM_ACTIVITY } item_kind;

/* What becomes an event. Of two that begin and end together the one of the lesser kind is around
 * the other. */
typedef struct item {
    item_kind kind;
    bool on_device;
    int64_t index;
    int64_t begin, end;
} item;

/* What a pass took on the device; begin INT64_MAX: nothing. */
typedef struct span {
    int64_t begin, end;
} span;

typedef struct builder {
    const haul_profile *profile;
    haul_trace_writer *writer;
    phase *phases;
    item *items;
    span *spans; /* of the passes */
    /* Correlations of the activities on the device, and of calls, each sorted. */
    int64_t *started, *calls;
    int64_t phase_count, phase_capacity;
    int64_t item_count, item_capacity;
    int64_t started_count, call_count;
    haul_trace_place host, device;
} builder;

static bool continues_phase(const haul_profile_pass *a, const haul_profile_pass *b) {
    return a->step == b->step && a->pass.micro_batch == b->pass.micro_batch && b->pass.node >= 0 &&
           (a->pass.kind == HAUL_PASS_FORWARD) == (b->pass.kind == HAUL_PASS_FORWARD);
}

static haul_status find_phases(builder *b) {
    const haul_profile_pass *passes = b->profile->passes;
    for (int64_t i = 0; i < b->profile->pass_count; i++) {
        if (passes[i].pass.node < 0) {
            continue;
        }
        bool first = b->phase_count == 0 || b->phases[b->phase_count - 1].end < i ||
                     !continues_phase(&passes[i - 1], &passes[i]);
        if (first) {
            HAUL_TRY(
                haul_grow(&b->phases, &b->phase_capacity, b->phase_count + 1, sizeof *b->phases));
            b->phases[b->phase_count++].first = i;
        }
        b->phases[b->phase_count - 1].end = i + 1;
    }
    return HAUL_OK;
}

/* Passes take turns on the device, as they do on the host. */
static haul_status find_spans(builder *b) {
    const haul_profile *profile = b->profile;
    int64_t before = 0;
    b->spans = haul_calloc(profile->pass_count, sizeof *b->spans);
    if (b->spans == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < profile->pass_count; i++) {
        b->spans[i].begin = INT64_MAX;
    }
    for (int64_t i = 0; i < profile->activity_count; i++) {
        const haul_activity *activity = &profile->activities[i];
        int64_t pass = activity->launch > 0 ? profile->launches[activity->launch - 1].pass : -1;
        if (pass >= 0 && !haul_activity_is_call(activity) && activity->stream == b->device.thread) {
            b->spans[pass].begin = haul_min(b->spans[pass].begin, activity->begin);
            b->spans[pass].end = haul_max(b->spans[pass].end, activity->end);
        }
    }
    for (int64_t i = 0; i < profile->pass_count; i++) {
        b->spans[i].begin = haul_max(b->spans[i].begin, before); /* kernels may overlap a little */
        before = haul_max(before, b->spans[i].end);
    }
    return HAUL_OK;
}

static haul_status add_item(builder *b, item_kind kind, bool on_device, int64_t index, span times) {
    if (times.end < times.begin) {
        return HAUL_OK;
    }
    HAUL_TRY(haul_grow(&b->items, &b->item_capacity, b->item_count + 1, sizeof *b->items));
    b->items[b->item_count++] = (item){.kind = kind,
                                       .on_device = on_device,
                                       .index = index,
                                       .begin = times.begin,
                                       .end = times.end};
    return HAUL_OK;
}

/* What the passes [first, end) took on the device. */
static span span_of(const builder *b, int64_t first, int64_t end) {
    span all = {.begin = INT64_MAX};
    for (int64_t i = first; i < end; i++) {
        if (b->spans[i].end > b->spans[i].begin) {
            all.begin = haul_min(all.begin, b->spans[i].begin);
            all.end = haul_max(all.end, b->spans[i].end);
        }
    }
    return all;
}

static haul_status add_steps(builder *b) {
    const haul_profile *profile = b->profile;
    int64_t first = 0;
    for (int64_t i = 0; i < profile->step_count; i++) {
        const haul_profile_step *step = &profile->steps[i];
        int64_t end = first;
        while (end < profile->pass_count && profile->passes[end].step <= i) {
            end++;
        }
        HAUL_TRY(add_item(b, ITEM_STEP, false, i, (span){step->begin, step->end}));
        HAUL_TRY(add_item(b, ITEM_STEP, true, i, span_of(b, first, end)));
        first = end;
    }
    return HAUL_OK;
}

static haul_status add_annotations(builder *b) {
    const haul_profile_pass *passes = b->profile->passes;
    HAUL_TRY(add_steps(b));
    for (int64_t i = 0; i < b->phase_count; i++) {
        phase p = b->phases[i];
        span host = {passes[p.first].begin, passes[p.end - 1].end};
        HAUL_TRY(add_item(b, ITEM_PHASE, false, i, host));
        HAUL_TRY(add_item(b, ITEM_PHASE, true, i, span_of(b, p.first, p.end)));
    }
    for (int64_t i = 0; i < b->profile->pass_count; i++) {
        HAUL_TRY(add_item(b, ITEM_PASS, false, i, (span){passes[i].begin, passes[i].end}));
        HAUL_TRY(add_item(b, ITEM_PASS, true, i, span_of(b, i, i + 1)));
    }
    return HAUL_OK;
}

static haul_status add_work(builder *b) {
    const haul_profile *profile = b->profile;
    for (int64_t i = 0; i < profile->launch_count; i++) {
        const haul_profile_launch *launch = &profile->launches[i];
        HAUL_TRY(add_item(b, ITEM_LAUNCH, false, i, (span){launch->begin, launch->end}));
    }
    for (int64_t i = 0; profile->from_device && i < profile->activity_count; i++) {
        const haul_activity *activity = &profile->activities[i];
        HAUL_TRY(add_item(b, ITEM_ACTIVITY, !haul_activity_is_call(activity), i,
                          (span){activity->begin, activity->end}));
    }
    return HAUL_OK;
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static haul_status find_correlations(builder *b) {
    const haul_profile *profile = b->profile;
    b->started = haul_calloc(profile->activity_count, sizeof *b->started);
    b->calls = haul_calloc(profile->activity_count, sizeof *b->calls);
    if (b->started == NULL || b->calls == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < profile->activity_count; i++) {
        const haul_activity *activity = &profile->activities[i];
        if (haul_activity_is_call(activity)) {
            b->calls[b->call_count++] = activity->correlation;
        } else {
            b->started[b->started_count++] = activity->correlation;
        }
    }
    qsort(b->calls, (size_t)b->call_count, sizeof *b->calls, by_number);
    qsort(b->started, (size_t)b->started_count, sizeof *b->started, by_number);
    return HAUL_OK;
}

/* The other end of an arrow. */
static bool has_partner(const builder *b, const haul_activity *activity) {
    return haul_activity_is_call(activity)
               ? bsearch(&activity->correlation, b->started, (size_t)b->started_count,
                         sizeof *b->started, by_number) != NULL
               : bsearch(&activity->correlation, b->calls, (size_t)b->call_count, sizeof *b->calls,
                         by_number) != NULL;
}

static void write_annotation(builder *b, const item *i, const char *name) {
    haul_trace_event event = {.category = i->on_device ? HAUL_TRACE_GPU_USER_ANNOTATION
                                                       : HAUL_TRACE_USER_ANNOTATION,
                              .name = name,
                              .place = i->on_device ? b->device : b->host,
                              .begin = i->begin,
                              .end = i->end};
    haul_trace_add(b->writer, &event);
}

static void write_phase(builder *b, const item *i) {
    const haul_profile_pass *passes = b->profile->passes;
    phase p = b->phases[i->index];
    haul_pass_kind kind = HAUL_PASS_WEIGHT; /* unless there is a B among them */
    char name[NAME_BYTES];
    for (int64_t at = p.first; at < p.end; at++) {
        bool weight = passes[at].pass.kind == HAUL_PASS_WEIGHT;
        kind = weight || kind == HAUL_PASS_BACKWARD ? kind : passes[at].pass.kind;
    }
    snprintf(name, sizeof name, "%s mb=%d chunk=0 stage=0", haul_pass_kind_name(kind),
             (int)passes[p.first].pass.micro_batch);
    write_annotation(b, i, name);
}

static void write_pass(builder *b, const item *i) {
    const haul_pass *pass = &b->profile->passes[i->index].pass;
    const haul_chunk *chunk = b->profile->executor->program->chunk;
    char name[NAME_BYTES];
    if (pass->node < 0) {
        write_annotation(b, i, haul_pass_kind_name(pass->kind));
        return;
    }
    snprintf(name, sizeof name, "%s %s mb=%d", haul_pass_kind_name(pass->kind),
             chunk->nodes[pass->node].name, (int)pass->micro_batch);
    write_annotation(b, i, name);
}

static void write_launch(builder *b, const item *i) {
    const haul_profile_launch *launch = &b->profile->launches[i->index];
    const haul_trace_field fields[] = {haul_trace_integer("External id", i->index + 1),
                                       haul_trace_integer("flops", launch->cost.flops),
                                       haul_trace_integer("bytes", launch->cost.bytes)};
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "haul::%s", haul_op_name(launch->op));
    haul_trace_event event = {.category = HAUL_TRACE_CPU_OP,
                              .name = name,
                              .place = b->host,
                              .begin = i->begin,
                              .end = i->end,
                              .fields = fields,
                              .field_count = sizeof fields / sizeof fields[0]};
    haul_trace_add(b->writer, &event);
}

/* In the names and the order of Kineto. */
static int64_t fill_fields(const haul_activity *activity, haul_trace_field fields[FIELDS]) {
    int64_t n = 0;
    if (activity->launch > 0) {
        fields[n++] = haul_trace_integer("External id", activity->launch);
    }
    if (!haul_activity_is_call(activity)) {
        fields[n++] = haul_trace_integer("device", activity->device);
        fields[n++] = haul_trace_integer("context", activity->context);
        fields[n++] = haul_trace_integer("stream", activity->stream);
    }
    fields[n++] = haul_trace_integer("correlation", activity->correlation);
    if (activity->kind == HAUL_ACTIVITY_KERNEL) {
        fields[n++] = haul_trace_integer("registers per thread", activity->registers);
        fields[n++] = haul_trace_integer("shared memory", activity->shared_bytes);
        fields[n++] = haul_trace_triple("grid", activity->grid);
        fields[n++] = haul_trace_triple("block", activity->block);
    } else if (!haul_activity_is_call(activity)) {
        double nanoseconds = (double)haul_max(activity->end - activity->begin, 1);
        fields[n++] = haul_trace_integer("bytes", activity->bytes);
        fields[n++] =
            haul_trace_real("memory bandwidth (GB/s)", (double)activity->bytes / nanoseconds);
    }
    return n;
}

static haul_trace_place place_of(const builder *b, const haul_activity *activity) {
    int64_t process = haul_activity_is_call(activity) ? b->host.process : activity->device;
    return (haul_trace_place){process, activity->stream};
}

static void write_activity(builder *b, const item *i) {
    static const haul_trace_category categories[] = {
        [HAUL_ACTIVITY_KERNEL] = HAUL_TRACE_KERNEL,
        [HAUL_ACTIVITY_COPY] = HAUL_TRACE_GPU_MEMCPY,
        [HAUL_ACTIVITY_FILL] = HAUL_TRACE_GPU_MEMSET,
        [HAUL_ACTIVITY_RUNTIME_CALL] = HAUL_TRACE_CUDA_RUNTIME,
        [HAUL_ACTIVITY_DRIVER_CALL] = HAUL_TRACE_CUDA_DRIVER,
    };
    const haul_activity *activity = &b->profile->activities[i->index];
    haul_trace_field fields[FIELDS];
    haul_trace_event event = {.category = categories[activity->kind],
                              .name = activity->name,
                              .place = place_of(b, activity),
                              .begin = i->begin,
                              .end = i->end,
                              .fields = fields,
                              .field_count = fill_fields(activity, fields)};
    haul_trace_add(b->writer, &event);
    if (has_partner(b, activity)) {
        haul_trace_add_flow(b->writer, !haul_activity_is_call(activity), activity->correlation,
                            event.place, i->begin);
    }
}

static int by_time(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin > y->begin ? 1 : -1;
    }
    if (x->end != y->end) {
        return x->end < y->end ? 1 : -1;
    }
    return (x->kind > y->kind) - (x->kind < y->kind);
}

static void write_items(builder *b) {
    char name[NAME_BYTES];
    qsort(b->items, (size_t)b->item_count, sizeof *b->items, by_time);
    for (int64_t at = 0; at < b->item_count; at++) {
        const item *i = &b->items[at];
        switch (i->kind) {
        case ITEM_STEP:
            snprintf(name, sizeof name, "ProfilerStep#%lld",
                     (long long)b->profile->steps[i->index].iteration);
            write_annotation(b, i, name);
            break;
        case ITEM_PHASE:
            write_phase(b, i);
            break;
        case ITEM_PASS:
            write_pass(b, i);
            break;
        case ITEM_LAUNCH:
            write_launch(b, i);
            break;
        case ITEM_ACTIVITY:
            write_activity(b, i);
            break;
        }
    }
}

/* The streams of the device, each once; there are few. */
static void name_streams(builder *b) {
    const haul_profile *profile = b->profile;
    char name[32];
    for (int64_t i = 0; i < profile->activity_count; i++) {
        const haul_activity *activity = &profile->activities[i];
        bool named = haul_activity_is_call(activity);
        for (int64_t j = i - 1; j >= 0 && !named; j--) {
            named = !haul_activity_is_call(&profile->activities[j]) &&
                    profile->activities[j].stream == activity->stream;
        }
        if (!named) {
            snprintf(name, sizeof name, "stream %lld", (long long)activity->stream);
            haul_trace_name_thread(b->writer, place_of(b, activity), name);
        }
    }
}

static void write_names(builder *b) {
    char name[32];
    haul_trace_name_process(b->writer, b->host.process, "haul", "CPU", b->host.process);
    snprintf(name, sizeof name, "thread %lld (haul)", (long long)b->host.thread);
    haul_trace_name_thread(b->writer, b->host, name);
    if (b->profile->from_device) {
        haul_trace_name_process(b->writer, b->device.process, "haul", "GPU 0", GPU_ORDER);
        name_streams(b);
    }
}

static haul_trace_field field_of(const haul_device_fact *fact) {
    return fact->text != NULL ? haul_trace_text(fact->name, fact->text)
                              : haul_trace_integer(fact->name, fact->number);
}

static haul_status create(builder *b, const char *path) {
    const haul_profile *profile = b->profile;
    haul_device *device = profile->executor->store->device;
    haul_trace_field facts[FACTS], versions[FACTS];
    haul_trace_header header = {.name = path,
                                .base = haul_trace_base(profile->begin),
                                .world_size = 1,
                                .device = facts,
                                .fields = versions};
    haul_device_fact fact;
    versions[header.field_count++] = haul_trace_text("writer", "haul");
    versions[header.field_count++] = haul_trace_integer("lost_activities", profile->lost);
    for (int i = 0;
         profile->from_device && i < FACTS - 2 && device->backend->profiler->fact(device, i, &fact);
         i++) {
        if (fact.is_version) {
            versions[header.field_count++] = field_of(&fact);
        } else {
            facts[header.device_count++] = field_of(&fact);
        }
    }
    return haul_trace_create(path, &header, &b->writer);
}

/* The stream of what the launches did. */
static haul_trace_place find_device(const haul_profile *profile) {
    for (int64_t i = 0; profile->from_device && i < profile->activity_count; i++) {
        const haul_activity *activity = &profile->activities[i];
        if (!haul_activity_is_call(activity) && activity->launch > 0) {
            return (haul_trace_place){activity->device, activity->stream};
        }
    }
    return (haul_trace_place){0, -1};
}

static haul_status build(builder *b) {
    HAUL_TRY(find_phases(b));
    HAUL_TRY(find_spans(b));
    HAUL_TRY(find_correlations(b));
    HAUL_TRY(add_annotations(b));
    return add_work(b);
}

haul_status haul_profile_write(const haul_profile *profile, const char *path) {
    builder b = {
        .profile = profile, .host = {getpid(), profile->thread}, .device = find_device(profile)};
    haul_status status = build(&b);
    if (status == HAUL_OK) {
        status = create(&b, path);
    }
    if (status == HAUL_OK) {
        write_names(&b);
        write_items(&b);
        status = haul_trace_finish(b.writer);
    }
    free(b.phases);
    free(b.items);
    free(b.spans);
    free(b.started);
    free(b.calls);
    return status;
}
