"""Our logits against llama.cpp's, on the same quantised files of a random model of the 100M class and of one with experts
(1.1 billion weights, of which a token meets a quarter).

    logits.py TOOLS_DIR WORK_DIR

The two quantise activations in different ways, so their logits differ by about as much as quantisation itself costs. What
must hold is that this changes no decision that is not a near tie: wherever the best logit leads the second by more than
three times the distance of the two programs' logits (root mean square over all of them), both must choose the same token, in
at least 99.5 % of those positions. (A lead of twice the distance is 1.4 deviations of what it is compared with: chance alone
takes away one in twelve of those that are just as large.) And the distance must be that of two roundings, at most 3 % of the
logits' deviation: a model that leaves out one of eight experts is 4 % off. Closes with "N passed, N failed".
"""
import ctypes
import pathlib
import subprocess
import sys

import llama_cpp
import numpy as np

FILES = [("100m", "q8_0"), ("100m", "q4_0"), ("100m", "q4_k"), ("100m", "q5_0"), ("100m", "q5_k"), ("100m", "q4_1"),
         ("100m", "q5_1"), ("100m", "q6_k"), ("100m", "iq4_nl"), ("100m", "iq4_xs"), ("moe-1b", "q4_0"), ("moe-1b", "q4_k"),
         ("100m", "q2_k"), ("100m", "q3_k"), ("100m", "iq3_s"), ("100m", "tq2_0"), ("moe-1b", "mxfp4")]
# Of the types that we read and do not write, llama.cpp makes files of ours: the mixes that it gives these names.
MADE_BY_LLAMA_CPP = {"q2_k": llama_cpp.LLAMA_FTYPE_MOSTLY_Q2_K, "q3_k": llama_cpp.LLAMA_FTYPE_MOSTLY_Q3_K_M,
                     "iq3_s": llama_cpp.LLAMA_FTYPE_MOSTLY_IQ3_S,
                     "tq2_0": llama_cpp.LLAMA_FTYPE_MOSTLY_TQ2_0, "mxfp4": llama_cpp.LLAMA_FTYPE_MOSTLY_MXFP4_MOE}
TEXTS = 16  # far down a text of random tokens all positions are decided alike: several are more than one decision
TEXT_TOKENS = 125
LEAD_MIN = 3  # distances
AGREEMENT_MIN = 0.995
CLEAR_MIN = 0.05  # of all positions: a comparison with hardly a clear one would show nothing
DISTANCE_MAX = 0.03


def write_model(tools, shape, kind, path):
    if kind not in MADE_BY_LLAMA_CPP:
        subprocess.run([tools / "random_model", shape, kind, path], check=True)
        return
    plain = path.with_suffix(".plain.gguf")
    subprocess.run([tools / "random_model", shape, "f16", plain], check=True)
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = MADE_BY_LLAMA_CPP[kind]
    failed = llama_cpp.llama_model_quantize(str(plain).encode(), str(path).encode(), ctypes.byref(options))
    plain.unlink()
    if failed:
        raise RuntimeError(f"llama.cpp could not write {path}")


def llama_cpp_logits(path, texts):
    model = llama_cpp.Llama(str(path), n_ctx=TEXT_TOKENS, n_batch=TEXT_TOKENS, logits_all=True, verbose=False)
    logits = []
    for tokens in texts:
        model.reset()
        model.eval(tokens)
        logits.append(np.array(model.scores[:len(tokens)]))
    return np.concatenate(logits)


def our_logits(tools, path, isa, texts, work):
    out = work / "logits.f32"
    logits = []
    for tokens in texts:
        subprocess.run([tools / "logits", path, isa, out] + [str(token) for token in tokens], check=True,
                       stdout=subprocess.DEVNULL)
        logits.append(np.fromfile(out, dtype=np.float32).reshape(len(tokens), -1))
    return np.concatenate(logits)


def main():
    tools, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    passed = failed = 0
    for shape, kind in FILES:
        path = work / f"random-{shape}-{kind}.gguf"
        write_model(tools, shape, kind, path)
        texts = [[1] + random.integers(300, 16000, TEXT_TOKENS - 1).tolist() for _ in range(TEXTS)]
        theirs = llama_cpp_logits(path, texts)
        ours = our_logits(tools, path, "best", texts, work)
        distance = np.sqrt(np.mean((ours - theirs) ** 2, dtype=np.float64))
        top = np.sort(theirs, axis=1)
        clear = top[:, -1] - top[:, -2] > LEAD_MIN * distance
        same = ours.argmax(axis=1) == theirs.argmax(axis=1)
        agreement = same[clear].mean()
        good = bool(clear.mean() >= CLEAR_MIN and agreement >= AGREEMENT_MIN and distance <= DISTANCE_MAX * theirs.std())
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {shape} {kind}: same token at {agreement:.2%} of {clear.sum()} clear positions of "
              f"{len(clear)} ({same.mean():.1%} of all); distance {distance:.4f}, logits' deviation {theirs.std():.3f}")
        path.unlink()
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
