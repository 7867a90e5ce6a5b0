"""Golden token ids: what Hugging Face tokenizers makes of some 2,800 strings, per tokenizer family.

    python tests/golden/tokenizer_ids.py EXTERNAL_DATA tests/data/tokenizers

Made with: pip tokenizers 0.23.3, tiktoken 0.14.0, protobuf and sentencepiece 0.2.3 (for the .proto).

EXTERNAL_DATA holds the vocabularies (see tests/data/SOURCES.md; those whose licence lets us are
copied beside the output). Written:
    strings.bin    repeated [varint byte length, bytes]; not all of them are UTF-8
    FAMILY.ids     for each string in order [varint count, varint ids]; no bos, no eos
    t5.json        the unigram tokenizer.json that t5.ids was made with
Varints are LEB128. A string that is no UTF-8 is read with errors="replace", as transformers does.
"""

import json
import pathlib
import sys

import tiktoken
from tokenizer_strings import all_strings, varint
from tiktoken.load import load_tiktoken_bpe
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram

from sentencepiece import sentencepiece_model_pb2

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CONTROL, USER_DEFINED = 3, 4  # of sentencepiece_model.proto


def special(text):
    return AddedToken(text, normalized=False, special=True)


def gpt2(data):
    tokenizer = Tokenizer(BPE.from_file(str(data / "gpt2/vocab.json"), str(data / "gpt2/merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([special("<|endoftext|>")])
    return tokenizer


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


def qwen2(data):
    tokenizer = Tokenizer(BPE.from_file(str(data / "qwen2.5/vocab.json"), str(data / "qwen2.5/merges.txt")))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = split_then_bytes(QWEN2)
    config = json.loads((data / "qwen2.5/tokenizer_config.json").read_text())
    for token_id, token in sorted(config["added_tokens_decoder"].items(), key=lambda item: int(item[0])):
        tokenizer.add_tokens([AddedToken(**token)])
        assert tokenizer.token_to_id(token["content"]) == int(token_id)
    return tokenizer


def bytes_to_characters():
    """GPT-2's printable alphabet, by byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [b for b in range(256) if b not in kept]
    return {b: chr(b) for b in kept} | {b: chr(256 + i) for i, b in enumerate(moved)}


def llama3_specials():
    names = ["begin_of_text", "end_of_text", "reserved_special_token_0", "reserved_special_token_1",
             "finetune_right_pad_id", "step_id", "start_header_id", "end_header_id", "eom_id", "eot_id", "python_tag", "image"]
    names += [f"reserved_special_token_{i}" for i in range(2, 2 + 256 - len(names))]
    return [f"<|{name}|>" for name in names]


def llama3(data):
    """Meta's file has ranks only. Every split of a token into two tokens is a merge of that rank."""
    ranks = load_tiktoken_bpe(str(data / "llama3/tokenizer.model"))
    alphabet = bytes_to_characters()
    spell = lambda token: "".join(alphabet[b] for b in token)
    merges = []
    for token, rank in ranks.items():
        splits = [(token[:i], token[i:]) for i in range(1, len(token))]
        splits = [(a, b) for a, b in splits if a in ranks and b in ranks]
        merges += [(rank, ranks[a], ranks[b], spell(a), spell(b)) for a, b in splits]
    merges = [(a, b) for _, _, _, a, b in sorted(merges)]
    tokenizer = Tokenizer(BPE({spell(t): r for t, r in ranks.items()}, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = split_then_bytes(LLAMA3)
    names = llama3_specials()
    tokenizer.add_special_tokens([special(name) for name in names])
    reference = tiktoken.Encoding("llama3", pat_str=LLAMA3, mergeable_ranks=ranks,
                                  special_tokens={name: 128000 + i for i, name in enumerate(names)})
    for raw in all_strings():
        text = raw.decode("utf-8", errors="replace")
        ours = tokenizer.encode(text, add_special_tokens=False).ids
        assert ours == reference.encode(text, allowed_special="all"), text
    return tokenizer


def gpt_neox(data):
    return Tokenizer.from_file(str(data / "gpt-neox-20b/tokenizer.json"))


def read_sentencepiece(path):
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(path.read_bytes())
    return model


def add_pieces(tokenizer, model):
    """Control pieces and <unk> are found in text as special tokens, user-defined ones as ordinary."""
    for piece in model.pieces:
        if piece.type in (2, CONTROL, USER_DEFINED):
            tokenizer.add_tokens([AddedToken(piece.piece, normalized=False, special=piece.type != USER_DEFINED)])


def llama2(data):
    model = read_sentencepiece(data / "llama2/tokenizer.model")
    vocab = {piece.piece: i for i, piece in enumerate(model.pieces)}
    merges = []
    for piece in model.pieces:
        splits = [(piece.piece[:i], piece.piece[i:]) for i in range(1, len(piece.piece))]
        splits = sorted(((a, b) for a, b in splits if a in vocab and b in vocab), key=lambda ab: (vocab[ab[0]], vocab[ab[1]]))
        if piece.type == 1:
            merges += [(piece.score, a, b) for a, b in splits]
    merges = [(a, b) for _, a, b in sorted(merges, key=lambda m: -m[0])]
    tokenizer = Tokenizer(BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    add_pieces(tokenizer, model)
    return tokenizer


def t5(data):
    model = read_sentencepiece(data / "sentencepiece/test_model.model")
    tokenizer = Tokenizer(Unigram([(p.piece, p.score) for p in model.pieces], unk_id=model.trainer_spec.unk_id))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap),
        normalizers.Strip(left=False, right=True),
        normalizers.Replace(Regex(" {2,}"), "▁"),
    ])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", model.trainer_spec.eos_id)])
    add_pieces(tokenizer, model)
    return tokenizer


def main():
    data, out = pathlib.Path(sys.argv[1]) / "tokenizers", pathlib.Path(sys.argv[2])
    strings = all_strings()
    (out / "strings.bin").write_bytes(b"".join(varint(len(s)) + s for s in strings))
    print(f"{len(strings)} strings, {sum(map(len, strings))} bytes")
    for make in (gpt2, llama2, llama3, qwen2, gpt_neox, t5):
        family = make.__name__
        tokenizer = make(data)
        encoded = [tokenizer.encode(s.decode("utf-8", errors="replace"), add_special_tokens=False).ids for s in strings]
        (out / f"{family}.ids").write_bytes(b"".join(varint(len(ids)) + b"".join(map(varint, ids)) for ids in encoded))
        print(f"{family}: {sum(map(len, encoded))} ids")
        if family == "t5":
            (out / "t5.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main()
