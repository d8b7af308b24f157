/* Which flags of Megatron-LM haul takes without having them. Whoever adds a name must be sure that
 * it changes no number of a training in one process; when in doubt it is refused. */
#include "config/megatron_flags.h"

#include "base/file.h"
#include "base/memory.h"
#include "config/huggingface.h"
#include "config/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Megatron-LM refuses --no-position-embedding too unless positions rotate. */
static bool has_no_position_table(const haul_config *config) {
    return config->position_embedding_type != HAUL_POSITION_LEARNED_ABSOLUTE;
}

static haul_status see_checkpoint(void *context, const char *name) {
    *(bool *)context |= strncmp(name, "iter_", 5) == 0 || strcmp(name, "COMMIT") == 0;
    return HAUL_OK;
}

/* Whether a directory, which need not be there, holds or is something like a checkpoint. */
static bool holds_checkpoint(const char *directory) {
    bool found = false;
    return haul_directory_list(directory, see_checkpoint, &found) == HAUL_OK && found;
}

/* Nothing but weights is loaded, if anything: no optimizer, no iteration. A command line that says
 * --save X --load X starts afresh where X is empty or absent, and goes on where it is not. */
static bool loads_no_state(const haul_config *config) {
    char run[1100]; /* --load takes a run directory too */
    if (config->load == NULL || haul_config_is_huggingface(config->load)) {
        return true;
    }
    snprintf(run, sizeof run, "%s/checkpoints", config->load);
    return !holds_checkpoint(config->load) && !holds_checkpoint(run);
}

static bool trains_without_fp8(const haul_config *config) {
    return config->fp8_format == HAUL_FP8_OFF;
}

