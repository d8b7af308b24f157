/* The learning rate as a function of samples, by Megatron-LM's rules (its OptimizerParamScheduler).
 */
#ifndef HAUL_TRAIN_LEARNING_RATE_H
#define HAUL_TRAIN_LEARNING_RATE_H

#include "config/config.h"

/* The rate of the step that begins after `consumed` samples. Of a finalized config. */
double haul_learning_rate(const haul_config *config, int64_t consumed);

#endif
