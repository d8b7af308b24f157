#include "train/bench_kernels.h"

#include "base/clock.h"
#include "base/memory.h"
#include "train/bench.h"

#include <stdlib.h>

enum { ALIGNMENT = 256, ROTATIONS = 8, RUNS = 5 };

static const double run_seconds = 0.01;         /* of one of the runs, at least about so long */
static const int64_t cache_bytes = 256LL << 20; /* rotating over so many finds nothing cached */
static const int64_t rotated_bytes = 1LL << 30; /* what inputs may take beyond one set of them */

void haul_bench_launches_deinit(haul_bench_launches *launches) {
    free(launches->items);
    *launches = (haul_bench_launches){0};
}

/* Collecting. */

typedef struct collector {
    haul_bench_launches *launches;
    haul_status status;
    int64_t seen;
    int64_t first;   /* so many belong to the first micro-batch... */
    int64_t repeats; /* ...and those behind stand for so many */
} collector;

static haul_bench_launch *find_launch(haul_bench_launches *launches, const haul_bench_launch *new) {
    for (int64_t i = 0; i < launches->count; i++) {
        haul_bench_launch *old = &launches->items[i];
        if (old->op == new->op && old->cost.flops == new->cost.flops &&
            old->cost.bytes == new->cost.bytes &&strcmp(old->shape, new->shape) == 0) {
            return old;
        }
    }
    return NULL;
}

static void collect(void *context, haul_op op, const void *args) {
    collector *c = context;
    haul_bench_launch launch = {.op = op, .cost = haul_op_cost(op, args)};
    haul_bench_shape(op, args, launch.shape, sizeof launch.shape);
    haul_bench_launch *found = find_launch(c->launches, &launch);
    if (found == NULL && c->status == HAUL_OK) {
        c->status = haul_grow(&c->launches->items, &c->launches->capacity, c->launches->count + 1,
                              sizeof launch);
        if (c->status == HAUL_OK) {
            memcpy(launch.args, args, haul_bench_op_of(op)->bytes);
            found = &c->launches->items[c->launches->count++];
            *found = launch;
        }
    }
    if (found != NULL) {
        found->count += c->seen < c->first ? 1 : c->repeats;
    }
    c->seen++;
}

static void count_launch(void *context, haul_op op, const void *args) {
    (void)op;
    (void)args;
    ++*(int64_t *)context;
}

/* The observer shows two micro-batches, where there are two: the first writes gradients, the second
 * stands for all that add to them. */
static haul_status collect_passes(collector *c, const haul_program *program) {
    int64_t shown = 0;
    HAUL_TRY(haul_program_observe(program, count_launch, &shown));
    bool two = program->micro_batches > 1;
    c->first = two ? shown / 2 : shown;
    c->repeats = program->micro_batches - 1;
    HAUL_TRY(haul_program_observe(program, collect, c));
    c->repeats = 1;
    return c->status;
}

haul_status haul_bench_collect(haul_session *session, haul_bench_launches *out) {
    collector c = {.launches = out};
    haul_recording recording = {0};
    haul_stream stream = {.device = &session->device,
                          .recording = &recording,
                          .observe = collect,
                          .observe_context = &c};
    const haul_update_options *update = &session->trainer.update;
    *out = (haul_bench_launches){0};
    HAUL_TRY(collect_passes(&c, &session->training));
    haul_update_verdict(&session->store, update, 1e-5, &stream);
    haul_update_commit(&session->store, update, &stream);
    HAUL_TRY(c.status);
    return haul_stream_status(&stream);
}

/* Timing. */

haul_status haul_bench_timer_init(haul_bench_timer *timer, haul_device *device) {
    *timer = (haul_bench_timer){.stream = {.device = device}};
    return haul_bench_filler_init(&timer->filler, &timer->stream);
}

void haul_bench_timer_deinit(haul_bench_timer *timer) {
    haul_stamp_deinit(timer->stream.device, &timer->begin);
    haul_stamp_deinit(timer->stream.device, &timer->end);
    haul_bench_filler_deinit(&timer->filler);
}

