"""Makes tests/train/golden/: tiny random models of transformers, their float64 losses and
gradients, and their parameters after 20 AdamW steps. Needs torch, transformers, safetensors.

    python tools/reference/model_golden.py tests/train/golden
"""

import math
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

BATCH, LENGTH, VOCABULARY, STEPS = 2, 9, 29, 20

LLAMA = dict(
    vocab_size=VOCABULARY,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=32,
    rms_norm_eps=1e-5,
    initializer_range=0.2,
    attn_implementation="sdpa",
)


def models():
    yield "llama", LlamaForCausalLM(LlamaConfig(**LLAMA, tie_word_embeddings=False))
    scaling = dict(
        rope_type="llama3",
        rope_theta=10000.0,
        factor=4.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=16,
    )
    yield "llama31", LlamaForCausalLM(
        LlamaConfig(**LLAMA, tie_word_embeddings=True, head_dim=6, rope_parameters=scaling)
    )
    yield "gpt2", GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=16,
            n_layer=2,
            n_head=4,
            n_positions=32,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            initializer_range=0.2,
            attn_implementation="sdpa",
        )
    )


def norm_in_float64(self, x):
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def frequencies(config):
    """The rotary frequencies of transformers, which computes them in float32, in float64."""
    rope = config.rope_parameters
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    plain = rope["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    if rope["rope_type"] != "llama3":
        return plain
    context, low, high = (
        rope[k] for k in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor")
    )
    turns = context * plain / (2 * math.pi)
    smooth = ((turns - low) / (high - low)).clamp(0, 1)
    return smooth * plain + (1 - smooth) * plain / rope["factor"]


def compute_in_float64(model):
    """transformers' Llama casts norms and rotary angles to float32; this takes the casts out."""
    for module in model.modules():
        if type(module).__name__ == "LlamaRMSNorm":
            module.forward = norm_in_float64.__get__(module)
        if type(module).__name__ == "LlamaRotaryEmbedding":
            inverse = frequencies(model.config)
            assert torch.allclose(inverse.float(), module.inv_freq.float(), rtol=1e-6)

            def rotary(x, position_ids, inverse=inverse):
                angles = position_ids[:, :, None].double() * inverse
                angles = torch.cat((angles, angles), dim=-1)
                return angles.cos(), angles.sin()

            module.forward = rotary


def loss_of(model, batch):
    logits = model(input_ids=batch[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def main(out):
    torch.manual_seed(0)
    for name, model in models():
        torch.manual_seed(1)
        with torch.no_grad():
            for parameter in model.parameters():  # norms and biases too, so that none is trivial
                parameter.add_(0.1 * torch.randn_like(parameter))
        directory = out / name
        directory.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(directory)
        (directory / "generation_config.json").unlink(missing_ok=True)
        model = model.double()
        compute_in_float64(model)
        batches = torch.randint(0, VOCABULARY, (STEPS, BATCH, LENGTH + 1))
        named = dict(model.named_parameters())
        loss = loss_of(model, batches[0])
        loss.backward()
        golden = {"batches": batches.int(), "loss": loss.detach().reshape(1)}
        golden |= {f"gradient.{k}": p.grad.clone() for k, p in named.items()}
        decay = [p for p in named.values() if p.ndim > 1]
        plain = [p for p in named.values() if p.ndim == 1]
        groups = [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
        losses = []
        for batch in batches:
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.detach())
        golden["losses"] = torch.stack(losses)
        golden |= {f"trained.{k}": p.detach().clone() for k, p in named.items()}
        save_file(golden, directory / "golden.safetensors")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
