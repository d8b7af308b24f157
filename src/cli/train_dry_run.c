#include "cli/train.h"

#include "base/format.h"
#include "config/megatron_flops.h"
#include "config/validate.h"

#include <stdio.h>

/* What a training with this micro-batch would take; one a step, since more take hardly more. */
static haul_status bytes_needed(const haul_config *config, int64_t micro_batch, int64_t *bytes) {
    haul_config changed = *config;
    haul_session session = {0};
    changed.micro_batch_size = micro_batch;
    changed.global_batch_size = micro_batch;
    haul_status status = haul_session_plan(&session, &changed, true);
    *bytes = session.memory.bytes;
    haul_session_deinit(&session);
    return status;
}

/* The largest power of two, then the largest between it and the next, in sixteen steps at most. */
static haul_status largest_micro_batch(const haul_config *config, int64_t available, int64_t *out) {
    int64_t fits = 0, fails = 0, bytes;
    for (int64_t size = 1; fails == 0 && size <= 1 << 16; size *= 2) {
        HAUL_TRY(bytes_needed(config, size, &bytes));
        if (bytes <= available) {
            fits = size;
        } else {
            fails = size;
        }
    }
    while (fits > 0 && fails - fits > 1 && fails - fits > fits / 16) {
        int64_t middle = fits + (fails - fits) / 2;
        HAUL_TRY(bytes_needed(config, middle, &bytes));
        if (bytes <= available) {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    *out = fits;
    return HAUL_OK;
}

/* Bytes a token that are read and written in the layers outside products and attention, the last
 * norm among them; what is computed again is left out. */
static double element_wise_bytes(const haul_program *program) {
    double bytes = 0;
    for (int op = 0; op < HAUL_OPS; op++) {
        haul_op_class class = haul_op_class_of((haul_op)op);
        if (class == HAUL_CLASS_NORM || class == HAUL_CLASS_ACTIVATION || op == HAUL_OP_ROPE ||
            class == HAUL_CLASS_QUANTIZE || class == HAUL_CLASS_OTHER) {
            bytes += (double)(program->forward_cost.bytes[op] + program->backward_cost.bytes[op]);
        }
    }
    return bytes;
}

haul_status haul_train_dry_run(const haul_train_command *command) {
    const haul_config *config = command->config;
    const haul_session *session = &command->session;
    const haul_program *program = &session->training;
    haul_config settled = *config; /* on how to multiply: no attempt measures that again */
    double flops = 0, tokens = (double)(config->micro_batch_size * config->seq_length);
    int64_t available = haul_device_available_bytes(&session->device), largest;
    for (int op = 0; op < HAUL_OPS; op++) {
        flops += (double)program->forward_cost.flops[op] + (double)program->backward_cost.flops[op];
    }
    flops /= tokens;
    printf("operations: %.4g GFLOP a token by the model's formula, %.4g as launched\n",
           haul_model_flops_per_token(config) / 1e9, flops / 1e9);
    printf("Megatron's count: %.4g GFLOP a token, %.4g in releases of 2024 and before\n",
           haul_megatron_flops_per_token(config, false) / 1e9,
           haul_megatron_flops_per_token(config, true) / 1e9);
    printf("element-wise: %.4g KB a token and layer read and written\n",
           element_wise_bytes(program) / 1e3 / tokens / (double)config->num_layers);
    printf("passes: %lld a step\n", (long long)program->pass_count);
    if (available == 0) {
        printf("memory: %s needed; how much is available is unknown\n",
               haul_format_bytes(session->memory.bytes).text);
        return HAUL_OK;
    }
    printf("memory: %s needed, %s available: %s\n", haul_format_bytes(session->memory.bytes).text,
           haul_format_bytes(available).text,
           session->memory.bytes <= available ? "fits" : "does not fit");
    settled.cpu_product_dtype =
        session->device.product == HAUL_PRODUCT_BF16 ? HAUL_CPU_PRODUCT_BF16 : HAUL_CPU_PRODUCT_F32;
    HAUL_TRY(largest_micro_batch(&settled, available, &largest));
    if (largest > 0) {
        printf("largest micro-batch that fits: about %lld\n", (long long)largest);
    } else {
        printf("not even a micro-batch of 1 fits; --recompute-granularity full or a shorter "
               "--seq-length would help\n");
    }
    return HAUL_OK;
}
