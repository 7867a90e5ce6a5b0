#!/usr/bin/env python3
"""Makes tests/data/gguf/: small files as gguf-py writes them, for gguf_golden_test.cc to read.

    pip install gguf==0.19.0 numpy==2.4.6
    python tests/golden/gguf_sample.py

    sample.gguf            every value type, arrays of every element type, tensors of several types,
                           general.alignment 64
    sample-v2.gguf         the same with version 2 in its header: the layout did not change
    big-endian.gguf        one tensor, big-endian
    split-0000N-of-00003   one tensor in each of the last two, none in the first

Element i of every tensor, counted from 0 over the whole tensor, is i / 4 - 3; Q8_0 holds it rounded.
"""

import pathlib
import struct

import gguf
import numpy as np
from gguf import GGMLQuantizationType as TensorType
from gguf import GGUFValueType as Value

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "gguf"

NUMBERS = {
    Value.UINT8: (0, 255),
    Value.INT8: (-128, 127),
    Value.UINT16: (0, 65535),
    Value.INT16: (-32768, 32767),
    Value.UINT32: (0, 4294967295),
    Value.INT32: (-2147483648, 2147483647),
    Value.UINT64: (0, 18446744073709551615),
    Value.INT64: (-9223372036854775808, 9223372036854775807),
    Value.FLOAT32: (-0.5, 3.0e38),
    Value.FLOAT64: (-0.1, 1.0e300),
}


def elements(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32) / 4 - 3).reshape(shape)


def add_contents(writer: gguf.GGUFWriter) -> None:
    writer.add_custom_alignment(64)
    writer.add_name("a sample")
    for kind, (least, most) in NUMBERS.items():
        name = kind.name.lower()
        writer.add_key_value(f"sample.{name}.least", least, kind)
        writer.add_key_value(f"sample.{name}.most", most, kind)
        writer.add_key_value(f"sample.{name}s", [least, most], Value.ARRAY, sub_type=kind)
    writer.add_bool("sample.true", True)
    writer.add_bool("sample.false", False)
    writer.add_key_value("sample.bools", [True, False, True], Value.ARRAY, sub_type=Value.BOOL)
    writer.add_string("sample.string", "Grüße, мир, 世界")
    writer.add_array("sample.strings", ["<s>", " ", "Ġthe", "▁x"])
    writer.add_tensor("scale", elements(1))
    writer.add_tensor("matrix", elements(3, 5))
    writer.add_tensor("half", elements(2, 3, 4).astype(np.float16))
    writer.add_tensor("ids", np.arange(6, dtype=np.int32).reshape(2, 3))
    writer.add_tensor("blocks", gguf.quantize(elements(4, 64), TensorType.Q8_0), raw_dtype=TensorType.Q8_0)


def write(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    sample = OUT / "sample.gguf"
    writer = gguf.GGUFWriter(sample, "sample")
    add_contents(writer)
    write(writer)

    old = bytearray(sample.read_bytes())
    struct.pack_into("<I", old, 4, 2)
    (OUT / "sample-v2.gguf").write_bytes(old)

    writer = gguf.GGUFWriter(OUT / "big-endian.gguf", "sample", endianess=gguf.GGUFEndian.BIG)
    writer.add_tensor("scale", elements(1))
    write(writer)

    writer = gguf.GGUFWriter(OUT / "split.gguf", "sample", split_max_tensors=1, small_first_shard=True)
    writer.add_tensor("first", elements(8))
    writer.add_tensor("second", elements(2, 8))
    write(writer)


main()
