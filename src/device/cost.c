/* Names and costs of the ops, as one table: which tensors an op reads and writes, and how many
 * floating-point operations it does for each element of one of them. */
#include "base/memory.h"
#include "device/op.h"

#include <stddef.h>

/* Where the args of an op keep a tensor, plus 1, so that 0 ends a list. */
#define AT(op, field) (offsetof(haul_##op##_args, field) + 1)

enum { LIST = 8 };

typedef struct op_row {
    const char *name;
    size_t read[LIST];
    size_t written[LIST];
    size_t counted;       /* the tensor whose elements are counted for `work` */
    int64_t work;         /* operations for each of them, exp and its like as one */
    size_t accumulate[2]; /* flags (bool) that make the output listed at the same place in... */
    size_t added[2];      /* ...here an input too */
    /* Instead of the lists, where they do not say enough. */
    haul_cost (*cost)(const void *args);
} op_row;

/* Each tensor has less than 2^63 bytes, but the work on it may be beyond: it is counted in twice
 * the width and says INT64_MAX then. */
typedef __int128 wide;

static int64_t narrow(wide count) {
    return count < INT64_MAX ? (int64_t)count : INT64_MAX;
}

static haul_cost cost_of(wide flops, wide bytes) {
    return (haul_cost){narrow(flops), narrow(bytes)};
}

static haul_cost copy_cost(const void *args) {
    const haul_copy_args *copy = args;
    wide element = haul_dtype_size(copy->x.dtype) + haul_dtype_size(copy->y.dtype);
    return cost_of(0, haul_tensor_count(&copy->y) * element);
}

/* Only the looked-up rows of the table move, each read and written once. */
static haul_cost embed_cost(const void *args) {
    const haul_embed_args *embed = args;
    wide y = haul_tensor_bytes(&embed->y);
    bool positions = haul_tensor_present(&embed->positions);
    return cost_of(positions ? haul_tensor_count(&embed->y) : 0,
                   haul_tensor_bytes(&embed->tokens) + (positions ? 3 : 2) * y);
}

static haul_cost embed_backward_cost(const void *args) {
    const haul_embed_backward_args *embed = args;
    wide count = haul_tensor_count(&embed->dy);
    wide outputs = haul_tensor_present(&embed->d_positions) ? 2 : 1;
    wide moved = 2 * count * haul_dtype_size(embed->d_table.dtype); /* read, added, written */
    return cost_of(outputs * count, haul_tensor_bytes(&embed->tokens) +
                                        haul_tensor_bytes(&embed->dy) + outputs * moved);
}

static haul_cost matmul_cost(const void *args) {
    const haul_matmul_args *matmul = args;
    wide k = matmul->transpose_a ? haul_tensor_rows(&matmul->a) : haul_tensor_columns(&matmul->a);
    wide c = haul_tensor_bytes(&matmul->c), moved_c = matmul->accumulate ? 2 * c : c;
    int additions = haul_tensor_present(&matmul->bias) + (matmul->accumulate ? 1 : 0);
    return cost_of(haul_tensor_count(&matmul->c) * (2 * k + additions),
                   moved_c + haul_tensor_bytes(&matmul->a) + haul_tensor_bytes(&matmul->b) +
                       haul_tensor_bytes(&matmul->bias));
}

static haul_cost rope_cost(const void *args) {
    const haul_rope_args *rope = args;
    wide size = rope->rotary_size, turned = haul_tensor_rows(&rope->x) * rope->heads * size;
    wide table = rope->sequence_length * size * haul_dtype_size(rope->table.dtype);
    return cost_of(3 * turned, 2 * turned * haul_dtype_size(rope->x.dtype) + table);
}

