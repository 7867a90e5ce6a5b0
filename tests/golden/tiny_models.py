#!/usr/bin/env python3
"""Random tiny models as Hugging Face saves them, and what a GGUF view of them must hold.

    pip install torch==2.15.0 transformers==5.23.0 tokenizers==0.23.2 safetensors gguf==0.19.0 numpy
    tests/golden/tiny_models.py            # writes tests/data/models

Each directory under tests/data/models is what save_pretrained() wrote: config.json and safetensors,
every parameter random (norms and biases too, so that no reordering can hide). llama, qwen3 and gpt2
have a tokenizer and shapes that other programs can run; the rest are as small as their architecture
allows and serve the reader's tests only.

tensors.tsv lists what reading them as GGUF must give: model, tensor, type, dimensions (GGUF order)
and the FNV-1a hash of the tensor's bytes. It is made here with numpy and, for names, gguf-py's own
table, from the rules llama.cpp's converter follows.
"""

import json
import math
import pathlib
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers
from safetensors import safe_open
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[1] / "data" / "models"

TEXT = """
An outrider rides ahead of the column and reports back. The draft is small and quick, the target is
large and slow; the target has the last word. When the road forks, the outrider tries both ways, and
when the column arrives it knows already which of them leads over the bridge and which into the marsh.
Nothing is lost when a messenger is late: what was written stays written, and what was only guessed is
guessed again. "How many miles to the river?" asked the captain. "Three," said the rider, "or 3.5 if
the ford is flooded; in 1812 it was." They waited until it's dawn, and then they'd cross, and we'll see
who's right. The rider's horse drank, the water was cold, and the willows along the bank were grey.
for (int i = 0; i < count; ++i) { total += weights[i] * inputs[i]; }  // one row of the product
Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Où est la forêt? Mañana, señor.
"""


