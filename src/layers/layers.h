/* The node kinds of transformer models and their configs. Letters as in device/op.h. */
#ifndef HAUL_LAYERS_LAYERS_H
#define HAUL_LAYERS_LAYERS_H

#include "layers/node.h"

/* tokens i32 [R] -> [R, H]. Buffers: table [V, H]; positions [P, H] when learned. */
typedef struct haul_embedding_config {
    char table_name[HAUL_NAME_BYTES];
    char positions_name[HAUL_NAME_BYTES]; /* "" : no learned positions */
    int64_t vocabulary;                   /* padded */
    int64_t hidden;
    int64_t positions;
    int64_t sequence_length;
    double init_std;
} haul_embedding_config;
extern const haul_node_kind haul_node_embedding;

/* x [R, H] (, addend [R, H]) -> normalised y [R, H] (, sum x + addend [R, H]). The residual stream
 * and what a block adds to it enter together, so sum and norm are one visit, forward and backward.
 * Outputs: without addend {y}; with it {sum, y}. */
typedef struct haul_norm_config {
    haul_norm_kind kind;
    char name[HAUL_NAME_BYTES];
    double epsilon;
    bool bias;
} haul_norm_config;
extern const haul_node_kind haul_node_norm;

/* x [R, K] -> x weight^T + bias [R, N]. The weight's rows are its parts, stacked. */
typedef struct haul_linear_part {
    char name[HAUL_NAME_BYTES];
    int64_t rows;
} haul_linear_part;

typedef struct haul_linear_config {
    haul_linear_part parts[HAUL_BUFFER_VIEWS];
    int part_count;
    int64_t input_size; /* K */
    bool bias;
    bool transposed; /* in Hugging Face files */
    double init_std;
    haul_fp8 fp8; /* of haul_node_linear_fp8 */
} haul_linear_config;
extern const haul_node_kind haul_node_linear;

/* The same with its three products in FP8; both sizes must be multiples of 16. From F to W it keeps
 * the codes of x alone, half the bytes of x. */
extern const haul_node_kind haul_node_linear_fp8;

/* Fused qkv [R, (N + 2G) D] -> [R, N D], causal within each sequence, with rotary positions when
 * rotary_size > 0. The cached kind is for inference of one sequence: keys and values of the step's
 * positions are written to a cache of cache_capacity positions, and queries see all that it holds.
 */
typedef struct haul_attention_config {
    int64_t sequence_length;
    int64_t heads, groups, head_size;
    int64_t rotary_size; /* 0: none */
    int64_t positions;   /* P of the rotary table */
    double rotary_base;
    /* Llama 3.1 frequency scaling, off when scaling_factor is 1. */
    double scaling_factor, low_frequency_factor, high_frequency_factor;
    int64_t original_positions;
    double dropout;
    int64_t cache_capacity; /* of haul_node_attention_cached */
} haul_attention_config;
extern const haul_node_kind haul_node_attention;
extern const haul_node_kind haul_node_attention_cached;

typedef enum haul_activation_kind {
    HAUL_ACTIVATION_SWIGLU,   /* [R, 2F] -> [R, F] */
    HAUL_ACTIVATION_GELU,     /* [R, F] -> [R, F] */
    HAUL_ACTIVATION_GELU_TANH /* likewise, tanh approximation */
} haul_activation_kind;

typedef struct haul_activation_config {
    haul_activation_kind kind;
} haul_activation_config;
extern const haul_node_kind haul_node_activation;

/* x [R, C] -> [R, C]. */
typedef struct haul_dropout_config {
    double probability;
    int64_t sequence_length;
} haul_dropout_config;
extern const haul_node_kind haul_node_dropout;

/* y [R, H], targets i32 [R], weights f32 [R] -> losses f32 [R]. The logits live a chunk of rows at
 * a time. In training F does nothing: B computes each logit once and takes loss, dlogits, dy and
 * the weight's gradient in one visit. */
typedef struct haul_head_config {
    char name[HAUL_NAME_BYTES]; /* of the weight [Vp, H] */
    int64_t vocabulary;         /* V, without padding */
    int64_t padded_vocabulary;
    int64_t hidden;
    /* Logits of a chunk take at most this many elements, unless R has no fitting divisor: enough
     * that adding a chunk to the weight's gradient is cheap beside making it. */
    int64_t chunk_elements;
    double init_std;
} haul_head_config;
extern const haul_node_kind haul_node_head;

/* y [R, H] -> logits [1, Vp] of the last row: the head of inference. */
extern const haul_node_kind haul_node_logits;

#endif
