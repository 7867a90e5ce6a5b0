#include "common/formats/models/hf_tensor_names.h"

#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "common/base/status.h"
#include "common/formats/models/hyperparameters_rules.h"

namespace outrider {
namespace {

using enum HfTransform;

// '#' stands for a block's number, '@' for an expert's or a head's. Neither side names .weight or
// .bias, which carry over; tensors that are parameters of their own have no such suffix, and their
// rules end in '!'. A leading "model." or "transformer." is dropped from stored names before they
// are looked up.
struct Rule {
  std::string_view hf;
  std::string_view gguf;
  HfTransform transform = kNone;
};

// Llama, Mistral, Mixtral, Qwen, OLMoE, Granite and others. kPairHalves is for the architectures
// whose rope is interleaved; the others store queries and keys as they are wanted.
constexpr std::array kRopeRules = std::to_array<Rule>({
    {"embed_tokens", "token_embd"},
    {"norm", "output_norm"},
    {"lm_head", "output"},
    {"layers.#.input_layernorm", "blk.#.attn_norm"},
    {"layers.#.self_attn.q_proj", "blk.#.attn_q", kPairHalves},
    {"layers.#.self_attn.k_proj", "blk.#.attn_k", kPairHalves},
    {"layers.#.self_attn.v_proj", "blk.#.attn_v"},
    {"layers.#.self_attn.o_proj", "blk.#.attn_output"},
    {"layers.#.self_attn.q_norm", "blk.#.attn_q_norm"},
    {"layers.#.self_attn.k_norm", "blk.#.attn_k_norm"},
    {"layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"layers.#.mlp.gate_proj", "blk.#.ffn_gate"},
    {"layers.#.mlp.up_proj", "blk.#.ffn_up"},
    {"layers.#.mlp.down_proj", "blk.#.ffn_down"},
    {"layers.#.mlp.gate", "blk.#.ffn_gate_inp"},
    {"layers.#.mlp.experts.@.gate_proj", "blk.#.ffn_gate_exps", kExpert},
    {"layers.#.mlp.experts.@.up_proj", "blk.#.ffn_up_exps", kExpert},
    {"layers.#.mlp.experts.@.down_proj", "blk.#.ffn_down_exps", kExpert},
    // As transformers 5 holds them in memory, and saves them when asked to.
    {"layers.#.mlp.experts.gate_up_proj!", "blk.#.ffn_gate_up_exps", kGateAndUp},
    {"layers.#.mlp.experts.down_proj!", "blk.#.ffn_down_exps", kStacked},
    {"layers.#.block_sparse_moe.gate", "blk.#.ffn_gate_inp"},
    {"layers.#.block_sparse_moe.experts.@.w1", "blk.#.ffn_gate_exps", kExpert},
    {"layers.#.block_sparse_moe.experts.@.w3", "blk.#.ffn_up_exps", kExpert},
    {"layers.#.block_sparse_moe.experts.@.w2", "blk.#.ffn_down_exps", kExpert},
    {"layers.#.self_attn.rotary_emb.inv_freq!", "", kIgnored},
    {"rotary_emb.inv_freq!", "", kIgnored},
});

// What goes before the table above.
constexpr std::array kNormsAfterRules = std::to_array<Rule>({
    // Gemma 2 and 3, OLMo 2, EXAONE 4
    {"layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm"},
    {"layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"},
});
constexpr std::array kPhi3Rules = std::to_array<Rule>({
    {"layers.#.self_attn.qkv_proj", "blk.#.attn_qkv"},
    {"layers.#.mlp.gate_up_proj", "blk.#.ffn_up"},
});
constexpr std::array kSharedExpertRules = std::to_array<Rule>({
    // Qwen 2
    {"layers.#.mlp.shared_expert.gate_proj", "blk.#.ffn_gate_shexp"},
    {"layers.#.mlp.shared_expert.up_proj", "blk.#.ffn_up_shexp"},
    {"layers.#.mlp.shared_expert.down_proj", "blk.#.ffn_down_shexp"},
    {"layers.#.mlp.shared_expert_gate.weight!", "blk.#.ffn_gate_inp_shexp.weight", kVector},
});
constexpr std::array kStableLmRules = std::to_array<Rule>({
    {"layers.#.self_attn.q_layernorm.norms.@", "blk.#.attn_q_norm", kNormOfHead},
    {"layers.#.self_attn.k_layernorm.norms.@", "blk.#.attn_k_norm", kNormOfHead},
});
constexpr std::array kGraniteMoeRules = std::to_array<Rule>({
    {"layers.#.block_sparse_moe.router.layer", "blk.#.ffn_gate_inp"},
    {"layers.#.block_sparse_moe.input_linear.weight!", "blk.#.ffn_gate_up_exps", kGateAndUp},
    {"layers.#.block_sparse_moe.output_linear.weight!", "blk.#.ffn_down_exps", kStacked},
});
constexpr std::array kGptOssRules = std::to_array<Rule>({
    {"layers.#.self_attn.sinks!", "blk.#.attn_sinks"},
    {"layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"layers.#.mlp.router", "blk.#.ffn_gate_inp"},
    {"layers.#.mlp.experts.gate_up_proj!", "blk.#.ffn_gate_up_exps", kTurnsTransposed},
    {"layers.#.mlp.experts.gate_up_proj_blocks!", "blk.#.ffn_gate_up_exps", kTurnsBlocks},
    {"layers.#.mlp.experts.gate_up_proj_scales!", "blk.#.ffn_gate_up_exps", kScales},
    {"layers.#.mlp.experts.gate_up_proj_bias!", "blk.#.ffn_gate_up_exps.bias", kTurns},
    {"layers.#.mlp.experts.down_proj!", "blk.#.ffn_down_exps", kStackTransposed},
    {"layers.#.mlp.experts.down_proj_blocks!", "blk.#.ffn_down_exps", kStackBlocks},
    {"layers.#.mlp.experts.down_proj_scales!", "blk.#.ffn_down_exps", kScales},
    {"layers.#.mlp.experts.down_proj_bias!", "blk.#.ffn_down_exps.bias", kFloats},
});

constexpr std::array kGpt2Rules = std::to_array<Rule>({
    {"wte", "token_embd"},
    {"wpe", "position_embd"},
    {"ln_f", "output_norm"},
    {"lm_head", "output"},
    {"h.#.ln_1", "blk.#.attn_norm"},
    {"h.#.attn.c_attn", "blk.#.attn_qkv", kTransposed},
    {"h.#.attn.c_proj", "blk.#.attn_output", kTransposed},
    {"h.#.ln_2", "blk.#.ffn_norm"},
    {"h.#.mlp.c_fc", "blk.#.ffn_up", kTransposed},
    {"h.#.mlp.c_proj", "blk.#.ffn_down", kTransposed},
    {"h.#.attn.bias!", "", kIgnored},  // the causal mask
    {"h.#.attn.masked_bias!", "", kIgnored},
});

// T5 and Switch.
constexpr std::array kT5Rules = std::to_array<Rule>({
    {"shared", "token_embd"},
    {"encoder.embed_tokens", "token_embd", kCopy},
    {"decoder.embed_tokens", "token_embd", kCopy},
    {"lm_head", "output"},
    {"encoder.final_layer_norm", "enc.output_norm"},
    {"encoder.block.#.layer.0.layer_norm", "enc.blk.#.attn_norm"},
    {"encoder.block.#.layer.0.SelfAttention.q", "enc.blk.#.attn_q"},
    {"encoder.block.#.layer.0.SelfAttention.k", "enc.blk.#.attn_k"},
    {"encoder.block.#.layer.0.SelfAttention.v", "enc.blk.#.attn_v"},
    {"encoder.block.#.layer.0.SelfAttention.o", "enc.blk.#.attn_o"},
    {"encoder.block.#.layer.0.SelfAttention.relative_attention_bias", "enc.blk.#.attn_rel_b"},
    {"encoder.block.#.layer.1.layer_norm", "enc.blk.#.ffn_norm"},
    {"encoder.block.#.layer.1.DenseReluDense.wi", "enc.blk.#.ffn_up"},
    {"encoder.block.#.layer.1.DenseReluDense.wi_0", "enc.blk.#.ffn_gate"},
    {"encoder.block.#.layer.1.DenseReluDense.wi_1", "enc.blk.#.ffn_up"},
    {"encoder.block.#.layer.1.DenseReluDense.wo", "enc.blk.#.ffn_down"},
    {"encoder.block.#.layer.1.mlp.wi", "enc.blk.#.ffn_up"},
    {"encoder.block.#.layer.1.mlp.wo", "enc.blk.#.ffn_down"},
    {"encoder.block.#.layer.1.mlp.router.classifier", "enc.blk.#.ffn_gate_inp"},
    {"encoder.block.#.layer.1.mlp.experts.expert_@.wi", "enc.blk.#.ffn_up_exps", kExpert},
    {"encoder.block.#.layer.1.mlp.experts.expert_@.wo", "enc.blk.#.ffn_down_exps", kExpert},
    {"decoder.final_layer_norm", "dec.output_norm"},
    {"decoder.block.#.layer.0.layer_norm", "dec.blk.#.attn_norm"},
    {"decoder.block.#.layer.0.SelfAttention.q", "dec.blk.#.attn_q"},
    {"decoder.block.#.layer.0.SelfAttention.k", "dec.blk.#.attn_k"},
    {"decoder.block.#.layer.0.SelfAttention.v", "dec.blk.#.attn_v"},
    {"decoder.block.#.layer.0.SelfAttention.o", "dec.blk.#.attn_o"},
    {"decoder.block.#.layer.0.SelfAttention.relative_attention_bias", "dec.blk.#.attn_rel_b"},
    {"decoder.block.#.layer.1.layer_norm", "dec.blk.#.cross_attn_norm"},
    {"decoder.block.#.layer.1.EncDecAttention.q", "dec.blk.#.cross_attn_q"},
    {"decoder.block.#.layer.1.EncDecAttention.k", "dec.blk.#.cross_attn_k"},
    {"decoder.block.#.layer.1.EncDecAttention.v", "dec.blk.#.cross_attn_v"},
    {"decoder.block.#.layer.1.EncDecAttention.o", "dec.blk.#.cross_attn_o"},
    {"decoder.block.#.layer.1.EncDecAttention.relative_attention_bias", "", kIgnored},  // unused
    {"decoder.block.#.layer.2.layer_norm", "dec.blk.#.ffn_norm"},
    {"decoder.block.#.layer.2.DenseReluDense.wi", "dec.blk.#.ffn_up"},
    {"decoder.block.#.layer.2.DenseReluDense.wi_0", "dec.blk.#.ffn_gate"},
    {"decoder.block.#.layer.2.DenseReluDense.wi_1", "dec.blk.#.ffn_up"},
    {"decoder.block.#.layer.2.DenseReluDense.wo", "dec.blk.#.ffn_down"},
    {"decoder.block.#.layer.2.mlp.wi", "dec.blk.#.ffn_up"},
    {"decoder.block.#.layer.2.mlp.wo", "dec.blk.#.ffn_down"},
    {"decoder.block.#.layer.2.mlp.router.classifier", "dec.blk.#.ffn_gate_inp"},
    {"decoder.block.#.layer.2.mlp.experts.expert_@.wi", "dec.blk.#.ffn_up_exps", kExpert},
    {"decoder.block.#.layer.2.mlp.experts.expert_@.wo", "dec.blk.#.ffn_down_exps", kExpert},
});

constexpr std::array kBartRules = std::to_array<Rule>({
    {"shared", "token_embd"},
    {"encoder.embed_tokens", "token_embd", kCopy},
    {"decoder.embed_tokens", "token_embd", kCopy},
    {"lm_head", "output"},
    {"final_logits_bias!", "output.bias", kVector},
    {"encoder.embed_positions", "enc.position_embd", kSkipTwoRows},
    {"encoder.layernorm_embedding", "enc.token_embd_norm"},
    {"encoder.layers.#.self_attn.q_proj", "enc.blk.#.attn_q"},
    {"encoder.layers.#.self_attn.k_proj", "enc.blk.#.attn_k"},
    {"encoder.layers.#.self_attn.v_proj", "enc.blk.#.attn_v"},
    {"encoder.layers.#.self_attn.out_proj", "enc.blk.#.attn_o"},
    {"encoder.layers.#.self_attn_layer_norm", "enc.blk.#.attn_output_norm"},
    {"encoder.layers.#.fc1", "enc.blk.#.ffn_up"},
    {"encoder.layers.#.fc2", "enc.blk.#.ffn_down"},
    {"encoder.layers.#.final_layer_norm", "enc.blk.#.layer_output_norm"},
    {"decoder.embed_positions", "dec.position_embd", kSkipTwoRows},
    {"decoder.layernorm_embedding", "dec.token_embd_norm"},
    {"decoder.layers.#.self_attn.q_proj", "dec.blk.#.attn_q"},
    {"decoder.layers.#.self_attn.k_proj", "dec.blk.#.attn_k"},
    {"decoder.layers.#.self_attn.v_proj", "dec.blk.#.attn_v"},
    {"decoder.layers.#.self_attn.out_proj", "dec.blk.#.attn_o"},
    {"decoder.layers.#.self_attn_layer_norm", "dec.blk.#.attn_output_norm"},
    {"decoder.layers.#.encoder_attn.q_proj", "dec.blk.#.cross_attn_q"},
    {"decoder.layers.#.encoder_attn.k_proj", "dec.blk.#.cross_attn_k"},
    {"decoder.layers.#.encoder_attn.v_proj", "dec.blk.#.cross_attn_v"},
    {"decoder.layers.#.encoder_attn.out_proj", "dec.blk.#.cross_attn_o"},
    {"decoder.layers.#.encoder_attn_layer_norm", "dec.blk.#.cross_attn_output_norm"},
    {"decoder.layers.#.fc1", "dec.blk.#.ffn_up"},
    {"decoder.layers.#.fc2", "dec.blk.#.ffn_down"},
    {"decoder.layers.#.final_layer_norm", "dec.blk.#.layer_output_norm"},
    {"encoder.version!", "", kIgnored},
    {"decoder.version!", "", kIgnored},
});

struct Family {
  std::span<const Rule> rules;
  std::string_view prefix;         // usually in front of all names but lm_head's
  std::span<const Rule> own = {};  // looked at before the others
};

Family FamilyOf(Architecture architecture) {
  switch (architecture) {
    case Architecture::kGpt2:
      return {kGpt2Rules, "transformer."};
    case Architecture::kT5:
    case Architecture::kSwitch:
      return {kT5Rules, ""};
    case Architecture::kBart:
      return {kBartRules, "model."};
    case Architecture::kGemma2:
    case Architecture::kGemma3:
    case Architecture::kOlmo2:
    case Architecture::kExaone4:
      return {kRopeRules, "model.", kNormsAfterRules};
    case Architecture::kPhi3:
      return {kRopeRules, "model.", kPhi3Rules};
    case Architecture::kQwen2Moe:
      return {kRopeRules, "model.", kSharedExpertRules};
    case Architecture::kGraniteMoe:
      return {kRopeRules, "model.", kGraniteMoeRules};
    case Architecture::kStableLm:
      return {kRopeRules, "model.", kStableLmRules};
    case Architecture::kGptOss:
      return {kRopeRules, "model.", kGptOssRules};
    default:
      return {kRopeRules, "model."};
  }
}

// The first of the family's rules for which visit(rule) returns something, and what it returns.
template <typename Visit>
auto FirstOf(const Family& family, const Visit& visit) -> decltype(visit(family.rules[0])) {
  for (const std::span<const Rule> rules : {family.own, family.rules}) {
    for (const Rule& rule : rules) {
      if (auto found = visit(rule)) return found;
    }
  }
  return std::nullopt;
}

// The numbers a pattern's '#' and '@' stood for.
struct Numbers {
  uint32_t block = 0;
  uint32_t part = 0;
};

// A number as a program writes it: digits, no leading zero, not absurd. Advances `text` past it.
bool TakeNumber(std::string_view& text, uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto length = static_cast<size_t>(end - text.data());
  if (error != std::errc() || (text[0] == '0' && length > 1)) return false;
  text.remove_prefix(length);
  return true;
}

std::optional<Numbers> Match(std::string_view pattern, std::string_view text) {
  Numbers numbers;
  for (const char c : pattern) {
    if (c == '#' || c == '@') {
      if (!TakeNumber(text, c == '#' ? numbers.block : numbers.part)) return std::nullopt;
    } else if (text.empty() || text[0] != c) {
      return std::nullopt;
    } else {
      text.remove_prefix(1);
    }
  }
  if (!text.empty()) return std::nullopt;
  return numbers;
}

std::string Fill(std::string_view pattern, const Numbers& numbers) {
  std::string text;
  for (const char c : pattern) {
    if (c == '#') {
      text += Concat(numbers.block);
    } else if (c == '@') {
      text += Concat(numbers.part);
    } else {
      text += c;
    }
  }
  return text;
}

// "blk.0.attn_q.weight" -> "blk.0.attn_q" and ".weight"; the suffix is empty when there is neither.
std::pair<std::string_view, std::string_view> SplitSuffix(std::string_view name) {
  for (const std::string_view suffix : {".weight", ".bias"}) {
    if (name.ends_with(suffix)) {
      return {name.substr(0, name.size() - suffix.size()),
              name.substr(name.size() - suffix.size())};
    }
  }
  return {name, ""};
}

bool IsWhole(const Rule& rule) {
  return rule.hf.ends_with('!');
}

// Of a rule for whole names: what it makes, which is a weight where nothing else is said.
std::string WholeName(std::string name) {
  if (SplitSuffix(name).second.empty()) name += ".weight";
  return name;
}

// "blk.0.ffn_up_exps.weight" -> "blk.0.ffn_gate_up_exps.weight"
std::string FusedName(std::string name) {
  for (const std::string_view part : {"ffn_gate_exps", "ffn_up_exps"}) {
    const size_t at = name.find(part);
    if (at != std::string::npos) return name.replace(at, part.size(), "ffn_gate_up_exps");
  }
  return name;
}

// Whether files that are packed, or not, have the tensors of a rule.
bool IsThere(const Rule& rule, bool packed) {
  switch (rule.transform) {
    case kTurnsBlocks:
    case kStackBlocks:
      return packed;
    case kTurnsTransposed:
    case kStackTransposed:
      return !packed;
    default:
      return true;
  }
}

std::string_view WithoutMark(std::string_view pattern) {
  return pattern.ends_with('!') ? pattern.substr(0, pattern.size() - 1) : pattern;
}

HfTransform TransformFor(const Rule& rule, Architecture architecture, std::string_view suffix) {
  if (rule.transform == kTransposed && suffix == ".bias") return kNone;
  // Cohere's queries and keys are stored in pairs.
  if (rule.transform == kPairHalves &&
      (ArchitectureDefaults(architecture).rope.style != RopeStyle::kInterleaved ||
       architecture == Architecture::kCohere2)) {
    return kNone;
  }
  if (IsGemma(architecture) && rule.gguf.ends_with("norm")) return kPlusOne;
  return rule.transform;
}

// A model that looks at images has its decoder in front of the usual prefix, or lately behind it.
std::string_view WithoutPrefix(std::string_view hf_name) {
  constexpr std::string_view kDecoder = "language_model.";
  if (hf_name.starts_with(kDecoder)) hf_name.remove_prefix(kDecoder.size());
  for (const std::string_view prefix : {"model.language_model.", "model.", "transformer."}) {
    if (hf_name.starts_with(prefix)) return hf_name.substr(prefix.size());
  }
  return hf_name;
}

}  // namespace

bool IsOfImages(std::string_view hf_name) {
  constexpr std::string_view kModel = "model.";
  if (hf_name.starts_with(kModel)) hf_name.remove_prefix(kModel.size());
  return hf_name.starts_with("vision_tower.") || hf_name.starts_with("multi_modal_projector.");
}

std::optional<HfTarget> FindHfTarget(Architecture architecture, std::string_view hf_name) {
  if (IsOfImages(hf_name)) return HfTarget{"", kIgnored, 0};
  hf_name = WithoutPrefix(hf_name);
  const auto [stem, suffix] = SplitSuffix(hf_name);
  const auto target_of = [&, stem = stem,
                          suffix = suffix](const Rule& rule) -> std::optional<HfTarget> {
    const bool whole = IsWhole(rule);
    if (!whole && suffix.empty()) return std::nullopt;
    const std::optional<Numbers> numbers = Match(WithoutMark(rule.hf), whole ? hf_name : stem);
    if (!numbers) return std::nullopt;
    if (rule.transform == kIgnored) return HfTarget{"", kIgnored, 0};
    std::string name = Fill(rule.gguf, *numbers);
    name = whole ? WholeName(std::move(name)) : Concat(name, suffix);
    return HfTarget{std::move(name), TransformFor(rule, architecture, suffix), numbers->part};
  };
  return FirstOf(FamilyOf(architecture), target_of);
}

std::string UsualHfName(Architecture architecture, std::string_view gguf_name, bool packed) {
  const Family family = FamilyOf(architecture);
  // What all families share has whole names too, but not usually.
  for (const Rule& rule : family.own) {
    if (!IsWhole(rule) || !IsThere(rule, packed)) continue;
    const std::string pattern = WholeName(std::string(rule.gguf));
    for (const std::string& name : {std::string(gguf_name), FusedName(std::string(gguf_name))}) {
      const std::optional<Numbers> numbers = Match(pattern, name);
      if (numbers) return Concat(family.prefix, Fill(WithoutMark(rule.hf), *numbers));
    }
  }
  const auto [stem, suffix] = SplitSuffix(gguf_name);
  const auto name_by = [&, stem = stem,
                        suffix = suffix](const Rule& rule) -> std::optional<std::string> {
    if (rule.gguf.empty() || IsWhole(rule)) return std::nullopt;
    const std::optional<Numbers> numbers = Match(rule.gguf, stem);
    if (!numbers) return std::nullopt;
    const std::string_view prefix = rule.gguf == "output" ? "" : family.prefix;
    return Concat(prefix, Fill(rule.hf, *numbers), suffix);
  };
  return FirstOf(family, name_by).value_or(std::string(gguf_name));
}

}  // namespace outrider