/* One launch with the memory of all its copies: [rotations] sets of tensors, then workspace. */
typedef struct bound {
    haul_op op;
    int rotations;
    haul_bench_launch copies[ROTATIONS];
    char *memory;
    int64_t bytes;
} bound;

static int64_t place(int64_t *end, int64_t bytes) {
    int64_t at = *end;
    *end += haul_round_up(bytes, ALIGNMENT);
    return at;
}

static int64_t set_bytes(haul_op op, const void *args) {
    int64_t end = 0;
    for (int i = 0; i < haul_bench_op_of(op)->tensor_count; i++) {
        place(&end, haul_bench_span(op, args, i));
    }
    place(&end, (int64_t)sizeof(haul_step_scalars));
    return end;
}

static haul_pack_args pack_of(const haul_matmul_args *args) {
    return (haul_pack_args){.weight = args->b,
                            .packed = args->packed,
                            .kind = args->transpose_b ? HAUL_PACK_FORWARD : HAUL_PACK_DGRAD,
                            .rows = haul_tensor_rows(&args->a),
                            .dtype = args->a.dtype,
                            .bias = haul_tensor_present(&args->bias)};
}

static int64_t workspace_of(haul_device *device, haul_op op, const void *args) {
    const haul_op_entry *entry = device->backend->entry(device, op);
    return entry->workspace != NULL ? entry->workspace(device, args) : 0;
}

static int64_t all_workspace(haul_device *device, haul_op op, const void *args) {
    int64_t bytes = workspace_of(device, op, args);
    const haul_matmul_args *matmul = args;
    if (op == HAUL_OP_MATMUL && haul_tensor_present(&matmul->packed)) {
        haul_pack_args pack = pack_of(matmul);
        bytes = haul_max(bytes, workspace_of(device, HAUL_OP_PACK, &pack));
    }
    return bytes;
}

/* Gives the tensors of one set their data. */
static haul_status bind_set(haul_bench_timer *timer, haul_bench_launch *launch, char *memory) {
    static const haul_step_scalars scalars = {
        .learning_rate = 1e-5, .gradient_scale = 1, .bias_correction1 = 1, .bias_correction2 = 1};
    const haul_bench_op *op = haul_bench_op_of(launch->op);
    int64_t end = 0, vocabulary = haul_bench_vocabulary(launch->op, launch->args);
    for (int i = 0; i < op->tensor_count; i++) {
        haul_tensor *tensor = haul_bench_tensor_of(launch->op, launch->args, i);
        int64_t bytes = haul_bench_span(launch->op, launch->args, i);
        if (haul_tensor_present(tensor)) {
            tensor->data = memory + place(&end, bytes);
            HAUL_TRY(haul_bench_fill(&timer->filler, tensor, bytes, op->tensors[i].content, 1,
                                     vocabulary));
        }
    }
    if (op->scalars != 0) {
        void *data = memory + place(&end, (int64_t)sizeof scalars);
        memcpy(launch->args + op->scalars, &data, sizeof data);
        haul_stream_copy(&timer->stream, data, &scalars, (int64_t)sizeof scalars);
    }
    const haul_matmul_args *matmul = (const void *)launch->args;
    if (launch->op == HAUL_OP_MATMUL && haul_tensor_present(&matmul->packed)) {
        haul_pack_args pack = pack_of(matmul);
        haul_launch(&timer->stream, HAUL_OP_PACK, &pack);
    }
    return haul_stream_wait(&timer->stream);
}

static haul_status bind(haul_bench_timer *timer, const haul_bench_launch *launch, bound *b) {
    haul_device *device = timer->stream.device;
    int64_t set = set_bytes(launch->op, launch->args);
    int64_t most = haul_max(1, haul_min(ROTATIONS, rotated_bytes / set));
    int64_t workspace = all_workspace(device, launch->op, launch->args);
    void *memory = NULL;
    b->op = launch->op;
    b->rotations = (int)haul_min(most, 1 + cache_bytes / set);
    b->bytes = b->rotations * set + workspace;
    HAUL_TRY(device->backend->allocate(device, b->bytes, &memory));
    b->memory = memory;
    timer->stream.scratch = b->memory + b->rotations * set;
    timer->stream.scratch_bytes = workspace;
    for (int r = 0; r < b->rotations; r++) {
        b->copies[r] = *launch;
        HAUL_TRY(bind_set(timer, &b->copies[r], b->memory + r * set));
    }
    return HAUL_OK;
}

