#include "config/flags.h"

#include "base/string.h"

#include <string.h>

static const haul_command_info table[HAUL_COMMANDS] = {
    [HAUL_COMMAND_TRAIN] =
        {
            .name = "train",
            .summary = "train a model",
            .text =
                "Trains a language model on data sets made by haul data build, or on a text file. "
                "Flags have the names and defaults of Megatron-LM. The start prints the settings "
                "that surprise people; a preset gives a complete set of sensible ones. Ctrl-C once "
                "finishes the step, saves, and prints the command that resumes.",
            .examples = {"haul train --preset tiny --text my.txt",
                         "haul train --preset quickstart --data-path data/my_text_document --save "
                         "checkpoints"},
        },
    [HAUL_COMMAND_EVAL] =
        {
            .name = "eval",
            .summary = "measure loss, perplexity and bits per byte of a model",
            .text = "Evaluates a model on a text file or a data set, over windows that do not "
                    "overlap.",
            .required = {"load"},
            .examples = {"haul eval --load checkpoints --text held-out.txt"},
        },
    [HAUL_COMMAND_GENERATE] =
        {
            .name = "generate",
            .summary = "let a model write",
            .text = "Continues a prompt with a trained model and prints each token as it comes.",
            .required = {"load"},
            .examples = {"haul generate --load checkpoints --prompt \"Once upon a time\" "
                         "--temperature 0.8"},
        },
    [HAUL_COMMAND_DATA_BUILD] =
        {
            .name = "data build",
            .summary = "turn text into a data set of tokens",
            .text = "Reads text or JSON Lines and writes, as Megatron-LM, PREFIX_text_document.bin "
                    "and .idx.",
            .required = {"input", "output-prefix"},
            .examples = {"haul data build --input my.txt --output-prefix data/my",
                         "haul data build --input a.jsonl.gz b.jsonl.gz --output-prefix data/ab "
                         "--tokenizer-model tokenizer.json --append-eod"},
        },
    [HAUL_COMMAND_DATA_INSPECT] =
        {
            .name = "data inspect",
            .summary = "show what a data set holds",
            .text = "Prints documents, sequences, tokens, token type and sizes of a data set, and "
                    "checks that its two files agree.",
            .operand = "PREFIX",
            .operands_min = 1,
            .operands_max = 1,
            .examples = {"haul data inspect data/my_text_document"},
        },
    [HAUL_COMMAND_DATA_TOKENIZER_TRAIN] =
        {
            .name = "data tokenizer train",
            .summary = "make a byte-level BPE tokenizer from text",
            .text = "Learns a vocabulary of frequent pieces of text and writes it as a "
                    "tokenizer.json that Hugging Face's libraries read too.",
            .required = {"input", "output"},
            .examples = {"haul data tokenizer train --input my.txt --vocab-size 1024 --output "
                         "tokenizer.json"},
        },
    [HAUL_COMMAND_CHECKPOINT_LIST] =
        {
            .name = "checkpoint list",
            .summary = "list the checkpoints of a directory",
            .text = "Lists the checkpoints below a directory and says which are complete.",
            .operand = "DIR",
            .operands_min = 1,
            .operands_max = 1,
            .examples = {"haul checkpoint list checkpoints"},
        },
    [HAUL_COMMAND_CHECKPOINT_SHOW] =
        {
            .name = "checkpoint show",
            .summary = "show the tensors and the state of a checkpoint",
            .text = "Prints the tensors, shapes, types and the training state of one checkpoint.",
            .operand = "DIR",
            .operands_min = 1,
            .operands_max = 1,
            .examples = {"haul checkpoint show checkpoints/iter_0001200"},
        },
    [HAUL_COMMAND_CHECKPOINT_VERIFY] =
        {
            .name = "checkpoint verify",
            .summary = "check every byte of a checkpoint",
            .text = "Reads a checkpoint whole and compares it with the hashes in its manifest.",
            .operand = "DIR",
            .operands_min = 1,
            .operands_max = 1,
            .examples = {"haul checkpoint verify checkpoints/iter_0001200"},
        },
    [HAUL_COMMAND_CHECKPOINT_EXPORT] =
        {
            .name = "checkpoint export",
            .summary = "write a checkpoint as a Hugging Face model",
            .text = "Writes config.json, safetensors weights and the tokenizer.json of the "
                    "training, which transformers loads, from the newest good checkpoint of a "
                    "directory or run, or from the one named.",
            .operand = "DIR",
            .operands_min = 1,
            .operands_max = 1,
            .required = {"output"},
            .examples = {"haul checkpoint export checkpoints --output my-model"},
        },
    [HAUL_COMMAND_BENCH_TRAIN] =
        {
            .name = "bench train",
            .summary = "measure how fast a model trains",
            .text =
                "Runs training steps on made-up data: two seconds and two steps to warm up, then "
                "the steps that are timed, then one that tells where the time goes. Prints tokens "
                "and operations a second beside the device's peak, and writes nothing unless "
                "--json asks for it. Takes all flags of haul train; those about data, learning "
                "rate, checkpoints, evaluation and logs change nothing here. A preset is cut to 16 "
                "micro-batches a step.",
            .trains = true,
            .examples = {"haul bench train --preset gpt2-124m --micro-batch-size 1",
                         "haul bench train --preset llama3-8b --device cuda --json llama.json"},
        },
    [HAUL_COMMAND_BENCH_KERNELS] =
        {
            .name = "bench kernels",
            .summary = "measure each operation of a training step alone",
            .text = "Times every distinct operation of a model's step by itself, on random data, "
                    "and prints what it reaches of the device's copy bandwidth or of its largest "
                    "product, both measured in the same run. Takes all flags of haul train; "
                    "without any, the preset is llama3-8b.",
            .trains = true,
            .examples = {"haul bench kernels --preset tiny",
                         "haul bench kernels --preset llama3-8b --device cuda"},
        },
    [HAUL_COMMAND_REPORT] =
        {
            .name = "report",
            .summary = "make a report of a run",
            .text =
                "Writes one HTML file with the curves, the memory table and the samples of a run. "
                "It needs no network.",
            .operand = "RUN",
            .operands_min = 1,
            .operands_max = 1,
            .examples = {"haul report runs/20260102-030405-tiny"},
        },
    [HAUL_COMMAND_DOCTOR] =
        {
            .name = "doctor",
            .summary = "say what this machine has and lacks",
            .text = "Prints instruction set, cores, memory, disk speed and the libraries found, "
                    "and for "
                    "each one missing the package that brings it.",
            .examples = {"haul doctor"},
        },
    [HAUL_COMMAND_HELP] =
        {
            .name = "help",
            .summary = "explain a command",
            .text = "Lists the commands, or explains one.",
            .operand = "COMMAND",
            .operands_max = 3,
            .examples = {"haul help train"},
        },
    [HAUL_COMMAND_COMPLETION] =
        {
            .name = "completion",
            .summary = "print the completion script of a shell",
            .text =
                "Prints a script with which bash or zsh complete the commands and flags of haul.",
            .operand = "SHELL",
            .operands_min = 1,
            .operands_max = 1,
            .examples = {"source <(haul completion bash)"},
        },
};

