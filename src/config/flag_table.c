/* The table itself. Names and defaults of Megatron-LM's flags are Megatron-LM's. */
#include "config/flags.h"

/* Sets of commands. */
enum {
    NO_COMMAND = 0, /* a field of config.json alone */
    TRAIN = HAUL_COMMAND_BIT(HAUL_COMMAND_TRAIN),
    EVAL = HAUL_COMMAND_BIT(HAUL_COMMAND_EVAL),
    GENERATE = HAUL_COMMAND_BIT(HAUL_COMMAND_GENERATE),
    BUILD = HAUL_COMMAND_BIT(HAUL_COMMAND_DATA_BUILD),
    TOKENIZER = HAUL_COMMAND_BIT(HAUL_COMMAND_DATA_TOKENIZER_TRAIN),
    EXPORT = HAUL_COMMAND_BIT(HAUL_COMMAND_CHECKPOINT_EXPORT),
    REPORT = HAUL_COMMAND_BIT(HAUL_COMMAND_REPORT),
    BENCH_TRAIN = HAUL_COMMAND_BIT(HAUL_COMMAND_BENCH_TRAIN),
    BENCH = BENCH_TRAIN | HAUL_COMMAND_BIT(HAUL_COMMAND_BENCH_KERNELS),
    RUNS_MODEL = TRAIN | EVAL | GENERATE,
    ALL = HAUL_COMMAND_BIT(HAUL_COMMANDS) - 1
};

#define AT(field) offsetof(haul_config, field)

/* The upper limits keep every later product of sizes far from overflow. */
static const haul_flag_kind on_off = {.type = HAUL_FLAG_BOOL};
static const haul_flag_kind size = {.type = HAUL_FLAG_INT, .minimum = 1, .maximum = 1e8};
static const haul_flag_kind batch = {.type = HAUL_FLAG_INT, .minimum = 1, .maximum = 1e7};
static const haul_flag_kind threads = {.type = HAUL_FLAG_INT, .minimum = 1, .maximum = 4096};
static const haul_flag_kind repeats = {.type = HAUL_FLAG_INT, .minimum = 1, .maximum = 1000};
static const haul_flag_kind count = {.type = HAUL_FLAG_INT, .minimum = 1, .maximum = 1e12};
static const haul_flag_kind count_or_zero = {.type = HAUL_FLAG_INT, .minimum = 0, .maximum = 1e12};
static const haul_flag_kind seed = {.type = HAUL_FLAG_INT, .minimum = 0, .maximum = 4294967295.0};
static const haul_flag_kind fraction = {.type = HAUL_FLAG_FLOAT, .minimum = 0, .maximum = 1};
static const haul_flag_kind rate = {.type = HAUL_FLAG_FLOAT, .minimum = 0, .maximum = 1e6};
static const haul_flag_kind norm = {.type = HAUL_FLAG_FLOAT, .minimum = 0, .maximum = 1e30};
static const haul_flag_kind factor = {.type = HAUL_FLAG_FLOAT, .minimum = 1e-6, .maximum = 1e15};

static const haul_flag_kind any_text = {.type = HAUL_FLAG_TEXT, .value = "TEXT"};
static const haul_flag_kind name = {.type = HAUL_FLAG_TEXT, .value = "NAME"};
static const haul_flag_kind shares = {.type = HAUL_FLAG_TEXT, .value = "A,B,C"};
static const haul_flag_kind file = {.type = HAUL_FLAG_TEXT, .value = "FILE"};
static const haul_flag_kind directory = {.type = HAUL_FLAG_TEXT, .value = "DIR"};
static const haul_flag_kind prefix = {.type = HAUL_FLAG_TEXT, .value = "PREFIX"};
static const haul_flag_kind files = {.type = HAUL_FLAG_LIST, .value = "FILE"};
static const haul_flag_kind prefixes = {.type = HAUL_FLAG_LIST, .value = "PREFIX"};
static const haul_flag_kind ranks = {.type = HAUL_FLAG_LIST, .value = "RANK"};
static const haul_flag_kind keys = {.type = HAUL_FLAG_LIST, .value = "KEY"};
static const haul_flag_kind modules = {.type = HAUL_FLAG_LIST, .value = "MODULE"};
static const haul_flag_kind texts = {.type = HAUL_FLAG_LIST, .value = "TEXT"};

