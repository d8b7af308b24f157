/* What finite differences cannot see of ref: optimizers against numbers worked out by hand, flags
 * that accumulate, the rule of dropout, refusals; and the costs of ops, which have no backend. */
#include "device/compare.h"

typedef struct fixture {
    haul_device device;
    haul_stream stream;
} fixture;

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

static haul_tensor vector(double *data, int64_t n) {
    return haul_tensor_1d(data, HAUL_F64, n);
}

static void assert_near(double got, double want) {
    if (!(fabs(got - want) <= 4.0 * 0x1p-53 * fabs(want))) {
        fail_msg("is %.17g, must be %.17g", got, want);
    }
}

/* Two steps with exact binary fractions, so that each line below is an exact number but for the
 * square roots: beta1 = 1/2, beta2 = 3/4, lr = 1/4, decay = 1/8, epsilon = 0, scale = 1/2. */
static void test_adam(void **state) {
    fixture *fix = *state;
    double p[] = {1.0}, g[] = {4.0}, m[] = {0.0}, v[] = {0.0};
    haul_step_scalars now = {.learning_rate = 0.25,
                             .gradient_scale = 0.5,
                             .bias_correction1 = 0.5,
                             .bias_correction2 = 0.25};
    haul_adam_args adam = {.parameter = vector(p, 1),
                           .gradient = vector(g, 1),
                           .first_moment = vector(m, 1),
                           .second_moment = vector(v, 1),
                           .beta1 = 0.5,
                           .beta2 = 0.75,
                           .weight_decay = 0.125,
                           .scalars = &now};
    haul_test_launch(&fix->stream, HAUL_OP_ADAM, &adam);
    assert_near(m[0], 1.0);                  /* 0.5 * 2 */
    assert_near(v[0], 1.0);                  /* 0.25 * 4 */
    assert_near(p[0], 1.0 - 0.25 * (1.125)); /* 2 / 2 + decay */

    g[0] = -2.0;
    now.bias_correction1 = 0.75;
    now.bias_correction2 = 0.4375;
    adam.epsilon = 0.5;
    haul_test_launch(&fix->stream, HAUL_OP_ADAM, &adam);
    assert_near(m[0], 0.0); /* 0.5 - 0.5 */
    assert_near(v[0], 1.0); /* 0.75 + 0.25 */
    assert_near(p[0], 0.71875 - 0.25 * 0.125 * 0.71875);

    g[0] = 2.0;
    haul_test_launch(&fix->stream, HAUL_OP_ADAM, &adam);
    assert_near(m[0], 0.5);
    double third = 0.71875 * (1.0 - 0.25 * 0.125);
    double direction = 0.5 / 0.75 / (sqrt(1.0 / 0.4375) + 0.5);
    assert_near(p[0], third - 0.25 * (direction + 0.125 * third));

    double before = p[0];
    now.skip = 1;
    haul_test_launch(&fix->stream, HAUL_OP_ADAM, &adam);
    assert_true(p[0] == before && m[0] == 0.5 && v[0] == 1.0);
}

static void test_sgd(void **state) {
    fixture *fix = *state;
    double p[] = {1.0}, g[] = {4.0}, m[] = {0.0};
    haul_step_scalars now = {.learning_rate = 0.25, .gradient_scale = 0.5};
    haul_sgd_args sgd = {.parameter = vector(p, 1),
                         .gradient = vector(g, 1),
                         .momentum_buffer = vector(m, 1),
                         .momentum = 0.5,
                         .weight_decay = 0.125,
                         .scalars = &now};
    haul_test_launch(&fix->stream, HAUL_OP_SGD, &sgd);
    assert_near(m[0], 2.125);
    assert_near(p[0], 0.46875);
    haul_test_launch(&fix->stream, HAUL_OP_SGD, &sgd);
    assert_near(m[0], 1.0625 + 2.0 + 0.05859375);
    assert_near(p[0], 0.46875 - 0.25 * 3.12109375);
    double before = p[0];
    now.skip = 1;
    haul_test_launch(&fix->stream, HAUL_OP_SGD, &sgd);
    assert_true(p[0] == before);
}

