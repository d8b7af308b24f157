#include "config/megatron_flops.h"

double haul_megatron_flops_per_token(const haul_config *config, bool whole_attention) {
    double hidden = (double)config->hidden_size, sequence = (double)config->seq_length;
    double query = (double)(config->kv_channels * config->num_attention_heads);
    double key = (double)(config->kv_channels * config->num_query_groups);
    double seen = whole_attention ? sequence : sequence / 2;
    double attention = hidden * (query + 2 * key) + 2 * query * seen + query * hidden;
    double feed_forward = (config->swiglu ? 3 : 2) * hidden * (double)config->ffn_hidden_size;
    double logits = hidden * (double)config->padded_vocab_size;
    return 3 * 2 * ((double)config->num_layers * (attention + feed_forward) + logits);
}
