"""Reads what haul wrote with safetensors and transformers, and checks the values.

    python tools/reference/checkpoint_check.py FILE.safetensors | CHECKPOINT | MODEL-DIRECTORY
"""

import json
import pathlib
import sys

import safetensors
import torch
import transformers


def check_file(path):
    with safetensors.safe_open(path, framework="pt") as file:
        for name in file.keys():
            tensor = file.get_tensor(name)
            print(f"{path.name}  {name}  {tensor.dtype}  {list(tensor.shape)}  "
                  f"sum {tensor.double().sum().item():.6g}")
        print(f"{path.name}  metadata {file.metadata()}")


def check_model(directory):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, output_loading_info=True)
    problems = {key: sorted(map(str, value)) for key, value in info.items() if value}
    logits = model(torch.zeros(1, 4, dtype=torch.long)).logits
    print(f"{type(model).__name__}: {sum(p.numel() for p in model.parameters())} parameters, "
          f"logits {list(logits.shape)}, problems {problems}")
    if problems:
        sys.exit(1)


def main(path):
    if path.is_file():
        check_file(path)
    elif (path / "manifest.json").exists():
        manifest = json.loads((path / "manifest.json").read_text())
        print({key: manifest[key] for key in ("format", "schema", "iteration", "state")})
        for shard in sorted(path.glob("*.safetensors")):
            check_file(shard)
    else:
        check_model(path)


main(pathlib.Path(sys.argv[1]))
