/* ctest: grad */
/* Every backward against central finite differences of its forward, in float64 on `ref`, on small
 * odd shapes. The table at the end has an entry for each op: a new op fails the test until it has
 * a check, or a reason why it has none. */
#include "device/compare.h"

enum { POOL = 1 << 15 };

typedef struct fixture {
    haul_device device;
    haul_stream stream;
    double pool[POOL]; /* all tensors of one check */
    int64_t used;
    haul_op op; /* being checked, for messages */
} fixture;

/* Letters of op.h. */
enum { B = 2, T = 5, H = 7, N = 4, G = 2, D = 6, F = 3, V = 11, VP = 13, R = B * T };

static haul_tensor real(fixture *fix, int64_t rows, int64_t columns) {
    int64_t count = rows * columns;
    assert_true(fix->used + count <= POOL);
    double *data = fix->pool + fix->used;
    for (int64_t i = 0; i < count; i++) {
        data[i] = haul_normal(7, (uint64_t)fix->op, fix->used + i);
    }
    fix->used += count;
    return haul_tensor_2d(data, HAUL_F64, rows, columns);
}

static haul_tensor zero(fixture *fix, int64_t rows, int64_t columns) {
    haul_tensor tensor = real(fix, rows, columns);
    memset(tensor.data, 0, (size_t)haul_tensor_bytes(&tensor));
    return tensor;
}

static haul_tensor vector(fixture *fix, int64_t n) {
    return haul_tensor_1d(real(fix, n, 1).data, HAUL_F64, n);
}

/* The function that is differentiated: what `steps` leave in `outputs`, times fixed weights (the
 * gradients that come from above), summed. */
typedef struct objective {
    struct {
        haul_op op;
        const void *args;
    } steps[2];
    int step_count;
    struct {
        haul_tensor output, weight;
    } parts[2];
    int part_count;
} objective;

static double evaluate(fixture *fix, const objective *f, double *magnitude) {
    for (int i = 0; i < f->step_count; i++) {
        haul_test_launch(&fix->stream, f->steps[i].op, f->steps[i].args);
    }
    double sum = 0.0;
    *magnitude = 0.0;
    for (int p = 0; p < f->part_count; p++) {
        const double *output = f->parts[p].output.data, *weight = f->parts[p].weight.data;
        for (int64_t i = 0; i < haul_tensor_count(&f->parts[p].output); i++) {
            sum += output[i] * weight[i];
            *magnitude += fabs(output[i] * weight[i]);
        }
    }
    return sum;
}

/* (f(x + h) - f(x - h)) / 2h for element i of x. */
static double slope(fixture *fix, const objective *f, double *x, double h, double *magnitude) {
    double saved = *x;
    *x = saved + h;
    double above = evaluate(fix, f, magnitude);
    *x = saved - h;
    double below = evaluate(fix, f, magnitude);
    *x = saved;
    return (above - below) / (2.0 * h);
}

/* The error of a slope is h^2 f'''/6 and what rounding of f leaves: the first is a third of the
 * difference between the slopes of h and 2h, the second is bounded by 64 roundings of f's terms. */
static void check(fixture *fix, const objective *f, haul_tensor x, haul_tensor gradient,
                  const char *name) {
    const double h = 1e-4;
    double *values = x.data;
    const double *got = gradient.data;
    assert_int_equal(haul_tensor_count(&x), haul_tensor_count(&gradient));
    for (int64_t i = 0; i < haul_tensor_count(&x); i++) {
        double magnitude;
        double coarse = slope(fix, f, values + i, 2.0 * h, &magnitude);
        double fine = slope(fix, f, values + i, h, &magnitude);
        double allowed = fabs(coarse - fine) + 64.0 * 0x1p-53 * magnitude / h;
        if (!(fabs(got[i] - fine) <= allowed)) {
            fail_msg("%s: gradient of %s[%lld] is %.12g, must be %.12g +- %.2g",
                     haul_op_name(fix->op), name, (long long)i, got[i], fine, allowed);
        }
    }
}

