#!/usr/bin/env python3
"""haul against a PyTorch twin: the same weights, data and settings, alternating in one run.

    bench/twin.py --haul build/haul --model quickstart --dtype f32 --threads 2 --pairs 5

First both train 20 steps from the same weights on the same samples in f32, and their losses must
agree within 1e-4. Then the fastest of PyTorch's variants (eager, torch.compile) is found, and both
are timed in turn. Needs torch, transformers, safetensors, numpy; prints its versions.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tools" / "reference"))
import data_sample_order  # noqa: E402

MODELS = {  # vocabulary, sequence length, batch, timed steps
    "quickstart": (1024, 128, 8, 60),
    "gpt2-124m": (50304, 1024, 4, 1),
}
SETTINGS = {
    "lr": 5e-4,
    "weight-decay": 0.1,
    "adam-beta1": 0.9,
    "adam-beta2": 0.95,
    "adam-eps": 1e-8,
    "clip-grad": 1.0,
}


def make_model(name):
    vocabulary, length, _, _ = MODELS[name]
    torch.manual_seed(1)
    if name == "quickstart":
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=vocabulary, hidden_size=128, intermediate_size=320,
                num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4,
                max_position_embeddings=length, rms_norm_eps=1e-5, tie_word_embeddings=True,
                attn_implementation="sdpa",
            )
        )
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocabulary, n_positions=length, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, attn_implementation="sdpa",
        )
    )


def write_data(prefix, vocabulary, count):
    """One data set of Megatron's format with documents of random lengths; returns its tokens."""
    rng = numpy.random.default_rng(0)
    lengths = rng.integers(200, 2000, count, dtype=numpy.int32)
    documents = [rng.zipf(1.3, n) % vocabulary for n in lengths]
    tokens = numpy.concatenate(documents).astype("<u2")
    tokens.tofile(prefix + ".bin")
    pointers = numpy.concatenate([[0], numpy.cumsum(lengths[:-1], dtype=numpy.int64) * 2])
    with open(prefix + ".idx", "wb") as index:
        index.write(b"MMIDIDX\0\0")
        index.write(numpy.array([1], "<u8").tobytes() + bytes([8]))
        index.write(numpy.array([count, count + 1], "<u8").tobytes())
        index.write(lengths.astype("<i4").tobytes() + pointers.astype("<i8").tobytes())
        index.write(numpy.arange(count + 1, dtype="<i8").tobytes())
    starts = numpy.concatenate([[0], numpy.cumsum(lengths, dtype=numpy.int64)])
    return tokens.astype(numpy.int64), starts, lengths


def sample_batches(data, length, batch, steps):
    """The samples of the first steps, in Megatron's order."""
    tokens, starts, lengths = data
    _, _, _, documents, _, shuffle = data_sample_order.build_order(
        lengths, 0, len(lengths), length, steps * batch, 1234
    )
    stream = numpy.concatenate([tokens[starts[d] : starts[d + 1]] for d in documents])
    # Greedy packing: sample i is tokens i * length to (i + 1) * length of the shuffled documents.
    rows = [stream[i * length : i * length + length + 1] for i in shuffle[: steps * batch]]
    return torch.tensor(numpy.stack(rows)).view(steps, batch, length + 1)


class Twin:
    def __init__(self, args, dtype, variant):
        model = make_model(args.model)
        decay = [p for p in model.parameters() if p.ndim > 1]
        plain = [p for p in model.parameters() if p.ndim == 1]
        self.model, self.dtype = model, dtype
        self.optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": SETTINGS["weight-decay"]},
             {"params": plain, "weight_decay": 0.0}],
            lr=SETTINGS["lr"], betas=(SETTINGS["adam-beta1"], SETTINGS["adam-beta2"]),
            eps=SETTINGS["adam-eps"], fused=True,
        )
        self.loss = torch.compile(self.plain_loss) if variant == "compile" else self.plain_loss

    def plain_loss(self, batch):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == "bf16"):
            logits = self.model(input_ids=batch[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), batch[:, 1:].flatten()
        )

    def step(self, batch):
        loss = self.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), SETTINGS["clip-grad"])
        self.optimizer.step()
        return loss.item()