static void test_accumulate(void **state) {
    fixture *fix = *state;
    double a[] = {1.0, 2.0}, b[] = {3.0, 5.0}, c[] = {100.0}, dy[] = {7.0, 9.0}, bias[] = {10.0};
    haul_matmul_args matmul = {.a = haul_tensor_2d(a, HAUL_F64, 1, 2),
                               .b = haul_tensor_2d(b, HAUL_F64, 2, 1),
                               .c = haul_tensor_2d(c, HAUL_F64, 1, 1),
                               .accumulate = true};
    haul_test_launch(&fix->stream, HAUL_OP_MATMUL, &matmul);
    assert_near(c[0], 113.0);
    haul_bias_backward_args bias_backward = {
        .dy = haul_tensor_2d(dy, HAUL_F64, 2, 1), .d_bias = vector(bias, 1), .accumulate = true};
    haul_test_launch(&fix->stream, HAUL_OP_BIAS_BACKWARD, &bias_backward);
    assert_near(bias[0], 26.0);
    double result[] = {1.0};
    haul_squared_norm_args norm = {
        .x = vector(b, 2), .result = vector(result, 1), .accumulate = true};
    haul_test_launch(&fix->stream, HAUL_OP_SQUARED_NORM, &norm);
    assert_near(result[0], 35.0);
    norm.accumulate = false;
    haul_test_launch(&fix->stream, HAUL_OP_SQUARED_NORM, &norm);
    assert_near(result[0], 34.0);
}

static void test_accumulate_of_embed_and_norm(void **state) {
    fixture *fix = *state;
    int32_t tokens[] = {1, 1};
    double dy[] = {1.0, 2.0}, table[] = {5.0, 6.0}, positions[] = {7.0};
    haul_embed_backward_args embed = {.tokens = haul_tensor_1d(tokens, HAUL_I32, 2),
                                      .dy = haul_tensor_2d(dy, HAUL_F64, 2, 1),
                                      .d_table = haul_tensor_2d(table, HAUL_F64, 2, 1),
                                      .d_positions = haul_tensor_2d(positions, HAUL_F64, 1, 1),
                                      .sequence_length = 1,
                                      .accumulate_table = true};
    haul_test_launch(&fix->stream, HAUL_OP_EMBED_BACKWARD, &embed);
    assert_true(table[0] == 5.0 && table[1] == 9.0 && positions[0] == 3.0);

    double s[] = {2.0, 4.0}, statistics[] = {0.0, 1.0, 0.0, 0.5};
    double weight[] = {1.0}, dx[2], d_weight[] = {10.0}, d_bias[] = {20.0};
    haul_norm_backward_args norm = {.kind = HAUL_NORM_LAYER,
                                    .dy = haul_tensor_2d(dy, HAUL_F64, 2, 1),
                                    .s = haul_tensor_2d(s, HAUL_F64, 2, 1),
                                    .weight = vector(weight, 1),
                                    .statistics = haul_tensor_2d(statistics, HAUL_F64, 2, 2),
                                    .dx = haul_tensor_2d(dx, HAUL_F64, 2, 1),
                                    .d_weight = vector(d_weight, 1),
                                    .d_bias = vector(d_bias, 1),
                                    .accumulate = true};
    haul_test_launch(&fix->stream, HAUL_OP_NORM_BACKWARD, &norm);
    assert_near(d_weight[0], 10.0 + 1.0 * 2.0 + 2.0 * 2.0);
    assert_near(d_bias[0], 23.0);
}

/* Against the generator itself, element by element; the rate is within five standard deviations. */
static void test_dropout_rule(void **state) {
    fixture *fix = *state;
    enum { SAMPLES = 3, T = 50, C = 7, COUNT = SAMPLES * T * C };
    static double x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = 1.0;
    }
    haul_dropout_args dropout = {.x = haul_tensor_2d(x, HAUL_F64, SAMPLES * T, C),
                                 .y = haul_tensor_2d(y, HAUL_F64, SAMPLES * T, C),
                                 .sequence_length = T,
                                 .dropout = {.probability = 0.25,
                                             .seed = 0x1122334455667788u,
                                             .step = 6,
                                             .stream = 4,
                                             .first_sample = 0x100000001}};
    haul_test_launch(&fix->stream, HAUL_OP_DROPOUT, &dropout);
    int dropped = 0;
    for (int i = 0; i < COUNT; i++) {
        uint32_t sample = (uint32_t)(i / (T * C)), element = (uint32_t)(i % (T * C));
        const uint32_t key[] = {0x55667788u, 0x11223344u},
                       counter[] = {element / 4, 4, 1 + sample, 6};
        bool drop = haul_philox_4x32(key, counter).word[element % 4] < 0x40000000u;
        assert_near(y[i], drop ? 0.0 : 4.0 / 3.0);
        dropped += drop;
    }
    assert_true(fabs(dropped - 0.25 * COUNT) < 5.0 * sqrt(0.25 * 0.75 * COUNT));
}

