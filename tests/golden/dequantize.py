#!/usr/bin/env python3
"""Makes tests/data/dequantize: blocks of every type that common/formats/tensors/dequantize.h reads, and
their values as gguf-py computes them.

    pip install gguf==0.19.0 numpy==2.4.6 llama-cpp-python==0.3.36
    python tests/golden/dequantize.py      (LLAMA_CPP_LIB_PATH: where libggml-base.so is, if not in that package)

For each type two files: TYPE.blocks holds the bytes as a GGUF would, TYPE.f32 the little-endian
floats. gguf-py has no dequantiser for F32 and F16 beyond numpy's own view and cast, which are used
for those two; it supports all other types itself. libggml's C, which comes with llama-cpp-python, is
asked as well and has to agree to the bit.

Sixteen blocks meet few of the vectors in the books of IQ types, of which IQ1's has 2048. counted.txt has a line for
each type of blocks: TYPE HASH, of the values of a thousand blocks whose bytes count_bytes() makes, and the test makes again.

The seed is fixed: running this again changes no byte.
"""

import ctypes
import importlib.util
import os
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "dequantize"
RANDOM_BLOCKS = 10
COUNTED_BLOCKS = 1000
LIBRARIES = os.environ.get("LLAMA_CPP_LIB_PATH") or pathlib.Path(importlib.util.find_spec("llama_cpp").origin).parent / "lib"
LIBGGML = ctypes.CDLL(pathlib.Path(LIBRARIES) / "libggml-base.so")

# Where a block keeps its half-precision numbers.
HALF_OFFSETS = {
    Type.Q8_0: [0],
    Type.Q4_0: [0],
    Type.Q4_1: [0, 2],
    Type.Q5_0: [0],
    Type.Q5_1: [0, 2],
    Type.Q2_K: [80, 82],
    Type.Q3_K: [108],
    Type.Q4_K: [0, 2],
    Type.Q5_K: [0, 2],
    Type.Q6_K: [208],
    Type.IQ4_NL: [0],
    Type.IQ4_XS: [0],
    Type.MXFP4: [],  # its scale is a power of two in a byte
    Type.IQ2_XXS: [0],
    Type.IQ2_XS: [0],
    Type.IQ2_S: [0],
    Type.IQ3_XXS: [0],
    Type.IQ3_S: [0],
    Type.IQ1_S: [0],
    Type.IQ1_M: [],  # in four parts
    Type.TQ1_0: [52],
    Type.TQ2_0: [64],
}

# One edge block per row: the first half, the second half, and the byte everything else is filled
# with (None: random).
EDGES = [
    (0x0001, 0x0001, 0xFF),  # the smallest subnormal, every bit set
    (0x83FF, 0x03FF, None),  # the largest subnormal, negative and positive
    (0x0000, 0x8000, 0xFF),  # zero and minus zero
    (0xBC00, 0xBC00, None),  # -1
    (0x7BFF, 0xFBFF, 0x0F),  # 65504 and -65504, low nibbles only
    (0x3C01, 0x3BFF, 0xF0),  # just above and just below 1, high nibbles only
]


def random_finite_halves(rng, count):
    halves = rng.integers(0, 1 << 16, size=count, dtype=np.uint16)
    exponents = rng.integers(0, 31, size=count, dtype=np.uint16)  # 31 is infinity and NaN
    return (halves & 0x83FF) | (exponents << 10)


def blocks_of(kind, rng):
    _, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, size=(RANDOM_BLOCKS + len(EDGES), size), dtype=np.uint8)
    for row, edge in enumerate(EDGES, start=RANDOM_BLOCKS):
        if edge[2] is not None:
            blocks[row] = edge[2]
    for which, offset in enumerate(HALF_OFFSETS[kind]):
        halves = np.concatenate(
            [random_finite_halves(rng, RANDOM_BLOCKS), np.array([e[which] for e in EDGES], np.uint16)]
        )
        blocks[:, offset : offset + 2] = halves.astype("<u2").view(np.uint8).reshape(-1, 2)
    return blocks


def keep_finite(kind, blocks):
    """Scales that are no halves of their own, so that no value is infinity or NaN."""
    if kind == Type.MXFP4:
        blocks[:, 0] = np.minimum(blocks[:, 0], 250)
    if kind == Type.IQ1_M:
        blocks[:, 55] &= 0xBF  # on top of the last word: the sign and the upper bits of the exponent
    return blocks


def count_bytes(count):
    """The bytes of splitmix64's numbers, the lowest first."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count // 8 + 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return z.astype("<u8").view(np.uint8)[:count]


def counted_blocks(kind):
    _, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = count_bytes(COUNTED_BLOCKS * size).reshape(-1, size).copy()
    for offset, half in zip(HALF_OFFSETS[kind], (0x3C00, 0x3400)):  # 1 and 0.25
        blocks[:, offset] = half & 255
        blocks[:, offset + 1] = half >> 8
    return keep_finite(kind, blocks)


def hash_of(values):
    """FNV-1a over the bits of floats, a word at a time."""
    state = 0xCBF29CE484222325
    for word in values.astype("<f4").view(np.uint32).tolist():
        state = (state ^ word) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{state:016x}"


def agreed_values(kind, blocks):
    values = gguf.quants.dequantize(blocks, kind).reshape(-1)
    assert values.dtype == np.float32 and np.isfinite(values).all(), kind
    assert libggml_values(kind, blocks).tobytes() == values.tobytes(), kind
    return values


def libggml_values(kind, blocks):
    values = np.empty(blocks.shape[0] * gguf.GGML_QUANT_SIZES[kind][0], np.float32)
    name = kind.name.replace("Q", "q") if kind.name.startswith("Q") else kind.name.lower()
    dequantize_row = getattr(LIBGGML, "dequantize_row_" + name)
    dequantize_row(
        ctypes.c_char_p(blocks.tobytes()),
        values.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(values.size),
    )
    return values


def plain_halves(rng):
    edges = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00]
    return np.concatenate([np.array(edges, np.uint16), random_finite_halves(rng, 245)])


def write(name, blocks, values):
    blocks = np.ascontiguousarray(blocks).astype(blocks.dtype.newbyteorder("<"), copy=False)
    (OUT / f"{name}.blocks").write_bytes(blocks.tobytes())
    (OUT / f"{name}.f32").write_bytes(np.ascontiguousarray(values).astype("<f4").tobytes())


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20240607)

    floats = rng.standard_normal(64).astype(np.float32)
    write("F32", floats, floats)
    halves = plain_halves(rng)
    write("F16", halves, halves.view(np.float16).astype(np.float32))
    brains = rng.integers(0, 0x7F80, size=256, dtype=np.uint16) | (
        rng.integers(0, 2, size=256, dtype=np.uint16) << 15
    )
    brains[:4] = [0x0001, 0x8000, 0x7F80, 0xFF7F]
    write("BF16", brains, gguf.quants.dequantize(brains.view(np.uint8), Type.BF16))

    # 65504 * 63 * 31 is far below the largest float: nothing overflows, so every value is a number.
    hashes = ""
    for kind in HALF_OFFSETS:
        blocks = keep_finite(kind, blocks_of(kind, rng))
        write(kind.name, blocks, agreed_values(kind, blocks))
        hashes += f"{kind.name} {hash_of(agreed_values(kind, counted_blocks(kind)))}\n"
    (OUT / "counted.txt").write_text(hashes)


if __name__ == "__main__":
    main()