const haul_command_info *haul_command_at(haul_command command) {
    return &table[command];
}

bool haul_command_takes(haul_command command, int64_t index) {
    unsigned commands = HAUL_COMMAND_BIT(command);
    if (table[command].trains) {
        commands |= HAUL_COMMAND_BIT(HAUL_COMMAND_TRAIN);
    }
    return (haul_flag_at(index)->commands & commands) != 0;
}

/* How many words of argv spell `name` ("data build"): all of its words, or 0. */
static int words_matched(const char *name, int argc, const char *const *argv) {
    int words = 0;
    while (*name != '\0') {
        size_t length = strcspn(name, " ");
        if (words == argc || strlen(argv[words]) != length ||
            strncmp(argv[words], name, length) != 0) {
            return 0;
        }
        words++;
        name += length + (name[length] == ' ');
    }
    return words;
}

/* The command whose name is closest to what the user wrote, for a hint. */
static const char *nearest_command(const char *written) {
    const char *nearest = NULL;
    int nearest_distance = 3;
    for (int i = 0; i < HAUL_COMMANDS; i++) {
        int distance = haul_edit_distance(written, table[i].name);
        if (distance < nearest_distance) {
            nearest = table[i].name;
            nearest_distance = distance;
        }
    }
    return nearest;
}

/* A command of several words whose first one was written alone, as "data". */
static const char *command_below(const char *word) {
    size_t length = strlen(word);
    for (int i = 0; i < HAUL_COMMANDS && length > 0; i++) {
        if (strncmp(table[i].name, word, length) == 0 && table[i].name[length] == ' ') {
            return table[i].name;
        }
    }
    return NULL;
}

/* Fails for words that are no command, with the likeliest one as the hint. */
static haul_status no_command(int argc, const char *const *argv) {
    if (argc == 0) {
        haul_fail(HAUL_ERROR_USAGE, "a command is missing");
        haul_hint("haul help");
        return HAUL_ERROR_USAGE;
    }
    char written[256] = "";
    haul_text_copy(written, sizeof written, argv[0]);
    const char *below = command_below(argv[0]);
    for (int i = 1; below != NULL && i < argc && i < 3 && argv[i][0] != '-'; i++) {
        size_t used = strlen(written);
        haul_text_copy(written + used, (int64_t)(sizeof written - used), " ");
        haul_text_copy(written + used + 1, (int64_t)(sizeof written - used - 1), argv[i]);
    }
    haul_fail(HAUL_ERROR_USAGE, "\"%s\" is not a command of haul", written);
    const char *nearest = nearest_command(written);
    nearest = nearest != NULL ? nearest : below;
    if (nearest != NULL) {
        haul_hint("did you mean haul %s?", nearest);
    } else {
        haul_hint("haul help");
    }
    return HAUL_ERROR_USAGE;
}

haul_status haul_command_find(int argc, const char *const *argv, haul_command *out, int *words) {
    if (argc == 1 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        *out = HAUL_COMMAND_HELP;
        *words = 1;
        return HAUL_OK;
    }
    for (int i = 0; i < HAUL_COMMANDS; i++) {
        int matched = words_matched(table[i].name, argc, argv);
        if (matched > 0) {
            *out = (haul_command)i;
            *words = matched;
            return HAUL_OK;
        }
    }
    return no_command(argc, argv);
}
