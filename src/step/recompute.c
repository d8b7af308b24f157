/* Which nodes run again before their backward. The rule works a group (a transformer layer) at a
 * time: what enters the group and what a node's rebuild function leaves alone is kept, everything
 * else that B or W will read is made again; or, of that, what cheap nodes make. */
#include "layers/layers.h"
#include "step/objects.h"

static bool bit(uint32_t set, int i) {
    return set >> i & 1;
}

/* True when output i of a node stays in memory from F on even if its group is rebuilt. */
static bool kept_by_kind(const haul_node *node, int i) {
    return node->kind->rebuild != NULL && !bit(node->plan.outputs_rebuilt, i);
}

static bool keeps_an_output(const haul_node *node) {
    for (int i = 0; i < node->plan.output_count; i++) {
        if (kept_by_kind(node, i)) {
            return true;
        }
    }
    return false;
}

/* Does a node of the same group need `value` after F: in B or W, or to be rebuilt itself? */
static bool wanted(const haul_program *program, const haul_node *producer, int value) {
    const haul_chunk *chunk = program->chunk;
    for (int64_t n = 0; n < chunk->node_count; n++) {
        const haul_node *node = &chunk->nodes[n];
        if (node->group != producer->group) {
            continue;
        }
        bool remade_from_inputs = program->nodes[n].rebuilt && !keeps_an_output(node);
        uint32_t read = node->plan.inputs_for_backward | node->plan.inputs_for_weight;
        for (int i = 0; i < node->plan.input_count; i++) {
            if (node->inputs[i] == value && (bit(read, i) || remade_from_inputs)) {
                return true;
            }
        }
    }
    return false;
}

static bool may_rebuild(const haul_program_options *options, const haul_node *node) {
    bool norm = options->recompute_norms && node->kind == &haul_node_norm;
    bool activation = options->recompute_activations && node->kind == &haul_node_activation;
    return options->training && node->group >= 0 && (options->recompute || norm || activation);
}

void haul_recompute_choose(haul_program *program) {
    const haul_chunk *chunk = program->chunk;
    for (int64_t n = chunk->node_count - 1; n >= 0; n--) {
        const haul_node *node = &chunk->nodes[n];
        bool rebuilt = node->plan.saved_count > 0;
        for (int i = 0; i < node->plan.output_count; i++) {
            bool needed =
                bit(node->plan.outputs_for_backward, i) || wanted(program, node, node->outputs[i]);
            rebuilt |= needed && !kept_by_kind(node, i);
        }
        program->nodes[n].rebuilt = may_rebuild(&program->options, node) && rebuilt;
    }
}