def run_haul(args, work, dtype, steps, interval):
    run = tempfile.mkdtemp(dir=work)
    _, length, batch, _ = MODELS[args.model]
    command = [args.haul, "train", "--load", f"{work}/model", "--data-path", f"{work}/data",
               "--split", "1,0,0", "--seq-length", length, "--micro-batch-size", batch,
               "--global-batch-size", batch, "--train-iters", steps, "--lr-decay-style", "constant",
               "--hidden-dropout", 0, "--attention-dropout", 0, "--vocab-size",
               MODELS[args.model][0], "--tokenizer-type", "auto", "--log-interval", interval,
               "--threads", args.threads, "--run-dir", run]
    for name, value in SETTINGS.items():
        command += [f"--{name}", value]
    if dtype == "bf16":
        command.append("--bf16")
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"haul failed: {result.stderr}")
    lines = [json.loads(line) for line in open(f"{run}/log.jsonl")]
    return [line for line in lines if line["kind"] == "train"]


def check_losses(args, work, batches):
    twin = Twin(args, "f32", "eager")
    steps = min(20, len(batches))
    theirs = [twin.step(batch) for batch in batches[:steps]]
    ours = [line["loss"] for line in run_haul(args, work, "f32", steps, 1)]
    worst = max(abs(a - b) for a, b in zip(ours, theirs))
    print(f"losses after {steps} steps: haul {ours[-1]:.6f}, torch {theirs[-1]:.6f}, "
          f"largest difference {worst:.2e}", flush=True)
    return worst <= 1e-4


def torch_rate(twin, batches, steps):
    begin = time.perf_counter()
    for i in range(steps):
        twin.step(batches[i % len(batches)])
    return steps * batches[0][:, 1:].numel() / (time.perf_counter() - begin)


def haul_rate(args, work, dtype, steps):
    """Tokens a second, the first step left out."""
    return run_haul(args, work, dtype, 1 + steps, 1)[1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--haul", default="build/haul")
    parser.add_argument("--model", choices=MODELS, default="quickstart")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=5)
    args = parser.parse_args()
    vocabulary, length, batch, timed = MODELS[args.model]
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, "
          f"{args.threads} threads, {args.model}, {args.dtype}", flush=True)
    with tempfile.TemporaryDirectory() as work:
        data = write_data(f"{work}/data", vocabulary, 400)
        batches = sample_batches(data, length, batch, 20 if args.model == "quickstart" else 3)
        make_model(args.model).save_pretrained(f"{work}/model")
        if not check_losses(args, work, batches):
            sys.exit("the losses differ by more than 1e-4")
        rates = {}
        for variant in ("eager", "compile"):
            twin = Twin(args, args.dtype, variant)
            torch_rate(twin, batches, 2)
            rates[variant] = (torch_rate(twin, batches, timed), twin)
            print(f"torch {variant}: {rates[variant][0]:.0f} tokens/s", flush=True)
        twin = max(rates.values(), key=lambda r: r[0])[1]
        ratios = []
        for pair in range(args.pairs):
            theirs = torch_rate(twin, batches, timed)
            lines = haul_rate(args, work, args.dtype, timed)
            ours = len(lines) / sum(1 / line["tokens_per_second"] for line in lines)
            ratios.append(ours / theirs)
            print(f"pair {pair + 1}: haul {ours:.0f}, torch {theirs:.0f} tokens/s, "
                  f"ratio {ratios[-1]:.2f}", flush=True)
        print(f"median ratio {statistics.median(ratios):.2f}, range {min(ratios):.2f} to "
              f"{max(ratios):.2f}")


main()
