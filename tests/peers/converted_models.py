"""Random small models, made by transformers, converted by us, opened by gguf-py and llama.cpp.

    converted_models.py OUTRIDER WORK_DIR

For Llama (with Llama 3.1 rope scaling), Qwen3 and GPT-2, and every type that `outrider convert` writes, with and without
--flash, and for one model of every other family as it is stored: gguf-py must read the file and agree on names, shapes and alignment; llama.cpp must load and run it. At F32 its
logits must equal those of transformers, which shows that the transformations (row order of q and k, transposition, rope
factors) and the metadata mean what we think they mean. Quantised files lie further off; they must lie no further than 1.1
times a file that llama.cpp quantised itself to the same mix.
Prints one line a file, and closes with "N passed, N failed".
"""
import pathlib
import shutil
import subprocess
import sys

import gguf
import llama_cpp
import numpy as np
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER_FROM = ROOT / "tests/data/models/llama"  # any byte-level BPE of a few hundred tokens
PROMPT = list(range(5, 29))

KINDS = ["", "f32", "f16", "bf16", "q8_0", "q6_k", "q5_k", "q4_k", "q4_0", "iq4_xs"]
# 1 - cosine similarity of the logits with those of transformers, at most: float32 sums in another order, and 11 and 8
# significant bits in the weights. None for the quantised types, which are held against llama.cpp's own.
TOLERANCE = {"": 1e-6, "f32": 1e-6, "f16": 1e-5, "bf16": 2e-4}
LLAMA_CPP_FILE_TYPE = {"q8_0": 7, "q6_k": 18, "q5_k": 17, "q4_k": 15, "q4_0": 2, "iq4_xs": 30}


def configurations(vocabulary):
    shared = dict(vocab_size=vocabulary, bos_token_id=0, eos_token_id=1)
    gated = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=8,
                 num_key_value_heads=2, max_position_embeddings=4096, **shared)
    llama3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=1024)
    return {
        "llama": transformers.LlamaConfig(tie_word_embeddings=False, rope_parameters=llama3, **gated),
        "qwen3": transformers.Qwen3Config(tie_word_embeddings=True, head_dim=64, **gated),
        "gpt2": transformers.GPT2Config(n_embd=256, n_layer=3, n_head=4, n_positions=512, **shared),
    }


def families(vocabulary):
    t = transformers
    shared = dict(vocab_size=vocabulary, bos_token_id=0, eos_token_id=1, pad_token_id=0, hidden_size=256, intermediate_size=512,
                  num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=4096)
    three, four, six = (dict(shared, num_hidden_layers=count) for count in (3, 4, 6))
    longrope = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0 + 0.1 * i for i in range(12)],
                    long_factor=[2.0 + i for i in range(12)], partial_rotary_factor=0.75)
    gemma = dict(head_dim=32)
    return {
        "gemma": t.GemmaConfig(**three, **gemma),
        "gemma2": t.Gemma2Config(**four, **gemma, query_pre_attn_scalar=32, sliding_window=8, final_logit_softcapping=3.0,
                                 attn_logit_softcapping=2.0),
        "gemma3": t.Gemma3TextConfig(**six, **gemma, query_pre_attn_scalar=32, sliding_window=8, rope_parameters={
            "full_attention": dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
            "sliding_attention": dict(rope_type="default", rope_theta=10000.0)}),
        "phi3": t.Phi3Config(**three, original_max_position_embeddings=1024, rope_parameters=longrope),
        "smollm3": t.SmolLM3Config(**four),
        "granite": t.GraniteConfig(**three, embedding_multiplier=6.0, logits_scaling=3.0, residual_multiplier=0.22,
                                   attention_multiplier=0.2),
        "olmo2": t.Olmo2Config(**three),
        "stablelm": t.StableLmConfig(**three, use_qkv_bias=True),
        "qwen2_moe": t.Qwen2MoeConfig(**three, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=128,
                                      shared_expert_intermediate_size=256),
        "cohere2": t.Cohere2Config(**four, sliding_window=8, logit_scale=0.25),
        "exaone4": t.Exaone4Config(**three, head_dim=32, sliding_window=None, layer_types=["full_attention"] * 3),
    }


def make_model(name, config, directory):
    torch.manual_seed(20)
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms start as 0 and 1, which would hide a mix-up
            parameter.add_(torch.randn_like(parameter) * 0.05)
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER_FROM / file, directory)
    with torch.no_grad():
        logits = model(torch.tensor([PROMPT])).logits[0].numpy()
    return logits


def check_gguf_py(path, flash):
    reader = gguf.GGUFReader(str(path))
    names = [tensor.name for tensor in reader.tensors]
    assert len(names) == len(set(names)) and "token_embd.weight" in names
    alignment = 4096 if flash else 32
    assert all(tensor.data_offset % alignment == 0 for tensor in reader.tensors), "a tensor is misaligned"
    return len(names)


def llama_cpp_logits(path):
    model = llama_cpp.Llama(str(path), n_ctx=256, n_batch=64, logits_all=True, verbose=False, n_threads=2)
    model.eval(PROMPT)
    return np.array(model.scores[: len(PROMPT)])


def distance(a, b):
    cosines = (a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))
    return float(1 - cosines.mean())


def tolerance(directory, expected, kind):
    if kind in TOLERANCE:
        return TOLERANCE[kind]
    peer = directory.parent / f"{directory.name}-{kind}-by-llama.cpp.gguf"
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = LLAMA_CPP_FILE_TYPE[kind]
    f32 = directory.parent / f"{directory.name}-f32.gguf"
    failed = llama_cpp.llama_model_quantize(str(f32).encode(), str(peer).encode(), parameters)
    assert failed == 0, f"llama.cpp could not quantise {f32}"
    return 1.1 * distance(expected, llama_cpp_logits(peer))


def check(outrider, directory, expected, kind, flash, limit):
    out = directory.parent / f"{directory.name}-{kind or 'as-stored'}{'-flash' if flash else ''}.gguf"
    command = [outrider, "convert", str(directory), "--out", str(out)]
    command += ["--type", kind] if kind else []
    command += ["--flash"] if flash else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    tensors = check_gguf_py(out, flash)
    found = distance(expected, llama_cpp_logits(out))
    ok = found <= limit
    print(f"{'ok  ' if ok else 'FAIL'} {out.name:32} {tensors:3} tensors, {out.stat().st_size:9} bytes, "
          f"1 - cos(logits) {found:.2e} (at most {limit:.2e})", flush=True)
    return ok


def main():
    outrider, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    vocabulary = len(transformers.AutoTokenizer.from_pretrained(TOKENIZER_FROM))
    results = []
    for name, config in configurations(vocabulary).items():
        expected = make_model(name, config, work / name)
        for kind in KINDS:
            limit = tolerance(work / name, expected, kind)
            for flash in (False, True):
                results.append(check(outrider, work / name, expected, kind, flash, limit))
    for name, config in families(vocabulary).items():
        expected = make_model(name, config, work / name)
        # Gemma's activation is a table of halves there.
        limit = 1e-5 if name.startswith("gemma") else TOLERANCE[""]
        results.append(check(outrider, work / name, expected, "", False, limit))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