static void test_fill_and_copy_convert(void **state) {
    fixture *fix = *state;
    uint16_t half[3];
    int32_t whole[3];
    haul_fill_args fill = {.y = haul_tensor_1d(half, HAUL_BF16, 3), .value = 2.5};
    haul_test_launch(&fix->stream, HAUL_OP_FILL, &fill);
    haul_copy_args copy = {.x = haul_tensor_2d(half, HAUL_BF16, 1, 3),
                           .y = haul_tensor_2d(whole, HAUL_I32, 1, 3),
                           .x_stride = 3,
                           .y_stride = 3};
    fill = (haul_fill_args){.y = haul_tensor_1d(half, HAUL_BF16, 3), .value = -3.0};
    haul_test_launch(&fix->stream, HAUL_OP_FILL, &fill);
    haul_test_launch(&fix->stream, HAUL_OP_COPY, &copy);
    assert_true(half[0] == 0xc040 && whole[0] == -3 && whole[2] == -3);
}

static void test_refusals(void **state) {
    fixture *fix = *state;
    float narrow[1];
    double wide[1];
    haul_gelu_args gelu = {.x = haul_tensor_1d(narrow, HAUL_F32, 1), .y = vector(wide, 1)};
    haul_stream stream = {.device = &fix->device};
    haul_launch(&stream, HAUL_OP_GELU, &gelu);
    haul_test_assert_fails(haul_stream_status(&stream), HAUL_ERROR_INTERNAL,
                           "tensor x is f32, must be f64");

    uint16_t low[1];
    haul_sgd_args sgd = {.parameter = vector(wide, 1),
                         .low = haul_tensor_1d(low, HAUL_U16, 1),
                         .gradient = vector(wide, 1),
                         .momentum_buffer = vector(wide, 1)};
    stream = (haul_stream){.device = &fix->device};
    haul_launch(&stream, HAUL_OP_SGD, &sgd);
    haul_test_assert_fails(haul_stream_status(&stream), HAUL_ERROR_INTERNAL, "low");

    haul_pack_args pack = {0};
    assert_int_equal(fix->device.backend->packed_bytes(&fix->device, &pack), 0);
}

static void assert_cost(haul_op op, const void *args, int64_t flops, int64_t bytes) {
    haul_cost cost = haul_op_cost(op, args);
    assert_int_equal(cost.flops, flops);
    assert_int_equal(cost.bytes, bytes);
}

static void test_costs(void **state) {
    (void)state;
    haul_matmul_args matmul = {.a = haul_tensor_2d(NULL, HAUL_BF16, 5, 3),
                               .b = haul_tensor_2d(NULL, HAUL_BF16, 5, 7),
                               .c = haul_tensor_2d(NULL, HAUL_F32, 3, 7),
                               .transpose_a = true};
    assert_cost(HAUL_OP_MATMUL, &matmul, 2 * 3 * 5 * 7, 2 * (15 + 35) + 4 * 21);
    matmul.accumulate = true;
    assert_cost(HAUL_OP_MATMUL, &matmul, 2 * 3 * 5 * 7 + 21, 2 * (15 + 35) + 2 * 4 * 21);

    haul_squared_norm_args norm = {.x = haul_tensor_1d(NULL, HAUL_F32, 10),
                                   .result = haul_tensor_1d(NULL, HAUL_F64, 1)};
    assert_cost(HAUL_OP_SQUARED_NORM, &norm, 20, 48);
    norm.accumulate = true;
    assert_cost(HAUL_OP_SQUARED_NORM, &norm, 20, 56);

    haul_fill_args fill = {.y = haul_tensor_1d(NULL, HAUL_BF16, 10)};
    assert_cost(HAUL_OP_FILL, &fill, 0, 20);
}

/* Tensors below 2^63 bytes whose work is beyond 2^63: the costs say that, of one op and of all that
 * a stream records. */
