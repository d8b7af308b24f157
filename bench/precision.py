#!/usr/bin/env python3
"""Does a model trained in FP8 end where one in bf16 ends? GPT-2 124M on real text.

    bench/precision.py --haul build/haul --data-path PREFIX --steps 500 -- --device cuda

Three seeds in bf16 give the noise; the recipes of FP8 then train with the first seed, on the
same samples in the same order. Prints the loss of each run every tenth of the way, the
validation loss at the end, and its distance from bf16's. Flags behind -- go to haul train.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

MODEL = """--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024
 --vocab-size 50257
 --position-embedding-type learned_absolute --normalization LayerNorm --openai-gelu
 --hidden-dropout 0 --attention-dropout 0 --bf16 --micro-batch-size 16 --global-batch-size 16
 --lr 6e-4 --min-lr 6e-5 --lr-decay-style cosine --weight-decay 0.1 --adam-beta2 0.95
 --split 98,2,0 --eval-iters 8""".split()

VARIANTS = [
    ("bf16", 1234, []),
    ("bf16, seed 1", 1, []),
    ("bf16, seed 2", 2, []),
    ("FP8 tensorwise e4m3", 1234, ["--fp8-format", "e4m3"]),
    ("FP8 tensorwise hybrid", 1234, ["--fp8-format", "hybrid"]),
    ("FP8 blockwise e4m3", 1234, ["--fp8-format", "e4m3", "--fp8-recipe", "blockwise"]),
]


def train(haul, data_path, steps, seed, flags, folder):
    """The mean training losses of each tenth of the steps, and the validation loss at the end."""
    command = [haul, "train", *MODEL, "--data-path", data_path, "--seed", str(seed),
               "--train-iters", str(steps), "--lr-warmup-iters", str(steps // 10),
               "--log-interval", str(steps // 10), "--eval-interval", str(steps),
               "--run-dir", str(folder), *flags]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr or done.stdout)
    lines = [json.loads(line) for line in open(folder / "log.jsonl", encoding="utf-8")]
    curve = [line["loss"] for line in lines if line["kind"] == "train"]
    ends = [line["loss"] for line in lines if line["kind"] == "eval"]
    return curve, ends[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--haul", default="build/haul")
    parser.add_argument("--data-path", required=True)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--only", type=int, default=len(VARIANTS), help="the first N variants")
    parser.add_argument("flags", nargs="*", help="more flags of haul train, behind --")
    arguments = parser.parse_args()
    ends = []
    for name, seed, flags in VARIANTS[: arguments.only]:
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder) / "run"
            flags = [*flags, *arguments.flags]
            curve, end = train(
                arguments.haul, arguments.data_path, arguments.steps, seed, flags, run
            )
        ends.append(end)
        print(f"{name:22s} validation {end:.4f} ({100 * (end / ends[0] - 1):+.2f} %)  training "
              + " ".join(f"{loss:.4f}" for loss in curve), flush=True)  # fmt: skip
    seeds = ends[:3]
    noise = (max(seeds) - min(seeds)) / min(seeds)
    print(f"three seeds of bf16 end {100 * noise:.2f} % apart")


if __name__ == "__main__":
    main()
