/* The ops: an id and a plain argument struct each. A backend implements them, a node launches
 * them through haul_launch, and nothing else computes on tensors.
 *
 * Letters: B batch, T sequence length, R = B * T rows, H hidden, N heads, G key/value groups, D
 * head size, F feed-forward, V vocabulary, P positions. "Activations" have one dtype in a model
 * (f32, bf16; f64 on `ref`), statistics, losses and gradients of parameters are f32 (f64 on `ref`).
 * An output must not overlap an input unless the op says so. Optional tensors are absent with
 * ndim 0. `accumulate` adds to the output instead of writing it. */
#ifndef HAUL_DEVICE_OP_H
#define HAUL_DEVICE_OP_H

#include "device/tensor.h"

typedef enum haul_op {
    HAUL_OP_FILL,
    HAUL_OP_COPY,
    HAUL_OP_ADD,
    HAUL_OP_DROPOUT, /* its own backward */
    HAUL_OP_EMBED,
    HAUL_OP_EMBED_BACKWARD,
    HAUL_OP_NORM,
    HAUL_OP_NORM_BACKWARD,
    HAUL_OP_PACK,
    HAUL_OP_QUANTIZE,
    HAUL_OP_MATMUL, /* its own backward, twice: dgrad and wgrad */
    HAUL_OP_BIAS_BACKWARD,
    HAUL_OP_ROPE, /* its own backward, with `inverse` */
    HAUL_OP_ATTENTION,
    HAUL_OP_ATTENTION_BACKWARD,
    HAUL_OP_SWIGLU,
    HAUL_OP_SWIGLU_BACKWARD,
    HAUL_OP_GELU,
    HAUL_OP_GELU_BACKWARD,
    HAUL_OP_LOSS, /* forward and backward in one visit */
    HAUL_OP_SQUARED_NORM,
    HAUL_OP_VERDICT,
    HAUL_OP_ADAM,
    HAUL_OP_SGD,
    HAUL_OPS
} haul_op;

/* y[...] = value. Any dtype. */
typedef struct haul_fill_args {
    haul_tensor y;
    double value;
} haul_fill_args;

/* y = x, row by row, converting the dtype. Strides are in elements between row starts. */
typedef struct haul_copy_args {
    haul_tensor x; /* [R, C] */
    haul_tensor y; /* [R, C] */
    int64_t x_stride;
    int64_t y_stride;
} haul_copy_args;

/* y = a + b; y may be a or b. */
typedef struct haul_add_args {
    haul_tensor a, b, y; /* [R, C] */
} haul_add_args;

/* What a dropout mask depends on, and nothing else: element e of sample s in step t drops in
 * stream k iff Philox(key = {seed, seed >> 32}, counter = {e / 4, k, s, t}).word[e % 4] is below
 * probability * 2^32 (e / 4, s and t modulo 2^32). Kept elements are divided by 1 - probability. */
typedef struct haul_dropout {
    double probability; /* 0: off */
    uint64_t seed;
    uint32_t step;
    uint32_t stream;      /* numbers the places of a model where something is dropped */
    int64_t first_sample; /* the global ordinal of the batch's first sample */
} haul_dropout;

/* y = dropout(x); y may be x. Sample s of the batch is rows [s * T, (s + 1) * T), element
 * e = t * C + c of it. The same args on the gradient are the backward. */
typedef struct haul_dropout_args {
    haul_tensor x, y; /* [B * T, C] */
    int64_t sequence_length;
    haul_dropout dropout;
} haul_dropout_args;

/* y[r] = table[tokens[r]] + positions[r % T + position_offset]. */
typedef struct haul_embed_args {
    haul_tensor tokens;    /* i32 [R], each in [0, V) */
    haul_tensor table;     /* [V, H] */
    haul_tensor positions; /* [P, H], optional */
    haul_tensor y;         /* [R, H] */
    int64_t sequence_length;
    int64_t position_offset;
} haul_embed_args;

/* d_table[tokens[r]] += dy[r], d_positions[r % T] += dy[r], rows in ascending order. Without its
 * accumulate flag an output starts from zero. */
