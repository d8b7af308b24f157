/* ctest: unit cuda */
/* Attention against ref; on the cpu by each instruction set that runs here. */
#include "device/compare.h"
#include "device/cpu/simd/attention_block.h"
#include "device/cpu/simd/simd.h"

typedef struct attention_case {
    const char *name;
    haul_attention_shape shape;
} attention_case;

static const attention_case cases[] = {
    {"odd",
     {.batch = 2,
      .queries = 5,
      .keys = 5,
      .key_capacity = 5,
      .heads = 4,
      .groups = 2,
      .head_size = 6}},
    {"small model",
     {.batch = 2,
      .queries = 128,
      .keys = 128,
      .key_capacity = 128,
      .heads = 3,
      .groups = 3,
      .head_size = 32}},
    {"several blocks, shared keys",
     {.batch = 1,
      .queries = 230,
      .keys = 230,
      .key_capacity = 230,
      .heads = 4,
      .groups = 2,
      .head_size = 64}},
    {"dropout",
     {.batch = 2,
      .queries = 131,
      .keys = 131,
      .key_capacity = 131,
      .heads = 2,
      .groups = 1,
      .head_size = 20,
      .dropout = {.probability = 0.2,
                  .seed = 0xabcdef0123456u,
                  .step = 5,
                  .stream = 7,
                  .first_sample = 11}}},
    {"decoding",
     {.batch = 3,
      .queries = 1,
      .keys = 117,
      .key_capacity = 128,
      .query_offset = 116,
      .heads = 8,
      .groups = 2,
      .head_size = 16}},
    {"continued",
     {.batch = 1,
      .queries = 70,
      .keys = 200,
      .key_capacity = 201,
      .query_offset = 130,
      .heads = 2,
      .groups = 1,
      .head_size = 80}},
    {"large heads",
     {.batch = 1,
      .queries = 33,
      .keys = 33,
      .key_capacity = 33,
      .heads = 2,
      .groups = 2,
      .head_size = 256}},
    {"keys that nobody sees",
     {.batch = 2,
      .queries = 4,
      .keys = 140,
      .key_capacity = 140,
      .query_offset = 3,
      .heads = 2,
      .groups = 1,
      .head_size = 8}},
    {"queries that see nothing",
     {.batch = 1,
      .queries = 20,
      .keys = 18,
      .key_capacity = 18,
      .query_offset = -2,
      .heads = 2,
      .groups = 2,
      .head_size = 8}},
    {"every key seen",
     {.batch = 1,
      .queries = 20,
      .keys = 100,
      .key_capacity = 100,
      .query_offset = 100,
      .heads = 2,
      .groups = 2,
      .head_size = 8}},
};

/* As a GPU's library likes it, and without gaps between rows. */
static const attention_case many_tiles = {"many tiles",
                                          {.batch = 8,
                                           .queries = 128,
                                           .keys = 128,
                                           .key_capacity = 128,
                                           .heads = 128,
                                           .groups = 32,
                                           .head_size = 32}};

/* All tensors of one case; keys hold key and value side by side, rows have gaps. */
typedef struct tensors {
    haul_attention_shape shape;
    haul_twin queries, keys, out, log_sum_exp, d_out, d_queries, d_keys;
} tensors;

static tensors make(const attention_case *test, haul_dtype dtype) {
    tensors all = {.shape = test->shape};
    haul_attention_shape *shape = &all.shape;
    shape->scale = 1.0 / sqrt((double)shape->head_size);
    shape->query_stride = shape->heads * shape->head_size + (test == &many_tiles ? 0 : 3);
    shape->key_stride = 2 * shape->groups * shape->head_size + (test == &many_tiles ? 0 : 5);
    int64_t rows = shape->batch * shape->queries, key_rows = shape->batch * shape->key_capacity;
    int64_t width = shape->heads * shape->head_size;
    all.queries = haul_twin_random(dtype, rows, shape->query_stride, 1.0, 1);
    all.keys = haul_twin_random(dtype, key_rows, shape->key_stride, 1.0, 2);
    all.d_out = haul_twin_random(dtype, rows, width, 1.0, 3);
    all.out = haul_twin_output(dtype, rows, width);
    all.log_sum_exp = haul_twin_output(HAUL_F32, shape->batch * shape->heads, shape->queries);
    all.d_queries = haul_twin_output(dtype, rows, shape->query_stride);
    all.d_keys = haul_twin_output(dtype, key_rows, shape->key_stride);
    return all;
}

