#include "client/cli/model_summary.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/models/execution_order.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/text/fingerprint.h"

namespace outrider {
namespace {

// Long enough for a conversation; a longer context costs proportionally more.
constexpr uint64_t kEstimateTokens = 4096;

uint64_t ElementCount(const ModelTensor& tensor) {
  return tensor.dims[0] * tensor.row_count();
}

std::vector<TypeSummary> SummarizeTypes(std::span<const ModelTensor> tensors) {
  std::vector<TypeSummary> types;
  for (const ModelTensor& tensor : tensors) {
    auto entry = std::ranges::find(types, tensor.type, &TypeSummary::type);
    if (entry == types.end()) entry = types.insert(entry, TypeSummary{.type = tensor.type});
    entry->tensor_count += 1;
    entry->element_count += ElementCount(tensor);
    entry->bytes += tensor.bytes;
  }
  std::ranges::sort(types, std::ranges::greater(), &TypeSummary::bytes);
  return types;
}

// "blk.3.attn_q.weight" -> "blk.3", "enc.output_norm.weight" -> "enc.output_norm".
std::string_view LayerName(std::string_view tensor) {
  const size_t block = tensor.find("blk.");
  const bool sided = tensor.starts_with("enc.") || tensor.starts_with("dec.");
  const size_t from = block != std::string_view::npos ? block + 4 : sided ? 4 : 0;
  return tensor.substr(0, tensor.find('.', from));
}

std::vector<LayerSummary> SummarizeLayers(std::span<const ModelTensor> tensors) {
  std::vector<LayerSummary> layers;
  for (const ModelTensor* tensor : ExecutionOrder(tensors)) {
    const std::string_view name = LayerName(tensor->name);
    if (layers.empty() || layers.back().name != name) layers.emplace_back().name = name;
    LayerSummary& layer = layers.back();
    layer.tensor_count += 1;
    layer.bytes += tensor->bytes;
    const bool matrix = tensor->dims.size() > 1;
    if (matrix && std::ranges::find(layer.types, tensor->type) == layer.types.end()) {
      layer.types.push_back(tensor->type);
    }
  }
  for (LayerSummary& layer : layers) std::ranges::sort(layer.types);
  return layers;
}

std::string_view Name(TokenizerSpec::Model model) {
  switch (model) {
    case TokenizerSpec::Model::kByteLevelBpe:
      return "byte-level BPE";
    case TokenizerSpec::Model::kSentencePieceBpe:
      return "SentencePiece BPE";
    case TokenizerSpec::Model::kUnigram:
      return "unigram";
  }
  return "?";
}

void SummarizeTensors(std::span<const ModelTensor> tensors, ModelSummary& summary) {
  summary.tensor_count = tensors.size();
  for (const ModelTensor& tensor : tensors) summary.parameter_count += ElementCount(tensor);
  summary.types = SummarizeTypes(tensors);
  summary.layers = SummarizeLayers(tensors);
  for (const TypeSummary& type : summary.types) summary.memory.weight_bytes += type.bytes;
}

void SummarizeTokenizer(const absl::StatusOr<TokenizerSpec>& spec, ModelSummary& model) {
  if (absl::IsNotFound(spec.status())) return;
  if (!spec.ok()) {
    model.tokenizer_trouble = Message(spec.status());
    return;
  }
  TokenizerSummary& summary = model.tokenizer.emplace();
  summary.model = Name(spec->model);
  summary.pre_tokenizer = NameOf(spec->pre_tokenizer);
  summary.token_count = spec->tokens.size();
  summary.merge_count = spec->merges.size();
  summary.added_token_count = spec->added_tokens.size();
  const std::pair<const char*, std::optional<TokenId>> roles[] = {
      {"bos", spec->bos}, {"eos", spec->eos},         {"eot", spec->eot},
      {"eom", spec->eom}, {"unknown", spec->unknown}, {"padding", spec->padding}};
  for (const auto& [role, id] : roles) {
    if (!id) continue;
    const auto index = static_cast<size_t>(*id);
    summary.special_tokens.emplace_back(role, Concat(spec->tokens[index].text, " (", *id, ")"));
  }
  for (const auto& [name, source] : spec->chat_templates) summary.chat_templates.push_back(name);

  summary.fingerprint = TokenizerFingerprint(*spec);
}

void EstimateCache(const Hyperparameters& numbers, MemoryEstimate& memory) {
  memory.kv_tokens = std::min<uint64_t>(kEstimateTokens, numbers.context_length);
  constexpr uint64_t kHalfBytes = 2;
  for (const uint32_t heads : numbers.head_count_kv) {
    memory.kv_bytes +=
        memory.kv_tokens * heads * (numbers.key_length + numbers.value_length) * kHalfBytes;
  }
}

std::optional<uint64_t> NumberOrNone(const GgufFile& file, const std::string& key) {
  const absl::StatusOr<uint64_t> number = file.GetUint(key);
  return number.ok() ? std::optional(*number) : std::nullopt;
}

std::string TextOrNone(const GgufFile& file, const std::string& key) {
  const absl::StatusOr<std::string_view> text = file.GetString(key);
  return text.ok() ? std::string(*text) : "";
}

std::vector<ModelTensor> TensorsOf(const GgufFile& file) {
  std::vector<ModelTensor> tensors;
  for (const GgufTensor& tensor : file.tensors()) {
    tensors.push_back({.name = std::string(tensor.name),
                       .type = tensor.type,
                       .dims = tensor.dims,
                       .bytes = tensor.bytes,
                       .place = {}});
  }
  return tensors;
}

}  // namespace

ModelSummary Summarize(const ModelFile& model, const std::string& path) {
  const Hyperparameters& numbers = model.hyperparameters();
  ModelSummary summary;
  summary.path = path;
  summary.format = model.format();
  summary.file_count = model.file_count();
  summary.file_bytes = model.file_bytes();
  summary.architecture = Name(numbers.architecture);
  summary.name = numbers.name;
  summary.shape = numbers;
  SummarizeTensors(model.tensors(), summary);
  SummarizeTokenizer(model.ReadTokenizer(), summary);
  EstimateCache(numbers, summary.memory);
  summary.notices = model.Notices();
  const uint64_t needed = summary.memory.weight_bytes + summary.memory.kv_bytes;
  const std::optional<uint64_t> fingerprint =
      summary.tokenizer ? std::optional(summary.tokenizer->fingerprint) : std::nullopt;
  summary.prospects = FindProspects(model, path, needed, fingerprint);
  if (summary.prospects.why_not.empty()) summary.prospects.why_not = summary.tokenizer_trouble;
  return summary;
}

absl::StatusOr<ModelSummary> SummarizeRefused(const std::string& path,
                                              const absl::Status& refusal) {
  const absl::StatusOr<GgufFile> file = GgufFile::Open(path);
  if (!file.ok()) return refusal;
  ModelSummary summary;
  summary.path = path;
  summary.format = Concat("GGUF v", file->version());
  summary.file_count = file->shard_count();
  summary.file_bytes = file->file_bytes();
  summary.architecture = TextOrNone(*file, "general.architecture");
  summary.name = TextOrNone(*file, "general.name");
  const std::string prefix = summary.architecture + ".";
  summary.shape = RoughShape{.context_length = NumberOrNone(*file, prefix + "context_length"),
                             .block_count = NumberOrNone(*file, prefix + "block_count"),
                             .embedding_length = NumberOrNone(*file, prefix + "embedding_length")};
  const std::vector<ModelTensor> tensors = TensorsOf(*file);
  SummarizeTensors(tensors, summary);
  SummarizeTokenizer(TokenizerFromGguf(*file, path), summary);
  summary.prospects.why_not = Message(refusal);
  return summary;
}

absl::StatusOr<std::vector<UnsoundTensor>> FindUnsoundTensors(const ModelFile& model,
                                                              const std::string& path,
                                                              const TensorsRead& on_read) {
  std::vector<UnsoundTensor> tensors;
  uint64_t before = 0;
  for (const ModelTensor& tensor : model.tensors()) {
    uint64_t done = before;
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<UnsoundWeight> found,
                              FindUnsound(model, tensor, path, [&](uint64_t bytes) {
                                on_read(done += bytes, tensor.name);
                              }));
    if (found) tensors.push_back({tensor.name, *found});
    before += tensor.bytes;
  }
  return tensors;
}

}  // namespace outrider