/* The (query, key) pairs of one head of one sample that the causal mask leaves. */
static wide visible_pairs(const haul_attention_shape *shape) {
    /* Query i sees min(Tk, i + offset + 1) keys: growing up to query `full`, then all. */
    int64_t first = haul_min(shape->queries, haul_max(0, -shape->query_offset));
    int64_t full = haul_min(shape->queries, haul_max(first, shape->keys - shape->query_offset));
    wide growing = full - first, rest = shape->queries - full;
    wide least = first + shape->query_offset + 1, most = full + shape->query_offset;
    return growing * (least + most) / 2 + rest * shape->keys;
}

/* `products` of the size of Q K^T; `queries` and `keys` tensors of the sizes of query and key. */
static haul_cost attention_shape_cost(const haul_attention_shape *shape, haul_dtype dtype,
                                      haul_dtype statistics, int products, int queries, int keys) {
    wide size = shape->head_size, heads = shape->batch * shape->heads;
    wide query = heads * shape->queries * size;
    wide key = size * shape->batch * shape->groups * shape->keys;
    return cost_of(products * 2 * heads * visible_pairs(shape) * size,
                   (queries * query + keys * key) * haul_dtype_size(dtype) +
                       heads * shape->queries * haul_dtype_size(statistics));
}

static haul_cost attention_cost(const void *args) {
    const haul_attention_args *attention = args;
    return attention_shape_cost(&attention->shape, attention->query.dtype,
                                attention->log_sum_exp.dtype, 2, 2, 2);
}

static haul_cost attention_backward_cost(const void *args) {
    const haul_attention_backward_args *attention = args;
    return attention_shape_cost(&attention->shape, attention->query.dtype,
                                attention->log_sum_exp.dtype, 5, 4, 4);
}

static haul_cost loss_cost(const void *args) {
    const haul_loss_args *loss = args;
    wide logits = haul_tensor_bytes(&loss->logits);
    wide rows = haul_tensor_bytes(&loss->targets) + haul_tensor_bytes(&loss->weights) +
                haul_tensor_bytes(&loss->losses);
    wide count = loss->vocabulary;
    return cost_of(haul_tensor_rows(&loss->logits) * count * (loss->gradient ? 5 : 3),
                   (loss->gradient ? 2 : 1) * logits + rows);
}

