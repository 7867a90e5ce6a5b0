#!/usr/bin/env python3
"""What transformers makes of the tiny models: logits, and 64 tokens of greedy text.

    pip install torch==2.15.0 transformers==5.23.0 gguf==0.19.0 numpy
    tests/golden/logits.py                 # writes tests/data/logits
    tests/golden/logits.py mixtral ...     # of these models only

The models are those of tiny_models.py that are decoders, and more, made here under tests/data/logits: for what those lack
(tied embeddings without grouped heads and with linear rope scaling; an untied GPT-2 whose vocabulary and widths fill no panel
of sixteen; a window much shorter than the text, with heads in three groups), and one of every other family, with windows that
are short beside the text.

Everything is computed in float32, from the stored weights. Two sets of logits: as transformers computes them, and with
keys and values rounded to half precision on their way into the cache, which is how Outrider keeps them. The second set is
held to a tight tolerance, the first to what that rounding costs.

NAME.bin, little endian, all counts uint32, ids int32:
  token count, tokens | position count, positions | vocabulary size
  | float32 logits [position][vocabulary], exact cache | the same, cache in halves | 65 ids: a prompt of one, greedy text
and of models with experts
  | count of layers that have them, count used | uint32 experts [layer][token][used], ascending: who each token was sent to
"""
import json
import pathlib
import shutil
import struct
import sys

import gguf
import numpy as np
import safetensors.numpy
import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

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
        **families(shared),
    }


def families(shared):
    t = transformers
    grouped = dict(**shared, num_attention_heads=4, num_key_value_heads=2)
    linear = dict(rope_type="linear", rope_theta=20000.0, factor=8.0)
    llama3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=64)
    longrope = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
                    short_factor=[1.0, 1.1, 1.25], long_factor=[1.2, 2.5, 7.0])
    window = dict(sliding_window=7)
    # Two scales whose quotient is 1, and queries that have grown three times by the end of a text.
    growing = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16, beta_fast=32.0,
                   beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.4)
    gemma = dict(grouped, num_hidden_layers=4, head_dim=12)
    return {
        "gemma": t.GemmaConfig(**{**gemma, "num_key_value_heads": 1, "num_hidden_layers": 2}),
        # Caps that bend what they cap.
        "gemma2": t.Gemma2Config(**gemma, **window, query_pre_attn_scalar=20, final_logit_softcapping=3.0,
                                 attn_logit_softcapping=2.0),
        "gemma3": t.Gemma3TextConfig(**gemma, **window, query_pre_attn_scalar=20, layer_types=pattern(4, 3), rope_parameters={
            "full_attention": linear, "sliding_attention": dict(rope_type="default", rope_theta=10000.0)}),
        "phi3": t.Phi3Config(**grouped, pad_token_id=0, original_max_position_embeddings=32, rope_parameters=longrope),
        "phi3_short": t.Phi3Config(**grouped, pad_token_id=0, original_max_position_embeddings=80, rope_parameters=longrope),
        "smollm3": t.SmolLM3Config(**{**grouped, "num_hidden_layers": 4}, pad_token_id=0),
        "granite": t.GraniteConfig(**grouped, tie_word_embeddings=True, embedding_multiplier=6.0, logits_scaling=3.0,
                                   residual_multiplier=0.22, attention_multiplier=0.2),
        "granitemoe": t.GraniteMoeConfig(**grouped, tie_word_embeddings=True, embedding_multiplier=6.0, logits_scaling=3.0,
                                         residual_multiplier=0.22, attention_multiplier=0.2, num_local_experts=5,
                                         num_experts_per_tok=2),
        "olmo2": t.Olmo2Config(**grouped, pad_token_id=0),
        "stablelm": t.StableLmConfig(**{**grouped, "hidden_size": 48}, use_qkv_bias=True,
                                     rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)),
        "stablelm2": t.StableLmConfig(**{**grouped, "hidden_size": 48}, qk_layernorm=True, use_parallel_residual=True,
                                      rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)),
        "qwen2_moe": t.Qwen2MoeConfig(**grouped, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=20,
                                      shared_expert_intermediate_size=28),
        "cohere2": t.Cohere2Config(**{**grouped, "num_hidden_layers": 4}, **window, pad_token_id=0, logit_scale=0.25,
                                   layer_types=pattern(4, 4)),
        "ministral3": t.Ministral3Config(**grouped, pad_token_id=0, head_dim=12, rope_parameters=growing),
        "exaone4": t.Exaone4Config(**{**grouped, "num_hidden_layers": 4}, **window, pad_token_id=0, head_dim=8,
                                   layer_types=pattern(4, 4), rope_parameters=llama3),
        "gpt_oss": gpt_oss(grouped, window, 32),  # becomes a GGUF file
        "gpt_oss_saved": gpt_oss(grouped, window, 64),  # of values that MXFP4 has; in gpt_oss_packed in MXFP4, as it is published
    }


def gpt_oss(grouped, window, intermediate_size):
    rope = dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0,
                original_max_position_embeddings=32, truncate=False)
    return transformers.GptOssConfig(**{**grouped, "intermediate_size": intermediate_size}, **window, pad_token_id=0, head_dim=8,
                                     num_local_experts=5, num_experts_per_tok=2, layer_types=pattern(2, 2),
                                     rope_parameters=rope)


def pattern(count, step):
    """Every step-th layer sees all, the others a window."""
    return ["sliding_attention" if (i + 1) % step else "full_attention" for i in range(count)]


