"""Every family, made by transformers with random weights: our logits and greedy text against theirs, and a directory against
the GGUF file that is made of it.

    families.py OUTRIDER TOOLS_DIR WORK_DIR

Texts are a few times as long as the windows of layers that have one, and lie on both sides of where Phi's factors change.
After each prompt transformers writes 64 tokens greedily, in float32 and with keys and values rounded to halves, as our cache
has them. Ours reads the directory, is given all tokens at once and must give, for each, the next token of the greedy text, but where the best
two of theirs are too close to tell, and logits within 1e-4 of theirs (norm of the difference over norm): at half of the tokens at
least. At others a sum in another order may have turned a half over, at the edge between two: there it is twice what becomes of theirs
when keys and values wobble by a millionth before they are rounded. `outrider convert` makes a GGUF file of the directory; from it the logits must be the same to the bit.
Closes with "N passed, N failed".
"""
import pathlib
import subprocess
import sys

import numpy as np
import torch
import transformers

import family_models

PROMPT_TOKENS = 300
GREEDY_TOKENS = 64
WINDOW = 40
FIRST_CONTEXT = 256  # of Phi
TOLERANCE = 1e-4
WOBBLE = 1e-6  # of keys and values: what the order of sums changes in a float


class HalfCache(transformers.DynamicCache):
    """Keys and values as halves, of what wobbles or not."""

    def __init__(self, wobble=0.0):
        super().__init__()
        self.wobble, self.random = wobble, torch.Generator().manual_seed(3)

    def rounded(self, rows):
        return (rows * (1 + self.wobble * torch.randn(rows.shape, generator=self.random))).half().float()

    def update(self, keys, values, *rest, **options):
        return super().update(self.rounded(keys), self.rounded(values), *rest, **options)


def cases():
    """By name: a configuration and how many tokens its prompt has."""
    t = transformers
    configs = family_models.families(WINDOW, FIRST_CONTEXT)
    vocabulary = configs["olmo2"].vocab_size
    shared = dict(vocab_size=vocabulary, bos_token_id=0, eos_token_id=1, pad_token_id=0, hidden_size=256, intermediate_size=512,
                  num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=4096)
    three, four = (dict(shared, num_hidden_layers=count) for count in (3, 4))
    llama3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=128)
    yarn = dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=128)
    windows = ["sliding_attention"] * 3 + ["full_attention"]
    configs |= {
        "smollm2": t.LlamaConfig(**three, tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1e5)),
        "llama3": t.LlamaConfig(**three, tie_word_embeddings=True, rope_parameters=llama3),
        "falcon3": t.LlamaConfig(**three, head_dim=64, tie_word_embeddings=False),
        "nemo": t.MistralConfig(**three, head_dim=48, sliding_window=None),
        "mistral": t.MistralConfig(**three, sliding_window=WINDOW),
        "ministral": t.MinistralConfig(**three, head_dim=32, sliding_window=WINDOW),
        "mixtral": t.MixtralConfig(**three, num_local_experts=4, num_experts_per_tok=2),
        "qwen2": t.Qwen2Config(**three, tie_word_embeddings=True, rope_parameters=yarn),
        "qwen3": t.Qwen3Config(**three, head_dim=48, tie_word_embeddings=True),
        "olmoe": t.OlmoeConfig(**three, num_experts=8, num_experts_per_tok=2),
        "gpt2": t.GPT2Config(vocab_size=vocabulary, bos_token_id=0, eos_token_id=1, n_embd=256, n_layer=3, n_head=8, n_positions=512),
        "qwen3_moe": t.Qwen3MoeConfig(**three, head_dim=32, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=128),
        "gpt_oss": t.GptOssConfig(**four, head_dim=32, sliding_window=WINDOW, num_local_experts=6, num_experts_per_tok=2,
                                  rope_parameters=dict(yarn, truncate=False)),
        "exaone4_windows": t.Exaone4Config(**four, head_dim=32, sliding_window=WINDOW, layer_types=windows,
                                           rope_parameters=llama3),
    }
    made = {name: (config, PROMPT_TOKENS) for name, config in configs.items()}
    made["phi3_short"] = (configs["phi3"], FIRST_CONTEXT - GREEDY_TOKENS - 1)
    return made


def read(model, tokens, cache):
    with torch.no_grad():
        return model(torch.tensor([tokens]), past_key_values=cache, use_cache=True).logits[0].numpy()


def greedy(model, prompt):
    """The prompt and what transformers writes after it."""
    tokens, cache, given = list(prompt), HalfCache(), list(prompt)
    for _ in range(GREEDY_TOKENS):
        tokens.append(int(read(model, given, cache)[-1].argmax()))
        given = tokens[-1:]
    return tokens


def ours(tools, model, tokens, work):
    out = work / "logits.f32"
    subprocess.run([tools / "logits", model, "best", out, *map(str, tokens)], check=True, stdout=subprocess.DEVNULL)
    return np.fromfile(out, dtype=np.float32).reshape(len(tokens), -1)


def distances(mine, theirs):
    return np.linalg.norm(mine - theirs, axis=1) / np.linalg.norm(theirs, axis=1)


def greedy_tokens_missed(theirs, mine, tokens):
    """At how many places of the greedy text ours would have gone on otherwise, close calls left out."""
    missed = 0
    for at in range(len(tokens) - GREEDY_TOKENS - 1, len(tokens) - 1):
        best, second = np.sort(theirs[at])[:-3:-1]
        close = best - second < 2 * TOLERANCE * np.linalg.norm(theirs[at])
        missed += mine[at].argmax() != tokens[at + 1] and not close
    return missed


def check(outrider, tools, name, config, prompt_tokens, work):
    directory, converted = work / name, work / f"{name}.gguf"
    model = family_models.make_model(config, directory)
    prompt = np.random.default_rng(11).integers(2, config.vocab_size, prompt_tokens).tolist()
    tokens = greedy(model, prompt)
    theirs = read(model, tokens, HalfCache())
    mine = ours(tools, directory, tokens, work)
    distance = distances(mine, theirs)
    bound = max(TOLERANCE, 2 * distances(read(model, tokens, HalfCache(WOBBLE)), theirs).max())
    missed = greedy_tokens_missed(theirs, mine, tokens)
    subprocess.run([outrider, "convert", directory, "--out", converted], check=True, stdout=subprocess.DEVNULL)
    same = ours(tools, converted, tokens, work).tobytes() == mine.tobytes()
    half, most = np.median(distance), distance.max()
    good = bool(half <= TOLERANCE and most <= bound and missed == 0 and same)
    print(f"{'ok  ' if good else 'FAIL'} {name:16} {len(tokens)} tokens, logits {half:.1e} off and {most:.1e} at most (of {bound:.1e}), "
          f"{GREEDY_TOKENS - missed} of {GREEDY_TOKENS} greedy tokens, {len(set(tokens[-GREEDY_TOKENS:]))} different; "
          f"converted: {'the same bits' if same else 'OTHER BITS'}", flush=True)
    return good


def main():
    outrider, tools, work = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]) / "families"
    transformers.logging.set_verbosity_error()
    work.mkdir(parents=True, exist_ok=True)
    results = [check(outrider, tools, name, config, count, work) for name, (config, count) in cases().items()]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return not all(results)


sys.exit(main())