static const haul_megatron_rule rules[] = {
    /* Parallelism: one process now. */
    {.names = "tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size "
              "expert-model-parallel-size expert-tensor-parallel-size "
              "tensor-parallel-num-weight-shards expert-tensor-parallel-num-weight-shards "
              "num-distributed-optimizer-instances",
     .neutral = "1",
     .reason = "haul trains in one process"},
    {.names = "local-rank", .neutral = "0", .reason = "haul trains in one process"},
    {.names = "fake-process-group hybrid-context-parallel", .reason = "haul trains in one process"},

    /* Precision. */
    {.names = "fp16 fp16-lm-cross-entropy fp4-format te-precision-config-file "
              "use-kitchen-attention",
     .reason = "haul trains in f32, --bf16 or --fp8-format"},
    {.names = "no-fp8-wgrad disable-fp8-wgrad fp8-output-proj "
              "fp8-quantizer-factory fp8-margin",
     .harmless = trains_without_fp8,
     .reason = "in FP8 haul computes the three products of the linear layers, all with the same "
               "recipe"},
    {.names = "fp32-residual-connection grad-reduce-in-bf16 output-logit-dtype",
     .reason = "it would change the rounding"},
    {.names = "main-grads-dtype main-params-dtype megatron-fsdp-main-params-dtype",
     .neutral = "fp32",
     .reason = "haul keeps them in f32"},
    {.names = "megatron-fsdp-main-grads-dtype",
     .neutral = "fp32 auto",
     .reason = "haul keeps them in f32"},
    {.names = "loss-scale", .neutral = "1", .reason = "haul does not scale the loss"},

    /* The model. */
    {.names = "num-experts", .neutral = "0", .reason = "haul has no experts"},
    {.names = "mtp-num-layers", .neutral = "0", .reason = "haul predicts one token"},
    {.names = "softmax-type", .neutral = "vanilla", .reason = "haul's models have the plain one"},
    {.names = "glu-linear-offset", .neutral = "0", .reason = "haul's SwiGLU has none"},
    {.names = "rotary-seq-len-interpolation-factor",
     .neutral = "1",
     .reason = "haul stretches angles by --use-rope-scaling alone"},
    {.names = "rope-type", .neutral = "rope", .reason = "haul has no yarn"},
    {.names = "no-position-embedding",
     .harmless = has_no_position_table,
     .reason = "it goes with --position-embedding-type rope"},
    {.names = "multi-latent-attention experimental-attention-variant linear-attention-freq "
              "attention-output-gate window-size qk-layernorm qk-l2-norm qk-clip "
              "rotary-interleaved no-rope-freq apply-layernorm-1p "
              "apply-residual-connection-post-layernorm squared-relu quick-geglu "
              "activation-func-clamp-value enable-mhc-connections use-mup hybrid-layer-pattern "
              "hybrid-override-pattern is-hybrid-model heterogeneous-layers-* spec",
     .reason = "haul's models do not have it"},
    {.names = "embedding-init-method-std init-method-xavier-uniform no-initialization",
     .reason = "haul draws all weights by --init-method-std"},
    {.names = "encoder-num-layers decoder-num-layers encoder-seq-length decoder-seq-length",
     .reason = "a decoder has --num-layers and --seq-length"},
    {.names = "padded-vocab-size no-pad-vocab-size disable-pad-vocab-size",
     .reason = "haul pads --vocab-size to a multiple of --make-vocab-size-divisible-by"},

    /* Data and tokenizers. */
    {.names = "vocab-extra-ids", .neutral = "0", .reason = "haul adds no tokens"},
    {.names = "null-tokenizer-pad-id", .neutral = "-1", .reason = "haul pads nothing"},
    {.names = "dataloader-type", .neutral = "single", .reason = "haul has no other order"},
    {.names = "mid-level-dataset-surplus",
     .neutral = "0.005",
     .reason = "it would change the order of samples"},
    {.names = "reset-position-ids reset-attention-mask dataloader-inter-document-masking "
              "eod-mask-loss",
     .reason = "haul lets sequences run across documents and counts every token"},
    {.names = "train-data-path", .reason = "give --data-path, with --valid-data-path"},
    {.names = "data-args-path per-split-data-args-path", .reason = "give --data-path"},

    /* The training. */
    {.names = "perform-rl-step", .reason = "haul has no reinforcement learning"},
    {.names = "rampup-batch-size step-batch-size-schedule",
     .reason = "haul's batches have one size"},
    {.names = "weight-decay-incr-style",
     .neutral = "constant",
     .reason = "haul's weight decay is constant"},
    {.names = "start-weight-decay end-weight-decay", .reason = "haul's weight decay is constant"},
    {.names = "decoupled-lr", .reason = "haul has one learning rate"},
    {.names = "eval-global-batch-size eval-micro-batch-size start-eval-at-iter full-validation",
     .reason = "haul evaluates --eval-iters global batches at each --eval-interval"},
    {.names = "error-injection-rate", .neutral = "0", .reason = "haul injects no errors"},
    {.names = "exit-signal",
     .neutral = "SIGTERM SIGINT",
     .reason = "haul stops at SIGTERM and SIGINT"},
    {.names = "batch-size", .reason = "use --micro-batch-size"},
    {.names = "warmup", .reason = "use --lr-warmup-fraction"},
    {.names = "checkpoint-activations", .reason = "use --recompute-granularity full"},

    /* Checkpoints. */
    {.names = "finetune no-load-optim",
     .harmless = loads_no_state,
     .reason = "of its own checkpoints haul loads everything; weights alone come from a Hugging "
               "Face model, see haul checkpoint export"},
    {.names = "pretrained-checkpoint ckpt-step override-ckpt-iteration load-main-params-from-ckpt "
              "ckpt-convert-*",
     .reason = "haul goes on with the newest checkpoint of --load"},
    {.names = "use-checkpoint-args",
     .harmless = loads_no_state,
     .reason = "on resuming haul takes all settings from the command line"},
    {.names = "save-retain-interval", .reason = "haul keeps the newest, see --keep-checkpoints"},
    {.names = "non-persistent-save-interval", .reason = "haul has only --save-interval"},
    {.names = "logits-save-dir logits-load-dir", .reason = "haul has no distillation"},

    /* From here on: taken at any value. First what only a flag reads that is refused above, or a
     * word that haul's own flags refuse, as --optimizer muon. */
    {.names = "moe-* mtp-* dsa-* no-dsa-* disable-dsa-* mup-* mhc-* muon-* lion-* mamba-* gdp-* "
              "disable-mamba-mem-eff-path fp8-* fp4-* "
              "keep-fp8-transpose-cache "
              "reuse-grad-buf-for-mxfp8-param-ag kitchen-attention-backend qk-clip-*"},
    {.names = "q-lora-rank kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim mscale "
              "mscale-all-dim rotary-scaling-factor cache-mla-latents mla-down-proj-fusion "
              "linear-* window-attn-skip-freq mrope-section relative-attention-* yarn-* no-yarn-* "
              "apply-wd-to-qk-layernorm no-weight-decay-cond-type"},
    {.names = "rl-* no-rl-* grpo-* langrl-env-config refit-method logits-* decoupled-min-lr "
              "error-injection-type initial-loss-scale min-loss-scale loss-scale-window "
              "hysteresis tiktoken-* tokenizer-sentencepiece-* no-tokenizer-sentencepiece-* "
              "disable-tokenizer-sentencepiece-* non-persistent-*"},

    /* Kernels: what haul has instead gives the same up to rounding, which haul's own way is. */
    {.names = "use-mcore-models transformer-impl attention-backend use-flash-attn "
              "flash-attention-version flash-decode attention-softmax-in-fp32 "
              "apply-query-key-layer-scaling accumulate-allreduce-grads-in-fp32 "
              "calculate-per-token-loss deterministic-mode batch-invariant-* "
              "disable-bf16-reduced-precision-matmul use-precision-aware-optimizer"},
    {.names = "no-masked-softmax-fusion no-bias-gelu-fusion no-bias-swiglu-fusion "
              "no-bias-dropout-fusion no-rope-fusion no-persist-layer-norm "
              "no-gradient-accumulation-fusion no-gradient-reduce-div-fusion cross-entropy-* "
              "disable-jit-fuser use-te-activation-func use-transformer-engine-op-fuser "
              "use-fused-weighted-squared-relu fused-residual-rmsnorm use-grouped-gemm-* "
              "mlp-chunks-* no-clone-* disable-clone-* onnx-safe enable-experimental"},
    {.names = "cuda-graph-* enable-cuda-graph external-cuda-graph decode-only-cuda-graphs "
              "optimizer-cuda-graph te-rng-tracker inference-rng-tracker use-cpu-initialization "
              "init-model-with-meta-device data-parallel-random-init"},

    /* Memory. */
    {.names = "recompute-method recompute-num-layers "
              "distribute-saved-activations cpu-offloading-* fine-grained-* offload-modules "
              "min-offloaded-tensor-size delay-offload-until-cuda-graph delta-offload-* "
              "activation-offload-fraction optimizer-cpu-offload optimizer-offload-fraction "
              "use-torch-optimizer-for-cpu-offload overlap-cpu-optimizer-d2h-h2d no-pin-* "
              "empty-unused-memory-level"},

    /* How processes share work and talk; there is one. */
    {.names = "sequence-parallel use-distributed-optimizer overlap-* no-overlap-* ddp-* tp-comm-* "
              "no-tp-comm-* disable-tp-comm-* distributed-* cp-comm-type "
              "hierarchical-context-parallel-sizes max-seqlen-per-dp-cp-rank symmetric-ar-type "
              "nccl-* use-nccl-ub use-sharp sharp-enabled-group high-priority-* lazy-mpu-init "
              "use-ring-exchange-p2p use-tp-pp-dp-mapping disable-gloo-process-groups "
              "disable-symmetric-registration no-align-* disable-align-grad-reduce gtp-*"},
    {.names = "use-megatron-fsdp use-torch-fsdp2 megatron-fsdp-* torch-fsdp2-* fsdp-* "
              "data-parallel-sharding-strategy outer-dp-sharding-strategy "
              "create-all-gather-group suggested-communication-unit-size "
              "enable-full-sharding-in-hsdp no-use-layer-wise-param-layout"},
    {.names = "pipeline-model-parallel-layout pipeline-model-parallel-comm-backend "
              "decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers "
              "num-layers-per-virtual-pipeline-stage num-virtual-stages-per-pipeline-rank "
              "microbatch-group-size-per-virtual-pipeline-stage account-for-* "
              "defer-embedding-wgrad-compute wgrad-deferral-limit delay-wgrad-compute "
              "ep-overlap-early-attn-memory-release"},

    /* How data are read. */
    {.names = "num-workers data-cache-path no-mmap-bin-files "
              "no-create-attention-mask-in-dataloader num-dataset-builder-threads "
              "dataloader-fast-cache-load dataloader-defer-npy-index-mmap "
              "per-dataset-sequences-path object-storage-cache-path enable-msc disable-msc "
              "trust-remote-code test-data-path"},

    /* How checkpoints are written and read. On resuming, the command line counts. */
    {.names = "ckpt-* dist-ckpt-* use-dist-ckpt async-* use-persistent-ckpt-worker "
              "auto-detect-ckpt-format no-ckpt-* disable-ckpt-* distrib-optim-* replication "
              "replication-* verify-integrity no-save-optim no-save-rng no-load-rng "
              "no-strict-* disable-strict-* no-save-tokenizer-assets "
              "disable-save-tokenizer-assets use-mp-args-from-checkpoint-args "
              "no-use-tokenizer-model-from-checkpoint-args "
              "disable-use-tokenizer-model-from-checkpoint-args override-opt-param-scheduler"},

    /* Logs, profiles, health, restarts. */
    {.names = "log-* no-log-* disable-log-* logging-level timing-* no-barrier-* tensorboard-* "
              "wandb-* otel-* one-logger-* no-one-logger app-tag-* pytorch-profiler-* record-* "
              "memory-snapshot-path nvtx-ranges "
              "config-logger-dir dump-param-to-param-group-map run-workload-inspector-server"},
    {.names = "rerun-mode check-for-* no-check-for-nan-in-loss-and-grad check-weight-hash-* "
              "result-rejected-tracker-filename gpu-sniff-test-interval straggler-* "
              "disable-straggler-on-startup flight-recorder-* no-flight-* disable-flight-* "
              "inprocess-* enable-ft-package calc-ft-timeouts ft-* adlr-* exit-signal-handler "
              "exit-signal-handler-* manual-gc manual-gc-* no-manual-gc-eval "
              "disable-manual-gc-eval train-sync-interval decrease-batch-size-if-needed"},

    /* Inference, which no training does. */
    {.names = "inference-* no-inference-* max-tokens-to-oom enable-chunked-prefill "
              "num-speculative-tokens use-legacy-static-engine "
              "use-same-sampling-seed-across-dp-ranks"},
};

