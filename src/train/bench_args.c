#include "train/bench_args.h"

#include <stdio.h>

#define AT(op, field) offsetof(haul_##op##_args, field)
#define ARGS(op)      sizeof(haul_##op##_args)

static const haul_bench_op ops[HAUL_OPS] = {
    [HAUL_OP_FILL] = {ARGS(fill), 0, 1, {{.offset = AT(fill, y)}}},
    [HAUL_OP_COPY] = {ARGS(copy),
                      0,
                      2,
                      {{AT(copy, x), HAUL_BENCH_NORMAL, AT(copy, x_stride)},
                       {AT(copy, y), HAUL_BENCH_ZERO, AT(copy, y_stride)}}},
    [HAUL_OP_ADD] = {ARGS(add),
                     0,
                     3,
                     {{AT(add, a), HAUL_BENCH_NORMAL, 0},
                      {AT(add, b), HAUL_BENCH_NORMAL, 0},
                      {AT(add, y), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_DROPOUT] = {ARGS(dropout),
                         0,
                         2,
                         {{AT(dropout, x), HAUL_BENCH_NORMAL, 0},
                          {AT(dropout, y), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_EMBED] = {ARGS(embed),
                       0,
                       4,
                       {{AT(embed, tokens), HAUL_BENCH_TOKEN, 0},
                        {AT(embed, table), HAUL_BENCH_NORMAL, 0},
                        {AT(embed, positions), HAUL_BENCH_NORMAL, 0},
                        {AT(embed, y), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_EMBED_BACKWARD] = {ARGS(embed_backward),
                                0,
                                4,
                                {{AT(embed_backward, tokens), HAUL_BENCH_TOKEN, 0},
                                 {AT(embed_backward, dy), HAUL_BENCH_NORMAL, 0},
                                 {AT(embed_backward, d_table), HAUL_BENCH_ZERO, 0},
                                 {AT(embed_backward, d_positions), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_NORM] = {ARGS(norm),
                      0,
                      7,
                      {{AT(norm, x), HAUL_BENCH_NORMAL, 0},
                       {AT(norm, addend), HAUL_BENCH_NORMAL, 0},
                       {AT(norm, sum), HAUL_BENCH_ZERO, 0},
                       {AT(norm, weight), HAUL_BENCH_NORMAL, 0},
                       {AT(norm, bias), HAUL_BENCH_NORMAL, 0},
                       {AT(norm, y), HAUL_BENCH_ZERO, 0},
                       {AT(norm, statistics), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_NORM_BACKWARD] = {ARGS(norm_backward),
                               0,
                               8,
                               {{AT(norm_backward, dy), HAUL_BENCH_NORMAL, 0},
                                {AT(norm_backward, s), HAUL_BENCH_NORMAL, 0},
                                {AT(norm_backward, weight), HAUL_BENCH_NORMAL, 0},
                                {AT(norm_backward, statistics), HAUL_BENCH_NORMAL, 0},
                                {AT(norm_backward, residual), HAUL_BENCH_NORMAL, 0},
                                {AT(norm_backward, dx), HAUL_BENCH_ZERO, 0},
                                {AT(norm_backward, d_weight), HAUL_BENCH_ZERO, 0},
                                {AT(norm_backward, d_bias), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_PACK] = {ARGS(pack),
                      0,
                      2,
                      {{AT(pack, weight), HAUL_BENCH_NORMAL, 0},
                       {AT(pack, packed), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_QUANTIZE] = {ARGS(quantize),
                          0,
                          5,
                          {{AT(quantize, x), HAUL_BENCH_NORMAL, 0},
                           {AT(quantize, codes), HAUL_BENCH_ZERO, 0},
                           {AT(quantize, scales), HAUL_BENCH_ZERO, 0},
                           {AT(quantize, transposed), HAUL_BENCH_ZERO, 0},
                           {AT(quantize, transposed_scales), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_MATMUL] = {ARGS(matmul),
                        0,
                        7,
                        {{AT(matmul, a), HAUL_BENCH_NORMAL, 0},
                         {AT(matmul, b), HAUL_BENCH_NORMAL, 0},
                         {AT(matmul, c), HAUL_BENCH_ZERO, 0},
                         {AT(matmul, bias), HAUL_BENCH_NORMAL, 0},
                         {AT(matmul, packed), HAUL_BENCH_PACKED, 0},
                         {AT(matmul, a_scales), HAUL_BENCH_ONE, 0},
                         {AT(matmul, b_scales), HAUL_BENCH_ONE, 0}}},
    [HAUL_OP_BIAS_BACKWARD] = {ARGS(bias_backward),
                               0,
                               2,
                               {{AT(bias_backward, dy), HAUL_BENCH_NORMAL, 0},
                                {AT(bias_backward, d_bias), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_ROPE] = {ARGS(rope),
                      0,
                      2,
                      {{AT(rope, x), HAUL_BENCH_NORMAL, 0}, {AT(rope, table), HAUL_BENCH_TURN, 0}}},
    [HAUL_OP_ATTENTION] =
        {ARGS(attention),
         0,
         5,
         {{AT(attention, query), HAUL_BENCH_NORMAL, AT(attention, shape.query_stride)},
          {AT(attention, key), HAUL_BENCH_NORMAL, AT(attention, shape.key_stride)},
          {AT(attention, value), HAUL_BENCH_NORMAL, AT(attention, shape.key_stride)},
          {AT(attention, out), HAUL_BENCH_ZERO, 0},
          {AT(attention, log_sum_exp), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_ATTENTION_BACKWARD] = {ARGS(attention_backward),
                                    0,
                                    9,
                                    {{AT(attention_backward, query), HAUL_BENCH_NORMAL,
                                      AT(attention_backward, shape.query_stride)},
                                     {AT(attention_backward, key), HAUL_BENCH_NORMAL,
                                      AT(attention_backward, shape.key_stride)},
                                     {AT(attention_backward, value), HAUL_BENCH_NORMAL,
                                      AT(attention_backward, shape.key_stride)},
                                     {AT(attention_backward, out), HAUL_BENCH_NORMAL, 0},
                                     {AT(attention_backward, d_out), HAUL_BENCH_NORMAL, 0},
                                     {AT(attention_backward, log_sum_exp), HAUL_BENCH_TEN, 0},
                                     {AT(attention_backward, d_query), HAUL_BENCH_ZERO,
                                      AT(attention_backward, shape.query_stride)},
                                     {AT(attention_backward, d_key), HAUL_BENCH_ZERO,
                                      AT(attention_backward, shape.key_stride)},
                                     {AT(attention_backward, d_value), HAUL_BENCH_ZERO,
                                      AT(attention_backward, shape.key_stride)}}},
    [HAUL_OP_SWIGLU] = {ARGS(swiglu),
                        0,
                        2,
                        {{AT(swiglu, x), HAUL_BENCH_NORMAL, 0},
                         {AT(swiglu, y), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_SWIGLU_BACKWARD] = {ARGS(swiglu_backward),
                                 0,
                                 3,
                                 {{AT(swiglu_backward, dy), HAUL_BENCH_NORMAL, 0},
                                  {AT(swiglu_backward, x), HAUL_BENCH_NORMAL, 0},
                                  {AT(swiglu_backward, dx), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_GELU] = {ARGS(gelu),
                      0,
                      2,
                      {{AT(gelu, x), HAUL_BENCH_NORMAL, 0}, {AT(gelu, y), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_GELU_BACKWARD] = {ARGS(gelu_backward),
                               0,
                               3,
                               {{AT(gelu_backward, dy), HAUL_BENCH_NORMAL, 0},
                                {AT(gelu_backward, x), HAUL_BENCH_NORMAL, 0},
                                {AT(gelu_backward, dx), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_LOSS] = {ARGS(loss),
                      0,
                      4,
                      {{AT(loss, logits), HAUL_BENCH_NORMAL, 0},
                       {AT(loss, targets), HAUL_BENCH_TOKEN, 0},
                       {AT(loss, weights), HAUL_BENCH_NORMAL, 0},
                       {AT(loss, losses), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_SQUARED_NORM] = {ARGS(squared_norm),
                              0,
                              2,
                              {{AT(squared_norm, x), HAUL_BENCH_NORMAL, 0},
                               {AT(squared_norm, result), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_VERDICT] = {ARGS(verdict),
                         AT(verdict, scalars),
                         2,
                         {{AT(verdict, squares), HAUL_BENCH_POSITIVE, 0},
                          {AT(verdict, norm), HAUL_BENCH_ZERO, 0}}},
    [HAUL_OP_ADAM] = {ARGS(adam),
                      AT(adam, scalars),
                      5,
                      {{AT(adam, parameter), HAUL_BENCH_NORMAL, 0},
                       {AT(adam, low), HAUL_BENCH_ZERO, 0},
                       {AT(adam, gradient), HAUL_BENCH_NORMAL, 0},
                       {AT(adam, first_moment), HAUL_BENCH_NORMAL, 0},
                       {AT(adam, second_moment), HAUL_BENCH_POSITIVE, 0}}},
    [HAUL_OP_SGD] = {ARGS(sgd),
                     AT(sgd, scalars),
                     4,
                     {{AT(sgd, parameter), HAUL_BENCH_NORMAL, 0},
                      {AT(sgd, low), HAUL_BENCH_ZERO, 0},
                      {AT(sgd, gradient), HAUL_BENCH_NORMAL, 0},
                      {AT(sgd, momentum_buffer), HAUL_BENCH_NORMAL, 0}}},
};

const haul_bench_op *haul_bench_op_of(haul_op op) {
    return &ops[op];
}

static const haul_tensor *tensor_at(const void *args, size_t offset) {
    return (const haul_tensor *)(const void *)((const char *)args + offset);
}

haul_tensor *haul_bench_tensor_of(haul_op op, void *args, int i) {
    return (haul_tensor *)(void *)((char *)args + ops[op].tensors[i].offset);
}

int64_t haul_bench_span(haul_op op, const void *args, int i) {
    const haul_bench_tensor *place = &ops[op].tensors[i];
    const haul_tensor *tensor = tensor_at(args, place->offset);
    if (place->stride == 0) {
        return haul_tensor_bytes(tensor);
    }
    int64_t stride = *(const int64_t *)(const void *)((const char *)args + place->stride);
    return haul_tensor_rows(tensor) * stride * haul_dtype_size(tensor->dtype);
}

int64_t haul_bench_vocabulary(haul_op op, const void *args) {
    switch (op) {
    case HAUL_OP_EMBED:
        return haul_tensor_rows(&((const haul_embed_args *)args)->table);
    case HAUL_OP_EMBED_BACKWARD:
        return haul_tensor_rows(&((const haul_embed_backward_args *)args)->d_table);
    case HAUL_OP_LOSS:
        return ((const haul_loss_args *)args)->vocabulary;
    default:
        return 1;
    }
}

static void matmul_shape(const haul_matmul_args *args, char *text, size_t capacity) {
    int64_t k = args->transpose_a ? haul_tensor_rows(&args->a) : haul_tensor_columns(&args->a);
    snprintf(text, capacity, "%lld x %lld x %lld %s%s > %s, %c%c%s%s",
             (long long)haul_tensor_rows(&args->c), (long long)haul_tensor_columns(&args->c),
             (long long)k, haul_dtype_name(args->a.dtype),
             haul_tensor_present(&args->packed) ? " packed" : "", haul_dtype_name(args->c.dtype),
             args->transpose_a ? 'T' : 'N', args->transpose_b ? 'T' : 'N',
             haul_tensor_present(&args->bias) ? ", bias" : "", args->accumulate ? ", adds" : "");
}

static void attention_shape(const haul_attention_shape *shape, char *text, size_t capacity) {
    snprintf(text, capacity, "%lld x %lld tokens, %lld heads, %lld groups of %lld",
             (long long)shape->batch, (long long)shape->queries, (long long)shape->heads,
             (long long)shape->groups, (long long)shape->head_size);
}

void haul_bench_shape(haul_op op, const void *args, char *text, int64_t capacity) {
    const haul_tensor *first = tensor_at(args, ops[op].tensors[0].offset);
    /* Of an embedding the first tensor is the tokens; the rows that move say more. */
    if (op == HAUL_OP_EMBED) {
        first = &((const haul_embed_args *)args)->y;
    } else if (op == HAUL_OP_EMBED_BACKWARD) {
        first = &((const haul_embed_backward_args *)args)->dy;
    }
    if (op == HAUL_OP_MATMUL) {
        matmul_shape(args, text, (size_t)capacity);
    } else if (op == HAUL_OP_ATTENTION) {
        attention_shape(&((const haul_attention_args *)args)->shape, text, (size_t)capacity);
    } else if (op == HAUL_OP_ATTENTION_BACKWARD) {
        attention_shape(&((const haul_attention_backward_args *)args)->shape, text,
                        (size_t)capacity);
    } else {
        snprintf(text, (size_t)capacity, "%lld x %lld %s", (long long)haul_tensor_rows(first),
                 (long long)haul_tensor_columns(first), haul_dtype_name(first->dtype));
    }
}
