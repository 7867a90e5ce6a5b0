"""The texts that we and llama.cpp write greedily after the same prompts, from the same F16 file.

    greedy_texts.py OUTRIDER TOOLS_DIR MODEL WORK_DIR [TEXT]

50 prompts are cut out of TEXT (tests/data's when absent), 64 tokens are written after each. The two round differently, so where
two tokens are all but equally likely they may part; at least 45 texts must be the same. For each that is not, the place is
shown, and how far our logits of the two tokens lie apart there. Closes with "N passed, N failed".
"""
import gzip
import pathlib
import subprocess
import sys

import llama_cpp
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPTS = 50
PROMPT_WORDS = 12
TOKENS = 64
SAME_MIN = 45


def prompts_of(path):
    """Beginnings of sentences, evenly spread."""
    text = gzip.decompress(pathlib.Path(path).read_bytes()).decode().replace("\n", " ")
    words = text.split()
    begins = [i + 1 for i, word in enumerate(words[: -PROMPT_WORDS - 1]) if word.endswith(".") and words[i + 1][0].isupper()]
    chosen = [begins[len(begins) * i // PROMPTS] for i in range(PROMPTS)]
    return [" ".join(words[begin : begin + PROMPT_WORDS]) for begin in chosen]


def ours(outrider, model, prompt):
    command = [outrider, "run", "--model", model, "--prompt", prompt, "--max-tokens", str(TOKENS), "--temperature", "0"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()


def lead(tools, model, work, tokens, chosen, other):
    """Of one token over the other after `tokens`, in our logits."""
    out = work / "logits.f32"
    subprocess.run([tools / "logits", model, "best", out, *map(str, tokens)], check=True, stdout=subprocess.DEVNULL)
    last = np.fromfile(out, dtype=np.float32).reshape(len(tokens), -1)[-1]
    return last[chosen] - last[other]


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    outrider, tools, model, work = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4])
    work.mkdir(parents=True, exist_ok=True)
    path = sys.argv[5] if len(sys.argv) == 6 else ROOT / "tests/data/text/christmas_angel.txt.gz"
    peer = llama_cpp.Llama(model, n_ctx=512, verbose=False)
    same = 0
    for prompt in prompts_of(path):
        mine = ours(outrider, model, prompt).removesuffix("\n")  # which ends every run
        theirs = peer.create_completion(prompt, max_tokens=TOKENS, temperature=0)["choices"][0]["text"]
        if mine == theirs:
            same += 1
            continue
        tokens = [peer.tokenize((prompt + text).encode()) for text in (mine, theirs)]
        at = next((i for i, (a, b) in enumerate(zip(*tokens)) if a != b), None)
        if at is None:
            print(f"one goes on where the other ends: {prompt!r}")
            continue
        distance = lead(tools, model, work, tokens[0][:at], tokens[0][at], tokens[1][at])
        print(f"parted after {at} tokens, where the logits are {distance:.4f} apart: {prompt!r}")
    good = same >= SAME_MIN
    print(f"{'ok  ' if good else 'FAIL'} {same} of {PROMPTS} texts of {TOKENS} tokens are the same")
    print(f"{int(good)} passed, {int(not good)} failed")
    return not good


sys.exit(main())
