#!/usr/bin/env python3
"""Makes tests/data/quantize/ggml.txt: how well ggml quantises fixed inputs, to hold ours against.

    pip install gguf==0.19.0 numpy==2.4.6 llama-cpp-python==0.3.36
    python tests/golden/quantize.py

Two kinds of lines:
    rms TYPE INPUT VALUE    root mean square error of ggml's own quantiser (no importance matrix),
                            from libggml, which comes with llama-cpp-python
    fnv TYPE INPUT HASH     FNV-1a of the bytes gguf-py makes of the input, for the types whose
                            encoding leaves no choice

The inputs are whole-number arithmetic and single float products, so tests/formats/quantized_values.h
makes the very same floats.
"""

import ctypes
import pathlib

import gguf
import llama_cpp
import numpy as np
from gguf import GGMLQuantizationType as Type

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "quantize" / "ggml.txt"
LIBGGML = ctypes.CDLL(next((pathlib.Path(llama_cpp.__file__).parent / "lib").glob("libggml-base.so")))
LIBGGML.ggml_quantize_chunk.restype = ctypes.c_size_t
COUNT = 1 << 16


def bell():
    """Sums of four 16-bit fields of splitmix64, centred: nearly normal, sigma about 0.009."""
    with np.errstate(over="ignore"):
        z = np.arange(1, COUNT + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    total = sum((z >> np.uint64(s)) & np.uint64(0xFFFF) for s in (0, 16, 32, 48)).astype(np.int64)
    return (total - 131070).astype(np.float32) * np.float32(2.0**-22)


def inputs():
    v = bell()
    index = np.arange(COUNT)
    yield "bell", v
    yield "uneven", v * np.exp2(-(index // 32 % 8)).astype(np.float32)
    yield "outliers", np.where(index % 97 == 0, v * np.float32(16), v)
    yield "peaked", v * v * v * np.float32(2.0**14)
    yield "positive", np.abs(v) + np.float32(2.0**-6)
    yield "negative", v * np.float32(0.125) - np.float32(1)


def libggml_bytes(kind, x):
    block, size = gguf.GGML_QUANT_SIZES[kind]
    out = np.empty(x.size // block * size, np.uint8)
    written = LIBGGML.ggml_quantize_chunk(
        ctypes.c_int(kind),
        x.ctypes.data_as(ctypes.c_void_p),
        out.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(0),
        ctypes.c_int64(1),
        ctypes.c_int64(x.size),
        ctypes.c_void_p(None),
    )
    assert written == out.size, kind
    return out


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def main():
    lines = []
    for name, x in inputs():
        x = np.ascontiguousarray(x, np.float32)
        for kind in (Type.Q4_K, Type.Q6_K):
            error = gguf.quants.dequantize(libggml_bytes(kind, x), kind).astype(np.float64) - x
            lines.append(f"rms {kind.name} {name} {np.sqrt(np.mean(error * error)):.9e}")
        for kind in (Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0):
            made = gguf.quants.quantize(x, kind)
            lines.append(f"fnv {kind.name} {name} {fnv(made.tobytes()):016x}")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
