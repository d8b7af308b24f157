/* Operations of a training as Megatron-LM counts them, to compare throughput with its logs. */
#ifndef HAUL_CONFIG_MEGATRON_FLOPS_H
#define HAUL_CONFIG_MEGATRON_FLOPS_H

#include "config/config.h"

#include <stdbool.h>

/* FLOPs of one token of a finalized training by Megatron-LM's num_floating_point_operations for
 * models without experts: each product three times (forward, and backward for data and weights),
 * two operations a multiply-add. It counts the half of the attention matrix that causality leaves;
 * `whole_attention`: all of it, as releases of 2024 and before did. */
double haul_megatron_flops_per_token(const haul_config *config, bool whole_attention);

#endif
