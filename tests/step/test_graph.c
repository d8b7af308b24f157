/* ctest: grad */
/* Values with several consumers, shared gradients and tied weights, on small chunks that no model
 * has; every gradient against finite differences in float64. */
#include "fixture.h"

#include "layers/layers.h"

#include <math.h>

enum { HIDDEN = 4, ROWS = FIXTURE_BATCH * FIXTURE_LENGTH };

static void begin(fixture *f) {
    memset(f, 0, sizeof *f);
    haul_numerics numerics = {HAUL_F64, HAUL_F64};
    haul_tensor integers = haul_tensor_1d(NULL, HAUL_I32, ROWS);
    haul_tensor weights = haul_tensor_1d(NULL, HAUL_F64, ROWS);
    assert_ok(haul_device_init(&f->device, "ref", 1, HAUL_PRODUCT_F32));
    haul_chunk_init(&f->chunk, numerics);
    assert_ok(haul_chunk_add_input(&f->chunk, "tokens", integers, &f->values.tokens));
    assert_ok(haul_chunk_add_input(&f->chunk, "targets", integers, &f->values.targets));
    assert_ok(haul_chunk_add_input(&f->chunk, "weights", weights, &f->values.weights));
}

static int add_one(fixture *f, const haul_node_kind *kind, const char *name, const void *config,
                   int input) {
    int output;
    assert_ok(haul_chunk_add_node(&f->chunk, kind, name, -1, config, &input, 1, &output));
    return output;
}

static int embedding(fixture *f) {
    haul_embedding_config config = {.table_name = "table",
                                    .vocabulary = FIXTURE_VOCABULARY,
                                    .hidden = HIDDEN,
                                    .sequence_length = FIXTURE_LENGTH,
                                    .init_std = 0.8};
    return add_one(f, &haul_node_embedding, "embedding", &config, f->values.tokens);
}

static int linear(fixture *f, const char *name, int input) {
    haul_linear_config config = {.parts = {{.rows = HIDDEN}},
                                 .part_count = 1,
                                 .input_size = HIDDEN,
                                 .bias = true,
                                 .init_std = 0.7};
    snprintf(config.parts[0].name, HAUL_NAME_BYTES, "%s", name);
    return add_one(f, &haul_node_linear, name, &config, input);
}

static int activation(fixture *f, const char *name, haul_activation_kind kind, int input) {
    haul_activation_config config = {.kind = kind};
    return add_one(f, &haul_node_activation, name, &config, input);
}

/* Adds a norm of x + addend; *sum receives the sum. */
static int norm(fixture *f, const char *name, int x, int addend, int *sum) {
    haul_norm_config config = {.kind = HAUL_NORM_LAYER, .epsilon = 1e-5, .bias = true};
    snprintf(config.name, HAUL_NAME_BYTES, "%s", name);
    int inputs[2] = {x, addend}, outputs[2];
    assert_ok(
        haul_chunk_add_node(&f->chunk, &haul_node_norm, name, -1, &config, inputs, 2, outputs));
    *sum = outputs[0];
    return outputs[1];
}

static void head(fixture *f, const char *weight, int input) {
    haul_head_config config = {.vocabulary = FIXTURE_VOCABULARY,
                               .chunk_elements = 1 << 26,
                               .padded_vocabulary = FIXTURE_VOCABULARY,
                               .hidden = HIDDEN,
                               .init_std = 0.5};
    snprintf(config.name, HAUL_NAME_BYTES, "%s", weight);
    int inputs[3] = {input, f->values.targets, f->values.weights};
    assert_ok(haul_chunk_add_node(&f->chunk, &haul_node_head, "head", -1, &config, inputs, 3,
                                  &f->values.losses));
    haul_chunk_mark_output(&f->chunk, f->values.losses);
}

static void compile(fixture *f) {
    fixture_compile(f, (fixture_options){.device = "ref", .micro_batches = 2});
    f->learning_rate = 0; /* steps leave the parameters as they are */
}

