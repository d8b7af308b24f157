/* The end of a step as a transaction: VERDICT looks at all gradients, COMMIT changes the parameters
 * or, told to skip, nothing. */
#ifndef HAUL_STEP_UPDATE_H
#define HAUL_STEP_UPDATE_H

#include "step/store.h"

typedef enum haul_update_kind { HAUL_UPDATE_ADAM, HAUL_UPDATE_SGD } haul_update_kind;

typedef struct haul_update_options {
    haul_update_kind kind;
    double beta1, beta2, epsilon; /* adam */
    uint64_t seed;                /* adam: of the rounding of bf16 moments */
    double momentum;              /* sgd */
    double weight_decay;          /* of buffers that decay */
    double clip; /* gradient norm above which gradients are scaled down; 0: never */
} haul_update_options;

int haul_update_moments(haul_update_kind kind);

typedef struct haul_verdict {
    double gradient_norm; /* before clipping */
    bool finite;
    int64_t first_not_finite; /* buffer, or -1 */
} haul_verdict;

/* Launches the norms of all gradients, and from them the step's scalars: clip coefficient
 * clip / (norm + 1e-6) when below 1 (as Megatron-LM), skip when a gradient is not finite, adam's
 * bias corrections by the store's count of updates. */
void haul_update_verdict(haul_store *store, const haul_update_options *options,
                         double learning_rate, haul_stream *stream);

/* The verdict as a copy of store->norms tells it. */
haul_verdict haul_update_read_verdict(const haul_store *store, const double *norms);

/* Launches the optimizer on every buffer and packs the new values. */
void haul_update_commit(haul_store *store, const haul_update_options *options, haul_stream *stream);

/* Bytes of scratch that verdict, commit and packing need, on the store's device. */
haul_status haul_update_workspace(haul_store *store, const haul_update_options *options,
                                  int64_t *bytes);

#endif
