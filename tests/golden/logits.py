#!/usr/bin/env python3
"""What transformers makes of the tiny models: logits, and 64 tokens of greedy text.

    pip install torch==2.15.0 transformers==5.23.0 numpy
    tests/golden/logits.py                 # writes tests/data/logits
    tests/golden/logits.py mixtral ...     # of these models only

The models are those of tiny_models.py that are decoders, and three more, made here under
tests/data/logits, for what those lack: tied embeddings without grouped heads and with linear rope scaling; an untied GPT-2
whose vocabulary and widths fill no panel of sixteen; a window much shorter than the text, with heads in three groups.

Everything is computed in float32, from the stored weights. Two sets of logits: as transformers computes them, and with
keys and values rounded to half precision on their way into the cache, which is how Outrider keeps them. The second set is
held to a tight tolerance, the first to what that rounding costs.

NAME.bin, little endian, all counts uint32, ids int32:
  token count, tokens | position count, positions | vocabulary size
  | float32 logits [position][vocabulary], exact cache | the same, cache in halves | 65 ids: a prompt of one, greedy text
and of models with experts
  | count of layers that have them, count used | uint32 experts [layer][token][used], ascending: who each token was sent to
"""
import pathlib
import shutil
import struct
import sys

import numpy as np
import torch
import transformers

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
OUT = DATA / "logits"
GREEDY = 64
MARGIN = 2e-4  # between the best and the second logit, relative to the norm of all
ROUTING_MARGIN = 1e-4  # between the last expert that is used and the first that is not


class HalfCache(transformers.DynamicCache):
    """Keys and values as halves."""

    def update(self, keys, values, *rest, **options):
        return super().update(keys.half().float(), values.half().float(), *rest, **options)


def more_models():
    t = transformers
    shared = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2, max_position_embeddings=96,
                  bos_token_id=0, eos_token_id=1)
    linear = dict(rope_type="linear", rope_theta=10000.0, factor=4.0)
    return {
        "llama_linear": t.LlamaConfig(**shared, num_attention_heads=4, num_key_value_heads=4, rope_parameters=linear,
                                      tie_word_embeddings=True),
        "gpt2_untied": t.GPT2Config(vocab_size=101, n_embd=36, n_head=3, n_layer=2, n_positions=96, n_inner=50,
                                    bos_token_id=0, eos_token_id=1, tie_word_embeddings=False),
        "mistral_short_window": t.MistralConfig(**{**shared, "hidden_size": 36}, num_attention_heads=6, head_dim=6,
                                                num_key_value_heads=2, sliding_window=5),
    }


def make_models():
    directories = []
    for name, config in more_models().items():
        model = transformers.AutoModelForCausalLM.from_config(config)
        generator = torch.Generator().manual_seed(21)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, 0.3, generator=generator)
        model.to(torch.float32).save_pretrained(OUT / name)
        (OUT / name / "generation_config.json").unlink(missing_ok=True)
        (OUT / name / "model.safetensors").chmod(0o644)
        directories.append(OUT / name)
    return directories


def logits_of(model, tokens, cache):
    with torch.no_grad():
        return model(torch.tensor([tokens]), past_key_values=cache, use_cache=True).logits[0].numpy()


def greedy(model, first):
    tokens, cache = [first], HalfCache()
    margins = []
    for _ in range(GREEDY):
        with torch.no_grad():
            row = model(torch.tensor([tokens[-1:]]), past_key_values=cache, use_cache=True).logits[0, -1].numpy()
        best, second = np.sort(row)[::-1][:2]
        margins.append((best - second) / np.linalg.norm(row))
        tokens.append(int(row.argmax()))
    return tokens, min(margins)


def routing(model, tokens):
    """[layer][token][used], from router logits that leave no doubt."""
    used = model.config.num_experts_per_tok
    with torch.no_grad():
        layers = model(torch.tensor([tokens]), past_key_values=HalfCache(), use_cache=True,
                       output_router_logits=True).router_logits
    chosen = []
    for logits in layers:
        order = logits.reshape(len(tokens), -1).numpy()
        ranked = np.argsort(-order, axis=1)
        best = np.take_along_axis(order, ranked, axis=1)
        assert (best[:, used - 1] - best[:, used]).min() > ROUTING_MARGIN
        chosen.append(np.sort(ranked[:, :used], axis=1))
    return np.stack(chosen).astype("<u4")


def write(directory):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32,
                                                              attn_implementation="eager").eval()
    vocabulary = model.config.vocab_size
    length = 60
    tokens = [int(x) for x in np.random.default_rng(7).integers(2, vocabulary, length)]
    positions = [0, 1, 17, 31, 32, 33, length - 1]
    exact = logits_of(model, tokens, transformers.DynamicCache())[positions]
    halves = logits_of(model, tokens, HalfCache())[positions]
    with torch.no_grad():  # the cache class changes nothing
        plain = model(torch.tensor([tokens]), use_cache=False).logits[0].numpy()[positions]
    assert np.abs(plain - exact).max() < 1e-4 * np.abs(plain).max()
    # The most varied text in which no choice hangs on rounding.
    texts = [greedy(model, first) for first in range(2, 62)]
    text, margin = max((t for t in texts if t[1] > MARGIN), key=lambda t: len(set(t[0])))
    with open(OUT / f"{directory.name}.bin", "wb") as file:
        file.write(struct.pack(f"<I{length}i", length, *tokens))
        file.write(struct.pack(f"<I{len(positions)}I", len(positions), *positions))
        file.write(struct.pack("<I", vocabulary))
        file.write(exact.astype("<f4").tobytes())
        file.write(halves.astype("<f4").tobytes())
        file.write(struct.pack(f"<{GREEDY + 1}i", *text))
        if hasattr(model.config, "num_experts_per_tok"):
            chosen = routing(model, tokens)
            file.write(struct.pack("<2I", chosen.shape[0], chosen.shape[2]))
            file.write(chosen.tobytes())
    apart = (np.linalg.norm(exact - halves, axis=1) / np.linalg.norm(exact, axis=1)).max()
    print(f"{directory.name}: halves are {apart:.1e} off, the closest greedy choice by {margin:.1e}, "
          f"{len(set(text))} different tokens")


def main():
    transformers.logging.set_verbosity_error()
    if len(sys.argv) > 1:
        for name in sys.argv[1:]:
            write(DATA / "models" / name)
        return
    if OUT.exists():
        shutil.rmtree(OUT)
    OUT.mkdir()
    existing = ["llama", "llama_biased", "mistral", "qwen2", "qwen3", "gpt2", "mixtral", "qwen3_moe", "olmoe"]
    for directory in [DATA / "models" / name for name in existing] + make_models():
        write(directory)


if __name__ == "__main__":
    main()