/* Central differences with step h err by h^2 times a third derivative and by the loss's rounding,
 * 1e-16 / h: 1e-10 at h = 1e-5, for losses and derivatives of about 1. */
static void assert_gradient_of(fixture *f, int64_t index, const double *gradient) {
    haul_store_buffer *buffer = &f->store.buffers[index];
    double *values = buffer->value.data, h = 1e-5, sum = 0;
    for (int64_t i = 0; i < haul_tensor_count(&buffer->value); i++) {
        double at = values[i];
        values[i] = at + h;
        double above = fixture_step(f, NULL, NULL);
        values[i] = at - h;
        double below = fixture_step(f, NULL, NULL);
        values[i] = at;
        assert_true(fabs((above - below) / (2 * h) - gradient[i]) < 1e-9);
        sum += fabs(gradient[i]);
    }
    assert_true(sum > 1e-3);
}

static void assert_gradients(fixture *f) {
    fixture_step(f, NULL, NULL);
    for (int64_t b = 0; b < f->chunk.buffer_count; b++) {
        const haul_tensor *gradient = &f->store.buffers[b].gradient;
        double *copy = haul_calloc(haul_tensor_count(gradient), sizeof(double));
        assert_non_null(copy);
        fixture_step(f, NULL, NULL);
        memcpy(copy, gradient->data, (size_t)haul_tensor_bytes(gradient));
        assert_gradient_of(f, b, copy);
        free(copy);
    }
}

static int gradient_of(const fixture *f, int value) {
    return f->program.values[value].gradient;
}

/* Where the node that makes `output` leaves a gradient of its input i that is to be added; -1: it
 * writes that gradient itself. */
static int added_by(const fixture *f, int output, int i) {
    return f->program.nodes[f->chunk.values[output].producer].add[i];
}

static int64_t find_pass(const fixture *f, haul_pass_kind kind, int output, int micro_batch) {
    for (int64_t i = 0; i < f->program.pass_count; i++) {
        const haul_pass *pass = &f->program.passes[i];
        if (pass->kind == kind && pass->node == f->chunk.values[output].producer &&
            pass->micro_batch == micro_batch) {
            return i;
        }
    }
    return -1;
}

/* A linear's output feeds two activations, which a norm joins. */
static void test_two_consumers(void **state) {
    (void)state;
    fixture f;
    begin(&f);
    int sum, value = linear(&f, "linear", embedding(&f));
    int first = activation(&f, "first", HAUL_ACTIVATION_GELU, value);
    int second = activation(&f, "second", HAUL_ACTIVATION_GELU_TANH, value);
    head(&f, "head", norm(&f, "norm", first, second, &sum));
    compile(&f);
    assert_true(gradient_of(&f, value) >= 0);
    assert_int_equal(added_by(&f, second, 0), -1); /* its B runs first and writes */
    assert_true(added_by(&f, first, 0) >= 0);
    assert_int_equal(gradient_of(&f, first), gradient_of(&f, second)); /* shared */
    assert_int_equal(gradient_of(&f, sum), -1);                        /* nobody reads it */
    assert_gradients(&f);

    haul_pass *passes = f.program.passes;
    int64_t writes = find_pass(&f, HAUL_PASS_BACKWARD, second, 1);
    int64_t adds = find_pass(&f, HAUL_PASS_BACKWARD, first, 1);
    assert_true(writes < adds);
    haul_pass pass = passes[writes];
    passes[writes] = passes[adds];
    passes[adds] = pass;
    haul_test_assert_fails(haul_program_check(&f.program), HAUL_ERROR_INTERNAL,
                           "B of first, micro-batch 1: linear.out gradient is read but was not");
    fixture_close(&f);
}

