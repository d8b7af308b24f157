"""Makes tests/checkpoint/golden: model files written by safetensors and transformers.

The tests compute the expected values themselves: element i of a tensor is
((7 i + 3 L) mod 61 - 30) / 8 for a name of L characters, integers without the division,
unsigned integers without the -30, booleans i mod 2. All of these are exact in every dtype.

    python tools/reference/checkpoint_golden.py
"""

import math
import pathlib
import shutil

import safetensors.torch
import torch
import transformers

GOLDEN = pathlib.Path(__file__).parents[2] / "tests" / "checkpoint" / "golden"


def fill(name, shape, dtype):
    values = (7 * torch.arange(math.prod(shape)) + 3 * len(name)) % 61
    if dtype == torch.bool:
        values = torch.arange(math.prod(shape)) % 2
    elif dtype.is_floating_point:
        values = (values.double() - 30) / 8
    elif dtype.is_signed:
        values = values - 30
    return values.to(dtype).reshape(shape)


def write_types():
    shapes = {
        "f64": ([3, 5], torch.float64), "f32": ([7], torch.float32),
        "bf16": ([5, 1, 3], torch.bfloat16), "f16": ([2, 2, 2, 3], torch.float16),
        "i64": ([4], torch.int64), "i32": ([3], torch.int32), "i16": ([5], torch.int16),
        "i8": ([7], torch.int8), "u16": ([3], torch.uint16), "u8": ([5], torch.uint8),
        "bool": ([3], torch.bool), "u32": ([2], torch.uint32), "scalar": ([], torch.float32),
        "empty": ([0, 4], torch.float32), "five": ([1, 2, 1, 2, 1], torch.float32),
        "name with \"quotes\" and ü": ([2], torch.float32),
    }
    tensors = {name: fill(name, shape, dtype) for name, (shape, dtype) in shapes.items()}
    metadata = {"format": "pt", "note": "zwölf \"words\""}
    safetensors.torch.save_file(tensors, GOLDEN / "types.safetensors", metadata=metadata)


def write_model(directory, model, dtype, **options):
    model = model.to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(fill(name, list(parameter.shape), dtype))
    model.save_pretrained(GOLDEN / directory, **options)
    (GOLDEN / directory / "generation_config.json").unlink(missing_ok=True)


def main():
    shutil.rmtree(GOLDEN, ignore_errors=True)
    GOLDEN.mkdir(parents=True)
    write_types()
    llama = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        vocab_size=32, max_position_embeddings=16)
    write_model("llama", transformers.LlamaForCausalLM(llama), torch.bfloat16,
                max_shard_size=3000)
    gpt2 = transformers.GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=16, n_positions=8)
    write_model("gpt2", transformers.GPT2LMHeadModel(gpt2), torch.float16)
    for path in GOLDEN.rglob("*.safetensors"):
        path.chmod(0o644)


main()
