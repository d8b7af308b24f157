#!/usr/bin/env python3
"""haul against compiled PyTorch: the same shape and tokens a step, in turn, on one device.

    bench/peer.py --haul build/haul --model llama3-8b --accumulation 8 --pairs 2

PyTorch has plain modules in bf16, torch.compile, scaled_dot_product_attention and fused AdamW: its
gradients and moments are bf16 too and it has no f32 masters, so it does less than haul. Weights are
random on both sides. Between its turns PyTorch gives all of its memory back. Flags behind -- go to
haul bench train, as in: -- --exp-avg-dtype bf16 --fp8-format hybrid
"""

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Shape:
    layers: int
    hidden: int
    heads: int
    vocabulary: int  # padded to a multiple of 128, as haul does
    length: int
    batch: int
    groups: int = 0  # 0: as many as heads, and GPT-2's blocks
    feed_forward: int = 0
    rope_base: float = 0
    qkv_bias: bool = False
    tied: bool = True


SHAPES = {
    "tiny": Shape(2, 48, 2, 257, 64, 8, 2, 128, 1e4),
    "gpt2-124m": Shape(12, 768, 12, 50304, 1024, 16),
    "gpt2-1.5b": Shape(48, 1600, 25, 50304, 1024, 8),
    "llama-1b": Shape(16, 2048, 32, 128256, 8192, 2, 8, 8192, 5e5),
    "llama3-8b": Shape(32, 4096, 32, 128256, 8192, 1, 8, 14336, 5e5, tied=False),
    "qwen2.5-7b": Shape(28, 3584, 28, 152064, 1024, 16, 4, 18944, 1e6, qkv_bias=True, tied=False),
}


def rope_tables(shape, device):
    size = shape.hidden // shape.heads
    angles = torch.outer(
        torch.arange(shape.length), shape.rope_base ** (-torch.arange(0, size, 2) / size)
    )
    tables = torch.cat([angles, angles], -1)
    return tables.cos().to(device, torch.bfloat16), tables.sin().to(device, torch.bfloat16)


def rotate(x, tables):
    cos, sin = tables
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape, self.size = shape, shape.hidden // shape.heads
        self.llama = shape.groups > 0
        self.groups = shape.groups or shape.heads
        hidden, key = shape.hidden, self.groups * self.size
        norm = nn.RMSNorm if self.llama else nn.LayerNorm
        inner = shape.feed_forward or 4 * hidden
        bias = not self.llama
        self.norm1, self.norm2 = norm(hidden, eps=1e-5), norm(hidden, eps=1e-5)
        self.qkv = nn.Linear(hidden, hidden + 2 * key, bias=bias or shape.qkv_bias)
        self.out = nn.Linear(hidden, hidden, bias=bias)
        self.up = nn.Linear(hidden, 2 * inner if self.llama else inner, bias=bias)
        self.down = nn.Linear(inner, hidden, bias=bias)

    def attend(self, x, tables):
        batch, length, hidden = x.shape
        key = self.groups * self.size
        parts = self.qkv(x).split([hidden, key, key], -1)
        q, k, v = (p.view(batch, length, -1, self.size).transpose(1, 2) for p in parts)
        if self.llama:
            q, k = rotate(q, tables), rotate(k, tables)
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=self.groups != self.shape.heads
        )
        return self.out(y.transpose(1, 2).reshape(batch, length, hidden))

    def feed(self, x):
        if not self.llama:
            return self.down(F.gelu(self.up(x), approximate="tanh"))
        gate, up = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)

    def forward(self, x, tables):
        x = x + self.attend(self.norm1(x), tables)
        return x + self.feed(self.norm2(x))


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        norm = nn.RMSNorm if shape.groups else nn.LayerNorm
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        self.positions = None if shape.groups else nn.Embedding(shape.length, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = norm(shape.hidden, eps=1e-5)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        if shape.tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens, targets, tables):
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions.weight
        for block in self.blocks:
            x = block(x, tables)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


