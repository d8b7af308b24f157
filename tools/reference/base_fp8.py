"""Writes tests/base/fp8.tsv: FP8 codes of 32-bit floats, by PyTorch.

    base_fp8.py > tests/base/fp8.tsv

A row is the bits of a float, its code in e4m3 and its code in e5m2, all in hexadecimal. Floats are
cut to the range of the format first, since PyTorch does not saturate. First come the values of all
finite codes and the points half way between two of them, then random floats.
"""

import torch

FORMATS = [(torch.float8_e4m3fn, 448.0), (torch.float8_e5m2, 57344.0)]
RANDOM = 400


def values_of_codes(dtype):
    codes = torch.arange(256, dtype=torch.uint8)
    values = codes.view(dtype).to(torch.float32)
    return values[values.isfinite()]


def samples():
    parts = []
    for dtype, _ in FORMATS:
        values = values_of_codes(dtype).sort().values
        parts += [values, (values[1:] + values[:-1]) / 2]
    generator = torch.Generator().manual_seed(1)
    exponents = torch.randint(-20, 20, (RANDOM,), generator=generator)
    parts.append(torch.randn(RANDOM, generator=generator) * torch.exp2(exponents.float()))
    return torch.cat(parts)


def main():
    floats = samples()
    bits = floats.view(torch.int32)
    columns = [floats.clamp(-most, most).to(dtype).view(torch.uint8) for dtype, most in FORMATS]
    rows = {(int(b) & 0xFFFFFFFF, int(x), int(y)) for b, x, y in zip(bits, *columns)}
    for row in sorted(rows):
        print("%08x\t%02x\t%02x" % row)


main()