static const op_row rows[HAUL_OPS] = {
    [HAUL_OP_FILL] = {"fill", .written = {AT(fill, y)}},
    [HAUL_OP_COPY] = {"copy", .cost = copy_cost},
    [HAUL_OP_ADD] = {"add", .read = {AT(add, a), AT(add, b)}, .written = {AT(add, y)},
                     .counted = AT(add, y), .work = 1},
    [HAUL_OP_DROPOUT] = {"dropout", .read = {AT(dropout, x)}, .written = {AT(dropout, y)},
                         .counted = AT(dropout, y), .work = 1},
    [HAUL_OP_EMBED] = {"embed", .cost = embed_cost},
    [HAUL_OP_EMBED_BACKWARD] = {"embed_backward", .cost = embed_backward_cost},
    [HAUL_OP_NORM] = {"norm",
                      .read = {AT(norm, x), AT(norm, addend), AT(norm, weight), AT(norm, bias)},
                      .written = {AT(norm, sum), AT(norm, y), AT(norm, statistics)},
                      .counted = AT(norm, y), .work = 8},
    [HAUL_OP_NORM_BACKWARD] =
        {"norm_backward",
         .read = {AT(norm_backward, dy), AT(norm_backward, s), AT(norm_backward, weight),
                  AT(norm_backward, statistics), AT(norm_backward, residual)},
         .written = {AT(norm_backward, dx), AT(norm_backward, d_weight), AT(norm_backward, d_bias)},
         .counted = AT(norm_backward, dx), .work = 14,
         .accumulate = {AT(norm_backward, accumulate), AT(norm_backward, accumulate)},
         .added = {AT(norm_backward, d_weight), AT(norm_backward, d_bias)}},
    [HAUL_OP_PACK] = {"pack", .read = {AT(pack, weight)}, .written = {AT(pack, packed)}},
    [HAUL_OP_QUANTIZE] = {"quantize", .read = {AT(quantize, x)},
                          .written = {AT(quantize, codes), AT(quantize, scales),
                                      AT(quantize, transposed), AT(quantize, transposed_scales)},
                          .counted = AT(quantize, x), .work = 3},
    [HAUL_OP_MATMUL] = {"matmul", .cost = matmul_cost},
    [HAUL_OP_BIAS_BACKWARD] = {"bias_backward", .read = {AT(bias_backward, dy)},
                               .written = {AT(bias_backward, d_bias)},
                               .counted = AT(bias_backward, dy), .work = 1,
                               .accumulate = {AT(bias_backward, accumulate)},
                               .added = {AT(bias_backward, d_bias)}},
    [HAUL_OP_ROPE] = {"rope", .cost = rope_cost},
    [HAUL_OP_ATTENTION] = {"attention", .cost = attention_cost},
    [HAUL_OP_ATTENTION_BACKWARD] = {"attention_backward", .cost = attention_backward_cost},
    [HAUL_OP_SWIGLU] = {"swiglu", .read = {AT(swiglu, x)}, .written = {AT(swiglu, y)},
                        .counted = AT(swiglu, y), .work = 5},
    [HAUL_OP_SWIGLU_BACKWARD] = {"swiglu_backward",
                                 .read = {AT(swiglu_backward, dy), AT(swiglu_backward, x)},
                                 .written = {AT(swiglu_backward, dx)},
                                 .counted = AT(swiglu_backward, dy), .work = 11},
    [HAUL_OP_GELU] = {"gelu", .read = {AT(gelu, x)}, .written = {AT(gelu, y)},
                      .counted = AT(gelu, y), .work = 8},
    [HAUL_OP_GELU_BACKWARD] = {"gelu_backward",
                               .read = {AT(gelu_backward, dy), AT(gelu_backward, x)},
                               .written = {AT(gelu_backward, dx)}, .counted = AT(gelu_backward, dx),
                               .work = 15},
    [HAUL_OP_LOSS] = {"loss", .cost = loss_cost},
    [HAUL_OP_SQUARED_NORM] = {"squared_norm", .read = {AT(squared_norm, x)},
                              .written = {AT(squared_norm, result)}, .counted = AT(squared_norm, x),
                              .work = 2, .accumulate = {AT(squared_norm, accumulate)},
                              .added = {AT(squared_norm, result)}},
    [HAUL_OP_VERDICT] = {"verdict", .read = {AT(verdict, squares)}, .written = {AT(verdict, norm)},
                         .counted = AT(verdict, squares), .work = 1},
    [HAUL_OP_ADAM] = {"adam",
                      .read = {AT(adam, parameter), AT(adam, low), AT(adam, gradient),
                               AT(adam, first_moment), AT(adam, second_moment)},
                      .written = {AT(adam, parameter), AT(adam, low), AT(adam, first_moment),
                                  AT(adam, second_moment)},
                      .counted = AT(adam, parameter), .work = 16},
    [HAUL_OP_SGD] = {"sgd",
                     .read = {AT(sgd, parameter), AT(sgd, low), AT(sgd, gradient),
                              AT(sgd, momentum_buffer)},
                     .written = {AT(sgd, parameter), AT(sgd, low), AT(sgd, momentum_buffer)},
                     .counted = AT(sgd, parameter), .work = 7},
};

const char *haul_op_name(haul_op op) {
    return rows[op].name;
}