def gpt_oss_as_gguf(directory):
    """The directory becomes a GGUF file, as llama.cpp's converter lays it out."""
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    config = model.config
    rope = config.rope_parameters
    writer = gguf.GGUFWriter(OUT / "gpt_oss.gguf", "gpt-oss")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_vocab_size(config.vocab_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_sliding_window(config.sliding_window)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_expert_count(config.num_local_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.intermediate_size)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    names = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.router": "ffn_gate_inp",
             "post_attention_layernorm": "post_attention_norm"}
    outer = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
             "lm_head.weight": "output.weight"}
    for name, tensor in model.state_dict().items():
        array = tensor.numpy()
        if name in outer:
            writer.add_tensor(outer[name], array)
            continue
        layer, rest = name.removeprefix("model.layers.").split(".", 1)
        block = f"blk.{layer}"
        if rest == "self_attn.sinks":
            writer.add_tensor(f"{block}.attn_sinks.weight", array)
        elif rest == "mlp.experts.gate_up_proj":  # [experts, embedding, gate and up by turns]
            for i, part in enumerate(("gate", "up")):
                writer.add_tensor(f"{block}.ffn_{part}_exps.weight", array[:, :, i::2].swapaxes(1, 2).copy())
        elif rest == "mlp.experts.gate_up_proj_bias":
            for i, part in enumerate(("gate", "up")):
                writer.add_tensor(f"{block}.ffn_{part}_exps.bias", array[:, i::2].copy())
        elif rest == "mlp.experts.down_proj":
            writer.add_tensor(f"{block}.ffn_down_exps.weight", array.swapaxes(1, 2).copy())
        elif rest == "mlp.experts.down_proj_bias":
            writer.add_tensor(f"{block}.ffn_down_exps.bias", array)
        else:
            stem, suffix = rest.rsplit(".", 1)
            writer.add_tensor(f"{block}.{names[stem]}.{suffix}", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    shutil.rmtree(directory)


EXPERTS = ("gate_up_proj", "down_proj")  # of gpt-oss, [experts, inputs, outputs]


def as_mxfp4(matrices):
    """Of [experts, inputs, outputs] the blocks of 32 inputs, each a scale and 16 bytes, as GGUF has them."""
    rows = np.ascontiguousarray(matrices.swapaxes(1, 2), np.float32)
    blocks = gguf.quants.quantize(rows, gguf.GGMLQuantizationType.MXFP4)
    return blocks.reshape(*rows.shape[:2], -1, 17)


def round_experts(model):
    """To values that MXFP4 has."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(EXPERTS):
                blocks = as_mxfp4(parameter.detach().numpy())
                rows = gguf.quants.dequantize(blocks.reshape(*blocks.shape[:2], -1), gguf.GGMLQuantizationType.MXFP4)
                parameter.copy_(torch.from_numpy(rows.swapaxes(1, 2).copy()))


def sharpen(model):
    """Norms of heads so large that it is seen what rows look at."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "_layernorm.norms." in name:
                parameter.mul_(5)


def pack_experts(directory):
    """A directory of the same model whose experts are blocks, scales of their own, and neighbours in a byte."""
    tensors = {}
    for name, tensor in safetensors.numpy.load_file(directory / "model.safetensors").items():
        if not name.endswith(EXPERTS):
            tensors[name] = tensor
            continue
        blocks = as_mxfp4(tensor)
        codes = np.concatenate([blocks[..., 1:] & 15, blocks[..., 1:] >> 4], axis=-1)
        tensors[f"{name}_blocks"] = codes[..., 0::2] | codes[..., 1::2] << 4
        tensors[f"{name}_scales"] = blocks[..., 0].copy()
    packed = OUT / "gpt_oss_packed"
    packed.mkdir(exist_ok=True)
    safetensors.numpy.save_file(tensors, packed / "model.safetensors", metadata={"format": "pt"})
    (packed / "model.safetensors").chmod(0o644)
    config = json.loads((directory / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4"}
    (packed / "config.json").write_text(json.dumps(config, indent=2) + "\n")


AFTERWARDS = {"gpt_oss": gpt_oss_as_gguf, "gpt_oss_saved": pack_experts}


def make_models(names):
    directories = []
    for name, config in more_models().items():
        if names and name not in names:
            continue
        shutil.rmtree(OUT / name, ignore_errors=True)
        model = transformers.AutoModelForCausalLM.from_config(config)
        generator = torch.Generator().manual_seed(21)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, 0.3, generator=generator)
        if name == "gpt_oss_saved":
            round_experts(model)
        if name == "stablelm2":
            sharpen(model)
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
    if directory.name == "phi3":  # the long factors for every text, as an engine made for long ones has them
        turns = model.model.rotary_emb
        long, _ = ROPE_INIT_FUNCTIONS["longrope"](model.config, "cpu", seq_len=model.config.max_position_embeddings)
        turns.original_inv_freq = long
        turns.inv_freq.copy_(long)
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
        made = make_models(sys.argv[1:])
        existing = [DATA / "models" / name for name in sys.argv[1:] if name not in more_models()]
        for directory in existing + made:
            write(directory)
            AFTERWARDS.get(directory.name, lambda _: None)(directory)
        return
    if OUT.exists():
        shutil.rmtree(OUT)
    OUT.mkdir()
    existing = ["llama", "llama_biased", "mistral", "qwen2", "qwen3", "gpt2", "mixtral", "qwen3_moe", "olmoe"]
    for directory in [DATA / "models" / name for name in existing] + make_models([]):
        write(directory)
        AFTERWARDS.get(directory.name, lambda _: None)(directory)


if __name__ == "__main__":
    main()
