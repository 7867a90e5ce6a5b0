// The two ways a ModelSummary is shown.
#include <algorithm>
#include <string>
#include <string_view>
#include <variant>

#include "client/cli/model_summary.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/text/fingerprint.h"
#include "nlohmann/json.hpp"

namespace outrider {
namespace {

constexpr size_t kLabelWidth = 16;

std::string Padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string RightAligned(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

// Values may come from a file, and a terminal obeys some bytes.
void Line(std::string& out, std::string_view label, const std::string& value) {
  out += Concat("  ", Padded(std::string(label), kLabelWidth), Harmless(value), "\n");
}

std::string_view Describe(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "SiLU";
    case Activation::kGeluTanh:
      return "GELU (tanh)";
    case Activation::kGeluErf:
      return "GELU";
    case Activation::kRelu:
      return "ReLU";
    case Activation::kClampedSilu:
      return "SiLU, clamped";
  }
  return "?";
}

std::string_view Describe(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "none";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kYarn:
      return "yarn";
    case RopeScaling::kLlama3:
      return "llama3";
    case RopeScaling::kLongRope:
      return "longrope";
  }
  return "?";
}

std::string Describe(const Rope& rope) {
  if (rope.style == RopeStyle::kNone) return "none";
  std::string text = Concat(rope.style == RopeStyle::kHalves ? "halves" : "interleaved", " over ",
                            rope.dimension_count, " dimensions, base ", rope.base);
  if (rope.scaling != RopeScaling::kNone) {
    text += Concat(", ", Describe(rope.scaling), " x", rope.factor);
  }
  return text;
}

// "32" where every block has the same, "8..32" where they differ.
std::string Range(const std::vector<uint32_t>& values) {
  if (values.empty()) return "0";
  const auto [low, high] = std::ranges::minmax(values);
  return low == high ? Concat(low) : Concat(low, "..", high);
}

void AppendShape(std::string& out, const Hyperparameters& numbers) {
  Line(out, "context", Concat(numbers.context_length, " tokens"));
  Line(out, "vocabulary", Concat(numbers.vocabulary_size, " tokens"));
  Line(out, "blocks",
       numbers.is_encoder_decoder()
           ? Concat(numbers.block_count, " encoder + ", numbers.decoder_block_count, " decoder")
           : Concat(numbers.block_count));
  Line(out, "width", Concat(numbers.embedding_length));
  Line(out, "heads",
       Concat(Range(numbers.head_count), " of ", numbers.key_length, ", ",
              Range(numbers.head_count_kv), " for keys and values"));
  Line(out, "feed-forward",
       Concat(numbers.feed_forward_length, ", ", Describe(numbers.activation),
              numbers.gated ? " gated" : ""));
  if (numbers.experts.count > 0) {
    Line(out, "experts",
         Concat(numbers.experts.count, " of ", numbers.experts.feed_forward_length, ", ",
                numbers.experts.used_count, " used"));
  }
  Line(
      out, "norm",
      Concat(numbers.norm == NormKind::kRms ? "RMS" : "layer", ", epsilon ", numbers.norm_epsilon));
  Line(out, "rope", Describe(numbers.rope));
  if (numbers.sliding_window) Line(out, "window", Concat(*numbers.sliding_window, " tokens"));
}

void AppendShape(std::string& out, const RoughShape& shape) {
  if (shape.context_length) Line(out, "context", Concat(*shape.context_length, " tokens"));
  if (shape.block_count) Line(out, "blocks", Concat(*shape.block_count));
  if (shape.embedding_length) Line(out, "width", Concat(*shape.embedding_length));
}

void AppendTypes(std::string& out, const ModelSummary& summary) {
  if (summary.types.empty()) return;
  const auto total = static_cast<double>(summary.memory.weight_bytes);
  out += "types           tensors        bytes   share   bits/weight\n";
  for (const TypeSummary& type : summary.types) {
    const auto bytes = static_cast<double>(type.bytes);
    const double bits = 8 * bytes / static_cast<double>(type.element_count);
    out +=
        Concat("  ", Padded(std::string(Name(type.type)), 12),
               RightAligned(Concat(type.tensor_count), 9), RightAligned(HumanBytes(type.bytes), 13),
               RightAligned(Concat(Fixed(100 * bytes / total, 1), " %"), 8),
               RightAligned(Fixed(bits, 2), 14), "\n");
  }
}

std::string TypeNames(const std::vector<TensorType>& types) {
  std::string names;
  for (const TensorType type : types) names += Concat(names.empty() ? "" : " ", Name(type));
  return names;
}

bool SameShape(const LayerSummary& a, const LayerSummary& b) {
  return a.bytes == b.bytes && a.tensor_count == b.tensor_count && a.types == b.types &&
         a.name.find("blk.") != std::string::npos && b.name.find("blk.") != std::string::npos;
}

// Neighbouring blocks of one size and mix share a line: "blk.3 .. blk.9".
void AppendLayers(std::string& out, const std::vector<LayerSummary>& layers) {
  if (layers.empty()) return;
  out += "layers                        bytes   tensors   matrices\n";
  for (size_t first = 0; first < layers.size();) {
    size_t last = first;
    while (last + 1 < layers.size() && SameShape(layers[first], layers[last + 1])) ++last;
    const LayerSummary& layer = layers[first];
    const std::string name =
        last == first ? layer.name : Concat(layer.name, " .. ", layers[last].name);
    out += Concat("  ", Padded(Harmless(name), 22), RightAligned(HumanBytes(layer.bytes), 11),
                  RightAligned(Concat(layer.tensor_count), 10), "   ", TypeNames(layer.types),
                  last == first ? "" : "   each", "\n");
    first = last + 1;
  }
}

void AppendTokenizer(std::string& out, const TokenizerSummary& tokenizer) {
  out += "tokenizer\n";
  Line(out, "model", tokenizer.model);
  Line(out, "pre-tokenizer", tokenizer.pre_tokenizer);
  Line(out, "tokens",
       Concat(tokenizer.token_count, ", ", tokenizer.merge_count, " merges, ",
              tokenizer.added_token_count, " added"));
  for (const auto& [role, token] : tokenizer.special_tokens) Line(out, role, token);
  std::string templates;
  for (const std::string& name : tokenizer.chat_templates) {
    templates += Concat(templates.empty() ? "" : ", ", name);
  }
  Line(out, "chat templates", templates.empty() ? "none" : templates);
  Line(out, "fingerprint", FingerprintDigits(tokenizer.fingerprint));
}

std::string Listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += Concat(list.empty() ? "" : ", ", name);
  return list.empty() ? "none in its folder" : list;
}

