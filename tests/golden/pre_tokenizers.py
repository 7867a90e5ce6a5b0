"""What Hugging Face's tokenizers cuts our strings into, for every kind of pre-tokenizer.

    python tests/golden/pre_tokenizers.py tests/data/tokenizers

Made with: pip tokenizers 0.23.3. Written, for each value of tokenizer.ggml.pre in NAMES:
    pre_tokenizers.jsonl    a line: {"name": ..., "pre_tokenizer": as a tokenizer.json spells it}
    cuts/NAME.cuts          for every third string of strings.bin of at most 400 bytes: [varint pieces, varint bytes of each]

tests/peers/pre_tokenizers.py has the same steps in use on random strings.
"""

import json
import pathlib
import sys

from tokenizers import Regex, pre_tokenizers
from tokenizer_strings import all_strings, varint

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LEAD = r"[^\r\n\p{L}\p{N}]?"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def words(number, tail=r"[\r\n]*", spaces=SPACES):
    return rf"{CONTRACTIONS}|{LEAD}\p{{L}}+|{number}| ?[^\s\p{{L}}\p{{N}}]+{tail}|{spaces}"


def cased(number, contractions, tail=r"[\r\n/]*", but=""):
    upper, lower = rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{but}]", rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{but}]"
    end = CONTRACTIONS + "?" if contractions else ""
    return f"{LEAD}{upper}*{lower}+{end}|{LEAD}{upper}+{lower}*{end}|{number}| ?" + rf"[^\s\p{{L}}\p{{N}}]+{tail}|{SPACES}"


def deepseek(end, newline="\r\n"):
    word = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^" + newline + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"
    return word.replace('\\"', '"') + end


DEEPSEEK_V3 = deepseek("[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
LETTERS = "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
POWERS = "|".join(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4))
HAN_AND_KANA = "[一-龥぀-ゟ゠-ヿ]+"
IDEOGRAPHS = "[一-龥ࠀ-一가-퟿]+"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
WORDS = BYTES | {"use_regex": True}
SINGLE = {"type": "Digits", "individual_digits": True}


def split(expression, behavior="Isolated"):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": behavior, "invert": behavior == "Removed"}


# Those in SYNTHETIC no published tokenizer.json has in this form: llama.cpp's own expressions, one Split each.
NAMES = {
    "gpt-2": [WORDS],
    "llama-bpe": [split(words(r"\p{N}{1,3}")), BYTES],
    "dbrx": [split(words(r"\p{N}{1,3}"), "Removed"), BYTES],
    "minicpm5": [split(r"\p{N}{1,3}"), split(words(r"\p{N}+")), BYTES],
    "qwen2": [split(words(r"\p{N}")), BYTES],
    "bailingmoe": [split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"), BYTES],
    "qwen35": [split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES), BYTES],
    "smollm": [SINGLE, WORDS],
    "tekken": [split(cased(r"\p{N}", False)), BYTES],
    "gpt-4o": [split(cased(r"\p{N}{1,3}", True)), BYTES],
    "falcon": [{"type": "Punctuation", "behavior": "Contiguous"}, WORDS, SINGLE | {"individual_digits": False}, split("[0-9][0-9][0-9]")],
    "bloom": [split(BLOOM), BYTES],
    "viking": [split(BLOOM), SINGLE, BYTES],
    "deepseek-llm": [split("[\r\n]"), split(rf"\s?[{LETTERS}]+"), split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"),
                     split(IDEOGRAPHS), SINGLE, BYTES],
    "deepseek-coder": [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(IDEOGRAPHS), SINGLE, BYTES],
    "deepseek-v3": [split(r"\p{N}{1,3}"), split(HAN_AND_KANA), split(DEEPSEEK_V3), BYTES],
    "spark2_5": [split(r"\p{N}{1,3}"), split(HAN_AND_KANA), split(deepseek("|[\r\n]|\\s+(?!\\S)|\\s+")), SINGLE, BYTES],
    "youtu": [split("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"), split(cased(r"\p{N}", True)), BYTES],
    "kimi-k2": [split(r"[\p{Han}]+|" + cased(r"\p{N}{1,3}", True, r"[\r\n]*", r"&&[^\p{Han}]")), BYTES],
    "tiny_aya": [split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(cased(r"\p{N}{1,3}", True)), BYTES],
    "superbpe": [split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))"), BYTES],
    "laguna": [split(r"(?:\r?\n)+(?!\r?\n)", "MergedWithNext"), split(words(r"\p{N}")), BYTES],
    "seed-coder": [split(CONTRACTIONS + "|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"), BYTES],
    "ufakzeka": [split(rf"{LEAD}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}"), BYTES],
    "exaone-moe": [split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?"
                         r"|\s*[\r\n]|\s+(?!\S)|\s+"), BYTES],
    "jais-2": [split(words(r"\p{N}{1,3}", spaces=rf"\s*[\r\n]+|{POWERS}|\s{{1,2}}(?!\S)|\s{{1}}")), BYTES],
    "default": [split(r"[\p{P}\$\+<=>\^~\|]+"), split(GPT2), split(r"\p{N}+"), split("[0-9][0-9][0-9]"), BYTES],
    "afmoe": [split(r"\d{1,3}(?=(?:\d{3})*(?!\d))"),
              split("[一-鿿㐀-䶿\uf900-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"),
              split(deepseek(r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+", r"\r\n")), BYTES],
    "chameleon": [split("<sentinel:[0-9]+>"), split("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"), split("([\\t\\n]|    |  )"), SINGLE,
                  split(r"[\p{P}!-/:-@\[-`{-~]"), WORDS],
}
SYNTHETIC = {"default", "afmoe", "chameleon"}


def step(description):
    """The step that a tokenizer.json describes so."""
    made = dict(description)
    kind = made.pop("type")
    if kind == "Split":
        behavior = {"Isolated": "isolated", "Removed": "removed", "MergedWithNext": "merged_with_next"}[made["behavior"]]
        return pre_tokenizers.Split(Regex(made["pattern"]["Regex"]), behavior, made["invert"])
    if kind == "Punctuation":
        return pre_tokenizers.Punctuation("contiguous")
    made.pop("trim_offsets", None)
    return getattr(pre_tokenizers, kind)(**made)


def pre_tokenizer(name):
    return pre_tokenizers.Sequence([step(description) for description in NAMES[name]])


def cut_strings():
    strings = [raw.decode("utf-8", errors="replace") for raw in all_strings()]
    return [text for i, text in enumerate(strings) if i % 3 == 0 and len(strings[i].encode()) <= 400]


def main():
    out = pathlib.Path(sys.argv[1])
    (out / "cuts").mkdir(exist_ok=True)
    lines = []
    for name, steps in NAMES.items():
        lines.append({"name": name, "published": name not in SYNTHETIC,
                      "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}})
        cutter = pre_tokenizer(name)
        # After a ByteLevel a piece has a character for each byte.
        cuts = [[len(piece) for piece, _ in cutter.pre_tokenize_str(text)] for text in cut_strings()]
        assert all(sum(lengths) == len(text.encode()) for lengths, text in zip(cuts, cut_strings())), name
        (out / f"cuts/{name}.cuts").write_bytes(b"".join(varint(len(c)) + b"".join(map(varint, c)) for c in cuts))
        print(f"{name}: {sum(map(len, cuts))} pieces of {len(cuts)} strings")
    (out / "pre_tokenizers.jsonl").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


if __name__ == "__main__":
    main()