def train_tokenizer(directory, vocab_size):
    """A byte-level BPE with <|bos|> and <|eos|>, as tokenizer.json and tokenizer_config.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|bos|>", "<|eos|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=specials, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(TEXT.strip().split("\n"), trainer)
    assert tokenizer.get_vocab_size() == vocab_size, tokenizer.get_vocab_size()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "add_bos_token": False,
        "bos_token": "<|bos|>",
        "eos_token": "<|eos|>",
        "chat_template": "{% for m in messages %}{{ '<|bos|>' + m['role'] + ': ' + m['content'] }}"
                         "{% endfor %}",
        "model_max_length": 128,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def definitions():
    """name -> (config, model class, dtype, how to save it)."""
    t = transformers
    runnable = dict(vocab_size=384, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                    bos_token_id=0, eos_token_id=1)
    tiny = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                bos_token_id=0, eos_token_id=1)
    sides = dict(vocab_size=96, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_decoder_layers=2,
                 num_heads=2, decoder_start_token_id=0)
    llama3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
                  high_freq_factor=4.0, original_max_position_embeddings=64)
    yarn = dict(rope_type="yarn", rope_theta=10000.0, factor=2.0,
                original_max_position_embeddings=64)
    bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32
    return {
        "llama": (t.LlamaConfig(**runnable, rope_parameters=llama3), t.LlamaForCausalLM, bf16, {}),
        "qwen3": (t.Qwen3Config(**runnable, head_dim=32, tie_word_embeddings=True),
                  t.Qwen3ForCausalLM, bf16, {}),
        "gpt2": (t.GPT2Config(vocab_size=384, n_embd=64, n_head=4, n_layer=2, n_positions=128,
                              bos_token_id=0, eos_token_id=1), t.GPT2LMHeadModel, f16, {}),
        # Biases everywhere, and heads that do not share the embedding evenly.
        "llama_biased": (t.LlamaConfig(**tiny, head_dim=12, attention_bias=True, mlp_bias=True),
                         t.LlamaForCausalLM, f16, {}),
        "mistral": (t.MistralConfig(**tiny, sliding_window=16), t.MistralForCausalLM, f16, {}),
        "qwen2": (t.Qwen2Config(**tiny, rope_parameters=yarn), t.Qwen2ForCausalLM, f32,
                  dict(max_shard_size="40KB")),
        "mixtral": (t.MixtralConfig(**tiny, num_local_experts=3, num_experts_per_tok=2),
                    t.MixtralForCausalLM, bf16, {}),
        # A dense block and a sparse one.
        "qwen3_moe": (t.Qwen3MoeConfig(**tiny, head_dim=16, num_experts=3, num_experts_per_tok=2,
                                       moe_intermediate_size=24, decoder_sparse_step=2,
                                       norm_topk_prob=True),
                      t.Qwen3MoeForCausalLM, bf16, {}),
        # Experts in one tensor each for gate-and-up and down, as transformers 5 has them in memory.
        "olmoe": (t.OlmoeConfig(**tiny, num_experts=3, num_experts_per_tok=2), t.OlmoeForCausalLM,
                  bf16, dict(save_original_format=False)),
        "t5": (t.T5Config(**sides, feed_forward_proj="gated-gelu"), t.T5ForConditionalGeneration,
               f32, {}),
        "bart": (t.BartConfig(vocab_size=96, d_model=32, encoder_layers=1, decoder_layers=2,
                              encoder_ffn_dim=48, decoder_ffn_dim=48, encoder_attention_heads=2,
                              decoder_attention_heads=2, max_position_embeddings=64),
                 t.BartForConditionalGeneration, f16, {}),
        "switch": (t.SwitchTransformersConfig(**{**sides, "num_layers": 2}, num_experts=3,
                                              num_sparse_encoder_layers=1,
                                              num_sparse_decoder_layers=1),
                   t.SwitchTransformersForConditionalGeneration, bf16, {}),
    }


def make_model(directory, config, model_class, dtype, save):
    model = model_class(config)
    generator = torch.Generator().manual_seed(20)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3, generator=generator)
        for name, buffer in model.named_buffers():
            if name == "final_logits_bias":
                buffer.normal_(0.0, 0.3, generator=generator)
    model.to(dtype).save_pretrained(directory, **save)
    (directory / "generation_config.json").unlink(missing_ok=True)


def read_tensors(directory):
    """name -> (gguf type name, array). BF16 and F16 stay bits, as uint16."""
    tensors = {}
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():
                tensor = file.get_tensor(name)
                kind = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
                bits = tensor if tensor.dtype == torch.float32 else tensor.view(torch.uint16)
                tensors[name] = (kind[tensor.dtype], bits.numpy())
    return tensors


def permute(array, heads):
    """llama.cpp's: each head's rows from two halves to pairs."""
    return (array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:])
            .swapaxes(1, 2).reshape(array.shape))


def rope_factors(config, head_dim):
    p = config["rope_parameters"]
    low, high = p["low_freq_factor"], p["high_freq_factor"]
    context = p["original_max_position_embeddings"]
    factors = []
    for frequency in 1.0 / (p["rope_theta"] ** (np.arange(0, head_dim, 2, dtype=np.float64)
                                                / head_dim)):
        wavelength = 2 * math.pi / frequency
        if wavelength < context / high:
            factors.append(1)
        elif wavelength > context / low:
            factors.append(p["factor"])
        else:
            smooth = (context / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / p["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


ARCHITECTURES = {"llama": "LLAMA", "mistral": "LLAMA", "mixtral": "LLAMA", "qwen2": "QWEN2",
                 "qwen3": "QWEN3", "qwen3_moe": "QWEN3MOE", "olmoe": "OLMOE", "gpt2": "GPT2",
                 "t5": "T5"}


def decoder_or_t5(config, tensors):
    """The GGUF tensors of the architectures llama.cpp has."""
    blocks = (config.get("num_hidden_layers") or config.get("n_layer")
              or max(config["num_layers"], config["num_decoder_layers"]))
    arch = getattr(gguf.MODEL_ARCH, ARCHITECTURES[config["model_type"]])
    maps = [gguf.get_tensor_name_map(arch, blocks),
            gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, blocks)]  # dense blocks among sparse ones

    def gguf_name(name):
        found = [m.get_name(name, (".weight", ".bias")) for m in maps]
        return next(n for n in found if n is not None)

    heads = config.get("num_attention_heads")
    heads_kv = config.get("num_key_value_heads")
    result, experts = {}, {}
    for name, (kind, array) in tensors.items():
        if ARCHITECTURES[config["model_type"]] == "LLAMA":
            if ".q_proj." in name:
                array = permute(array, heads)
            if ".k_proj." in name:
                array = permute(array, heads_kv)
        if config["model_type"] == "gpt2" and name.endswith(
                ("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            array = array.T
        block = name.split(".experts.")[0]
        if name.endswith(".experts.gate_up_proj"):
            gate, up = np.split(array, 2, axis=1)
            result[gguf_name(f"{block}.experts.gate_proj") + ".weight"] = (kind, gate)
            result[gguf_name(f"{block}.experts.up_proj") + ".weight"] = (kind, up)
        elif name.endswith(".experts.down_proj"):
            result[gguf_name(f"{block}.experts.down_proj") + ".weight"] = (kind, array)
        elif ".experts." in name:
            number, which, _ = name.split(".experts.")[1].split(".")
            merged = f"{block}.experts.{which}"
            if which in ("w1", "w2", "w3"):  # gguf-py knows Mixtral's stacks as layers.N.feed_forward
                merged = f"layers.{name.split('.')[2]}.feed_forward.experts.{which}"
            experts.setdefault(merged, {})[int(number)] = (kind, array)
        else:
            result[gguf_name(name)] = (kind, array)
    for merged, parts in experts.items():
        stack = np.stack([parts[i][1] for i in range(len(parts))])
        result[gguf_name(merged) + ".weight"] = (parts[0][0], stack)
    if config.get("rope_parameters", {}).get("rope_type") == "llama3":
        head_dim = config.get("head_dim") or config["hidden_size"] // heads
        result["rope_freqs.weight"] = ("F32", rope_factors(config, head_dim))
    return result


def switch(config, tensors):
    """T5's names, with a router and stacked experts in the sparse blocks."""
    attention = {"SelfAttention": "attn", "EncDecAttention": "cross_attn"}
    result, experts = {}, {}
    for name, value in tensors.items():
        parts = name.split(".")
        if name == "shared.weight":
            result["token_embd.weight"] = value
            continue
        side = {"encoder": "enc", "decoder": "dec"}[parts[0]]
        if parts[1] == "final_layer_norm":
            result[f"{side}.output_norm.weight"] = value
            continue
        block = f"{side}.blk.{parts[2]}"
        last = 1 if side == "enc" else 2
        if parts[5] in attention:
            what = parts[6].replace("relative_attention_bias", "rel_b")
            result[f"{block}.{attention[parts[5]]}_{what}.weight"] = value
        elif parts[5] == "layer_norm":
            which = "ffn" if int(parts[4]) == last else ["attn", "cross_attn"][int(parts[4])]
            result[f"{block}.{which}_norm.weight"] = value
        elif "router" in parts:
            result[f"{block}.ffn_gate_inp.weight"] = value
        elif "experts" in parts:
            which = {"wi": "up", "wo": "down"}[parts[8]]
            number = int(parts[7].removeprefix("expert_"))
            experts.setdefault(f"{block}.ffn_{which}_exps.weight", {})[number] = value
        else:
            which = {"wi": "up", "wo": "down"}[parts[6]]
            result[f"{block}.ffn_{which}.weight"] = value
    for name, parts in experts.items():
        result[name] = (parts[0][0], np.stack([parts[i][1] for i in range(len(parts))]))
    return result