typedef struct haul_embed_backward_args {
    haul_tensor tokens;      /* i32 [R] */
    haul_tensor dy;          /* [R, H] */
    haul_tensor d_table;     /* f32 [V, H] */
    haul_tensor d_positions; /* f32 [P, H], optional */
    int64_t sequence_length;
    bool accumulate_table;
    bool accumulate_positions;
} haul_embed_backward_args;

typedef enum haul_norm_kind { HAUL_NORM_RMS, HAUL_NORM_LAYER } haul_norm_kind;

/* s = x + addend (s = x without addend), y = weight * (s - mean) * rstd + bias,
 * rstd = 1 / sqrt(mean((s - mean)^2) + epsilon); mean is 0 for RMS. `sum` receives s rounded to
 * its dtype, and y is computed from the rounded s. */
typedef struct haul_norm_args {
    haul_norm_kind kind;
    double epsilon;
    haul_tensor x;          /* [R, H] */
    haul_tensor addend;     /* [R, H], optional */
    haul_tensor sum;        /* [R, H], present iff addend is; may be x or addend */
    haul_tensor weight;     /* [H] */
    haul_tensor bias;       /* [H], optional */
    haul_tensor y;          /* [R, H] */
    haul_tensor statistics; /* f32 [R, 2]: mean, rstd */
} haul_norm_args;

/* dx = residual + d(norm)/ds applied to dy; d_weight and d_bias over all rows. */
typedef struct haul_norm_backward_args {
    haul_norm_kind kind;
    haul_tensor dy;         /* [R, H] */
    haul_tensor s;          /* [R, H], what was normalised */
    haul_tensor weight;     /* [H] */
    haul_tensor statistics; /* f32 [R, 2] */
    haul_tensor residual;   /* [R, H], optional: the gradient of `sum` from its other consumers */
    haul_tensor dx;         /* [R, H]; may be dy or residual */
    haul_tensor d_weight;   /* f32 [H] */
    haul_tensor d_bias;     /* f32 [H], optional */
    bool accumulate;        /* of d_weight and d_bias */
} haul_norm_backward_args;

/* How a matrix [R, C] of FP8 codes is scaled; an element is its code times its scale, f32. */
typedef enum haul_scaling {
    HAUL_SCALING_NONE,   /* no FP8 */
    HAUL_SCALING_TENSOR, /* one scale: [1] */
    HAUL_SCALING_ROWS,   /* one for 128 elements of a row: [ceil(C / 128), R to a multiple of 4] */
    HAUL_SCALING_BLOCKS  /* one for 128 x 128: [ceil(R / 128), ceil(C / 128) to a multiple of 4] */
} haul_scaling;

/* How a linear layer trains in FP8: activations and their gradients are scaled by TENSOR or ROWS,
 * weights by TENSOR or BLOCKS. */
typedef struct haul_fp8 {
    haul_scaling activations, weights; /* NONE, both: no FP8 */
    haul_dtype forward, backward;      /* e4m3; e4m3 or e5m2 */
} haul_fp8;

enum { HAUL_SCALING_BLOCK = 128, HAUL_SCALING_PAD = 4, HAUL_CODES_PAD = 16 };

