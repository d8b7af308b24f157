/* Inside layers/: what the kinds of linear layers share. */
#ifndef HAUL_LAYERS_LINEAR_H
#define HAUL_LAYERS_LINEAR_H

#include "layers/layers.h"

/* The plan of haul_node_linear. */
haul_status haul_linear_plan(const void *config, const haul_numerics *numerics,
                             haul_node_plan *plan);

/* The gradient of the bias, if there is one. */
void haul_linear_bias_backward(const haul_node_call *call);

#endif