def bart(config, tensors):
    norms = {"self_attn_layer_norm": "attn_output_norm", "final_layer_norm": "layer_output_norm",
             "encoder_attn_layer_norm": "cross_attn_output_norm"}
    result = {}
    for name, (kind, array) in tensors.items():
        if name == "final_logits_bias":
            result["output.bias"] = (kind, array[0])
            continue
        if name == "model.shared.weight":
            result["token_embd.weight"] = (kind, array)
            continue
        parts = name.removeprefix("model.").split(".")
        side = {"encoder": "enc", "decoder": "dec"}[parts[0]]
        if parts[1] == "embed_positions":
            result[f"{side}.position_embd.weight"] = (kind, array[2:])
        elif parts[1] == "layernorm_embedding":
            result[f"{side}.token_embd_norm.{parts[2]}"] = (kind, array)
        else:
            block = f"{side}.blk.{parts[2]}"
            if parts[3] in norms:
                what = norms[parts[3]]
            elif parts[3] in ("fc1", "fc2"):
                what = {"fc1": "ffn_up", "fc2": "ffn_down"}[parts[3]]
            else:
                cross = "cross_" if parts[3] == "encoder_attn" else ""
                what = f"{cross}attn_{parts[4][0]}"  # q_proj, k_proj, v_proj, out_proj
            result[f"{block}.{what}.{parts[-1]}"] = (kind, array)
    return result


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def main():
    transformers.logging.set_verbosity_error()
    lines = []
    for name, (config, model_class, dtype, save) in definitions().items():
        directory = ROOT / name
        shutil.rmtree(directory, ignore_errors=True)  # the others there are not made here
        directory.mkdir(parents=True)
        make_model(directory, config, model_class, dtype, save)
        if name in ("llama", "qwen3", "gpt2"):
            train_tokenizer(directory, 384)
        saved = json.loads((directory / "config.json").read_text())
        view = {"bart": bart, "switch_transformers": switch}.get(saved["model_type"], decoder_or_t5)
        for tensor, (kind, array) in sorted(view(saved, read_tensors(directory)).items()):
            dims = ",".join(str(d) for d in reversed(array.shape))
            lines.append(f"{name}\t{tensor}\t{kind}\t{dims}\t{fnv1a(array.tobytes()):016x}")
    (ROOT / "tensors.tsv").write_text("\n".join(lines) + "\n")
    total = sum(path.stat().st_size for path in ROOT.rglob("*") if path.is_file())
    print(f"{len(lines)} tensors, {total} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
