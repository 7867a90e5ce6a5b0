#!/usr/bin/env python3
"""Makes tests/data/rope/transformers.json: rope frequencies, and cosines and sines at some positions, as transformers
computes them.

    pip install transformers==5.23.0 torch==2.15.0
    python tests/golden/rope.py

Frequencies come from ROPE_INIT_FUNCTIONS (and, without a scaling, from LlamaRotaryEmbedding's own formula), angles and
their cosines from LlamaRotaryEmbedding.forward in float32. For llama3 there are also the divisors that llama.cpp's
converter would store as rope_freqs.weight. Floats are written with the nine digits that bring them back.
"""
import json
import math
import pathlib

import numpy as np
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "rope" / "transformers.json"
POSITIONS = [1, 31, 8191, 131071]
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
CASES = [
    ("plain of 64", 64, 10000.0, {"rope_type": "default"}),
    ("plain of 128, a million", 128, 1000000.0, {"rope_type": "default"}),
    ("plain of 8", 8, 500000.0, {"rope_type": "default"}),
    ("plain of 80", 80, 10000.0, {"rope_type": "default"}),
    ("linear", 64, 10000.0, {"rope_type": "linear", "factor": 4.0}),
    ("linear, not a power of two", 16, 10000.0, {"rope_type": "linear", "factor": 2.5}),
    ("llama3", 128, 500000.0, {"rope_type": "llama3", **LLAMA3}),
    ("llama3 of 64", 64, 500000.0, {"rope_type": "llama3", **LLAMA3, "factor": 32.0}),
    ("yarn", 128, 1000000.0, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}),
    ("yarn of 64", 64, 10000.0, {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096}),
    (
        "yarn with betas and an attention factor",
        96,
        150000.0,
        {
            "rope_type": "yarn",
            "factor": 8.5,
            "original_max_position_embeddings": 2048,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "attention_factor": 1.25,
        },
    ),
    ("yarn with a short ramp", 8, 10000.0, {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}),
    (
        "yarn with no ramp",
        16,
        10000.0,
        {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 7, "beta_fast": 2.0, "beta_slow": 1.5},
    ),
]


def divisors(dim, base, scaling):
    out = []
    for i in range(dim // 2):
        wavelength = 2 * math.pi * base ** (2 * i / dim)
        original = scaling["original_max_position_embeddings"]
        low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
        if wavelength < original / high:
            out.append(1.0)
        elif wavelength > original / low:
            out.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            out.append(1 / ((1 - smooth) / factor + smooth))
    return floats(np.array(out))


def floats(values):
    return [float(f"{x:.9g}") for x in np.asarray(values, dtype=np.float32).flatten()]


def main():
    cases = []
    for name, dim, base, scaling in CASES:
        config = LlamaConfig(
            hidden_size=4 * dim,
            num_attention_heads=4,
            head_dim=dim,
            max_position_embeddings=131072,
            rope_parameters={"rope_theta": base, **scaling},
        )
        rope = LlamaRotaryEmbedding(config)
        cos, sin = rope(torch.zeros(1, dtype=torch.float32), torch.tensor([POSITIONS]))
        case = {
            "name": name,
            "scaling": scaling["rope_type"],
            "dimension_count": dim,
            "base": base,
            "attention_factor": float(rope.attention_scaling),
            "frequencies": floats(rope.inv_freq),
            "positions": POSITIONS,
            "cos": floats(cos[0, :, : dim // 2]),
            "sin": floats(sin[0, :, : dim // 2]),
        }
        for key in ("factor", "beta_fast", "beta_slow", "original_max_position_embeddings"):
            if key in scaling:
                case[key] = scaling[key]
        if scaling["rope_type"] == "llama3":
            case["divisors"] = divisors(dim, base, scaling)
        cases.append(case)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


main()