static const haul_flag_kind position = {.type = HAUL_FLAG_CHOICE,
                                        .choices = {"learned_absolute", "rope", "none"}};
static const haul_flag_kind normalization = {.type = HAUL_FLAG_CHOICE,
                                             .choices = {"LayerNorm", "RMSNorm"}};
static const haul_flag_kind decay_style = {
    .type = HAUL_FLAG_CHOICE,
    .choices = {"constant", "linear", "cosine", "inverse-square-root", "WSD"}};
static const haul_flag_kind wsd_style = {
    .type = HAUL_FLAG_CHOICE, .choices = {"exponential", "linear", "cosine", "minus_sqrt"}};
static const haul_flag_kind optimizer = {.type = HAUL_FLAG_CHOICE, .choices = {"adam", "sgd"}};
static const haul_flag_kind moment = {.type = HAUL_FLAG_CHOICE, .choices = {"fp32", "bf16"}};
static const haul_flag_kind tokenizer = {.type = HAUL_FLAG_CHOICE,
                                         .choices = {"auto", "ByteTokenizer", "NullTokenizer",
                                                     "HuggingFaceTokenizer", "GPT2BPETokenizer"}};
static const haul_flag_kind fp8_format = {.type = HAUL_FLAG_CHOICE,
                                          .choices = {"none", "e4m3", "hybrid"}};
static const haul_flag_kind fp8_recipe = {.type = HAUL_FLAG_CHOICE,
                                          .choices = {"tensorwise", "blockwise"}};
static const haul_flag_kind granularity = {.type = HAUL_FLAG_CHOICE,
                                           .choices = {"none", "full", "selective"}};
static const haul_flag_kind device = {.type = HAUL_FLAG_CHOICE,
                                      .choices = {"cpu", "cuda", "auto", "ref", "meta"}};
static const haul_flag_kind product_dtype = {.type = HAUL_FLAG_CHOICE,
                                             .choices = {"auto", "bf16", "f32"}};
static const haul_flag_kind separator = {.type = HAUL_FLAG_CHOICE,
                                         .choices = {"file", "blank-line", "percent"}};