/* The addend has a second consumer: its gradient is a tensor of its own, to which the norm adds. */
static void test_second_consumer_ends_sharing(void **state) {
    (void)state;
    fixture f;
    begin(&f);
    int sum, value = linear(&f, "linear", embedding(&f));
    int first = activation(&f, "first", HAUL_ACTIVATION_GELU, value);
    int second = activation(&f, "second", HAUL_ACTIVATION_GELU_TANH, value);
    int y = norm(&f, "norm", first, second, &sum), z = norm(&f, "norm2", y, second, &sum);
    head(&f, "head", z);
    compile(&f);
    assert_true(gradient_of(&f, first) != gradient_of(&f, second));
    assert_true(gradient_of(&f, y) != gradient_of(&f, second));
    assert_int_equal(added_by(&f, z, 1), -1);
    assert_int_equal(added_by(&f, y, 0), -1);
    assert_true(added_by(&f, y, 1) >= 0);
    assert_gradients(&f);
    fixture_close(&f);
}

/* Both inputs of a norm have later consumers: it has two gradients to add, both in scratch. */
static void test_adds_to_both(void **state) {
    (void)state;
    fixture f;
    begin(&f);
    int sum, value = linear(&f, "linear", embedding(&f));
    int first = activation(&f, "first", HAUL_ACTIVATION_GELU, value);
    int second = activation(&f, "second", HAUL_ACTIVATION_GELU_TANH, value);
    int x = norm(&f, "norm", first, second, &sum);
    int y = norm(&f, "norm2", x, first, &sum);
    head(&f, "head", norm(&f, "norm3", y, second, &sum));
    compile(&f);
    int a = added_by(&f, x, 0), b = added_by(&f, x, 1);
    assert_true(a >= 0 && b >= 0);
    assert_gradients(&f);

    f.program.objects[b].offset = f.program.objects[a].offset;
    haul_test_assert_fails(haul_program_check(&f.program), HAUL_ERROR_INTERNAL,
                           "B of norm, micro-batch 0: second.out gradient to add shares memory");
    fixture_close(&f);
}

static void test_same_value_twice(void **state) {
    (void)state;
    fixture f;
    begin(&f);
    int sum, value = linear(&f, "linear", embedding(&f));
    head(&f, "head", norm(&f, "norm", value, value, &sum));
    compile(&f);
    assert_gradients(&f);
    fixture_close(&f);
}

/* The residual stream: the sum goes on and gets the gradients of norm and stream. */
static void test_residual_stream(void **state) {
    (void)state;
    fixture f;
    begin(&f);
    int sum, last, x = embedding(&f);
    int y = norm(&f, "norm", x, linear(&f, "linear", x), &sum);
    head(&f, "head", norm(&f, "norm2", sum, linear(&f, "linear2", y), &last));
    compile(&f);
    assert_gradients(&f);
    fixture_close(&f);
}

/* The embedding's table is the head's weight: one buffer, one gradient, the sum of both uses. */
static void test_tied_weights(void **state) {
    (void)state;
    fixture f;
    begin(&f);
    int sum, x = embedding(&f);
    head(&f, "table", norm(&f, "norm", x, linear(&f, "linear", x), &sum));
    compile(&f);
    assert_int_equal(f.chunk.buffer_count, 5);
    assert_gradients(&f);
    fixture_close(&f);
}

/* Nobody wants the gradient of what the batch brings: that node has a W and no B. */
static void test_no_gradient_for_the_batch(void **state) {
    (void)state;
    fixture f;
    int features, sum;
    begin(&f);
    haul_tensor shape = haul_tensor_2d(NULL, HAUL_F64, ROWS, HIDDEN);
    assert_ok(haul_chunk_add_input(&f.chunk, "features", shape, &features));
    int x = linear(&f, "linear", features);
    head(&f, "head", norm(&f, "norm", x, embedding(&f), &sum));
    compile(&f);
    assert_int_equal(find_pass(&f, HAUL_PASS_BACKWARD, x, 0), -1);
    assert_true(find_pass(&f, HAUL_PASS_WEIGHT, x, 0) >= 0);
    assert_gradients(&f);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_consumers),
        cmocka_unit_test(test_second_consumer_ends_sharing),
        cmocka_unit_test(test_adds_to_both),
        cmocka_unit_test(test_same_value_twice),
        cmocka_unit_test(test_residual_stream),
        cmocka_unit_test(test_tied_weights),
        cmocka_unit_test(test_no_gradient_for_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