static inline int64_t haul_padded(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

/* The scales of [rows, columns] codes; absent with NONE. */
static inline haul_tensor haul_scales_shape(haul_scaling scaling, int64_t rows, int64_t columns) {
    int64_t blocks = haul_padded(columns, HAUL_SCALING_BLOCK) / HAUL_SCALING_BLOCK;
    switch (scaling) {
    case HAUL_SCALING_TENSOR:
        return haul_tensor_1d(NULL, HAUL_F32, 1);
    case HAUL_SCALING_ROWS:
        return haul_tensor_2d(NULL, HAUL_F32, blocks, haul_padded(rows, HAUL_SCALING_PAD));
    case HAUL_SCALING_BLOCKS:
        return haul_tensor_2d(NULL, HAUL_F32,
                              haul_padded(rows, HAUL_SCALING_BLOCK) / HAUL_SCALING_BLOCK,
                              haul_padded(blocks, HAUL_SCALING_PAD));
    default: {
        haul_tensor none = {NULL, HAUL_F32, 0, {0}};
        return none;
    }
    }
}

/* FP8 copies of x, of its rows and of its columns, in one format, as products read them: a product
 * in FP8 wants both operands with the summed dimension innermost. With `amax` the largest magnitude
 * that shares a scale and `largest` that of the format (448 for e4m3, 57344 for e5m2), in f32
 * throughout:
 *
 *     factor = min(largest / amax, 2^100), 1 where amax is 0 or not finite,
 *              with ROWS and BLOCKS rounded down to a power of two;
 *     code = x * factor, rounded to nearest, ties to even, and saturated; 0x7f for NaN;
 *     scale = 1 / factor, NaN where amax is not finite, so that no infinity is lost.
 *
 * `transposed` holds x^T: its rows are the columns of x, its columns from R on are 0. With ROWS its
 * scales stand for 128 rows of x and one column, with BLOCKS for the same blocks as those of
 * `codes`, with TENSOR both scales are alike. Padding of scales is 0. */
typedef struct haul_quantize_args {
    haul_scaling scaling;
    haul_tensor x;                 /* [R, C], activations */
    haul_tensor codes;             /* e4m3 or e5m2 [R, C], optional */
    haul_tensor scales;            /* f32, of codes */
    haul_tensor transposed;        /* e4m3 or e5m2 [C, R to a multiple of 16], optional */
    haul_tensor transposed_scales; /* f32, as of a matrix [C, R] */
} haul_quantize_args;

/* c = op(a) op(b) + bias, op = transpose or nothing, with sums in f32 at least; with a bias, a
 * product for c in bf16 may be rounded before the sum too. The three products
 * of a linear layer with weight [N, K] and R rows:
 *
 * - forward: y [R, N] = x weight^T, with transpose_b;
 * - dgrad: dx [R, K] = dy weight;
 * - wgrad: dw [N, K] = dy^T x, with transpose_a and usually accumulate. */
typedef struct haul_matmul_args {
    haul_tensor a;      /* [M, K], or [K, M] with transpose_a */
    haul_tensor b;      /* [K, N], or [N, K] with transpose_b */
    haul_tensor c;      /* [M, N] */
    haul_tensor bias;   /* [N], optional */
    haul_tensor packed; /* b as HAUL_OP_PACK laid it out for this very product, optional */
    bool transpose_a;
    bool transpose_b;
    bool accumulate;
    /* FP8 operands: both, a [M, K] and b [N, K] with transpose_b, either e4m3 or e5m2 but not both
     * e5m2, not both by BLOCKS, both by TENSOR or neither. */
    haul_scaling a_scaling, b_scaling;
    haul_tensor a_scales, b_scales; /* f32 */
    bool fast; /* FP8 sums may be kept to the bits of the product unit, 14 on Hopper */
} haul_matmul_args;

typedef enum haul_pack_kind { HAUL_PACK_FORWARD, HAUL_PACK_DGRAD } haul_pack_kind;

/* Lays a weight out as one of its two products reads it fastest. A backend says by `packed_bytes`
 * how large that is; 0: it has no use for it. */
typedef struct haul_pack_args {
    haul_tensor weight; /* [N, K] */
    haul_tensor packed; /* u8 [bytes] */
    haul_pack_kind kind;
    int64_t rows;     /* R of the product */
    haul_dtype dtype; /* of the activations */
    bool bias;        /* the forward product adds a bias */
} haul_pack_args;

/* d_bias[c] = sum of dy[r][c] over rows. */
typedef struct haul_bias_backward_args {
    haul_tensor dy;     /* [R, C] */
    haul_tensor d_bias; /* f32 [C] */
    bool accumulate;
} haul_bias_backward_args;

/* Rotates, in place, the first `heads` heads of each row (queries and keys stand side by side):
 * with p = r % T + position_offset, h = rotary_size / 2, for i < h, (x[i], x[i + h]) is turned by
 * the angle whose cosine and sine are table[p][i]. Elements from rotary_size on stay. `inverse`
 * turns back, which is the backward. */
typedef struct haul_rope_args {
    haul_tensor x;     /* [R, C], C >= heads * head_size */
    haul_tensor table; /* f32 [P, rotary_size / 2, 2] */
    int64_t heads;
    int64_t head_size;
    int64_t rotary_size;
    int64_t sequence_length;
    int64_t position_offset;
    bool inverse;
} haul_rope_args;

/* Shape of an attention. Row strides are in elements; the heads of a row lie side by side. Query i
 * of a sample sees keys j <= i + query_offset; query head n uses key/value group n / (N / G). */
typedef struct haul_attention_shape {
    int64_t batch;        /* B */
    int64_t queries;      /* Tq of a sample */
    int64_t keys;         /* Tk of a sample */
    int64_t key_capacity; /* rows between the first keys of two samples, >= Tk */
    int64_t query_offset; /* Tk - Tq, unless keys are padded */
    int64_t heads;        /* N */
    int64_t groups;       /* G */
    int64_t head_size;    /* D */
    int64_t query_stride; /* of query and d_query */
    int64_t key_stride;   /* of key, value, d_key, d_value */
    double scale;         /* of the scores, usually 1 / sqrt(D) */
    haul_dropout dropout; /* of the probabilities; element e = (n * Tq + i) * Tk + j of a sample */
} haul_attention_shape;

/* out[i] = sum over j of softmax(scale q.k)[j] v[j]. The tensors name the first element of their
 * part of a row: query may be the start of a fused [R, (N + 2G) D] buffer, key and value places in
 * it. */
typedef struct haul_attention_args {
    haul_attention_shape shape;
    haul_tensor query;       /* [B * Tq, N * D] with query_stride */
    haul_tensor key;         /* [B * key_capacity, G * D] with key_stride */
    haul_tensor value;       /* likewise */
    haul_tensor out;         /* [B * Tq, N * D], contiguous */
    haul_tensor log_sum_exp; /* f32 [B, N, Tq]: log of the softmax denominator, of scaled scores */
} haul_attention_args;

typedef struct haul_attention_backward_args {
    haul_attention_shape shape;
    haul_tensor query, key, value; /* as in the forward */
    haul_tensor out;               /* [B * Tq, N * D] */
    haul_tensor d_out;             /* [B * Tq, N * D] */
    haul_tensor log_sum_exp;       /* f32 [B, N, Tq] */
    haul_tensor d_query, d_key, d_value;
} haul_attention_backward_args;

/* y = silu(x[:, :F]) * x[:, F:], silu(z) = z / (1 + exp(-z)). */
typedef struct haul_swiglu_args {
    haul_tensor x; /* [R, 2F]: gate, then up */
    haul_tensor y; /* [R, F] */
} haul_swiglu_args;

typedef struct haul_swiglu_backward_args {
    haul_tensor dy; /* [R, F] */
    haul_tensor x;  /* [R, 2F] */
    haul_tensor dx; /* [R, 2F] */
} haul_swiglu_backward_args;

/* y = gelu(x): exact, x Phi(x), or with `tanh` x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
typedef struct haul_gelu_args {
    haul_tensor x, y; /* [R, F] */
    bool tanh;
} haul_gelu_args;