static void destroy(tensors *all) {
    haul_twin *twins[] = {&all->queries, &all->keys,      &all->out,   &all->log_sum_exp,
                          &all->d_out,   &all->d_queries, &all->d_keys};
    for (size_t i = 0; i < sizeof twins / sizeof twins[0]; i++) {
        haul_twin_free(twins[i]);
    }
}

static const haul_tensor *side(const haul_twin *twin, bool ref) {
    return ref ? &twin->ref : &twin->tested;
}

/* The part of a row that begins at `column`, of `columns`. */
static haul_tensor part(const haul_twin *twin, bool ref, int64_t column, int64_t columns) {
    const haul_tensor *whole = side(twin, ref);
    return haul_tensor_2d(haul_tensor_at(whole, column), whole->dtype, haul_tensor_rows(whole),
                          columns);
}

static haul_attention_args forward_args(const tensors *all, bool ref) {
    int64_t width = all->shape.heads * all->shape.head_size;
    int64_t key_width = all->shape.groups * all->shape.head_size;
    return (haul_attention_args){
        .shape = all->shape,
        .query = part(&all->queries, ref, 0, width),
        .key = part(&all->keys, ref, 0, key_width),
        .value = part(&all->keys, ref, key_width, key_width),
        .out = *side(&all->out, ref),
        .log_sum_exp = *side(&all->log_sum_exp, ref),
    };
}

static haul_attention_backward_args backward_args(const tensors *all, bool ref) {
    haul_attention_args forward = forward_args(all, ref);
    return (haul_attention_backward_args){
        .shape = all->shape,
        .query = forward.query,
        .key = forward.key,
        .value = forward.value,
        .out = forward.out,
        .d_out = *side(&all->d_out, ref),
        .log_sum_exp = forward.log_sum_exp,
        .d_query = part(&all->d_queries, ref, 0, forward.query.shape[1]),
        .d_key = part(&all->d_keys, ref, 0, forward.key.shape[1]),
        .d_value = part(&all->d_keys, ref, forward.key.shape[1], forward.key.shape[1]),
    };
}

/* Magnitudes that rounding errors are relative to, each the largest of the case. */
typedef struct magnitudes {
    double score;   /* scale * sum |q| |k| */
    double d_score; /* sum |d_out| |v| / (1 - p) + sum |d_out| |out| */
    double log_sum; /* |log_sum_exp| + |score| */
    double column;  /* the sum of a key's probabilities over all queries of all its heads */
    double query, key, value, d_out;
} magnitudes;

static double dot_magnitude(const double *a, const double *b, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += fabs(a[i] * b[i]);
    }
    return sum;
}

static double largest(const haul_tensor *tensor) {
    double result = 0.0;
    for (int64_t i = 0; i < haul_tensor_count(tensor); i++) {
        result = fmax(result, fabs(((const double *)tensor->data)[i]));
    }
    return result;
}

static void measure_query(const tensors *all, int64_t b, int64_t n, int64_t i, double *columns,
                          magnitudes *result) {
    const haul_attention_shape *shape = &all->shape;
    int64_t size = shape->head_size, group = n / (shape->heads / shape->groups);
    int64_t row = b * shape->queries + i;
    const double *q = (double *)all->queries.ref.data + row * shape->query_stride + n * size;
    const double *out = (double *)all->out.ref.data + (row * shape->heads + n) * size;
    const double *d_out = (double *)all->d_out.ref.data + (row * shape->heads + n) * size;
    double log_sum =
        ((double *)all->log_sum_exp.ref.data)[(b * shape->heads + n) * shape->queries + i];
    for (int64_t j = 0; j < shape->keys && j <= i + shape->query_offset; j++) {
        int64_t at = (b * shape->key_capacity + j) * shape->key_stride + group * size;
        const double *k = (double *)all->keys.ref.data + at, *v = k + shape->groups * size;
        double score = 0.0;
        for (int64_t d = 0; d < size; d++) {
            score += shape->scale * q[d] * k[d];
        }
        columns[(b * shape->groups + group) * shape->keys + j] += exp(score - log_sum);
        result->score = fmax(result->score, shape->scale * dot_magnitude(q, k, size));
        result->log_sum = fmax(result->log_sum, fabs(log_sum) + fabs(score));
        double d_probability = dot_magnitude(d_out, v, size) / (1.0 - shape->dropout.probability);
        result->d_score = fmax(result->d_score, d_probability + dot_magnitude(d_out, out, size));
    }
}

