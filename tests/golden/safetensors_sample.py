#!/usr/bin/env python3
"""Makes tests/data/safetensors/sample.safetensors, as the reference implementation writes it, for
safetensors_test.cc to read.

    pip install safetensors==0.8.0 torch==2.15.0 numpy==2.4.6
    python tests/golden/safetensors_sample.py

Element i of every tensor, counted from 0 over the whole tensor, is i.
"""

import pathlib

import torch
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "safetensors"

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    tensors = {name: torch.arange(6).reshape(2, 3).to(dtype) for name, dtype in DTYPES.items()}
    tensors["scalar"] = torch.tensor(0, dtype=torch.int32)
    tensors["empty"] = torch.zeros((0, 4))
    save_file(tensors, OUT / "sample.safetensors", metadata={"format": "pt", "note": "Grüße"})


main()