void AppendProspects(std::string& out, const ModelSummary& summary) {
  const ModelProspects& prospects = summary.prospects;
  out += "on this machine\n";
  Line(out, "runs", prospects.why_not.empty() ? "yes" : Concat("no: ", prospects.why_not));
  for (const std::string& notice : summary.notices) Line(out, "but", notice);
  if (prospects.why_not.empty()) {
    Line(out, "types",
         prospects.slow_types.empty()
             ? "all have kernels: as fast as memory gives their bytes"
             : Concat(prospects.slow_types,
                      " decoded anew for every product: tens of times slower than the others"));
    Line(out, "memory",
         Concat(HumanBytes(prospects.available_bytes), " to be had",
                prospects.fits() ? ""
                                 : ": less than the model takes; `outrider plan` tells what "
                                   "comes of it with the rest on flash"));
    if (prospects.slow_types.empty() && prospects.fits()) {
      Line(out, "speed",
           Concat("at most ", Fixed(prospects.tokens_per_second(), 1),
                  " tokens/s: ", HumanBytes(prospects.pass_bytes), " a token, of ",
                  HumanBytes(static_cast<uint64_t>(prospects.bytes_per_second)), " a second"));
    }
    Line(out, "drafts", Listed(prospects.drafts));
    Line(out, "exits", Listed(prospects.exits));
  }
}

void AppendMemory(std::string& out, const MemoryEstimate& memory) {
  out += "memory (estimated, all weights resident)\n";
  Line(out, "weights", HumanBytes(memory.weight_bytes));
  if (memory.kv_tokens == 0) return;
  Line(out, "KV cache",
       Concat(HumanBytes(memory.kv_bytes), " for ", memory.kv_tokens, " tokens (f16)"));
  Line(out, "together", HumanBytes(memory.weight_bytes + memory.kv_bytes));
}