enum { RULES = sizeof rules / sizeof *rules };

const haul_megatron_rule *haul_megatron_rule_at(int64_t index) {
    return index < RULES ? &rules[index] : NULL;
}

/* Whether `word`, of `length` characters and maybe with a '*' at its end, covers `name`. */
static bool covers(const char *word, size_t length, const char *name) {
    if (length > 0 && word[length - 1] == '*') {
        return strncmp(word, name, length - 1) == 0;
    }
    return strlen(name) == length && strncmp(word, name, length) == 0;
}

static bool is_number(const char *word, size_t length, double *out) {
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)length, word);
    return length < sizeof text && haul_parse_float(text, out);
}

static bool same_value(const char *word, size_t length, const char *value) {
    double wanted, given;
    if (is_number(word, length, &wanted) && haul_parse_float(value, &given)) {
        return given >= wanted && given <= wanted;
    }
    return covers(word, length, value);
}

typedef bool word_matches(const char *word, size_t length, const char *text);

/* Whether one of `words`, separated by blanks, matches `text`. */
static bool any_word(const char *words, word_matches *matches, const char *text) {
    for (const char *word = words; *word != '\0';) {
        size_t length = strcspn(word, " ");
        if (matches(word, length, text)) {
            return true;
        }
        word += length + (word[length] == ' ');
    }
    return false;
}

