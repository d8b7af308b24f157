/* What the arguments of each op hold, so that any launch can be run alone on made-up data. */
#ifndef HAUL_TRAIN_BENCH_ARGS_H
#define HAUL_TRAIN_BENCH_ARGS_H

#include "device/device.h"

#include <stddef.h>

/* What to fill a tensor with. */
typedef enum haul_bench_content {
    HAUL_BENCH_ZERO, /* outputs, and what may stay as it is */
    HAUL_BENCH_NORMAL,
    HAUL_BENCH_POSITIVE, /* the magnitudes of normal numbers */
    HAUL_BENCH_ONE,
    HAUL_BENCH_TEN,   /* about the log of a softmax' denominator */
    HAUL_BENCH_TURN,  /* cosine and sine of an eighth turn */
    HAUL_BENCH_TOKEN, /* of the vocabulary */
    HAUL_BENCH_PACKED /* the operand b of a product, by HAUL_OP_PACK */
} haul_bench_content;

typedef struct haul_bench_tensor {
    size_t offset; /* of a haul_tensor in the arguments */
    haul_bench_content content;
    size_t stride; /* offset of the int64_t that tells how far apart its rows are; 0: none */
} haul_bench_tensor;

enum { HAUL_BENCH_TENSORS = 12, HAUL_BENCH_ARGS_BYTES = 1024 };

typedef struct haul_bench_op {
    size_t bytes;   /* of the arguments */
    size_t scalars; /* offset of a pointer to haul_step_scalars; 0: none */
    int tensor_count;
    haul_bench_tensor tensors[HAUL_BENCH_TENSORS];
} haul_bench_op;

const haul_bench_op *haul_bench_op_of(haul_op op);

/* Tensor i of some arguments, and the bytes between its first element and its end in memory. */
haul_tensor *haul_bench_tensor_of(haul_op op, void *args, int i);
int64_t haul_bench_span(haul_op op, const void *args, int i);

/* Tokens of the arguments are below this. */
int64_t haul_bench_vocabulary(haul_op op, const void *args);

/* The shapes as people read them: "8192 x 4096 x 14336 bf16 > f32, NT, adds". */
void haul_bench_shape(haul_op op, const void *args, char *text, int64_t capacity);

#endif