/* Twice, because an output that is added to instead of written is wrong only the second time. */
static void launch_twice(fixture *fix, haul_op op, const void *args) {
    haul_test_launch(&fix->stream, op, args);
    haul_test_launch(&fix->stream, op, args);
}

static objective one_step(haul_op op, const void *args, haul_tensor output, haul_tensor weight) {
    return (objective){
        .steps = {{op, args}}, .step_count = 1, .parts = {{output, weight}}, .part_count = 1};
}

static void check_copy(fixture *fix) {
    haul_tensor x = real(fix, R, H), y = real(fix, R, F), dy = real(fix, R, F);
    haul_tensor dx = zero(fix, R, H);
    haul_copy_args forward = {.x = haul_tensor_2d((double *)x.data + 2, HAUL_F64, R, F),
                              .y = y,
                              .x_stride = H,
                              .y_stride = F};
    haul_copy_args backward = {.x = dy,
                               .y = haul_tensor_2d((double *)dx.data + 2, HAUL_F64, R, F),
                               .x_stride = F,
                               .y_stride = H};
    launch_twice(fix, HAUL_OP_COPY, &backward);
    objective f = one_step(HAUL_OP_COPY, &forward, y, dy);
    check(fix, &f, x, dx, "x");
}

static void check_add(fixture *fix) {
    haul_tensor a = real(fix, R, H), b = real(fix, R, H), y = real(fix, R, H), dy = real(fix, R, H);
    haul_add_args forward = {a, b, y};
    objective f = one_step(HAUL_OP_ADD, &forward, y, dy);
    check(fix, &f, a, dy, "a");
    check(fix, &f, b, dy, "b");
}

static const haul_dropout dropout = {
    .probability = 0.3, .seed = 0x123456789abcdefu, .step = 3, .stream = 2, .first_sample = 9};

static void check_dropout(fixture *fix) {
    haul_tensor x = real(fix, R, H), y = real(fix, R, H);
    haul_tensor dx = real(fix, R, H), dy = real(fix, R, H);
    haul_dropout_args forward = {x, y, T, dropout}, backward = {dy, dx, T, dropout};
    launch_twice(fix, HAUL_OP_DROPOUT, &backward);
    objective f = one_step(HAUL_OP_DROPOUT, &forward, y, dy);
    check(fix, &f, x, dx, "x");
}

static void check_embed(fixture *fix) {
    int32_t ids[R] = {3, 0, 10, 3, 7, 3, 3, 10, 1, 4};
    haul_tensor tokens = haul_tensor_1d(ids, HAUL_I32, R);
    haul_tensor table = real(fix, V, H), positions = real(fix, T + 1, H);
    haul_tensor y = real(fix, R, H), dy = real(fix, R, H);
    haul_tensor d_table = real(fix, V, H), d_positions = real(fix, T + 1, H);
    haul_embed_args forward = {tokens, table, positions, y, T, 0};
    haul_embed_backward_args backward = {tokens, dy, d_table, d_positions, T, false, false};
    launch_twice(fix, HAUL_OP_EMBED_BACKWARD, &backward);
    objective f = one_step(HAUL_OP_EMBED, &forward, y, dy);
    check(fix, &f, table, d_table, "table");
    check(fix, &f, positions, d_positions, "positions");
}

