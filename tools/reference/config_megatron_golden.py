"""Writes the golden files of tests/config that come from running Megatron-LM's own parser.

    config_megatron_golden.py defaults ARGS.tsv > tests/config/megatron_defaults.tsv
    config_megatron_golden.py derived RUNS.tsv > tests/config/megatron_derived.tsv

ARGS.tsv: one argument a row with its type and default, printed from the parser that
add_megatron_arguments() builds. RUNS.tsv: command lines of Megatron-LM's functional tests with the
fields that its validate_args() left behind. Both are cut to the flags that src/config/flag_table.c
has; a command line is dropped where a flag that haul lacks decides one of the fields.
"""

import ast
import csv
import json
import re
import sys
from pathlib import Path

TABLE = Path(__file__).parents[2] / "src/config/flag_table.c"
FIELDS = ["ffn_hidden_size", "kv_channels", "add_qkv_bias", "num_query_groups", "split"]
DECIDING = {
    "--multi-latent-attention", "--use-rotary-position-embeddings", "--spec", "--yaml-cfg",
    "--num-experts", "--hybrid-layer-pattern", "--hybrid-override-pattern", "--squared-relu",
    "--heterogeneous-layers-config-path", "--encoder-seq-length", "--encoder-num-layers",
}  # fmt: skip


def flags():
    text = TABLE.read_text()
    rows = text[text.index("static const haul_flag table[]") :]
    return re.findall(r'\{"([a-z0-9-]+)", &', rows)


def rows(path):
    with open(path, newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def defaults(path):
    known = set(flags()) - {"help", "name"}
    for row in rows(path):
        names = [option[2:].replace("_", "-") for option in row["options"].split("/")]
        for name in known.intersection(names):
            kind = {"StoreTrue": "bool", "StoreFalse": "bool", "Store": "list"}.get(row["type"])
            # --disable-bias-linear stores False in add_bias_linear: the switch itself is off.
            value = "False" if kind == "bool" else row["default"]
            value = ast.literal_eval(value)
            print(name, kind or row["type"], value, sep="\t")


def words(argv):
    """The (flag, values) pairs of a command line."""
    pairs = []
    for word in argv:
        if word.startswith("--"):
            pairs.append((word, []))
        else:
            pairs[-1][1].append(word)
    return pairs


def derived(path):
    known = {f"--{name}" for name in flags()} - {"--tokenizer-type", "--recompute-granularity"}
    seen = set()
    for row in rows(path):
        if row["validate"] != "ok":
            continue
        pairs = words(json.loads(row["argv_json"]))
        types = dict(pairs).get("--position-embedding-type", ["rope"])
        if DECIDING & {flag for flag, _ in pairs} or types[0] not in ("rope", "learned_absolute"):
            continue
        line = " ".join(" ".join([flag, *values]) for flag, values in pairs if flag in known)
        found = json.loads(row["digest_of_selected_fields"])
        if found["group_query_attention"] == "False":
            found["num_query_groups"] = str(found_heads(pairs))  # as TransformerConfig does
        values = "\t".join(found[field] for field in FIELDS)
        shape = tuple(v for f, v in map(tuple_of, pairs) if f in SHAPE), values
        if shape not in seen and "$" not in line.replace("${", ""):
            seen.add(shape)
            print(re.sub(r"\$\{\w+\}", "x", line), values, sep="\t")


SHAPE = {
    "--hidden-size", "--num-attention-heads", "--swiglu", "--ffn-hidden-size", "--kv-channels",
    "--num-query-groups", "--disable-bias-linear", "--split", "--position-embedding-type",
}  # fmt: skip


def tuple_of(pair):
    return pair[0], (pair[0], *pair[1])


def found_heads(pairs):
    return int(dict(pairs)["--num-attention-heads"][0])


if __name__ == "__main__":
    {"defaults": defaults, "derived": derived}[sys.argv[1]](sys.argv[2])
