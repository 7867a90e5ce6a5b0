#!/usr/bin/env python3
"""Greedy text of the stories260k checkpoint by numpy in float32, held against the text llama2.c expects.

    pip install numpy
    tests/golden/stories260k.py            # exits with 0 when they are equal

Shares nothing with Outrider but the two files: the checkpoint (seven integers, then float32 weights) and the tokenizer.
It shows that the expected text is what the weights say, and not an accident of one program.
"""
import pathlib
import re
import struct
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parents[1] / "data/models/stories260k"
STEPS = 200
BOS = 1
BYTE = re.compile(rb"<0x[0-9A-F]{2}>")


def read_weights(data):
    width, hidden, layers, heads, kv_heads, vocabulary, context = struct.unpack_from("<7i", data)
    at = 28

    def take(*shape):
        nonlocal at
        count = int(np.prod(shape))
        array = np.frombuffer(data, "<f4", count, at).reshape(shape)
        at += 4 * count
        return array

    kv_width = width // heads * kv_heads
    return dict(embeddings=take(vocabulary, width), attention_norm=take(layers, width), query=take(layers, width, width),
                key=take(layers, kv_width, width), value=take(layers, kv_width, width), output=take(layers, width, width),
                feed_norm=take(layers, width), gate=take(layers, hidden, width), down=take(layers, width, hidden),
                up=take(layers, hidden, width), final_norm=take(width)), layers, heads, kv_heads


def read_tokens(data, count):
    at, tokens = 4, []
    for _ in range(count):
        length = struct.unpack_from("<fi", data, at)[1]
        piece = data[at + 8:at + 8 + length]
        tokens.append(bytes([int(piece[3:5], 16)]) if BYTE.fullmatch(piece) else piece)
        at += 8 + length
    return tokens


def norm(x, weight):
    return x / np.sqrt(np.mean(x * x) + np.float32(1e-5)) * weight


def rotate(heads, position):
    """Pairs (2i, 2i+1)."""
    length = heads.shape[1]
    angle = position / 10000.0 ** (np.arange(0, length, 2) / length)
    cos, sin = np.cos(angle).astype("f4"), np.sin(angle).astype("f4")
    even, odd = heads[:, ::2], heads[:, 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], 2).reshape(heads.shape)


def main():
    w, layers, heads, kv_heads = read_weights((HERE / "stories260K.bin").read_bytes())
    tokens = read_tokens((HERE / "tok512.bin").read_bytes(), len(w["embeddings"]))
    keys, values = [[] for _ in range(layers)], [[] for _ in range(layers)]
    token, text = BOS, b""
    for position in range(STEPS):
        x = w["embeddings"][token]
        for n in range(layers):
            h = norm(x, w["attention_norm"][n])
            q = rotate((w["query"][n] @ h).reshape(heads, -1), position)
            keys[n].append(rotate((w["key"][n] @ h).reshape(kv_heads, -1), position))
            values[n].append((w["value"][n] @ h).reshape(kv_heads, -1))
            k, v = (np.repeat(np.stack(cache[n], 1), heads // kv_heads, 0) for cache in (keys, values))
            scores = np.einsum("hd,hpd->hp", q, k) / np.sqrt(np.float32(q.shape[1]))
            weights = np.exp(scores - scores.max(1, keepdims=True))
            weights /= weights.sum(1, keepdims=True)
            x = x + w["output"][n] @ np.einsum("hp,hpd->hd", weights, v).reshape(-1)
            h = norm(x, w["feed_norm"][n])
            gate = w["gate"][n] @ h
            x = x + w["down"][n] @ (gate / (1 + np.exp(-gate)) * (w["up"][n] @ h))
        after_bos = token == BOS
        token = int(np.argmax(w["embeddings"] @ norm(x, w["final_norm"])))
        piece = tokens[token]
        text += piece[1:] if after_bos and piece.startswith(b" ") else piece
    expected = (HERE / "expected_greedy_200.txt").read_bytes()
    print("equal" if text == expected else f"differs:\n{text.decode()}")
    sys.exit(text != expected)


if __name__ == "__main__":
    main()