static void check_norm_kind(fixture *fix, haul_norm_kind kind, bool residual) {
    fix->used = 0;
    haul_norm_args forward = {
        .kind = kind,
        .epsilon = 1e-2,
        .x = real(fix, R, H),
        .weight = vector(fix, H),
        .y = real(fix, R, H),
        .statistics = real(fix, R, 2),
    };
    haul_norm_backward_args backward = {
        .kind = kind,
        .dy = real(fix, R, H),
        .s = forward.x,
        .weight = forward.weight,
        .statistics = forward.statistics,
        .dx = real(fix, R, H),
        .d_weight = vector(fix, H),
    };
    objective f = one_step(HAUL_OP_NORM, &forward, forward.y, backward.dy);
    if (residual) {
        forward.addend = real(fix, R, H);
        forward.sum = real(fix, R, H);
        backward.s = forward.sum;
        backward.residual = real(fix, R, H);
        f.parts[f.part_count].output = forward.sum;
        f.parts[f.part_count++].weight = backward.residual;
    }
    if (kind == HAUL_NORM_LAYER) {
        forward.bias = vector(fix, H);
        backward.d_bias = vector(fix, H);
    }
    haul_test_launch(&fix->stream, HAUL_OP_NORM, &forward);
    launch_twice(fix, HAUL_OP_NORM_BACKWARD, &backward);
    check(fix, &f, forward.x, backward.dx, "x");
    check(fix, &f, forward.weight, backward.d_weight, "weight");
    if (residual) {
        check(fix, &f, forward.addend, backward.dx, "addend");
    }
    if (kind == HAUL_NORM_LAYER) {
        check(fix, &f, forward.bias, backward.d_bias, "bias");
    }
}

static void check_norm(fixture *fix) {
    check_norm_kind(fix, HAUL_NORM_RMS, false);
    check_norm_kind(fix, HAUL_NORM_RMS, true);
    check_norm_kind(fix, HAUL_NORM_LAYER, false);
    check_norm_kind(fix, HAUL_NORM_LAYER, true);
}

/* The three products of a linear layer, and its bias. */
static void check_matmul(fixture *fix) {
    haul_tensor x = real(fix, R, H), weight = real(fix, F, H), bias = vector(fix, F);
    haul_tensor y = real(fix, R, F), dy = real(fix, R, F);
    haul_tensor dx = real(fix, R, H), dw = real(fix, F, H), d_bias = vector(fix, F);
    haul_matmul_args forward = {.a = x, .b = weight, .c = y, .bias = bias, .transpose_b = true};
    haul_matmul_args dgrad = {.a = dy, .b = weight, .c = dx};
    haul_matmul_args wgrad = {.a = dy, .b = x, .c = dw, .transpose_a = true};
    haul_bias_backward_args bias_backward = {.dy = dy, .d_bias = d_bias};
    launch_twice(fix, HAUL_OP_MATMUL, &dgrad);
    launch_twice(fix, HAUL_OP_MATMUL, &wgrad);
    launch_twice(fix, HAUL_OP_BIAS_BACKWARD, &bias_backward);
    objective f = one_step(HAUL_OP_MATMUL, &forward, y, dy);
    check(fix, &f, x, dx, "x");
    check(fix, &f, weight, dw, "weight");
    check(fix, &f, bias, d_bias, "bias");
}

static void check_rope(fixture *fix) {
    enum { ROTARY = 4, OFFSET = 3, HEADS = N + G, C = (N + 2 * G) * D };
    haul_tensor x = real(fix, R, C), y = real(fix, R, C), dy = real(fix, R, C);
    haul_tensor dx = real(fix, R, C), table = real(fix, T + OFFSET, ROTARY);
    double *turns = table.data;
    for (int64_t i = 0; i < haul_tensor_count(&table); i += 2) {
        turns[i] = cos(0.7 * (double)i);
        turns[i + 1] = sin(0.7 * (double)i);
    }
    haul_rope_args forward = {.x = y,
                              .table = table,
                              .heads = HEADS,
                              .head_size = D,
                              .rotary_size = ROTARY,
                              .sequence_length = T,
                              .position_offset = OFFSET};
    haul_rope_args backward = forward;
    backward.x = dx;
    backward.inverse = true;
    memcpy(dx.data, dy.data, (size_t)haul_tensor_bytes(&dy));
    haul_test_launch(&fix->stream, HAUL_OP_ROPE, &backward);
    haul_copy_args restore = {.x = x, .y = y, .x_stride = C, .y_stride = C};
    objective f = {.steps = {{HAUL_OP_COPY, &restore}, {HAUL_OP_ROPE, &forward}},
                   .step_count = 2,
                   .parts = {{y, dy}},
                   .part_count = 1};
    check(fix, &f, x, dx, "x");
}

