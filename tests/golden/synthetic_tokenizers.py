"""Small tokenizers of the kinds whose published vocabularies may not be copied here, and what their own libraries make of our strings.

    python tests/golden/synthetic_tokenizers.py tests/data

Made with: pip tokenizers 0.23.3, sentencepiece 0.2.3, tiktoken 0.14.0, gguf 0.19.0. Trained on text/christmas_angel.txt.gz and on our
strings, so that few characters are unknown. Written to tokenizers/synthetic, each with NAME.ids in the form of tokenizer_ids.py, for
the strings that pre_tokenizers.py takes:
    llama2.model    SentencePiece BPE with byte fallback and a space in front: sentencepiece's ids
    gemma.model     the same without the space, with user-defined tokens (runs of newlines and spaces, turns): sentencepiece's
    gemma.json      its kind of tokenizer.json: tokenizers'
    phi3.json, phi3.gguf    Llama 2's kind with special tokens that take the white space behind them: tokenizers'
    gemma4.gguf     merges of characters, listed: tokenizers'
    llama3.model    tiktoken's ranks: tiktoken's
"""
import base64
import gzip
import io
import json
import pathlib
import sys

import gguf
import sentencepiece
import tiktoken
from pre_tokenizers import cut_strings, varint, words
from tokenizer_ids import bytes_to_characters, llama3_specials
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE

TOKENS = 1500
TURNS = ["<start_of_turn>", "<end_of_turn>"]
RUNS = ["\n\n", "\n\n\n", "  ", "    ", "\t\t"]


def training_text(data):
    story = gzip.decompress((data / "text/christmas_angel.txt.gz").read_bytes()).decode()
    return story.splitlines() + [text for text in cut_strings() if "\0" not in text]


def train_sentencepiece(data, path, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(training_text(data)), model_writer=model, model_type="bpe", vocab_size=TOKENS, byte_fallback=True,
        character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        allow_whitespace_only_pieces=True, minloglevel=2, **options)
    path.write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def train_characters(data, added):
    """Merges over characters with U+2581 for spaces, bytes as a fallback; <unk> is one of `added`."""
    trainer = trainers.BpeTrainer(vocab_size=TOKENS, show_progress=False, limit_alphabet=200,
                                  special_tokens=[*(token.content for token in added), *(f"<0x{b:02X}>" for b in range(256))])
    tokenizer = Tokenizer(BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.train_from_iterator(training_text(data), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    made = Tokenizer(BPE(model["vocab"], [tuple(m) for m in model["merges"]], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    for token in added:
        made.add_tokens([token])
    return made


def gemma(data):
    added = [AddedToken(text, normalized=False, special=True) for text in ("<pad>", "<eos>", "<bos>", "<unk>", *TURNS)]
    added += [AddedToken(text, normalized=False, special=False) for text in RUNS]
    tokenizer = train_characters(data, added)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def phi3(data):
    narrow = [AddedToken(text, normalized=False, special=True) for text in ("<unk>", "<s>", "<|endoftext|>")]
    wide = [AddedToken(text, normalized=False, special=True, rstrip=True) for text in ("</s>", "<|user|>", "<|end|>", "<|im_end|>")]
    tokenizer = train_characters(data, narrow + wide)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def write_gguf(path, architecture, model, tokenizer, specials):
    """As llama.cpp's converter does; with scores where it has no word for merges."""
    description = json.loads(tokenizer.to_str())
    vocab = description["model"]["vocab"]
    added = {token["id"]: token for token in description["added_tokens"]}
    texts = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    ranks = {}
    for rank, (left, right) in enumerate(description["model"]["merges"]):
        ranks.setdefault(left + right, -1.0 - rank)
    kind = lambda i, text: (gguf.TokenType.BYTE if text.startswith("<0x") and len(text) == 6 else
                            gguf.TokenType.UNKNOWN if text == "<unk>" else
                            gguf.TokenType.NORMAL if i not in added else
                            gguf.TokenType.CONTROL if added[i]["special"] else gguf.TokenType.USER_DEFINED)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre("default")
    writer.add_token_list(texts)
    writer.add_token_scores([ranks.get(text, 0.0) for text in texts])
    writer.add_token_types([kind(i, text) for i, text in enumerate(texts)])
    if model == "gemma4":
        writer.add_token_merges([" ".join(merge) for merge in description["model"]["merges"]])
    for role, text in specials.items():
        getattr(writer, f"add_{role}_token_id")(vocab.get(text, 0))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def llama3(data, path):
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(training_text(data), trainers.BpeTrainer(
        vocab_size=TOKENS, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    bytes_of = {character: bytes([byte]) for byte, character in bytes_to_characters().items()}
    ranks = {b"".join(bytes_of[c] for c in text): rank for text, rank in tokenizer.get_vocab().items()}
    lines = [base64.b64encode(token) + b" %d\n" % rank for token, rank in sorted(ranks.items(), key=lambda item: item[1])]
    path.write_bytes(b"".join(lines))
    return tiktoken.Encoding("llama3", pat_str=words(r"\p{N}{1,3}"), mergeable_ranks=ranks,
                             special_tokens={name: len(ranks) + i for i, name in enumerate(llama3_specials())})


def main():
    data = pathlib.Path(sys.argv[1])
    out = data / "tokenizers/synthetic"
    out.mkdir(exist_ok=True)
    llama2_model = train_sentencepiece(data, out / "llama2.model")
    gemma_model = train_sentencepiece(data, out / "gemma.model", add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3,
                                      user_defined_symbols=[text.replace(" ", "▁") for text in RUNS] + TURNS)
    gemma_json, phi3_json = gemma(data), phi3(data)
    for name, tokenizer in (("gemma", gemma_json), ("phi3", phi3_json)):
        (out / f"{name}.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")))
    write_gguf(out / "phi3.gguf", "phi3", "llama", phi3_json, {"bos": "<s>", "eos": "</s>", "unk": "<unk>"})
    write_gguf(out / "gemma4.gguf", "gemma4", "gemma4", gemma_json, {"bos": "<bos>", "eos": "<eos>", "unk": "<unk>"})
    llama3_model = llama3(data, out / "llama3.model")
    encoders = {
        "llama2": llama2_model.encode,
        "gemma_model": gemma_model.encode,
        "gemma": lambda text: gemma_json.encode(text, add_special_tokens=False).ids,
        "phi3": lambda text: phi3_json.encode(text, add_special_tokens=False).ids,
        "llama3": lambda text: llama3_model.encode(text, allowed_special="all"),
    }
    for name, encode in encoders.items():
        encoded = [encode(text) for text in cut_strings()]
        (out / f"{name}.ids").write_bytes(b"".join(varint(len(ids)) + b"".join(map(varint, ids)) for ids in encoded))
        print(f"{name}: {sum(map(len, encoded))} ids")


if __name__ == "__main__":
    main()