typedef struct haul_gelu_backward_args {
    haul_tensor dy, x; /* [R, F] */
    haul_tensor dx;    /* [R, F]; may be dy */
    bool tanh;
} haul_gelu_backward_args;

/* losses[r] = logsumexp(logits[r][:vocabulary]) - logits[r][targets[r]]; with `gradient`, logits
 * are overwritten by weights[r] * (softmax - onehot), and by 0 from column `vocabulary` on. A row
 * of weight 0 still gets its loss. */
typedef struct haul_loss_args {
    haul_tensor logits;  /* [R, Vp] */
    haul_tensor targets; /* i32 [R], each in [0, vocabulary) */
    haul_tensor weights; /* f32 [R] */
    haul_tensor losses;  /* f32 [R] */
    int64_t vocabulary;  /* V <= Vp */
    bool gradient;
} haul_loss_args;

/* result[0] (+)= sum of x^2 in double, cut into blocks of a fixed size so that the sum does not
 * depend on the number of threads. */
typedef struct haul_squared_norm_args {
    haul_tensor x;
    haul_tensor result; /* f64 [1] */
    bool accumulate;
} haul_squared_norm_args;

/* What changes from step to step, in device memory so that a step needs no host value. */
typedef struct haul_step_scalars {
    double learning_rate;
    double gradient_scale;   /* the clip coefficient */
    double bias_correction1; /* 1 - beta1^t */
    double bias_correction2; /* 1 - beta2^t */
    uint32_t update;         /* how many there were, this one counted: kept from step to step */
    int32_t skip;            /* not 0: leave everything as it is */
} haul_step_scalars;