class Peer:
    def __init__(self, args, shape):
        self.args, self.shape = args, shape
        with torch.device("meta"):
            self.model = Model(shape).to(torch.bfloat16)
        self.model.to_empty(device=args.device)
        if shape.tied:
            self.model.head.weight = self.model.embedding.weight
        self.parameters = list(self.model.parameters())
        self.sizes = [p.shape for p in self.parameters]
        self.tables = rope_tables(shape, args.device) if shape.groups else None
        decay = [p for p in self.parameters if p.ndim > 1]
        plain = [p for p in self.parameters if p.ndim == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
            lr=1e-5, betas=(0.9, 0.95), fused=True,
        )
        self.loss = self.model if args.eager else torch.compile(self.model)
        self.give_back()

    def give_back(self):
        """The objects stay, so that nothing is compiled again; their memory goes."""
        self.optimizer.zero_grad(set_to_none=True)
        self.optimizer.state.clear()
        for p in self.parameters:
            p.data = torch.empty(0, dtype=torch.bfloat16, device=self.args.device)
        if self.args.device == "cuda":
            torch.cuda.empty_cache()

    def take(self):
        for p, size in zip(self.parameters, self.sizes):
            p.data = torch.empty(size, dtype=torch.bfloat16, device=self.args.device)
            p.data.fill_(1.0) if p.ndim == 1 else p.data.normal_(std=0.02)

    def step(self, tokens):
        for batch in tokens:
            loss = self.loss(batch[:, :-1], batch[:, 1:], self.tables)
            (loss / len(tokens)).backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()  # waits for the device

    def rate(self):
        """Tokens a second: the median step, after two seconds and two steps."""
        shape, args, times = self.shape, self.args, []
        self.take()
        tokens = torch.randint(
            shape.vocabulary, (args.accumulation, shape.batch, shape.length + 1),
            device=args.device,
        )
        begin, warm = time.perf_counter(), 0
        while warm < 2 or time.perf_counter() - begin < 2:
            self.step(tokens)
            warm += 1
        for _ in range(args.steps):
            begin = time.perf_counter()
            self.step(tokens)
            times.append(time.perf_counter() - begin)
        self.give_back()
        return tokens[:, :, 1:].numel() / statistics.median(times)


def choose_attention(shape):
    """cuDNN's where it takes this shape, else PyTorch's flash attention."""
    size, groups = shape.hidden // shape.heads, shape.groups or shape.heads
    q = torch.randn(1, shape.heads, 256, size, dtype=torch.bfloat16, device="cuda")
    k = torch.randn(1, groups, 256, size, dtype=torch.bfloat16, device="cuda")
    backends = torch.backends.cuda
    backends.enable_math_sdp(False)
    backends.enable_mem_efficient_sdp(False)
    backends.enable_flash_sdp(False)
    backends.enable_cudnn_sdp(True)
    try:
        F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=groups != shape.heads)
        return "cuDNN attention"
    except RuntimeError:
        backends.enable_cudnn_sdp(False)
        backends.enable_flash_sdp(True)
        return "flash attention"


def haul_rate(args, shape):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [args.haul, "bench", "train", "--preset", args.model, "--bf16",
                   "--device", args.device, "--num-layers", shape.layers,
                   "--seq-length", shape.length, "--micro-batch-size", shape.batch,
                   "--global-batch-size", shape.batch * args.accumulation,
                   "--bench-steps", args.steps, "--json", file.name, *args.flags]
        result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"haul failed: {result.stderr}")
        return json.load(open(file.name))


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--haul", default="build/haul")
    parser.add_argument("--model", choices=SHAPES, default="gpt2-124m")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--layers", type=int, help="fewer than the model has")
    parser.add_argument("--seq-length", type=int)
    parser.add_argument("--micro-batch-size", type=int)
    parser.add_argument("--accumulation", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("flags", nargs="*", help="flags of haul bench train, behind --")
    args = parser.parse_args()
    shape = SHAPES[args.model]
    return args, dataclasses.replace(
        shape, layers=args.layers or shape.layers, length=args.seq_length or shape.length,
        batch=args.micro_batch_size or shape.batch,
    )


def main():
    args, shape = parse()
    attention = choose_attention(shape) if args.device == "cuda" else "attention of the processor"
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, "
          f"{'eager' if args.eager else 'compiled'}, {attention}; {args.model}: {shape.layers} "
          f"layers, {shape.batch} x {shape.length} tokens, accumulation {args.accumulation}",
          flush=True)
    peer, ratios = Peer(args, shape), []
    for pair in range(args.pairs):
        theirs = peer.rate()
        ours = haul_rate(args, shape)
        if pair == 0:
            print(f"haul {ours['version']}, {ours['device']}", flush=True)
        ratios.append(ours["tokens_per_second"] / theirs)
        print(f"pair {pair + 1}: haul {ours['tokens_per_second']:.0f}, torch {theirs:.0f} "
              f"tokens/s, ratio {ratios[-1]:.3f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")


main()