/* After the forward on ref. */
static magnitudes measure(const tensors *all) {
    const haul_attention_shape *shape = &all->shape;
    magnitudes result = {
        .query = largest(&all->queries.ref),
        .key = largest(&all->keys.ref),
        .value = largest(&all->keys.ref),
        .d_out = largest(&all->d_out.ref),
    };
    int64_t count = shape->batch * shape->groups * shape->keys;
    double *columns = haul_calloc(count, sizeof *columns);
    assert_non_null(columns);
    for (int64_t b = 0; b < shape->batch; b++) {
        for (int64_t n = 0; n < shape->heads; n++) {
            for (int64_t i = 0; i < shape->queries; i++) {
                measure_query(all, b, n, i, columns, &result);
            }
        }
    }
    for (int64_t i = 0; i < count; i++) {
        result.column = fmax(result.column, columns[i]);
    }
    free(columns);
    return result;
}

/* The relative error of a probability: that of its score (whose scale is rounded too), of its
 * difference with log_sum_exp in whatever units, and of the power itself. */
static double probability_error(const tensors *all, const magnitudes *sizes) {
    return haul_test_sum_bound(all->shape.head_size + 2, sizes->score) +
           haul_test_sum_bound(3, sizes->log_sum) + 4 * 0x1p-24;
}

static const char *backend; /* under test */

/* In bf16 tensor cores multiply probabilities and their gradients rounded to bf16. */
static double product_error(const tensors *all) {
    bool tensor_cores = strcmp(backend, "cuda") == 0;
    return tensor_cores && all->queries.tested.dtype == HAUL_BF16 ? 0x1p-9 : 0.0;
}

static void assert_forward(const tensors *all, const magnitudes *sizes) {
    double kept = 1.0 / (1.0 - all->shape.dropout.probability);
    /* Numerator and denominator each err by their terms and by adding them up; a running maximum
     * rescales once a block. */
    double relative =
        2.0 * (probability_error(all, sizes) + haul_test_sum_bound(2 * all->shape.keys, 1.0));
    haul_twin_assert_close(&all->out, (relative + product_error(all)) * kept * sizes->value, "out");
    haul_twin_assert_close(&all->log_sum_exp, relative, "log_sum_exp");
}

static void assert_backward(const tensors *all, const magnitudes *sizes) {
    const haul_attention_shape *shape = &all->shape;
    double kept = 1.0 / (1.0 - shape->dropout.probability);
    double relative = probability_error(all, sizes) +
                      haul_test_sum_bound(shape->head_size + 4, 1.0) + /* of P and of d_score */
                      product_error(all);
    int64_t summed_queries = shape->queries * (shape->heads / shape->groups);
    double over_keys = relative + haul_test_sum_bound(shape->keys, 1.0);
    double over_queries = relative + haul_test_sum_bound(summed_queries, 1.0);
    double d_query = over_keys * shape->scale * sizes->d_score * sizes->key;
    double d_key = over_queries * sizes->column * shape->scale * sizes->d_score * sizes->query;
    double d_value = over_queries * sizes->column * kept * sizes->d_out;
    haul_twin_assert_close(&all->d_queries, d_query, "d_query");
    haul_twin_assert_close(&all->d_keys, fmax(d_key, d_value), "d_key and d_value");
}

/* Gives ref what the tested forward left, so that the backward is judged by itself. */
static void adopt(haul_twin *twin) {
    for (int64_t i = 0; i < haul_tensor_count(&twin->tested); i++) {
        haul_twin_set(twin, i, haul_element_get(twin->tested.data, twin->tested.dtype, i));
    }
}

static void check_case(haul_pair *pair, const attention_case *test, haul_dtype dtype) {
    tensors all = make(test, dtype);
    haul_attention_args forward = forward_args(&all, false), forward_ref = forward_args(&all, true);
    haul_pair_launch(pair, HAUL_OP_ATTENTION, &forward, &forward_ref);
    magnitudes sizes = measure(&all);
    assert_forward(&all, &sizes);
    adopt(&all.out);
    adopt(&all.log_sum_exp);
    haul_attention_backward_args backward = backward_args(&all, false);
    haul_attention_backward_args backward_ref = backward_args(&all, true);
    haul_pair_launch(pair, HAUL_OP_ATTENTION_BACKWARD, &backward, &backward_ref);
    assert_backward(&all, &sizes);
    destroy(&all);
}