std::string Describe(const UnsoundWeight& weight) {
  return Concat("row ", weight.row, ", element ", weight.column, " is ",
                weight.value != weight.value ? "not a number"
                : weight.value > 0           ? "plus infinity"
                                             : "minus infinity");
}

void AppendUnsound(std::string& out, const std::vector<UnsoundTensor>& unsound) {
  out += "weights that are no numbers\n";
  if (unsound.empty()) out += "  none\n";
  for (const UnsoundTensor& tensor : unsound) {
    out += Concat("  ", Harmless(tensor.name), ": ", Describe(tensor.weight), "\n");
  }
}

nlohmann::ordered_json UnsoundToJson(const std::vector<UnsoundTensor>& unsound) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const UnsoundTensor& tensor : unsound) {
    json.push_back({{"tensor", tensor.name}, {"first", Describe(tensor.weight)}});
  }
  return json;
}

nlohmann::ordered_json ShapeToJson(const Hyperparameters& numbers) {
  nlohmann::ordered_json json = {
      {"context_length", numbers.context_length},
      {"vocabulary_size", numbers.vocabulary_size},
      {"block_count", numbers.block_count},
      {"decoder_block_count", numbers.decoder_block_count},
      {"embedding_length", numbers.embedding_length},
      {"feed_forward_length", numbers.feed_forward_length},
      {"head_count", numbers.head_count},
      {"head_count_kv", numbers.head_count_kv},
      {"key_length", numbers.key_length},
      {"value_length", numbers.value_length},
      {"expert_count", numbers.experts.count},
      {"expert_used_count", numbers.experts.used_count},
      {"norm_epsilon", numbers.norm_epsilon},
      {"rope_base", numbers.rope.base},
      {"rope_scaling", Describe(numbers.rope.scaling)},
      {"tied_embeddings", numbers.tied_embeddings},
  };
  if (numbers.sliding_window) json["sliding_window"] = *numbers.sliding_window;
  return json;
}

nlohmann::ordered_json ShapeToJson(const RoughShape& shape) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (shape.context_length) json["context_length"] = *shape.context_length;
  if (shape.block_count) json["block_count"] = *shape.block_count;
  if (shape.embedding_length) json["embedding_length"] = *shape.embedding_length;
  return json;
}

nlohmann::ordered_json TokenizerToJson(const TokenizerSummary& tokenizer) {
  nlohmann::ordered_json special = nlohmann::ordered_json::object();
  for (const auto& [role, token] : tokenizer.special_tokens) special[role] = token;
  return {{"model", tokenizer.model},
          {"pre_tokenizer", tokenizer.pre_tokenizer},
          {"token_count", tokenizer.token_count},
          {"merge_count", tokenizer.merge_count},
          {"added_token_count", tokenizer.added_token_count},
          {"special_tokens", std::move(special)},
          {"chat_templates", tokenizer.chat_templates},
          {"fingerprint", FingerprintDigits(tokenizer.fingerprint)}};
}

}  // namespace

std::string ToTable(const ModelSummary& summary) {
  std::string out = Concat(summary.path, "\n");
  Line(out, "architecture",
       Concat(summary.architecture, summary.name.empty() ? "" : Concat(" (", summary.name, ")")));
  Line(out, "format",
       Concat(summary.format, ", ", HumanBytes(summary.file_bytes),
              summary.file_count > 1 ? Concat(" in ", summary.file_count, " files") : ""));
  Line(out, "parameters",
       Concat(HumanCount(summary.parameter_count), " in ", summary.tensor_count, " tensors"));
  std::visit([&](const auto& shape) { AppendShape(out, shape); }, summary.shape);
  AppendTypes(out, summary);
  AppendLayers(out, summary.layers);
  if (summary.tokenizer) {
    AppendTokenizer(out, *summary.tokenizer);
  } else if (!summary.tokenizer_trouble.empty()) {
    out += Concat("tokenizer\n  cannot be read: ", Harmless(summary.tokenizer_trouble), "\n");
  } else {
    out += "tokenizer\n  none in these files\n";
  }
  AppendMemory(out, summary.memory);
  AppendProspects(out, summary);
  if (summary.unsound) AppendUnsound(out, *summary.unsound);
  return out;
}

