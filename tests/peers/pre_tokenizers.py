"""10,000 random strings through every kind of pre-tokenizer, ours and Hugging Face's.

    pre_tokenizers.py OUTRIDER WORK_DIR

The vocabulary is trained without any cuts, so that a cut in another place gives other ids. We read it as a GGUF that names the
pre-tokenizer, and, where published models have those steps, as their tokenizer.json.
"""
import json
import pathlib
import random
import subprocess
import sys

import gguf
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/golden"))
import pre_tokenizers  # noqa: E402
from tokenizer_strings import all_strings  # noqa: E402

STRINGS = 10_000
SEPARATOR = "<|between strings|>"
ATOMS = [*"abcXYZ019 .,!?'/\n\r\t-_$+<=>^`|~()[]{}", "  ", "    ", "\r\n", "'s", "'LL", "123", "ABC", "abc", *"éÉ語かカ한ㅏㄅ١²½ⅣΩяЯกА𝐀ſİ—…，。€😀",
         "\u0301", "\u093f", "\u01c5", "\u02b0", "\u00aa", "\u00a0", "\u3000", "\u2028", "\x85", "\ue000", "\u200d", "\U0001e4d0", "\u0897",
         "<sentinel:", "IMGIMG"]
# What a name implies beside its cuts.
IGNORE_MERGES = {"llama-bpe", "minicpm5", "tekken", "youtu"}
NFC = {"qwen2", "qwen35"}


def random_strings():
    rng = random.Random(19)
    words = [text.decode("utf-8", errors="replace") for text in all_strings() if len(text) < 60]
    some = lambda: rng.choice(words) if rng.random() < 0.15 else rng.choice(ATOMS)
    return ["".join(some() for _ in range(rng.randint(1, 24))) for _ in range(STRINGS)]


def train(strings):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=6000, min_frequency=2, show_progress=False, max_token_length=12,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(strings, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def theirs(name, vocab, merges):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, merges, ignore_merges=name in IGNORE_MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.pre_tokenizer(name)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    if name in NFC:
        tokenizer.normalizer = tokenizers.normalizers.NFC()
    tokenizer.add_special_tokens([tokenizers.AddedToken(SEPARATOR, normalized=False, special=True)])
    return tokenizer


def write_gguf(path, name, vocab, merges):
    writer = gguf.GGUFWriter(path, "llama")
    tokens = sorted(vocab, key=vocab.get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list([*tokens, SEPARATOR])
    writer.add_token_types([gguf.TokenType.NORMAL] * len(tokens) + [gguf.TokenType.CONTROL])
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(len(tokens))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def ids_by_string(ids, separator):
    lists = [[]]
    for token in ids:
        if token == separator:
            lists.append([])
        else:
            lists[-1].append(token)
    return lists


def ours(outrider, path, text):
    said = subprocess.run([outrider, "tokenize", path, "--no-bos"], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
    return list(map(int, said.split()))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    outrider, work = sys.argv[1], pathlib.Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    strings = random_strings()
    text = SEPARATOR.join(strings)
    vocab, merges = train(strings)
    for name in pre_tokenizers.NAMES:
        tokenizer = theirs(name, vocab, merges)
        golden = ids_by_string(tokenizer.encode(text, add_special_tokens=False).ids, len(vocab))
        files = [work / "pre.gguf"]
        write_gguf(files[0], name, vocab, merges)
        if name not in pre_tokenizers.SYNTHETIC:
            files.append(work / "pre.json")
            files[1].write_text(json.dumps(json.loads(tokenizer.to_str()) | {"pre_tokenizer": {
                "type": "Sequence", "pretokenizers": pre_tokenizers.NAMES[name]}}))
        for file in files:
            for string, mine, right in zip(strings, ids_by_string(ours(outrider, file, text), len(vocab)), golden, strict=True):
                if mine != right:
                    sys.exit(f"{name}, {file.suffix}: {string!r} is {mine}, not {right}")
    print(f"{STRINGS} random strings have the ids of Hugging Face's tokenizers with each of {len(pre_tokenizers.NAMES)} pre-tokenizers")


if __name__ == "__main__":
    main()
