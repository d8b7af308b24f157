#!/usr/bin/env python3
"""Writes tests/data/sample_order.json: Megatron-LM's sample order, by numpy's own generators.

usage: data_sample_order.py > tests/data/sample_order.json
"""

import hashlib
import json
import math
import re
import zlib

import numpy


def parse_split(text, sequences):
    numbers = [float(n) for n in re.findall(r"[.0-9]+", text)]
    numbers += [0.0] * (3 - len(numbers))
    shares = (numpy.array(numbers) / numpy.sum(numbers)).tolist()
    bounds = [0]
    for share in shares:
        bounds.append(bounds[-1] + share)
    return [[int(round(a * float(sequences))), int(round(b * float(sequences)))]
            for a, b in zip(bounds, bounds[1:])]


def build_order(lengths, begin, end, seq, wanted, seed):
    per_epoch_tokens = int(lengths[begin:end].sum(dtype=numpy.int64))
    epochs = 1
    while wanted is not None and epochs * per_epoch_tokens < wanted * seq + 1:
        epochs += 1
    separate = False
    if epochs > 1:
        sans = ((epochs - 1) * per_epoch_tokens - 1) // seq
        separate = wanted - sans < int(0.80 * ((per_epoch_tokens - 1) // seq))
    state = numpy.random.RandomState(seed)

    def shuffled_documents(n):
        tiled = numpy.tile(numpy.arange(begin, end, dtype=numpy.int32), n)
        state.shuffle(tiled)
        return tiled

    if separate:
        documents = numpy.concatenate([shuffled_documents(epochs - 1), shuffled_documents(1)])
    else:
        documents = shuffled_documents(epochs)
    samples = (epochs * per_epoch_tokens - 1) // seq
    starts = numpy.zeros((samples + 1, 2), dtype=numpy.int32)
    position = offset = 0
    for i in range(1, samples + 1):
        remaining = seq + 1
        while remaining:
            left = int(lengths[documents[position]]) - offset
            remaining -= left
            if remaining <= 0:
                offset += remaining + left - 1
                remaining = 0
            else:
                position += 1
                offset = 0
        starts[i] = position, offset
    shuffle = numpy.arange(samples, dtype=numpy.uint32)
    if separate:
        state.shuffle(shuffle[:sans])
        state.shuffle(shuffle[sans:])
    else:
        state.shuffle(shuffle)
    return per_epoch_tokens, epochs, separate, documents, starts, shuffle


def digests(array):
    data = array.tobytes()
    return {"md5": hashlib.md5(data).hexdigest(), "crc32": zlib.crc32(data)}


def order_case(lengths, begin, end, seq, wanted, seed):
    tokens, epochs, separate, documents, starts, shuffle = build_order(
        lengths, begin, end, seq, wanted, seed)
    return {
        "begin": begin, "end": end, "seq_length": seq, "seed": seed,
        "wanted": -1 if wanted is None else wanted,
        "tokens_per_epoch": tokens, "epochs": epochs, "separate_final_epoch": separate,
        "samples": len(shuffle), "documents": digests(documents), "starts": digests(starts),
        "shuffle": digests(shuffle),
    }


def threshold_cases():
    """The last epoch just below, at and above 80 % of its samples."""
    lengths, cases = small_lengths(), []
    tokens = int(lengths.sum())
    for seq in (16, 3):
        sans, per_epoch = (2 * tokens - 1) // seq, (tokens - 1) // seq
        cases += [(0, 40, seq, sans + int(0.8 * per_epoch) + d, 8) for d in (-1, 0, 1)]
    return cases


def small_lengths():
    """Empty, one-token and long sequences."""
    return numpy.array([(i * 37) % 53 for i in range(40)], dtype=numpy.int32)


def small_tokens(sequence, length):
    return [(sequence * 1000 + i) % 60000 for i in range(length)]


def dataset_case(seq, wanted, seed, split):
    lengths = small_lengths()
    begin, end = parse_split(split, len(lengths))[0]
    _, _, _, documents, starts, shuffle = build_order(lengths, begin, end, seq, wanted, seed)
    stream = [t for d in documents for t in small_tokens(int(d), int(lengths[d]))]
    first = numpy.concatenate([[0], numpy.cumsum(lengths[documents])])
    samples = []
    for index in shuffle:
        at = int(first[starts[index][0]] + starts[index][1])
        samples.append(stream[at:at + seq + 1])
    return {"seq_length": seq, "wanted": wanted, "seed": seed, "split": split,
            "samples": len(samples), "first": samples[0], "last": samples[-1],
            "crc32": zlib.crc32(numpy.array(samples, dtype=numpy.int32).tobytes())}


def normalize(weights):
    array = numpy.array(weights, dtype=numpy.float64)
    return (array / numpy.sum(array)).tolist()


def blend(weights, size, limits=None):
    given = [0] * len(weights)
    datasets = numpy.zeros(size, dtype=numpy.int16)
    numbers = numpy.zeros(size, dtype=numpy.int64)
    for i in range(size):
        best, most = None, -math.inf
        for d, weight in enumerate(weights):
            behind = weight * max(float(i), 1.0) - float(given[d])
            if behind > most and (limits is None or given[d] < limits[d]):
                best, most = d, behind
        datasets[i], numbers[i] = best, given[best]
        given[best] += 1
    return datasets, numbers


def blend_case(weights, size, exhaustive=False):
    shares = normalize(weights)
    datasets, numbers = blend(shares, size, weights if exhaustive else None)
    return {"weights": weights, "normalized": [w.hex() for w in shares[:12]], "size": size,
            "exhaustive": exhaustive, "first": datasets[:12].tolist(),
            "share": [math.ceil(size * w) for w in shares],
            "share_surplus": [int(math.ceil(math.ceil(size * w) * (1 + 0.005))) for w in shares],
            "dataset": digests(datasets), "dataset_sample": digests(numbers)}


def main():
    mock = numpy.random.default_rng(0).integers(1, 4096, size=100000, dtype=numpy.int32)
    small = small_lengths()
    legacy = numpy.random.RandomState(1234)
    ten = numpy.arange(10, dtype=numpy.uint32)
    legacy.shuffle(ten)
    first_ten = ten.tolist()
    ten = numpy.arange(10, dtype=numpy.uint32)
    legacy.shuffle(ten)
    print(json.dumps({
        "shuffle_1234": [first_ten, ten.tolist()],
        "mock_lengths": {"first": mock[:8].tolist(), "sum": int(mock.sum(dtype=numpy.int64)),
                         **digests(mock)},
        "mock_orders": [order_case(mock, *parse_split("1,1,1", 100000)[0], seq, wanted, seed)
                        for seq, wanted, seed in
                        [(8192, 200, 1234), (2048, 40000, 1234), (2048, 70000, 42)]],
        "small_orders": [order_case(small, begin, end, seq, wanted, seed)
                         for begin, end, seq, wanted, seed in
                         [(0, 40, 16, 10, 1), (0, 40, 16, 64, 2), (3, 9, 64, 7, 3),
                          (0, 40, 7, None, 4), (0, 40, 2000, 5, 5), (10, 20, 1, 900, 6),
                          *threshold_cases()]],
        "splits": [{"text": text, "sequences": n, "ranges": parse_split(text, n)}
                   for text, n in [("969,30,1", 1000), ("969, 30, 1", 12345), ("1,1,1", 100000),
                                   ("100", 17), ("0.5,0.5", 5), ("99,1,0", 50),
                                   ("98.5,1.5", 999), ("0,1,0", 3)]],
        "datasets": [dataset_case(16, 10, 1, "969,30,1"), dataset_case(16, 70, 9, "1"),
                     dataset_case(50, 40, 7, "8,1,1")],
        "blends": [blend_case([0.3, 0.7], 1000), blend_case([1, 1, 1], 200),
                   blend_case([3.5, 0.25, 1e-3, 9], 5000),
                   blend_case([0.1 * (i + 1) for i in range(11)], 700),
                   blend_case([1 / (i + 3) for i in range(300)], 900),
                   blend_case([round(math.sin(2 * i) ** 2, 6) for i in range(1, 301)], 600),
                   blend_case([5, 40, 13], 58, exhaustive=True)],
    }, separators=(",", ":")))


if __name__ == "__main__":
    main()
