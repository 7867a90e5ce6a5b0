"""Our logits against llama.cpp's, on the same quantised files of a random model of the 100M class and of one with experts
(1.1 billion weights, of which a token meets a quarter).

    logits.py TOOLS_DIR WORK_DIR

The two quantise activations in different ways, so their logits differ by about as much as quantisation itself costs. What
must hold is that this changes no decision that is not a near tie: wherever the best logit leads the second by more than
twice the distance of the two programs' logits (root mean square over all of them), both must choose the same token, in at
least 99 % of those positions. Closes with "N passed, N failed".
"""
import pathlib
import subprocess
import sys

import llama_cpp
import numpy as np

FILES = [("100m", "q8_0"), ("100m", "q4_0"), ("100m", "q4_k"), ("moe-1b", "q4_0"), ("moe-1b", "q4_k")]
TOKEN_COUNT = 2000
AGREEMENT_MIN = 0.99


def llama_cpp_logits(path, tokens):
    model = llama_cpp.Llama(str(path), n_ctx=len(tokens), n_batch=len(tokens), n_ubatch=512, logits_all=True, verbose=False)
    model.eval(tokens)
    return np.array(model.scores[:len(tokens)], dtype=np.float64)


def our_logits(tools, path, isa, tokens, work):
    out = work / "logits.f32"
    subprocess.run([tools / "logits", path, isa, out] + [str(token) for token in tokens], check=True,
                   stdout=subprocess.DEVNULL)
    return np.fromfile(out, dtype=np.float32).reshape(len(tokens), -1).astype(np.float64)


def main():
    tools, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    passed = failed = 0
    for shape, kind in FILES:
        path = work / f"random-{shape}-{kind}.gguf"
        subprocess.run([tools / "random_model", shape, kind, path], check=True)
        tokens = [1] + random.integers(300, 16000, TOKEN_COUNT - 1).tolist()
        theirs = llama_cpp_logits(path, tokens)
        ours = our_logits(tools, path, "best", tokens, work)
        distance = np.sqrt(np.mean((ours - theirs) ** 2))
        top = np.sort(theirs, axis=1)
        clear = top[:, -1] - top[:, -2] > 2 * distance
        same = ours.argmax(axis=1) == theirs.argmax(axis=1)
        agreement = same[clear].mean()
        # A comparison with hardly a clear position would show nothing.
        good = bool(clear.sum() >= TOKEN_COUNT // 10 and agreement >= AGREEMENT_MIN)
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {shape} {kind}: same token at {agreement:.2%} of {clear.sum()} clear positions of "
              f"{TOKEN_COUNT} ({same.mean():.1%} of all); distance {distance:.4f}, logits' deviation {theirs.std():.3f}")
        path.unlink()
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