static const haul_flag table[] = {
    {"num-layers", &size, HAUL_GROUP_MODEL, TRAIN, AT(num_layers), NULL, "transformer layers"},
    {"hidden-size", &size, HAUL_GROUP_MODEL, TRAIN, AT(hidden_size), NULL, "width of the model"},
    {"ffn-hidden-size", &size, HAUL_GROUP_MODEL, TRAIN, AT(ffn_hidden_size), NULL,
     "width inside the feed-forward block; when not given 4 times the hidden size, or 8/3 times in "
     "steps of 64 with --swiglu"},
    {"num-attention-heads", &size, HAUL_GROUP_MODEL, TRAIN, AT(num_attention_heads), NULL,
     "attention heads"},
    {"kv-channels", &size, HAUL_GROUP_MODEL, TRAIN, AT(kv_channels), NULL,
     "size of a head; when not given the hidden size divided by the heads"},
    {"group-query-attention", &on_off, HAUL_GROUP_MODEL, TRAIN, AT(group_query_attention), NULL,
     "let groups of heads share keys and values (see --num-query-groups)"},
    {"num-query-groups", &size, HAUL_GROUP_MODEL, TRAIN, AT(num_query_groups), "1",
     "key and value heads, counted only with --group-query-attention"},
    {"seq-length", &size, HAUL_GROUP_MODEL, TRAIN | EVAL, AT(seq_length), NULL,
     "tokens in a sequence"},
    {"max-position-embeddings", &size, HAUL_GROUP_MODEL, TRAIN, AT(max_position_embeddings), NULL,
     "longest sequence that the model will ever see"},
    {"position-embedding-type", &position, HAUL_GROUP_MODEL, TRAIN, AT(position_embedding_type),
     NULL, "how the model knows positions"},
    {"rotary-base", &factor, HAUL_GROUP_MODEL, TRAIN, AT(rotary_base), "10000",
     "base of the rotary angles"},
    {"rotary-percent", &fraction, HAUL_GROUP_MODEL, TRAIN, AT(rotary_percent), "1.0",
     "fraction of a head that rotates"},
    {"use-rope-scaling", &on_off, HAUL_GROUP_MODEL, TRAIN, AT(use_rope_scaling), NULL,
     "stretch the rotary angles as Llama 3.1 does"},
    {"rope-scaling-factor", &factor, HAUL_GROUP_MODEL, TRAIN, AT(rope_scaling_factor), "8.0",
     "how far --use-rope-scaling stretches"},
    {"rope-low-freq-factor", &factor, HAUL_GROUP_MODEL, NO_COMMAND, AT(rope_low_freq_factor), "1.0",
     "low_freq_factor of Llama 3.1's scaling"},
    {"rope-high-freq-factor", &factor, HAUL_GROUP_MODEL, NO_COMMAND, AT(rope_high_freq_factor),
     "4.0", "high_freq_factor of Llama 3.1's scaling"},
    {"rope-original-max-position-embeddings", &size, HAUL_GROUP_MODEL, NO_COMMAND,
     AT(rope_original_max_position_embeddings), "8192",
     "original_max_position_embeddings of Llama 3.1's scaling"},
    {"normalization", &normalization, HAUL_GROUP_MODEL, TRAIN, AT(normalization), NULL,
     "normalization before each block"},
    {"norm-epsilon", &fraction, HAUL_GROUP_MODEL, TRAIN, AT(norm_epsilon), "1e-5",
     "added to the variance in a normalization"},
    {"swiglu", &on_off, HAUL_GROUP_MODEL, TRAIN, AT(swiglu), NULL,
     "gated feed-forward with SiLU instead of GELU"},
    {"openai-gelu", &on_off, HAUL_GROUP_MODEL, TRAIN, AT(openai_gelu), NULL,
     "GELU in its tanh form, as GPT-2 has it, instead of the exact one"},
    {"disable-bias-linear", &on_off, HAUL_GROUP_MODEL, TRAIN, AT(disable_bias_linear), NULL,
     "no biases in the linear layers"},
    {"add-qkv-bias", &on_off, HAUL_GROUP_MODEL, TRAIN, AT(add_qkv_bias), NULL,
     "biases for query, key and value even with --disable-bias-linear"},
    {"untie-embeddings-and-output-weights", &on_off, HAUL_GROUP_MODEL, TRAIN,
     AT(untie_embeddings_and_output_weights), NULL, "give the output layer weights of its own"},
    {"make-vocab-size-divisible-by", &size, HAUL_GROUP_MODEL, TRAIN,
     AT(make_vocab_size_divisible_by), "128", "pad the vocabulary to a multiple of this"},
    {"vocab-size", &size, HAUL_GROUP_MODEL, TRAIN | BUILD | TOKENIZER, AT(vocab_size), NULL,
     "tokens in the vocabulary; when not given those of the tokenizer"},
    {"padded-vocab-size", &size, HAUL_GROUP_MODEL, NO_COMMAND, AT(padded_vocab_size), NULL,
     "rows of the embedding"},
    {"hidden-dropout", &fraction, HAUL_GROUP_MODEL, TRAIN, AT(hidden_dropout), "0.1",
     "dropout of the embedding and of each block's result"},
    {"attention-dropout", &fraction, HAUL_GROUP_MODEL, TRAIN, AT(attention_dropout), "0.1",
     "dropout of the attention weights"},
    {"init-method-std", &rate, HAUL_GROUP_MODEL, TRAIN, AT(init_method_std), "0.02",
     "standard deviation of the initial weights"},
    {"bf16", &on_off, HAUL_GROUP_MODEL, RUNS_MODEL, AT(bf16), NULL,
     "parameters and activations in bf16 instead of f32"},
    {"fp8-format", &fp8_format, HAUL_GROUP_MODEL, TRAIN, AT(fp8_format), NULL,
     "linear layers multiply in FP8: all e4m3, or hybrid with e5m2 for gradients; embedding, "
     "norms, "
     "attention and head stay as they are"},
    {"fp8-recipe", &fp8_recipe, HAUL_GROUP_MODEL, TRAIN, AT(fp8_recipe), NULL,
     "what shares a scale: tensorwise: a tensor, by its present largest value; blockwise: 128 "
     "elements of a row, 128 x 128 of a weight, scales powers of two"},
    {"first-last-layers-bf16", &on_off, HAUL_GROUP_MODEL, TRAIN, AT(first_last_layers_bf16), NULL,
     "with --fp8-format: the first and last transformer layers stay out of FP8"},
    {"num-layers-at-start-in-bf16", &count_or_zero, HAUL_GROUP_MODEL, TRAIN,
     AT(num_layers_at_start_in_bf16), "1", "how many first layers --first-last-layers-bf16 means"},
    {"num-layers-at-end-in-bf16", &count_or_zero, HAUL_GROUP_MODEL, TRAIN,
     AT(num_layers_at_end_in_bf16), "1", "how many last layers --first-last-layers-bf16 means"},

    {"micro-batch-size", &batch, HAUL_GROUP_TRAINING, TRAIN | EVAL, AT(micro_batch_size), NULL,
     "sequences computed at a time"},
    {"global-batch-size", &batch, HAUL_GROUP_TRAINING, TRAIN, AT(global_batch_size), NULL,
     "sequences of one optimizer step; when not given the micro-batch size"},
    {"train-iters", &count, HAUL_GROUP_TRAINING, TRAIN, AT(train_iters), NULL,
     "optimizer steps to train"},
    {"train-samples", &count, HAUL_GROUP_TRAINING, TRAIN, AT(train_samples), NULL,
     "sequences to train, instead of --train-iters"},
    {"optimizer", &optimizer, HAUL_GROUP_TRAINING, TRAIN, AT(optimizer), NULL,
     "adam means AdamW, with decoupled weight decay"},
    {"weight-decay", &rate, HAUL_GROUP_TRAINING, TRAIN, AT(weight_decay), "0.01",
     "weight decay of matrices; biases and norms have none"},
    {"clip-grad", &norm, HAUL_GROUP_TRAINING, TRAIN, AT(clip_grad), "1.0",
     "largest norm of the whole gradient; 0 for no limit"},
    {"adam-beta1", &fraction, HAUL_GROUP_TRAINING, TRAIN, AT(adam_beta1), "0.9",
     "decay of the first moment"},
    {"adam-beta2", &fraction, HAUL_GROUP_TRAINING, TRAIN, AT(adam_beta2), "0.999",
     "decay of the second moment"},
    {"adam-eps", &fraction, HAUL_GROUP_TRAINING, TRAIN, AT(adam_eps), "1e-8",
     "added to the root of the second moment"},
    {"exp-avg-dtype", &moment, HAUL_GROUP_TRAINING, TRAIN, AT(exp_avg_dtype), NULL,
     "what adam keeps the first moment in; bf16 takes 2 bytes a parameter instead of 4 and is "
     "rounded at random"},
    {"exp-avg-sq-dtype", &moment, HAUL_GROUP_TRAINING, TRAIN, AT(exp_avg_sq_dtype), NULL,
     "the same of the second moment"},
    {"sgd-momentum", &fraction, HAUL_GROUP_TRAINING, TRAIN, AT(sgd_momentum), "0.9",
     "momentum of --optimizer sgd"},
    {"seed", &seed, HAUL_GROUP_TRAINING, TRAIN | GENERATE | BUILD, AT(seed), "1234",
     "seed of everything random: weights, dropout, order of samples, sampling"},
    {"exit-interval", &count, HAUL_GROUP_TRAINING, TRAIN, AT(exit_interval), NULL,
     "save and stop at an iteration divisible by this"},
    {"exit-duration-in-mins", &count, HAUL_GROUP_TRAINING, TRAIN, AT(exit_duration_in_mins), NULL,
     "save and stop after this many minutes"},
    {"recompute-granularity", &granularity, HAUL_GROUP_TRAINING, TRAIN, AT(recompute_granularity),
     NULL,
     "full: keep only the input of each layer and compute the rest again, to save memory; "
     "selective: those of --recompute-modules"},
    {"recompute-modules", &modules, HAUL_GROUP_TRAINING, TRAIN, AT(recompute_modules), "core_attn",
     "what selective computes again: layernorm, activation, and core_attn, which always is, as "
     "haul "
     "never keeps the attention matrix"},

    {"lr", &rate, HAUL_GROUP_LEARNING_RATE, TRAIN, AT(lr), NULL, "highest learning rate"},
    {"min-lr", &rate, HAUL_GROUP_LEARNING_RATE, TRAIN, AT(min_lr), "0.0",
     "lowest learning rate of the decay"},
    {"lr-decay-style", &decay_style, HAUL_GROUP_LEARNING_RATE, TRAIN, AT(lr_decay_style), "linear",
     "how the learning rate falls"},
    {"lr-decay-iters", &count, HAUL_GROUP_LEARNING_RATE, TRAIN, AT(lr_decay_iters), NULL,
     "iterations until --min-lr; when not given those of the training"},
    {"lr-decay-samples", &count, HAUL_GROUP_LEARNING_RATE, TRAIN, AT(lr_decay_samples), NULL,
     "the same in sequences, with --train-samples"},
    {"lr-warmup-iters", &count_or_zero, HAUL_GROUP_LEARNING_RATE, TRAIN, AT(lr_warmup_iters), "0",
     "iterations over which the learning rate rises"},
    {"lr-warmup-samples", &count_or_zero, HAUL_GROUP_LEARNING_RATE, TRAIN, AT(lr_warmup_samples),
     "0", "the same in sequences, with --train-samples"},
    {"lr-warmup-fraction", &fraction, HAUL_GROUP_LEARNING_RATE, TRAIN, AT(lr_warmup_fraction), NULL,
     "the same as a fraction of the decay"},
    {"lr-warmup-init", &rate, HAUL_GROUP_LEARNING_RATE, TRAIN, AT(lr_warmup_init), "0.0",
     "learning rate at the start of the warmup"},
    {"lr-wsd-decay-style", &wsd_style, HAUL_GROUP_LEARNING_RATE, TRAIN, AT(lr_wsd_decay_style),
     NULL, "form of the last part of --lr-decay-style WSD"},
    {"lr-wsd-decay-iters", &count, HAUL_GROUP_LEARNING_RATE, TRAIN, AT(lr_wsd_decay_iters), NULL,
     "iterations of that last part"},
    {"lr-wsd-decay-samples", &count, HAUL_GROUP_LEARNING_RATE, TRAIN, AT(lr_wsd_decay_samples),
     NULL, "the same in sequences, with --train-samples"},
    {"use-checkpoint-opt-param-scheduler", &on_off, HAUL_GROUP_LEARNING_RATE, TRAIN,
     AT(use_checkpoint_opt_param_scheduler), NULL,
     "refuse to resume where the checkpoint has another learning rate or weight decay"},

    {"data-path", &prefixes, HAUL_GROUP_DATA, TRAIN | EVAL, AT(data_path), NULL,
     "data sets made by haul data build, as prefixes of .bin and .idx; several are blended, each "
     "with a weight in front of it"},
    {"valid-data-path", &prefixes, HAUL_GROUP_DATA, TRAIN, AT(valid_data_path), NULL,
     "data sets for evaluation alone; then --data-path is used for training alone"},
    {"split", &shares, HAUL_GROUP_DATA, TRAIN | EVAL, AT(split), NULL,
     "shares of training, validation and test, \"969, 30, 1\" when not given"},
    {"mock-data", &on_off, HAUL_GROUP_DATA, TRAIN, AT(mock_data), NULL,
     "train on made-up data, to measure speed"},
    {"text", &file, HAUL_GROUP_DATA, TRAIN | EVAL, AT(text), NULL,
     "a text file instead of --data-path; its data set is cached"},
    {"input", &files, HAUL_GROUP_DATA, BUILD | TOKENIZER, AT(input), NULL,
     "text or JSON Lines files to read, plain or compressed with gzip"},
    {"json-keys", &keys, HAUL_GROUP_DATA, BUILD | TOKENIZER, AT(json_keys), "text",
     "keys to take from each line of JSON"},
    {"output-prefix", &prefix, HAUL_GROUP_DATA, BUILD, AT(output_prefix), NULL,
     "where to write the data set, without .bin and .idx"},
    {"tokenizer-type", &tokenizer, HAUL_GROUP_DATA, RUNS_MODEL | BUILD, AT(tokenizer_type), NULL,
     "auto: the tokenizer of --tokenizer-model or of --vocab-file, else bytes"},
    {"tokenizer-model", &file, HAUL_GROUP_DATA, RUNS_MODEL | BUILD, AT(tokenizer_model), NULL,
     "a tokenizer.json, of a HuggingFaceTokenizer"},
    {"vocab-file", &file, HAUL_GROUP_DATA, RUNS_MODEL | BUILD, AT(vocab_file), NULL,
     "the vocab.json of a GPT2BPETokenizer"},
    {"merge-file", &file, HAUL_GROUP_DATA, RUNS_MODEL | BUILD, AT(merge_file), NULL,
     "the merges.txt of a GPT2BPETokenizer"},
    {"append-eod", &on_off, HAUL_GROUP_DATA, BUILD, AT(append_eod), NULL,
     "end each document with the end-of-document token"},
    {"document-separator", &separator, HAUL_GROUP_DATA, TRAIN | EVAL | BUILD | TOKENIZER,
     AT(document_separator), NULL,
     "what ends a document of a text file; when not given, --text is looked at: percent or "
     "blank-line"},
    {"holdout", &fraction, HAUL_GROUP_DATA, BUILD, AT(holdout), "0",
     "fraction of the documents to write to a second data set, for evaluation"},
    {"workers", &threads, HAUL_GROUP_DATA, BUILD | TOKENIZER, AT(workers), NULL,
     "threads that tokenize; when not given all cores"},

    {"load", &directory, HAUL_GROUP_OUTPUT, RUNS_MODEL, AT(load), NULL,
     "checkpoints of haul, or a Hugging Face model of the Llama or GPT-2 family"},
    {"save", &directory, HAUL_GROUP_OUTPUT, TRAIN, AT(save), NULL, "where to write checkpoints"},
    {"save-interval", &count, HAUL_GROUP_OUTPUT, TRAIN, AT(save_interval), NULL,
     "iterations between checkpoints"},
    {"keep-checkpoints", &count, HAUL_GROUP_OUTPUT, TRAIN, AT(keep_checkpoints), "3",
     "newest checkpoints to keep"},
    {"eval-interval", &count, HAUL_GROUP_OUTPUT, TRAIN, AT(eval_interval), NULL,
     "iterations between evaluations"},
    {"eval-iters", &count_or_zero, HAUL_GROUP_OUTPUT, TRAIN, AT(eval_iters), "100",
     "global batches of an evaluation"},
    {"log-interval", &count, HAUL_GROUP_OUTPUT, TRAIN, AT(log_interval), "100",
     "iterations between log lines"},
    {"tensorboard-dir", &directory, HAUL_GROUP_OUTPUT, TRAIN, AT(tensorboard_dir), NULL,
     "where to write TensorBoard events"},
    {"run-dir", &directory, HAUL_GROUP_OUTPUT, TRAIN, AT(run_dir), NULL,
     "directory of this run; when not given runs/DATE-NAME"},
    {"name", &name, HAUL_GROUP_OUTPUT, TRAIN, AT(name), NULL, "name of this run"},
    {"sample-prompt", &any_text, HAUL_GROUP_OUTPUT, TRAIN, AT(sample_prompt), NULL,
     "write a continuation of this text at each evaluation"},
    {"profile", &on_off, HAUL_GROUP_OUTPUT, TRAIN, AT(profile), NULL,
     "profile some iterations: with --use-pytorch-profiler haul writes a trace; without it, it "
     "tells "
     "nsys profile --capture-range=cudaProfilerApi when to record"},
    {"use-pytorch-profiler", &on_off, HAUL_GROUP_OUTPUT, TRAIN, AT(use_pytorch_profiler), NULL,
     "with --profile: write what PyTorch's profiler would, torch_profile/rank-0.json.gz beside "
     "--tensorboard-dir or in the directory of the run, for Perfetto and other viewers"},
    {"profile-step-start", &count_or_zero, HAUL_GROUP_OUTPUT, TRAIN, AT(profile_step_start), "10",
     "first iteration to profile"},
    {"profile-step-end", &count_or_zero, HAUL_GROUP_OUTPUT, TRAIN, AT(profile_step_end), "12",
     "iteration before which profiling ends"},
    {"profile-ranks", &ranks, HAUL_GROUP_OUTPUT, TRAIN, AT(profile_ranks), "0",
     "processes to profile; haul trains in one, 0"},
    {"output", &file, HAUL_GROUP_OUTPUT, TOKENIZER | REPORT | EXPORT, AT(output), NULL,
     "file, or directory of a model, to write"},

    {"prompt", &any_text, HAUL_GROUP_SAMPLING, GENERATE, AT(prompt), NULL,
     "text to continue; when not given the model starts a document"},
    {"max-new-tokens", &count, HAUL_GROUP_SAMPLING, GENERATE, AT(max_new_tokens), "200",
     "most tokens to write"},
    {"temperature", &rate, HAUL_GROUP_SAMPLING, GENERATE, AT(temperature), "1.0",
     "below 1 likely tokens become likelier; 0 always takes the likeliest"},
    {"top-k", &count_or_zero, HAUL_GROUP_SAMPLING, GENERATE, AT(top_k), "0",
     "draw from the K likeliest tokens; 0 for all"},
    {"top-p", &fraction, HAUL_GROUP_SAMPLING, GENERATE, AT(top_p), "0",
     "draw from the fewest tokens whose probabilities reach P; 0 for all"},
    {"stop", &texts, HAUL_GROUP_SAMPLING, GENERATE, AT(stop), NULL,
     "end when one of these texts was written"},

    {"preset", &name, HAUL_GROUP_MACHINE, TRAIN, AT(preset), NULL,
     "take all that the command line leaves open from a preset (see Presets)"},
    {"device", &device, HAUL_GROUP_MACHINE, RUNS_MODEL, AT(device), NULL,
     "auto: cuda where it can run, else cpu; ref: slow double precision to compare with; meta: "
     "count bytes and operations"},
    {"threads", &threads, HAUL_GROUP_MACHINE, RUNS_MODEL, AT(threads), NULL,
     "threads that compute; when not given all cores"},
    {"cpu-product-dtype", &product_dtype, HAUL_GROUP_MACHINE, RUNS_MODEL, AT(cpu_product_dtype),
     NULL, "how the processor multiplies bf16 matrices; auto: by a short measurement"},
    {"dry-run", &on_off, HAUL_GROUP_MACHINE, TRAIN, AT(dry_run), NULL,
     "plan the training, print parameters, operations and memory, and stop"},
    {"bench-steps", &repeats, HAUL_GROUP_MACHINE, BENCH_TRAIN, AT(bench_steps), "3",
     "steps to time; their median counts"},
    {"json", &file, HAUL_GROUP_MACHINE, BENCH, AT(json), NULL,
     "write the numbers to this file, too"},
    {"help", &on_off, HAUL_GROUP_MACHINE, ALL, AT(help), NULL, "print this help"},
};

_Static_assert(sizeof table / sizeof *table <= HAUL_CONFIG_FLAGS_MAX, "sources[] is too small");

int64_t haul_flag_count(void) {
    return (int64_t)(sizeof table / sizeof *table);
}

const haul_flag *haul_flag_at(int64_t index) {
    return &table[index];
}
