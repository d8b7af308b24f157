"""Makes tests/generate/golden/*.safetensors: how transformers continues the tiny models of
model_golden.py, greedily and in float64, with the logits of every position of the whole text.

    python tools/reference/generate_golden.py tests/train/golden tests/generate/golden
"""

import pathlib
import sys

import torch
from model_golden import VOCABULARY, compute_in_float64
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

PROMPT, TEXT = 13, 32  # TEXT: all positions that the models have


def main(models, out):
    torch.manual_seed(2)
    out.mkdir(parents=True, exist_ok=True)
    for name in ("llama", "llama31", "gpt2"):
        model = AutoModelForCausalLM.from_pretrained(
            models / name, attn_implementation="sdpa", dtype=torch.float64
        ).eval()
        compute_in_float64(model)
        prompt = torch.randint(0, VOCABULARY, (1, PROMPT))
        text = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=TEXT - PROMPT,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        with torch.no_grad():
            logits = model(input_ids=text).logits[0]
        assert logits.dtype == torch.float64 and text.shape == (1, TEXT)
        best = logits.topk(2).values
        assert (best[:, 0] - best[:, 1]).min() > 1e-3, "a greedy choice is too close to call"
        save_file({"tokens": text[0].int(), "logits": logits}, out / f"{name}.safetensors")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