nlohmann::ordered_json ToJson(const ModelSummary& summary) {
  nlohmann::ordered_json types = nlohmann::ordered_json::array();
  for (const TypeSummary& type : summary.types) {
    types.push_back({{"type", Name(type.type)},
                     {"tensor_count", type.tensor_count},
                     {"element_count", type.element_count},
                     {"bytes", type.bytes}});
  }
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const LayerSummary& layer : summary.layers) {
    nlohmann::ordered_json names = nlohmann::ordered_json::array();
    for (const TensorType type : layer.types) names.push_back(Name(type));
    layers.push_back({{"name", layer.name},
                      {"tensor_count", layer.tensor_count},
                      {"bytes", layer.bytes},
                      {"types", std::move(names)}});
  }
  nlohmann::ordered_json json = {
      {"path", summary.path},
      {"architecture", summary.architecture},
      {"name", summary.name},
      {"format", summary.format},
      {"file_count", summary.file_count},
      {"file_bytes", summary.file_bytes},
      {"parameter_count", summary.parameter_count},
      {"tensor_count", summary.tensor_count},
      {"hyperparameters",
       std::visit([](const auto& shape) { return ShapeToJson(shape); }, summary.shape)},
      {"types", std::move(types)},
      {"layers", std::move(layers)},
      {"tokenizer", nullptr},
      {"memory",
       {{"weight_bytes", summary.memory.weight_bytes},
        {"kv_bytes", summary.memory.kv_bytes},
        {"kv_tokens", summary.memory.kv_tokens}}},
  };
  if (!summary.tokenizer_trouble.empty()) json["tokenizer_trouble"] = summary.tokenizer_trouble;
  if (summary.tokenizer) json["tokenizer"] = TokenizerToJson(*summary.tokenizer);
  const ModelProspects& prospects = summary.prospects;
  json["notices"] = summary.notices;
  json["prospects"] = {{"runs", prospects.why_not.empty()},
                       {"why_not", prospects.why_not},
                       {"slow_types", prospects.slow_types},
                       {"available_bytes", prospects.available_bytes},
                       {"pass_bytes", prospects.pass_bytes},
                       {"bytes_per_second", prospects.bytes_per_second},
                       {"tokens_per_second_max", prospects.tokens_per_second()},
                       {"drafts", prospects.drafts},
                       {"exits", prospects.exits}};
  if (summary.unsound) json["unsound_weights"] = UnsoundToJson(*summary.unsound);
  return json;
}

std::string ToTable(const TrainedExits& exits, const std::string& path) {
  const ExitsTarget& target = exits.target;
  std::string out = Concat(path, "\n");
  Line(out, "exits", Concat(exits.exits.size(), ", of type ", Name(exits.type)));
  Line(out, "of the model", target.name);
  Line(out, "with",
       Concat(target.layer_count, " layers, width ", target.embedding_length, ", ",
              target.vocabulary_size, " tokens"));
  Line(out, "content hash", FingerprintDigits(target.content_hash));
  for (const TrainedExit& exit : exits.exits) {
    Line(out, Concat("layer ", exit.layer),
         Concat("rank ", exit.rank, exit.greedy ? ", calibrated for greedy" : "",
                exit.sampled ? ", calibrated for sampling" : ""));
  }
  Line(out, "candidates", Concat(exits.frequent_tokens.size(), " frequent tokens"));
  return out;
}

nlohmann::ordered_json ToJson(const TrainedExits& exits, const std::string& path) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const TrainedExit& exit : exits.exits) {
    layers.push_back({{"layer", exit.layer},
                      {"rank", exit.rank},
                      {"greedy", exit.greedy.has_value()},
                      {"sampled", exit.sampled.has_value()}});
  }
  return {{"path", path},
          {"exits", std::move(layers)},
          {"type", Name(exits.type)},
          {"frequent_tokens", exits.frequent_tokens.size()},
          {"target",
           {{"name", exits.target.name},
            {"content_hash", FingerprintDigits(exits.target.content_hash)},
            {"embedding_length", exits.target.embedding_length},
            {"layer_count", exits.target.layer_count},
            {"vocabulary_size", exits.target.vocabulary_size}}}};
}

}  // namespace outrider