/* What a step comes to, decided on the device: norm = sqrt(sum of squares, in ascending order),
 * gradient_scale = min(1, clip / (norm + 1e-6)), 1 with clip 0, and skip when the sum is not
 * finite. `scalars` is written whole; its update grows by one unless the step is skipped, and
 * bias_correction = 1 - beta^update. */
typedef struct haul_verdict_args {
    haul_tensor squares; /* f64 [n] */
    haul_tensor norm;    /* f64 [1] */
    haul_step_scalars *scalars;
    double clip; /* 0: off */
    double learning_rate, beta1, beta2;
} haul_verdict_args;

/* AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019), with
 * g = gradient_scale * gradient: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2,
 * p -= lr * (m / c1 / (sqrt(v / c2) + eps) + weight_decay * p).
 * With `low`, the bits of the f32 master are (parameter << 16) + low, low as a signed number: the
 * bf16 parameter is the master rounded to nearest (ties away from zero), and both together are
 * exactly the master (haul_master_split).
 * Moments in bf16 are rounded at random, up as often as what is cut off is large, else small steps
 * of v would be lost: element e, with w = Philox(key = {seed, seed >> 32}, counter = {e / 4,
 * e / 4 >> 32, stream, update}).word[e % 4], has haul_bf16_round_at_random(m, w & 0xffff) and
 * (v, w >> 16). The new parameter is computed from the unrounded moments. */
typedef struct haul_adam_args {
    haul_tensor parameter;     /* f32 (f64), or bf16 with low */
    haul_tensor low;           /* u16, optional */
    haul_tensor gradient;      /* f32 (f64) */
    haul_tensor first_moment;  /* f32 (f64) or bf16 */
    haul_tensor second_moment; /* likewise */
    double beta1, beta2, epsilon, weight_decay;
    uint64_t seed;   /* of the rounding of bf16 moments */
    uint32_t stream; /* likewise; tells parameters apart */
    const haul_step_scalars *scalars;
} haul_adam_args;

/* m = momentum m + (g + weight_decay p), p -= lr m. */
typedef struct haul_sgd_args {
    haul_tensor parameter, low, gradient; /* as in haul_adam_args */
    haul_tensor momentum_buffer;          /* f32 (f64) */
    double momentum, weight_decay;
    const haul_step_scalars *scalars;
} haul_sgd_args;

/* "matmul", "attention_backward", ... */
const char *haul_op_name(haul_op op);

/* The kinds of work that a step spends its time on. */
typedef enum haul_op_class {
    HAUL_CLASS_PRODUCTS,
    HAUL_CLASS_ATTENTION,
    HAUL_CLASS_NORM,
    HAUL_CLASS_ACTIVATION,
    HAUL_CLASS_QUANTIZE,
    HAUL_CLASS_EMBEDDING_AND_LOSS,
    HAUL_CLASS_OPTIMIZER,
    HAUL_CLASS_OTHER,
    HAUL_OP_CLASSES
} haul_op_class;

haul_op_class haul_op_class_of(haul_op op);

/* "products", "embedding and loss", ... */
const char *haul_op_class_name(haul_op_class class_of_op);

/* What a launch costs: floating-point operations (a multiply-add is two), and bytes when each input
 * is read once and each output written once. INT64_MAX where it would be more. */
typedef struct haul_cost {
    int64_t flops;
    int64_t bytes;
} haul_cost;

haul_cost haul_op_cost(haul_op op, const void *args);

#endif
