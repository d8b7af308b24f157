/* Speed of the cpu backend's ops that memory bounds, in GB/s of what each must read and write
 * (haul_op_cost), beside a copy of 128 MiB measured in the same run.
 *
 *     micro_ops [threads] [isa]
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/philox.h"
#include "device/cpu/simd/simd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A model's shapes, as far as they matter here. */
typedef struct shape {
    const char *name;
    int64_t batch, sequence, hidden, feed_forward, heads, vocabulary;
} shape;

static const shape shapes[] = {
    {"quickstart", 8, 128, 96, 256, 3, 384},
    {"gpt2-124m", 4, 512, 768, 3072, 12, 50304},
};

/* Tensors of one run; `random` values, so that no kernel meets numbers that are slow or special. */
typedef struct bench {
    haul_device device;
    haul_stream stream;
    haul_dtype dtype;
    char *pool;
    int64_t used;
    double copy_rate; /* bytes a second */
} bench;

enum { MILLISECONDS_PER_OP = 40, WARM_UPS = 2 };
static const int64_t pool_bytes = INT64_C(1) << 30;
static const int64_t scratch_bytes = INT64_C(64) << 20;

static haul_tensor tensor(bench *b, haul_dtype dtype, int64_t rows, int64_t columns) {
    haul_tensor t = haul_tensor_2d(b->pool + b->used, dtype, rows, columns);
    b->used += haul_round_up(haul_tensor_bytes(&t), 64);
    if (b->used > pool_bytes) {
        fprintf(stderr, "micro_ops: the pool is too small\n");
        exit(1);
    }
    return t;
}

static haul_tensor random_tensor(bench *b, haul_dtype dtype, int64_t rows, int64_t columns) {
    enum { PERIOD = 4099 };
    haul_tensor t = tensor(b, dtype, rows, columns);
    double values[PERIOD];
    for (int64_t i = 0; i < PERIOD; i++) {
        values[i] = haul_normal(1, 2, i);
    }
    for (int64_t i = 0; i < rows * columns; i++) {
        haul_element_set(t.data, dtype, i, values[i % PERIOD]);
    }
    return t;
}

static haul_tensor activations(bench *b, int64_t rows, int64_t columns) {
    return random_tensor(b, b->dtype, rows, columns);
}

static haul_tensor token_tensor(bench *b, int64_t rows, int64_t vocabulary) {
    haul_tensor t = tensor(b, HAUL_I32, rows, 1);
    for (int64_t i = 0; i < rows; i++) {
        ((int32_t *)t.data)[i] = (int32_t)(i * 7919 % vocabulary);
    }
    return t;
}