/* Seconds of `launches` of them, one behind the other. */
static haul_status run(haul_bench_timer *timer, const bound *b, int64_t launches, double *seconds) {
    haul_stream_stamp(&timer->stream, &timer->begin);
    for (int64_t i = 0; i < launches; i++) {
        haul_launch(&timer->stream, b->op, b->copies[i % b->rotations].args);
    }
    haul_stream_stamp(&timer->stream, &timer->end);
    HAUL_TRY(haul_stream_wait(&timer->stream));
    *seconds = haul_stream_elapsed(&timer->stream, &timer->begin, &timer->end);
    return haul_stream_status(&timer->stream);
}

static haul_status measure(haul_bench_timer *timer, const bound *b, double warm_up, double *out) {
    double runs[RUNS], seconds = 0, begin = haul_clock_seconds();
    int64_t launches = 1;
    HAUL_TRY(run(timer, b, 1, &seconds)); /* the first one loads kernels */
    do {
        HAUL_TRY(run(timer, b, launches, &seconds));
        if (seconds < run_seconds) {
            launches *= 2;
        }
    } while ((seconds < run_seconds && launches < 1 << 20) ||
             haul_clock_seconds() - begin < warm_up);
    for (int i = 0; i < RUNS; i++) {
        HAUL_TRY(run(timer, b, launches, &runs[i]));
    }
    *out = haul_bench_median(runs, RUNS) / (double)launches;
    return HAUL_OK;
}

haul_status haul_bench_time(haul_bench_timer *timer, haul_bench_launch *launch, double warm_up) {
    haul_device *device = timer->stream.device;
    bound *b = haul_calloc(1, sizeof *b);
    if (b == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_status status = bind(timer, launch, b);
    if (status == HAUL_OK) {
        status = measure(timer, b, warm_up, &launch->seconds);
    }
    if (b->memory != NULL) {
        device->backend->release(device, b->memory, b->bytes);
    }
    free(b);
    return status;
}

haul_status haul_bench_product_ceiling(haul_bench_timer *timer, haul_dtype dtype, double *out) {
    int64_t side = haul_device_in_host_memory(timer->stream.device) ? 1024 : 8192;
    haul_tensor square = haul_tensor_2d(NULL, dtype, side, side);
    haul_matmul_args args = {.a = square, .b = square, .c = square, .transpose_b = true};
    haul_bench_launch launch = {.op = HAUL_OP_MATMUL, .cost = haul_op_cost(HAUL_OP_MATMUL, &args)};
    memcpy(launch.args, &args, sizeof args);
    const haul_tuner *tuner = timer->stream.device->backend->tuner;
    bool measured;
    if (tuner != NULL) {
        HAUL_TRY(tuner->tune(timer->stream.device, HAUL_OP_MATMUL, &args, &measured));
    }
    HAUL_TRY(haul_bench_time(timer, &launch, 0.5));
    *out = (double)launch.cost.flops / launch.seconds;
    return HAUL_OK;
}

haul_status haul_bench_copy_ceiling(haul_bench_timer *timer, haul_dtype dtype, double *out) {
    const int64_t columns = 8192;
    bool host = haul_device_in_host_memory(timer->stream.device);
    int64_t rows = (host ? 128LL << 20 : 1LL << 30) / columns / haul_dtype_size(dtype);
    haul_tensor matrix = haul_tensor_2d(NULL, dtype, rows, columns);
    haul_copy_args args = {.x = matrix, .y = matrix, .x_stride = columns, .y_stride = columns};
    haul_bench_launch launch = {.op = HAUL_OP_COPY, .cost = haul_op_cost(HAUL_OP_COPY, &args)};
    memcpy(launch.args, &args, sizeof args);
    HAUL_TRY(haul_bench_time(timer, &launch, 0.1));
    *out = (double)launch.cost.bytes / launch.seconds;
    return HAUL_OK;
}
