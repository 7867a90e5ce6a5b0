"""Small models of each kind, for the fuzzer of whole models to begin with (tests/fuzz/model_file_fuzz.cc).

    python tests/golden/model_seeds.py tests/fuzz/corpus/model_file

Made with: pip gguf 0.19.0, numpy 2.4.6.
"""
import json
import pathlib
import struct
import sys

import gguf
import numpy as np

WIDTH, HEADS, FEED_FORWARD, TOKENS = 64, 2, 32, 24
SIZES = {"token_embd": (TOKENS, WIDTH), "output": (TOKENS, WIDTH), "attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH),
         "attn_v": (WIDTH, WIDTH), "attn_output": (WIDTH, WIDTH), "ffn_gate": (FEED_FORWARD, WIDTH), "ffn_up": (FEED_FORWARD, WIDTH),
         "ffn_down": (WIDTH, FEED_FORWARD)}
HF = {"token_embd": "model.embed_tokens", "output": "lm_head", "attn_q": "model.layers.0.self_attn.q_proj",
      "attn_k": "model.layers.0.self_attn.k_proj", "attn_v": "model.layers.0.self_attn.v_proj",
      "attn_output": "model.layers.0.self_attn.o_proj", "ffn_gate": "model.layers.0.mlp.gate_proj",
      "ffn_up": "model.layers.0.mlp.up_proj", "ffn_down": "model.layers.0.mlp.down_proj", "output_norm": "model.norm",
      "attn_norm": "model.layers.0.input_layernorm", "ffn_norm": "model.layers.0.post_attention_layernorm"}
NORMS = ["output_norm", "attn_norm", "ffn_norm"]


def numbers(shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def stem(name):
    return name if name in ("token_embd", "output", "output_norm") else "blk.0." + name


def write_gguf(path, architecture, tokenizer, kind):
    writer = gguf.GGUFWriter(path.with_suffix(".tmp"), architecture)
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(TOKENS)
    tokens = [*"abcdefghijklmnop", "ab", "cd", "abcd", "▁a", "▁"]
    tokens = ["<unk>", "<s>", "</s>", *tokens][:TOKENS]
    writer.add_tokenizer_model(tokenizer)
    writer.add_tokenizer_pre("tekken" if tokenizer == "gpt2" else "default")
    writer.add_token_list([token.replace("▁", "Ġ") for token in tokens] if tokenizer == "gpt2" else tokens)
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_token_types([2, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["a b", "c d", "ab cd"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
    for name in NORMS:
        writer.add_tensor(stem(name) + ".weight", np.ones(WIDTH, np.float32))
    for name, shape in SIZES.items():
        writer.add_tensor(stem(name) + ".weight", gguf.quants.quantize(numbers(shape), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.write_bytes(b"\0" + path.with_suffix(".tmp").read_bytes())
    path.with_suffix(".tmp").unlink()


EXPERTS = 2
GPT_OSS = {"head_dim": WIDTH // HEADS, "num_local_experts": EXPERTS, "num_experts_per_tok": 1, "sliding_window": 8,
           "quantization_config": {"quant_method": "mxfp4"},
           "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32, "truncate": False}}


def with_packed_experts(tensors):
    """gpt-oss as it is published, of the tensors of a Llama."""
    layer = "model.layers.0."
    tensors = {name: values for name, values in tensors.items() if ".mlp." not in name}
    for part, rows, columns in (("gate_up_proj", 2 * FEED_FORWARD, WIDTH), ("down_proj", WIDTH, FEED_FORWARD)):
        blocks = gguf.quants.quantize(numbers((EXPERTS * rows, columns)), gguf.GGMLQuantizationType.MXFP4).reshape(EXPERTS, rows, -1, 17)
        tensors[f"{layer}mlp.experts.{part}_blocks"] = blocks[..., 1:].copy()
        tensors[f"{layer}mlp.experts.{part}_scales"] = blocks[..., 0].copy()
        tensors[f"{layer}mlp.experts.{part}_bias"] = numbers((EXPERTS, rows)).astype(np.float16)
    tensors[layer + "mlp.router.weight"] = numbers((EXPERTS, WIDTH)).astype(np.float16)
    tensors[layer + "mlp.router.bias"] = numbers(EXPERTS).astype(np.float16)
    tensors[layer + "self_attn.sinks"] = numbers(HEADS).astype(np.float16)
    return tensors


def write_directory(path, model_type):
    config = {"model_type": model_type, "architectures": ["X"], "hidden_size": WIDTH, "intermediate_size": FEED_FORWARD,
              "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "vocab_size": TOKENS,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "torch_dtype": "float16",
              "tie_word_embeddings": False}
    vocab = {token: i for i, token in enumerate([*"abcdefghijklmnop", "ab", "cd", "Ġa"])}
    tokenizer = {"model": {"type": "BPE", "vocab": vocab, "merges": ["a b", "c d"]},
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                 "added_tokens": [{"id": 19, "content": "<s>", "special": True}]}
    tensors = {HF[name] + ".weight": np.ones(WIDTH, np.float16) for name in NORMS}
    tensors |= {HF[name] + ".weight": numbers(shape).astype(np.float16) for name, shape in SIZES.items()}
    if model_type == "gpt_oss":
        config |= GPT_OSS
        tensors = with_packed_experts(tensors)
    header, data = {}, b""
    for name, values in tensors.items():
        header[name] = {"dtype": "U8" if values.dtype == np.uint8 else "F16", "shape": list(values.shape), "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    texts = [json.dumps(part).encode() for part in (config, tokenizer, header)]
    lengths = struct.pack("<HH", len(texts[0]), len(texts[1]))
    path.write_bytes(b"\1" + lengths + texts[0] + texts[1] + struct.pack("<Q", len(texts[2])) + texts[2] + data)


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    kinds = gguf.GGMLQuantizationType
    write_gguf(out / "llama_q8_0", "llama", "llama", kinds.Q8_0)
    write_gguf(out / "qwen2_q4_0", "qwen2", "gpt2", kinds.Q4_0)
    write_directory(out / "llama_directory", "llama")
    write_directory(out / "gpt_oss_directory", "gpt_oss")


if __name__ == "__main__":
    main()