static void check_cases(haul_pair *pair, const char *isa, haul_dtype dtype) {
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        print_message("%s, %s, %s\n", isa, haul_dtype_name(dtype), cases[c].name);
        check_case(pair, &cases[c], dtype);
    }
}

static void check_every_case(haul_dtype dtype) {
    haul_pair pair;
    haul_pair_open(&pair, backend, 2);
    if (strcmp(backend, "cpu") != 0) {
        check_cases(&pair, backend, dtype);
        check_case(&pair, &many_tiles, dtype);
    }
    for (int i = 0; strcmp(backend, "cpu") == 0 && haul_cpu_isa_at(i) != NULL; i++) {
        haul_cpu_use_isa(&pair.tested_device, haul_cpu_isa_at(i));
        check_cases(&pair, haul_cpu_isa_at(i)->name, dtype);
    }
    haul_pair_close(&pair);
}

static void test_f32(void **state) {
    (void)state;
    check_every_case(HAUL_F32);
}

static void test_bf16(void **state) {
    (void)state;
    check_every_case(HAUL_BF16);
}

static tensors run_with_threads(const attention_case *test, haul_pair *pair, int threads) {
    haul_pair_open(pair, backend, threads);
    tensors all = make(test, HAUL_F32);
    haul_attention_args forward = forward_args(&all, false);
    haul_attention_backward_args backward = backward_args(&all, false);
    haul_test_launch(&pair->tested, HAUL_OP_ATTENTION, &forward);
    haul_test_launch(&pair->tested, HAUL_OP_ATTENTION_BACKWARD, &backward);
    return all;
}

static void assert_same_bits(const haul_twin *a, const haul_twin *b) {
    assert_memory_equal(a->tested.data, b->tested.data, (size_t)haul_tensor_bytes(&a->tested));
}

static void test_results_do_not_depend_on_threads(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        haul_pair first, second;
        tensors one = run_with_threads(&cases[c], &first, 1);
        tensors three = run_with_threads(&cases[c], &second, 3);
        assert_same_bits(&one.out, &three.out);
        assert_same_bits(&one.log_sum_exp, &three.log_sum_exp);
        assert_same_bits(&one.d_queries, &three.d_queries);
        assert_same_bits(&one.d_keys, &three.d_keys);
        destroy(&one);
        destroy(&three);
        haul_pair_close(&second);
        haul_pair_close(&first);
    }
}

static void test_refuses_mixed_dtypes(void **state) {
    (void)state;
    haul_pair pair;
    haul_pair_open(&pair, backend, 1);
    tensors all = make(&cases[0], HAUL_F32);
    haul_attention_args forward = forward_args(&all, false);
    forward.key.dtype = HAUL_BF16;
    haul_launch(&pair.tested, HAUL_OP_ATTENTION, &forward);
    haul_test_assert_fails(haul_stream_status(&pair.tested), HAUL_ERROR_UNAVAILABLE, "attention");
    destroy(&all);
    haul_pair_close(&pair);
}

static void test_exp2(void **state) {
    (void)state;
    for (float x = 0.0f; x >= -125.9f; x -= 0.00123f) {
        double want = exp2((double)x);
        if (!(fabs((double)exp2_f32(x) - want) <= 0x1p-23 * want)) {
            fail_msg("exp2_f32(%.9g) is %.9g, must be %.9g", (double)x, (double)exp2_f32(x), want);
        }
    }
    assert_true(exp2_f32(0.0f) == 1.0f && exp2_f32(-3.0f) == 0.125f);
    assert_true(exp2_f32(-126.5f) == 0.0f && exp2_f32(-1e30f) == 0.0f);
    assert_true(exp2_f32(-INFINITY) == 0.0f && isnan(exp2_f32(NAN)));
}

int main(int argc, char **argv) {
    backend = haul_test_backend(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp2),
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_results_do_not_depend_on_threads),
        cmocka_unit_test(test_refuses_mixed_dtypes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
