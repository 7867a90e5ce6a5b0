"""Random small models, made by transformers, converted by us, opened by gguf-py and llama.cpp.

    converted_models.py OUTRIDER WORK_DIR

For Llama (with Llama 3.1 rope scaling), Qwen3 and GPT-2, and every type that `outrider convert` writes, and for one model of
every other family as it is stored: gguf-py must read the file and agree on names, shapes and alignment; llama.cpp must load
and run it. At F32 its logits must equal those of transformers, which shows that the
transformations (row order of q and k, transposition, rope factors) and the metadata mean what we think they mean. Quantised
files lie further off: each of their tensors must be of the type that llama.cpp gives it in the same mix and its error, as gguf-py decodes
it, no more than 1 % larger; the logits then lie as far off as theirs but for chance, at most 1.5 times. What --flash writes is for
us alone: both must refuse it, and converted back it must be the same tensors, bit for bit.
Prints one line a file, and closes with "N passed, N failed".
"""
import pathlib
import subprocess
import sys

import gguf
import llama_cpp
import numpy as np
import torch
import transformers

import family_models

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


def make_model(config, directory):
    model = family_models.make_model(config, directory)
    with torch.no_grad():
        return model(torch.tensor([PROMPT])).logits[0].numpy()


def check_gguf_py(path):
    reader = gguf.GGUFReader(str(path))
    names = [tensor.name for tensor in reader.tensors]
    assert len(names) == len(set(names)) and "token_embd.weight" in names
    assert all(tensor.data_offset % 32 == 0 for tensor in reader.tensors), "a tensor is misaligned"
    return len(names)


def is_refused(path, read):
    try:
        read(path)
    except ValueError:
        return True
    return False


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
    return 1.5 * distance(expected, llama_cpp_logits(peer))


def tensors_of(path):
    return {tensor.name: tensor for tensor in gguf.GGUFReader(str(path)).tensors}


def error(tensor, exact):
    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float64)
    return np.sqrt(np.square(values - exact.data).mean())


def worst_tensor(directory, out, kind):
    """The largest error of a tensor, of that of llama.cpp's."""
    exact = tensors_of(directory.parent / f"{directory.name}-f32.gguf")
    ours, theirs = (tensors_of(path) for path in (out, directory.parent / f"{directory.name}-{kind}-by-llama.cpp.gguf"))
    worst = 0
    for name, tensor in ours.items():
        assert tensor.tensor_type == theirs[name].tensor_type, f"{name} is {tensor.tensor_type.name}, {theirs[name].tensor_type.name} there"
        if tensor.tensor_type != gguf.GGMLQuantizationType.F32:
            worst = max(worst, error(tensor, exact[name]) / error(theirs[name], exact[name]))
    return worst


def convert(outrider, source, out, *flags):
    subprocess.run([outrider, "convert", str(source), "--out", str(out), *flags], check=True, stdout=subprocess.DEVNULL)


def output(directory, kind):
    return directory.parent / f"{directory.name}-{kind or 'as-stored'}.gguf"


def check_flash(outrider, directory, kind):
    rows = output(directory, kind)
    flash, back = rows.with_suffix(".flash.gguf"), rows.with_suffix(".back.gguf")
    convert(outrider, rows, flash, "--flash")
    convert(outrider, flash, back)
    expected, found = tensors_of(rows), tensors_of(back)
    is_same = found.keys() == expected.keys() and all(
        tensor.tensor_type == expected[name].tensor_type and np.array_equal(tensor.data, expected[name].data)
        for name, tensor in found.items())
    ok = is_same and is_refused(flash, tensors_of) and is_refused(flash, llama_cpp_logits)
    print(f"{'ok  ' if ok else 'FAIL'} {flash.name:32} {len(found):3} tensors, {flash.stat().st_size:9} bytes, "
          f"{'the same' if is_same else 'others'} when converted back", flush=True)
    return ok


def check(outrider, directory, expected, kind, limit):
    out = output(directory, kind)
    convert(outrider, directory, out, *(["--type", kind] if kind else []))
    tensors = check_gguf_py(out)
    found = distance(expected, llama_cpp_logits(out))
    worst = worst_tensor(directory, out, kind) if kind in LLAMA_CPP_FILE_TYPE else 0
    ok = found <= limit and worst <= 1.01
    print(f"{'ok  ' if ok else 'FAIL'} {out.name:32} {tensors:3} tensors, {out.stat().st_size:9} bytes, "
          f"1 - cos(logits) {found:.2e} (at most {limit:.2e})" + (f", errors {worst:.3f} of llama.cpp's at most" if worst else ""), flush=True)
    return ok


def main():
    outrider, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    results = []
    for name, config in configurations(family_models.vocabulary_size()).items():
        expected = make_model(config, work / name)
        for kind in KINDS:
            limit = tolerance(work / name, expected, kind)
            results.append(check(outrider, work / name, expected, kind, limit))
            results.append(check_flash(outrider, work / name, kind))
    for name, config in family_models.families(window=8, first_context=1024).items():
        # Of a model whose name has "phi3" in it llama.cpp expects tokens that this vocabulary does not have.
        directory = work / name.replace("phi3", "longrope")
        expected = make_model(config, directory)
        # Gemma's activation is a table of halves there.
        limit = 1e-5 if name.startswith("gemma") else TOLERANCE[""]
        results.append(check(outrider, directory, expected, "", limit))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
