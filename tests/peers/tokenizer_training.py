"""A tokenizer trained by us and one trained by Hugging Face's tokenizers on the same text.

    tokenizer_training.py OUTRIDER OUTRIDER_ADAPTERS WORK_DIR [TEXT]

The merges must be the same, one by one, and so must be the ids of the text by our GGUF and by their reader of our
tokenizer.json. TEXT is plain or gzip'd; without one, what lies in tests/data.
"""
import gzip
import json
import pathlib
import subprocess
import sys

import tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENS = 1000
END = "<|endoftext|>"


def read(path):
    data = pathlib.Path(path).read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def their_merges(documents):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=TOKENS, min_frequency=2, special_tokens=[END], initial_alphabet=alphabet,
                                             show_progress=False)
    tokenizer.train_from_iterator(documents, trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [merge if isinstance(merge, list) else merge.split(" ") for merge in merges]


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    outrider, adapters, work = sys.argv[1:4]
    path = sys.argv[4] if len(sys.argv) == 5 else ROOT / "tests/data/text/christmas_angel.txt.gz"
    work = pathlib.Path(work)
    work.mkdir(parents=True, exist_ok=True)
    outs = [work / "tokenizer.json", work / "tokenizer.gguf"]
    subprocess.run([adapters, "train-tokenizer", path, "--tokens", str(TOKENS), *(f"--out={out}" for out in outs)], check=True)

    documents = [document.strip() for document in read(path).split(END) if document.strip()]
    ours = json.loads(outs[0].read_text())["model"]["merges"]
    theirs = their_merges(documents)
    if ours != theirs:
        at = next((i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
        sys.exit(f"merge {at} differs: {ours[at:at + 1]} is {theirs[at:at + 1]} there")
    reader = tokenizers.Tokenizer.from_file(str(outs[0]))
    for document in documents:
        said = subprocess.run([outrider, "tokenize", outs[1]], input=document.encode(), stdout=subprocess.PIPE, check=True).stdout
        if list(map(int, said.split())) != reader.encode(document).ids:
            sys.exit(f"a document has other ids: {document[:60]!r}")
    print(f"{len(ours)} merges and the ids of {len(documents)} documents are those of Hugging Face's tokenizers")


if __name__ == "__main__":
    main()