static const haul_op_class classes[HAUL_OPS] = {
    [HAUL_OP_FILL] = HAUL_CLASS_OTHER,
    [HAUL_OP_COPY] = HAUL_CLASS_OTHER,
    [HAUL_OP_ADD] = HAUL_CLASS_OTHER,
    [HAUL_OP_DROPOUT] = HAUL_CLASS_OTHER,
    [HAUL_OP_EMBED] = HAUL_CLASS_EMBEDDING_AND_LOSS,
    [HAUL_OP_EMBED_BACKWARD] = HAUL_CLASS_EMBEDDING_AND_LOSS,
    [HAUL_OP_NORM] = HAUL_CLASS_NORM,
    [HAUL_OP_NORM_BACKWARD] = HAUL_CLASS_NORM,
    [HAUL_OP_PACK] = HAUL_CLASS_OPTIMIZER,
    [HAUL_OP_QUANTIZE] = HAUL_CLASS_QUANTIZE,
    [HAUL_OP_MATMUL] = HAUL_CLASS_PRODUCTS,
    [HAUL_OP_BIAS_BACKWARD] = HAUL_CLASS_OTHER,
    [HAUL_OP_ROPE] = HAUL_CLASS_ATTENTION,
    [HAUL_OP_ATTENTION] = HAUL_CLASS_ATTENTION,
    [HAUL_OP_ATTENTION_BACKWARD] = HAUL_CLASS_ATTENTION,
    [HAUL_OP_SWIGLU] = HAUL_CLASS_ACTIVATION,
    [HAUL_OP_SWIGLU_BACKWARD] = HAUL_CLASS_ACTIVATION,
    [HAUL_OP_GELU] = HAUL_CLASS_ACTIVATION,
    [HAUL_OP_GELU_BACKWARD] = HAUL_CLASS_ACTIVATION,
    [HAUL_OP_LOSS] = HAUL_CLASS_EMBEDDING_AND_LOSS,
    [HAUL_OP_SQUARED_NORM] = HAUL_CLASS_OPTIMIZER,
    [HAUL_OP_VERDICT] = HAUL_CLASS_OPTIMIZER,
    [HAUL_OP_ADAM] = HAUL_CLASS_OPTIMIZER,
    [HAUL_OP_SGD] = HAUL_CLASS_OPTIMIZER,
};

haul_op_class haul_op_class_of(haul_op op) {
    return classes[op];
}

const char *haul_op_class_name(haul_op_class class_of_op) {
    static const char *const names[HAUL_OP_CLASSES] = {
        [HAUL_CLASS_PRODUCTS] = "products",
        [HAUL_CLASS_ATTENTION] = "attention",
        [HAUL_CLASS_NORM] = "norm",
        [HAUL_CLASS_ACTIVATION] = "activation",
        [HAUL_CLASS_QUANTIZE] = "quantize",
        [HAUL_CLASS_EMBEDDING_AND_LOSS] = "embedding and loss",
        [HAUL_CLASS_OPTIMIZER] = "optimizer",
        [HAUL_CLASS_OTHER] = "other",
    };
    return names[class_of_op];
}

static const haul_tensor *tensor_at(const void *args, size_t place) {
    return (const haul_tensor *)(const void *)((const char *)args + place - 1);
}

static wide listed_bytes(const void *args, const size_t list[LIST]) {
    wide bytes = 0;
    for (int i = 0; i < LIST && list[i] != 0; i++) {
        bytes += haul_tensor_bytes(tensor_at(args, list[i]));
    }
    return bytes;
}

haul_cost haul_op_cost(haul_op op, const void *args) {
    const op_row *row = &rows[op];
    if (row->cost != NULL) {
        return row->cost(args);
    }
    wide flops = 0, bytes = listed_bytes(args, row->read) + listed_bytes(args, row->written);
    for (int i = 0; i < 2 && row->accumulate[i] != 0; i++) {
        if (*(const bool *)((const char *)args + row->accumulate[i] - 1)) {
            bytes += haul_tensor_bytes(tensor_at(args, row->added[i]));
        }
    }
    if (row->counted != 0) {
        flops = (wide)row->work * haul_tensor_count(tensor_at(args, row->counted));
    }
    return cost_of(flops, bytes);
}
