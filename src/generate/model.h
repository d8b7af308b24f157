/* A model that writes: it takes tokens and says how likely each next one is, keeping the keys and
 * values of all tokens that it holds in a cache.
 *
 * Two compiled programs share one region of memory, and with it the cache: `block` takes many
 * tokens of a prompt at once, `single` takes one. A short prompt is padded to a block; what padding
 * leaves in the cache is overwritten before any token could see it. */
#ifndef HAUL_GENERATE_MODEL_H
#define HAUL_GENERATE_MODEL_H

#include "config/config.h"
#include "model/build.h"
#include "step/executor.h"

typedef struct haul_generator_part {
    int64_t rows; /* tokens of a run */
    haul_chunk chunk;
    haul_model_values values;
    haul_program program;
    haul_executor executor;
} haul_generator_part;

/* Neither moves once it is ready: its programs point into it. */
typedef struct haul_generator {
    const haul_config *config;
    haul_store *store;
    int64_t capacity; /* positions of the cache, at most max_position_embeddings */
    int64_t held;     /* tokens that the cache holds */
    haul_generator_part block, single;
    double *logits; /* [V] of the token after those held */
} haul_generator;

typedef struct haul_generator_options {
    int64_t capacity; /* 0: all positions of the model; larger ones are lowered to that */
    int64_t block;    /* tokens of a prompt computed at once; 0: 128 */
} haul_generator_options;

/* Makes a generator of a finalized config over parameters that stay the caller's and may change
 * between runs, those of a training too. Takes all memory that it will need. Deinit is legal after
 * a failure. */
haul_status haul_generator_init(haul_generator *generator, const haul_config *config,
                                haul_store *store, haul_generator_options options);
void haul_generator_deinit(haul_generator *generator);

/* Forgets everything and reads tokens[1 .. capacity]; then generator->logits are of the next token.
 * HAUL_ERROR_DATA for an id outside the vocabulary. */
haul_status haul_generator_start(haul_generator *generator, const int32_t *tokens, int64_t count);

/* Reads one more token. HAUL_ERROR_INTERNAL when the cache is full. */
haul_status haul_generator_next(haul_generator *generator, int32_t token);

#endif
