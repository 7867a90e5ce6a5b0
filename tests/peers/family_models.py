"""Small models of random weights, one of each family that people run, made by transformers. What families differ in is in
them: windows that texts are longer than, scales, caps, long factors."""
import pathlib
import shutil

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER_FROM = ROOT / "tests/data/models/llama"  # any byte-level BPE of a few hundred tokens


def vocabulary_size():
    return len(transformers.AutoTokenizer.from_pretrained(TOKENIZER_FROM))


def families(window, first_context):
    """By name, those whose configurations llama.cpp has a name for too. `first_context`: after how many tokens Phi's factors
    change."""
    t = transformers
    shared = dict(vocab_size=vocabulary_size(), bos_token_id=0, eos_token_id=1, pad_token_id=0, hidden_size=256,
                  intermediate_size=512, num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=4096)
    three, four, six = (dict(shared, num_hidden_layers=count) for count in (3, 4, 6))
    longrope = dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0 + 0.1 * i for i in range(12)],
                    long_factor=[2.0 + i for i in range(12)], partial_rotary_factor=0.75)
    growing = dict(rope_type="yarn", rope_theta=1000000.0, factor=16.0, original_max_position_embeddings=window, beta_fast=32.0,
                   beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.3)
    gemma = dict(head_dim=32)
    return {
        "gemma": t.GemmaConfig(**three, **gemma),
        "gemma2": t.Gemma2Config(**four, **gemma, query_pre_attn_scalar=32, sliding_window=window,
                                 final_logit_softcapping=3.0, attn_logit_softcapping=2.0),
        "gemma3": t.Gemma3TextConfig(**six, **gemma, query_pre_attn_scalar=32, sliding_window=window, rope_parameters={
            "full_attention": dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
            "sliding_attention": dict(rope_type="default", rope_theta=10000.0)}),
        "phi3": t.Phi3Config(**three, original_max_position_embeddings=first_context, rope_parameters=longrope),
        "smollm3": t.SmolLM3Config(**four),
        "granite": t.GraniteConfig(**three, embedding_multiplier=6.0, logits_scaling=3.0, residual_multiplier=0.22,
                                   attention_multiplier=0.2),
        "granitemoe": t.GraniteMoeConfig(**three, embedding_multiplier=6.0, logits_scaling=3.0, residual_multiplier=0.22,
                                         attention_multiplier=0.2, num_local_experts=8, num_experts_per_tok=2),
        "olmo2": t.Olmo2Config(**three),
        "stablelm": t.StableLmConfig(**three, use_qkv_bias=True),
        "stablelm2": t.StableLmConfig(**three, qk_layernorm=True, use_parallel_residual=True),
        "qwen2_moe": t.Qwen2MoeConfig(**three, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=128,
                                      shared_expert_intermediate_size=256),
        "cohere2": t.Cohere2Config(**four, sliding_window=window, logit_scale=0.25),
        "ministral3": t.Ministral3Config(**three, head_dim=32, rope_parameters=growing),
        "exaone4": t.Exaone4Config(**three, head_dim=32, sliding_window=None, layer_types=["full_attention"] * 3),
    }


def make_model(config, directory):
    """Saved there in float32 with a tokenizer; the model."""
    torch.manual_seed(20)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms start as 0 and 1, which would hide a mix-up
            parameter.add_(torch.randn_like(parameter) * 0.05)
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER_FROM / file, directory)
    return model