/* Grouped heads, fewer queries than keys, gaps in the rows and behind the keys of a sample. */
static void check_attention_with(fixture *fix, haul_dropout dropped) {
    enum { TQ = 3, CAPACITY = T + 1, QUERY_STRIDE = N * D + 1, KEY_STRIDE = 2 * G * D + 1 };
    fix->used = 0;
    haul_attention_shape shape = {
        .batch = B,
        .queries = TQ,
        .keys = T,
        .key_capacity = CAPACITY,
        .query_offset = T - TQ,
        .heads = N,
        .groups = G,
        .head_size = D,
        .query_stride = QUERY_STRIDE,
        .key_stride = KEY_STRIDE,
        .scale = 0.5,
        .dropout = dropped,
    };
    haul_tensor queries = real(fix, B * TQ, QUERY_STRIDE);
    haul_tensor keys = real(fix, B * CAPACITY, KEY_STRIDE); /* of key and value, side by side */
    haul_tensor d_queries = zero(fix, B * TQ, QUERY_STRIDE);
    haul_tensor d_keys = zero(fix, B * CAPACITY, KEY_STRIDE);
    haul_tensor out = real(fix, B * TQ, N * D), d_out = real(fix, B * TQ, N * D);
    haul_tensor log_sum_exp = real(fix, B * N, TQ);
    haul_attention_args forward = {
        .shape = shape,
        .query = haul_tensor_2d(queries.data, HAUL_F64, B * TQ, N * D),
        .key = haul_tensor_2d(keys.data, HAUL_F64, B * CAPACITY, G * D),
        .value = haul_tensor_2d(haul_tensor_at(&keys, G * D), HAUL_F64, B * CAPACITY, G * D),
        .out = out,
        .log_sum_exp = log_sum_exp,
    };
    haul_attention_backward_args backward = {
        .shape = shape,
        .query = forward.query,
        .key = forward.key,
        .value = forward.value,
        .out = out,
        .d_out = d_out,
        .log_sum_exp = log_sum_exp,
        .d_query = haul_tensor_2d(d_queries.data, HAUL_F64, B * TQ, N * D),
        .d_key = haul_tensor_2d(d_keys.data, HAUL_F64, B * CAPACITY, G * D),
        .d_value = haul_tensor_2d(haul_tensor_at(&d_keys, G * D), HAUL_F64, B * CAPACITY, G * D),
    };
    haul_test_launch(&fix->stream, HAUL_OP_ATTENTION, &forward);
    launch_twice(fix, HAUL_OP_ATTENTION_BACKWARD, &backward);
    objective f = one_step(HAUL_OP_ATTENTION, &forward, out, d_out);
    check(fix, &f, queries, d_queries, "query");
    check(fix, &f, keys, d_keys, "key and value");
}

static void check_attention(fixture *fix) {
    check_attention_with(fix, (haul_dropout){0});
    check_attention_with(fix, dropout);
}

static void check_swiglu(fixture *fix) {
    haul_tensor x = real(fix, R, 2 * F), y = real(fix, R, F);
    haul_tensor dx = real(fix, R, 2 * F), dy = real(fix, R, F);
    haul_swiglu_args forward = {x, y};
    haul_swiglu_backward_args backward = {dy, x, dx};
    launch_twice(fix, HAUL_OP_SWIGLU_BACKWARD, &backward);
    objective f = one_step(HAUL_OP_SWIGLU, &forward, y, dy);
    check(fix, &f, x, dx, "x");
}

static void check_gelu(fixture *fix) {
    for (int use_tanh = 0; use_tanh < 2; use_tanh++) {
        haul_tensor x = real(fix, R, F), y = real(fix, R, F);
        haul_tensor dx = real(fix, R, F), dy = real(fix, R, F);
        haul_gelu_args forward = {x, y, use_tanh == 1};
        haul_gelu_backward_args backward = {dy, x, dx, use_tanh == 1};
        launch_twice(fix, HAUL_OP_GELU_BACKWARD, &backward);
        objective f = one_step(HAUL_OP_GELU, &forward, y, dy);
        check(fix, &f, x, dx, "x");
    }
}

