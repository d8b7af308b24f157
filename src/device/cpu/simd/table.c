#include "device/cpu/simd/attention.h"
#include "device/cpu/simd/kernels.h"
#include "device/cpu/simd/simd.h"

const haul_op_entry HAUL_ISA(haul_cpu_entries)[HAUL_OPS] = {
    [HAUL_OP_FILL] = {HAUL_ISA(haul_cpu_fill), NULL},
    [HAUL_OP_COPY] = {HAUL_ISA(haul_cpu_copy), NULL},
    [HAUL_OP_ADD] = {HAUL_ISA(haul_cpu_add), NULL},
    [HAUL_OP_DROPOUT] = {HAUL_ISA(haul_cpu_dropout), NULL},
    [HAUL_OP_EMBED] = {HAUL_ISA(haul_cpu_embed), NULL},
    [HAUL_OP_EMBED_BACKWARD] = {HAUL_ISA(haul_cpu_embed_backward), NULL},
    [HAUL_OP_NORM] = {HAUL_ISA(haul_cpu_norm), NULL},
    [HAUL_OP_NORM_BACKWARD] = {HAUL_ISA(haul_cpu_norm_backward),
                               HAUL_ISA(haul_cpu_norm_backward_workspace)},
    [HAUL_OP_QUANTIZE] = {HAUL_ISA(haul_cpu_quantize), HAUL_ISA(haul_cpu_quantize_workspace)},
    [HAUL_OP_BIAS_BACKWARD] = {HAUL_ISA(haul_cpu_bias_backward),
                               HAUL_ISA(haul_cpu_bias_backward_workspace)},
    [HAUL_OP_ROPE] = {HAUL_ISA(haul_cpu_rope), NULL},
    [HAUL_OP_ATTENTION] = {HAUL_ISA(haul_cpu_attention), HAUL_ISA(haul_cpu_attention_workspace)},
    [HAUL_OP_ATTENTION_BACKWARD] = {HAUL_ISA(haul_cpu_attention_backward),
                                    HAUL_ISA(haul_cpu_attention_backward_workspace)},
    [HAUL_OP_SWIGLU] = {HAUL_ISA(haul_cpu_swiglu), NULL},
    [HAUL_OP_SWIGLU_BACKWARD] = {HAUL_ISA(haul_cpu_swiglu_backward), NULL},
    [HAUL_OP_GELU] = {HAUL_ISA(haul_cpu_gelu), NULL},
    [HAUL_OP_GELU_BACKWARD] = {HAUL_ISA(haul_cpu_gelu_backward), NULL},
    [HAUL_OP_LOSS] = {HAUL_ISA(haul_cpu_loss), NULL},
    [HAUL_OP_SQUARED_NORM] = {HAUL_ISA(haul_cpu_squared_norm),
                              HAUL_ISA(haul_cpu_squared_norm_workspace)},
    [HAUL_OP_ADAM] = {HAUL_ISA(haul_cpu_adam), NULL},
    [HAUL_OP_SGD] = {HAUL_ISA(haul_cpu_sgd), NULL},
};
