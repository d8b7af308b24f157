/* Derived values and the rules between settings, as Megatron-LM has them. */
#ifndef HAUL_CONFIG_VALIDATE_H
#define HAUL_CONFIG_VALIDATE_H

#include "base/string.h"
#include "config/config.h"

/* Derives what a training needs and was not given (see config.h), and checks all settings against
 * each other. HAUL_ERROR_CONFIG with every mistake in one message, a line each when there are
 * several. Calling it again changes nothing. */
haul_status haul_config_finalize(haul_config *config);

/* The part of it that concerns the shape of the model, for eval and generate. */
haul_status haul_config_finalize_model(haul_config *config);

/* Whether --recompute-granularity selective computes this module of --recompute-modules again. */
bool haul_config_recomputes(const haul_config *config, const char *module);

/* Appends a line for each setting of a finalized training that surprises people: the defaults of
 * Megatron-LM that are unusual today; one line names Megatron-LM's flags that haul took and that
 * change nothing, one haul's own flags that have no effect beside the others. */
haul_status haul_config_surprises(const haul_config *config, haul_string *out);

/* Optimizer steps of a finalized training: train_iters, or whole global batches of
 * train_samples. */
int64_t haul_config_iterations(const haul_config *config);

#endif