static void test_costs_saturate(void **state) {
    const int64_t tokens = INT32_MAX, width = 100000000;
    haul_matmul_args matmul = {.a = haul_tensor_2d(NULL, HAUL_F32, tokens, width),
                               .b = haul_tensor_2d(NULL, HAUL_F32, width, width),
                               .c = haul_tensor_2d(NULL, HAUL_F32, tokens, width)};
    assert_cost(HAUL_OP_MATMUL, &matmul, INT64_MAX, 4 * width * (2 * tokens + width));
    matmul.c.dtype = HAUL_F64;
    matmul.accumulate = true;
    assert_cost(HAUL_OP_MATMUL, &matmul, INT64_MAX, width * (20 * tokens + 4 * width));

    haul_attention_args attention = {.query.dtype = HAUL_F32, .log_sum_exp.dtype = HAUL_F32};
    attention.shape = (haul_attention_shape){.batch = 1,
                                             .queries = tokens,
                                             .keys = tokens,
                                             .heads = 1000000,
                                             .groups = 1000000,
                                             .head_size = 100};
    assert_cost(HAUL_OP_ATTENTION, &attention, INT64_MAX, 1604000000 * tokens);

    fixture *fix = *state;
    haul_recording recording = {0};
    haul_stream stream = {.device = &fix->device, .recording = &recording};
    haul_adam_args adam = {.parameter = haul_tensor_2d(NULL, HAUL_F32, width, 4 * width)};
    for (int i = 0; i < 20; i++) {
        haul_launch(&stream, HAUL_OP_ADAM, &adam);
        assert_true(recording.flops[HAUL_OP_ADAM] > 0 && recording.bytes[HAUL_OP_ADAM] > 0);
    }
    assert_int_equal(recording.flops[HAUL_OP_ADAM], INT64_MAX);
}

/* Visible pairs counted one by one, for offsets that cut either end. */
static void test_attention_costs(void **state) {
    (void)state;
    const int64_t sizes[][3] = {{5, 5, 0},  {1, 9, 8}, {4, 20, 3},
                                {6, 4, -2}, {5, 7, 9}, {3, 2, -5}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int64_t queries = sizes[s][0], keys = sizes[s][1], offset = sizes[s][2], pairs = 0;
        for (int64_t i = 0; i < queries; i++) {
            for (int64_t j = 0; j < keys; j++) {
                pairs += j <= i + offset;
            }
        }
        haul_attention_shape shape = {.batch = 2,
                                      .queries = queries,
                                      .keys = keys,
                                      .key_capacity = keys,
                                      .query_offset = offset,
                                      .heads = 4,
                                      .groups = 2,
                                      .head_size = 3};
        haul_tensor tensor = haul_tensor_2d(NULL, HAUL_BF16, 1, 1);
        haul_tensor statistics = haul_tensor_2d(NULL, HAUL_F32, 1, 1);
        haul_attention_args forward = {.shape = shape, .query = tensor, .log_sum_exp = statistics};
        haul_attention_backward_args backward = {
            .shape = shape, .query = tensor, .log_sum_exp = statistics};
        int64_t query_bytes = 2 * 2 * 4 * 3 * queries, key_bytes = 2 * 2 * 2 * 3 * keys;
        int64_t statistic_bytes = 4 * 2 * 4 * queries, product = 2 * 2 * 4 * 3 * pairs;
        assert_cost(HAUL_OP_ATTENTION, &forward, 2 * product,
                    2 * query_bytes + 2 * key_bytes + statistic_bytes);
        assert_cost(HAUL_OP_ATTENTION_BACKWARD, &backward, 5 * product,
                    4 * query_bytes + 4 * key_bytes + statistic_bytes);
    }
}

static void test_every_op_has_a_name(void **state) {
    (void)state;
    for (int a = 0; a < HAUL_OPS; a++) {
        assert_non_null(haul_op_name((haul_op)a));
        for (int b = 0; b < a; b++) {
            assert_string_not_equal(haul_op_name((haul_op)a), haul_op_name((haul_op)b));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adam),
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_accumulate),
        cmocka_unit_test(test_accumulate_of_embed_and_norm),
        cmocka_unit_test(test_dropout_rule),
        cmocka_unit_test(test_fill_and_copy_convert),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_costs_saturate),
        cmocka_unit_test(test_attention_costs),
        cmocka_unit_test(test_every_op_has_a_name),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