const haul_megatron_rule *haul_megatron_rule_of(const char *name) {
    for (int i = 0; i < RULES; i++) {
        if (any_word(rules[i].names, covers, name)) {
            return &rules[i];
        }
    }
    return NULL;
}

/* Sets what haul calls otherwise; `done` says whether `name` is such a flag. */
static haul_status translate(haul_config *config, const char *name, bool *done) {
    static const struct {
        const char *megatron, *flag, *value;
    } words[] = {
        {"use-rotary-position-embeddings", "position-embedding-type", "rope"},
        {"recompute-activations", "recompute-granularity", "selective"},
    };
    *done = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].megatron, name) == 0) {
            *done = true;
            return haul_config_set(config, words[i].flag, &words[i].value, 1,
                                   HAUL_SOURCE_COMMAND_LINE);
        }
    }
    return HAUL_OK;
}

static bool accepts(const haul_config *config, const haul_megatron_rule *rule,
                    const haul_megatron_use *use) {
    if (rule == NULL) {
        return false;
    }
    return rule->reason == NULL || (rule->harmless != NULL && rule->harmless(config)) ||
           (rule->neutral != NULL && use->count == 1 &&
            any_word(rule->neutral, same_value, use->values[0]));
}

/* What became of a use. */
typedef enum verdict { REFUSED, SAID, TAKEN } verdict;

