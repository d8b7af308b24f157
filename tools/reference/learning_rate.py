"""Writes tests/train/learning_rate.tsv: learning rates by the rules of Megatron-LM's
OptimizerParamScheduler, in numpy.

    learning_rate.py > tests/train/learning_rate.tsv

A row is a set of flags and, for some numbers of consumed samples, the rate of the step that begins
there. All lengths are samples: an iteration is a global batch. The warmup is linear and includes
its last sample; a fractional warmup stays fractional.
"""

import itertools

import numpy as np

BATCH = 4
TOP, BOTTOM = 3e-4, 1e-5

LENGTHS = {  # flags, samples of the decay, unit of the other flags, samples a unit
    "iterations": (["--train-iters", "20"], 80, "iters", BATCH),
    "shorter decay": (["--train-iters", "30", "--lr-decay-iters", "17"], 68, "iters", BATCH),
    "samples": (["--train-samples", "93"], 93, "samples", 1),
}
WARMUPS = {  # kind: value in units, or fraction; rate at 0
    "none": (0, 0.0),
    "length": (3, 0.0),
    "fraction": (0.07, 0.0),
    "from a rate": (3, 2e-5),
}
STYLES = ["constant", "linear", "cosine", "inverse-square-root"]
TAILS = ["exponential", "linear", "cosine", "minus_sqrt"]
TAIL_UNITS = 5


def tail(kind, ratio):
    return {
        "linear": 1.0 - ratio,
        "cosine": 0.5 * (np.cos(np.pi * ratio) + 1.0),
        "exponential": 2.0 * np.power(0.5, ratio) - 1.0,
        "minus_sqrt": 1.0 - np.sqrt(ratio),
    }[kind]


def rate(style, kind, n, decay, warmup, start, tail_length):
    n = np.float64(n)
    if warmup > 0 and n <= warmup:
        return start + (TOP - start) * n / warmup
    if style == "constant":
        return TOP
    if n > decay:
        return BOTTOM
    if style == "inverse-square-root":
        return max(BOTTOM, TOP * np.sqrt(max(warmup, 1)) / np.sqrt(max(n, 1)))
    share = (n - warmup) / (decay - warmup)
    if style == "linear":
        share = 1.0 - share
    elif style == "cosine":
        share = 0.5 * (np.cos(np.pi * share) + 1.0)
    else:
        begin = decay - tail_length
        share = 1.0 if n <= begin else tail(kind, (n - begin) / tail_length)
    return BOTTOM + share * (TOP - BOTTOM)


def points(decay, warmup, tail_length):
    edges = {0, int(np.floor(warmup)), decay - tail_length, decay}
    near = {edge + step for edge in edges for step in (-1, 0, 1)}
    return sorted(n for n in near | {decay // 2, 3 * decay} if n >= 0)


def cases():
    styles = [(style, None) for style in STYLES] + [("WSD", kind) for kind in TAILS]
    for length, warm, (style, kind) in itertools.product(LENGTHS, WARMUPS, styles):
        flags, decay, unit, size = LENGTHS[length]
        value, start = WARMUPS[warm]
        flags = [*flags, "--lr-decay-style", style]
        warmup = value * decay if warm == "fraction" else value * size
        if warm == "fraction":
            flags += ["--lr-warmup-fraction", str(value)]
        elif value:
            flags += [f"--lr-warmup-{unit}", str(value)]
        if start:
            flags += ["--lr-warmup-init", str(start)]
        if kind:
            flags += ["--lr-wsd-decay-style", kind, f"--lr-wsd-decay-{unit}", str(TAIL_UNITS)]
        yield flags, style, kind, decay, warmup, start, TAIL_UNITS * size


def main():
    print("flags\trates")
    for flags, *case in cases():
        decay, warmup, tail_length = case[2], case[3], case[5]
        rates = (f"{n}={float(rate(*case[:2], n, *case[2:]))!r}"
                 for n in points(decay, warmup, tail_length))  # fmt: skip
        print(" ".join(flags), " ".join(rates), sep="\t")


main()