/* One row is masked, and the vocabulary is padded. */
static void check_loss(fixture *fix) {
    int32_t ids[R] = {3, 0, 10, 3, 7, 1, 9, 10, 1, 4};
    haul_tensor logits = real(fix, R, VP), losses = vector(fix, R), weights = vector(fix, R);
    ((double *)weights.data)[2] = 0.0;
    haul_loss_args forward = {.logits = logits,
                              .targets = haul_tensor_1d(ids, HAUL_I32, R),
                              .weights = weights,
                              .losses = losses,
                              .vocabulary = V};
    haul_loss_args backward = forward;
    backward.gradient = true;
    backward.logits = real(fix, R, VP);
    memcpy(backward.logits.data, logits.data, (size_t)haul_tensor_bytes(&logits));
    haul_test_launch(&fix->stream, HAUL_OP_LOSS, &backward);
    objective f = one_step(HAUL_OP_LOSS, &forward, losses, weights);
    check(fix, &f, logits, backward.logits, "logits");
    assert_true(((double *)losses.data)[2] > 0.0);
}

static const struct {
    void (*check)(fixture *fix);
    const char *none; /* why there is nothing to check */
} checks[HAUL_OPS] = {
    [HAUL_OP_FILL] = {.none = "has no input"},
    [HAUL_OP_COPY] = {.check = check_copy},
    [HAUL_OP_ADD] = {.check = check_add},
    [HAUL_OP_DROPOUT] = {.check = check_dropout},
    [HAUL_OP_EMBED] = {.check = check_embed},
    [HAUL_OP_EMBED_BACKWARD] = {.none = "a backward: see embed"},
    [HAUL_OP_NORM] = {.check = check_norm},
    [HAUL_OP_NORM_BACKWARD] = {.none = "a backward: see norm"},
    [HAUL_OP_PACK] = {.none = "a layout of the weight"},
    [HAUL_OP_QUANTIZE] = {.none = "taken to be the identity"},
    [HAUL_OP_MATMUL] = {.check = check_matmul},
    [HAUL_OP_BIAS_BACKWARD] = {.none = "a backward: see matmul"},
    [HAUL_OP_ROPE] = {.check = check_rope},
    [HAUL_OP_ATTENTION] = {.check = check_attention},
    [HAUL_OP_ATTENTION_BACKWARD] = {.none = "a backward: see attention"},
    [HAUL_OP_SWIGLU] = {.check = check_swiglu},
    [HAUL_OP_SWIGLU_BACKWARD] = {.none = "a backward: see swiglu"},
    [HAUL_OP_GELU] = {.check = check_gelu},
    [HAUL_OP_GELU_BACKWARD] = {.none = "a backward: see gelu"},
    [HAUL_OP_LOSS] = {.check = check_loss},
    [HAUL_OP_SQUARED_NORM] = {.none = "applies to gradients only"},
    [HAUL_OP_VERDICT] = {.none = "the end of a step"},
    [HAUL_OP_ADAM] = {.none = "an optimizer"},
    [HAUL_OP_SGD] = {.none = "an optimizer"},
};

static void test_every_op(void **state) {
    fixture *fix = *state;
    for (int op = 0; op < HAUL_OPS; op++) {
        fix->op = (haul_op)op;
        fix->used = 0;
        if (checks[op].check != NULL) {
            checks[op].check(fix);
        } else if (checks[op].none == NULL) {
            fail_msg("op %s has no gradient check", haul_op_name((haul_op)op));
        }
    }
}

static int setup(void **state) {
    fixture *fix = haul_calloc(1, sizeof *fix);
    assert_non_null(fix);
    assert_ok(haul_device_init(&fix->device, "ref", 1, HAUL_PRODUCT_F32));
    fix->stream.device = &fix->device;
    *state = fix;
    return 0;
}

static int teardown(void **state) {
    fixture *fix = *state;
    haul_device_deinit(&fix->device);
    free(fix);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_op)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