/* Appends "--a 8, --b 4 must be 1: REASON" for all refused uses from `first` on with its rule. */
static void append_refusals(haul_string *out, const haul_megatron_use *uses, verdict *verdicts,
                            int first, int count) {
    const haul_megatron_rule *rule = haul_megatron_rule_of(uses[first].name);
    haul_string_append_text(out, out->length > 0 ? "; " : "");
    for (int i = first; i < count; i++) {
        if (verdicts[i] == REFUSED && haul_megatron_rule_of(uses[i].name) == rule) {
            haul_string_append_format(out, i > first ? ", --%s" : "--%s", uses[i].name);
            if (rule != NULL && rule->neutral != NULL && uses[i].count > 0) {
                haul_string_append_format(out, " %.60s", uses[i].values[0]);
            }
            verdicts[i] = SAID;
        }
    }
    if (rule == NULL) {
        haul_string_append_text(out, ": haul lacks this of Megatron-LM");
        return;
    }
    const char *words = rule->neutral != NULL ? rule->neutral : "";
    for (; *words != '\0'; words += strcspn(words, " "), words += *words == ' ') {
        haul_string_append_text(out, words == rule->neutral ? " must be " : " or ");
        haul_string_append(out, words, (int64_t)strcspn(words, " "));
    }
    haul_string_append_format(out, ": %s", rule->reason);
}

/* Translations come first: the rules look at the whole config. */
static haul_status judge(haul_config *config, const haul_megatron_use *uses, int count,
                         verdict *verdicts) {
    haul_text_list *ignored = &config->ignored;
    for (int i = 0; i < count; i++) {
        bool done;
        HAUL_TRY(translate(config, uses[i].name, &done));
        verdicts[i] = done ? TAKEN : REFUSED;
    }
    for (int i = 0; i < count; i++) {
        if (verdicts[i] == REFUSED &&
            accepts(config, haul_megatron_rule_of(uses[i].name), &uses[i])) {
            verdicts[i] = TAKEN;
            ignored->items[ignored->count] = haul_config_keep(config, uses[i].name);
            if (ignored->items[ignored->count++] == NULL) {
                return HAUL_ERROR_MEMORY;
            }
        }
    }
    return HAUL_OK;
}

haul_status haul_megatron_judge(haul_config *config, const haul_megatron_use *uses, int count,
                                haul_string *refusals, int *refused) {
    verdict *verdicts = haul_calloc(count, sizeof *verdicts);
    config->ignored.items =
        haul_config_allocate(config, (int64_t)count * (int64_t)sizeof *config->ignored.items);
    haul_status status = HAUL_ERROR_MEMORY;
    if (verdicts != NULL && config->ignored.items != NULL) {
        status = judge(config, uses, count, verdicts);
    }
    for (int i = 0; status == HAUL_OK && i < count; i++) {
        if (verdicts[i] == REFUSED) {
            append_refusals(refusals, uses, verdicts, i, count);
        }
        *refused += verdicts[i] == SAID;
    }
    free(verdicts);
    return status == HAUL_OK ? haul_string_status(refusals) : status;
}