/* Seconds of a launch: the best of as many as fit the time. */
static double best_seconds(bench *b, haul_op op, const void *args) {
    double best = 1e9, end = haul_clock_seconds() + MILLISECONDS_PER_OP * 1e-3;
    for (int i = 0; i < WARM_UPS || haul_clock_seconds() < end; i++) {
        double start = haul_clock_seconds();
        haul_launch(&b->stream, op, args);
        double seconds = haul_clock_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    if (haul_stream_status(&b->stream) != HAUL_OK) {
        fprintf(stderr, "micro_ops: %s\n", haul_error_message());
        exit(1);
    }
    return best;
}

static void measure(bench *b, haul_op op, const char *variant, const void *args) {
    double seconds = best_seconds(b, op, args);
    double rate = (double)haul_op_cost(op, args).bytes / seconds;
    printf("%-16s %-5s %-4s %10.1f us %7.2f GB/s %5.0f %% of copy\n", haul_op_name(op), variant,
           haul_dtype_name(b->dtype), seconds * 1e6, rate * 1e-9, 100.0 * rate / b->copy_rate);
    b->used = 0;
}

static void measure_copy(bench *b) {
    const int64_t rows = 64 << 10, columns = 512;
    haul_copy_args copy = {.x = tensor(b, HAUL_F32, rows, columns),
                           .y = tensor(b, HAUL_F32, rows, columns),
                           .x_stride = columns,
                           .y_stride = columns};
    haul_op op = HAUL_OP_COPY;
    b->copy_rate = (double)haul_op_cost(op, &copy).bytes / best_seconds(b, op, &copy);
    printf("copy of 128 MiB: %.2f GB/s\n", b->copy_rate * 1e-9);
    b->used = 0;
}

static void measure_elementwise(bench *b, const shape *s) {
    int64_t rows = s->batch * s->sequence, hidden = s->hidden, wide = s->feed_forward;
    haul_fill_args fill = {.y = tensor(b, HAUL_F32, rows, wide)};
    measure(b, HAUL_OP_FILL, "", &fill);
    haul_add_args add = {activations(b, rows, hidden), activations(b, rows, hidden),
                         tensor(b, b->dtype, rows, hidden)};
    measure(b, HAUL_OP_ADD, "", &add);
    haul_dropout_args dropout = {.x = activations(b, rows, hidden),
                                 .y = tensor(b, b->dtype, rows, hidden),
                                 .sequence_length = s->sequence,
                                 .dropout = {.probability = 0.1}};
    measure(b, HAUL_OP_DROPOUT, "", &dropout);
    haul_swiglu_args swiglu = {activations(b, rows, 2 * wide), tensor(b, b->dtype, rows, wide)};
    measure(b, HAUL_OP_SWIGLU, "", &swiglu);
    haul_swiglu_backward_args swiglu_backward = {activations(b, rows, wide),
                                                 activations(b, rows, 2 * wide),
                                                 tensor(b, b->dtype, rows, 2 * wide)};
    measure(b, HAUL_OP_SWIGLU_BACKWARD, "", &swiglu_backward);
    for (int tanh = 0; tanh < 2; tanh++) {
        haul_gelu_args gelu = {activations(b, rows, wide), tensor(b, b->dtype, rows, wide), tanh};
        measure(b, HAUL_OP_GELU, tanh ? "tanh" : "exact", &gelu);
        haul_gelu_backward_args gelu_backward = {activations(b, rows, wide),
                                                 activations(b, rows, wide),
                                                 tensor(b, b->dtype, rows, wide), tanh};
        measure(b, HAUL_OP_GELU_BACKWARD, tanh ? "tanh" : "exact", &gelu_backward);
    }
    haul_rope_args rope = {.x = activations(b, rows, 3 * hidden),
                           .table = random_tensor(b, HAUL_F32, s->sequence, hidden / s->heads),
                           .heads = 2 * s->heads,
                           .head_size = hidden / s->heads,
                           .rotary_size = hidden / s->heads,
                           .sequence_length = s->sequence};
    /* A rotation, so that the values stay what they are over many launches. */
    for (int64_t i = 0; i < s->sequence * (hidden / s->heads); i++) {
        ((float *)rope.table.data)[i] = i % 2 == 0 ? 0.6f : 0.8f;
    }
    measure(b, HAUL_OP_ROPE, "", &rope);
}

static void measure_embedding(bench *b, const shape *s) {
    int64_t rows = s->batch * s->sequence, hidden = s->hidden;
    haul_embed_args embed = {.tokens = token_tensor(b, rows, s->vocabulary),
                             .table = activations(b, s->vocabulary, hidden),
                             .positions = activations(b, s->sequence, hidden),
                             .y = tensor(b, b->dtype, rows, hidden),
                             .sequence_length = s->sequence};
    measure(b, HAUL_OP_EMBED, "", &embed);
    haul_embed_backward_args backward = {.tokens = token_tensor(b, rows, s->vocabulary),
                                         .dy = activations(b, rows, hidden),
                                         .d_table = tensor(b, HAUL_F32, s->vocabulary, hidden),
                                         .d_positions = tensor(b, HAUL_F32, s->sequence, hidden),
                                         .sequence_length = s->sequence,
                                         .accumulate_table = true};
    measure(b, HAUL_OP_EMBED_BACKWARD, "", &backward);
}

static void measure_reductions(bench *b, const shape *s) {
    int64_t rows = s->batch * s->sequence, hidden = s->hidden;
    haul_norm_args norm = {.kind = HAUL_NORM_RMS,
                           .epsilon = 1e-5,
                           .x = activations(b, rows, hidden),
                           .addend = activations(b, rows, hidden),
                           .sum = tensor(b, b->dtype, rows, hidden),
                           .weight = activations(b, 1, hidden),
                           .y = tensor(b, b->dtype, rows, hidden),
                           .statistics = tensor(b, HAUL_F32, rows, 2)};
    measure(b, HAUL_OP_NORM, "", &norm);
    haul_norm_backward_args backward = {.kind = HAUL_NORM_LAYER,
                                        .dy = activations(b, rows, hidden),
                                        .s = activations(b, rows, hidden),
                                        .weight = activations(b, 1, hidden),
                                        .statistics = random_tensor(b, HAUL_F32, rows, 2),
                                        .residual = activations(b, rows, hidden),
                                        .dx = tensor(b, b->dtype, rows, hidden),
                                        .d_weight = tensor(b, HAUL_F32, 1, hidden),
                                        .d_bias = tensor(b, HAUL_F32, 1, hidden)};
    measure(b, HAUL_OP_NORM_BACKWARD, "", &backward);
    haul_bias_backward_args bias = {.dy = activations(b, rows, s->feed_forward),
                                    .d_bias = tensor(b, HAUL_F32, 1, s->feed_forward)};
    measure(b, HAUL_OP_BIAS_BACKWARD, "", &bias);
    int64_t tokens = haul_min(rows, 1024);
    haul_loss_args loss = {.logits = activations(b, tokens, s->vocabulary),
                           .targets = token_tensor(b, tokens, s->vocabulary),
                           .weights = random_tensor(b, HAUL_F32, tokens, 1),
                           .losses = tensor(b, HAUL_F32, tokens, 1),
                           .vocabulary = s->vocabulary,
                           .gradient = true};
    measure(b, HAUL_OP_LOSS, "", &loss);
}

static void measure_optimizer(bench *b, const shape *s) {
    int64_t rows = 4 * s->feed_forward, columns = s->hidden;
    double sum;
    haul_squared_norm_args norm = {random_tensor(b, HAUL_F32, rows, columns),
                                   haul_tensor_1d(&sum, HAUL_F64, 1), false};
    measure(b, HAUL_OP_SQUARED_NORM, "", &norm);
    haul_step_scalars scalars = {.learning_rate = 1e-4,
                                 .gradient_scale = 1.0,
                                 .bias_correction1 = 1.0,
                                 .bias_correction2 = 1.0};
    haul_adam_args adam = {.parameter = activations(b, rows, columns),
                           .gradient = random_tensor(b, HAUL_F32, rows, columns),
                           .first_moment = random_tensor(b, HAUL_F32, rows, columns),
                           .second_moment = tensor(b, HAUL_F32, rows, columns),
                           .beta1 = 0.9,
                           .beta2 = 0.95,
                           .epsilon = 1e-8,
                           .weight_decay = 0.1,
                           .scalars = &scalars};
    if (b->dtype == HAUL_BF16) {
        adam.low = tensor(b, HAUL_U16, rows, columns);
    }
    memset(adam.second_moment.data, 0, (size_t)haul_tensor_bytes(&adam.second_moment));
    measure(b, HAUL_OP_ADAM, "", &adam);
}

static void measure_quantize(bench *b, const shape *s) {
    static const char *const variants[] = {[HAUL_SCALING_TENSOR] = "whole",
                                           [HAUL_SCALING_ROWS] = "rows",
                                           [HAUL_SCALING_BLOCKS] = "block"};
    int64_t rows = s->batch * s->sequence, columns = s->feed_forward;
    for (haul_scaling scaling = HAUL_SCALING_TENSOR; scaling <= HAUL_SCALING_BLOCKS; scaling++) {
        haul_tensor scales = haul_scales_shape(scaling, rows, columns);
        haul_tensor turned = haul_scales_shape(scaling, columns, rows);
        haul_quantize_args quantize = {
            .scaling = scaling,
            .x = activations(b, rows, columns),
            .codes = tensor(b, HAUL_E4M3, rows, columns),
            .scales = tensor(b, HAUL_F32, haul_tensor_rows(&scales), haul_tensor_columns(&scales)),
            .transposed = tensor(b, HAUL_E4M3, columns, haul_padded(rows, HAUL_CODES_PAD)),
            .transposed_scales =
                tensor(b, HAUL_F32, haul_tensor_rows(&turned), haul_tensor_columns(&turned))};
        measure(b, HAUL_OP_QUANTIZE, variants[scaling], &quantize);
    }
}

static haul_status open_bench(bench *b, int threads, const char *isa) {
    HAUL_TRY(haul_device_init(&b->device, "cpu", threads, HAUL_PRODUCT_F32));
    for (int i = 0; isa != NULL && haul_cpu_isa_at(i) != NULL; i++) {
        if (strcmp(haul_cpu_isa_at(i)->name, isa) == 0) {
            haul_cpu_use_isa(&b->device, haul_cpu_isa_at(i));
        }
    }
    void *pool, *scratch;
    HAUL_TRY(b->device.backend->allocate(&b->device, pool_bytes, &pool));
    HAUL_TRY(b->device.backend->allocate(&b->device, scratch_bytes, &scratch));
    b->pool = pool;
    b->stream =
        (haul_stream){.device = &b->device, .scratch = scratch, .scratch_bytes = scratch_bytes};
    return HAUL_OK;
}

int main(int argc, char **argv) {
    static bench b;
    if (open_bench(&b, argc > 1 ? atoi(argv[1]) : 0, argc > 2 ? argv[2] : NULL) != HAUL_OK) {
        fprintf(stderr, "micro_ops: %s\n", haul_error_message());
        return 1;
    }
    char text[256];
    b.device.backend->describe(&b.device, text, sizeof text);
    printf("%s\n", text);
    measure_copy(&b);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (b.dtype = HAUL_F32; b.dtype <= HAUL_BF16; b.dtype++) {
            printf("\n%s\n", shapes[i].name);
            measure_elementwise(&b, &shapes[i]);
            measure_embedding(&b, &shapes[i]);
            measure_reductions(&b, &shapes[i]);
            measure_quantize(&b, &shapes[i]);
            measure_optimizer(&b, &shapes[i]);
        }
    }
    b.device.backend->release(&b.device, b.stream.scratch, scratch_bytes);
    b.device.backend->release(&b.device, b.pool, pool_bytes);
    haul_device_deinit(&b.device);
    return 0;
}
