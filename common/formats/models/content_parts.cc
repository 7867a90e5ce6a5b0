#include "common/formats/models/content_parts.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/models/tensor_layout.h"
#include "common/formats/tensors/dequantize.h"

namespace outrider {
namespace {

constexpr std::string_view kStackedExperts = "_exps.weight";
constexpr std::string_view kFusedAttention = "attn_qkv.";
constexpr std::string_view kUp = ".ffn_up.weight";
constexpr std::string_view kExpertBiases = "_exps.bias";
constexpr std::string_view kNorms = "_norm.weight";

// Read and hashed together.
constexpr uint64_t kBandBytes = 4 << 20;

// The rows of queries, of keys and of values in "blk.N.attn_qkv.weight", or the elements of its bias.
std::vector<uint64_t> FusedCounts(const Hyperparameters& model, std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  uint32_t block = 0;
  std::from_chars(name.data() + kBlock.size(), name.data() + name.size(), block);
  const uint64_t kv_heads = model.head_count_kv[block];
  return {uint64_t{model.head_count[block]} * model.key_length, kv_heads * model.key_length,
          kv_heads * model.value_length};
}

class PartList {
 public:
  PartList(const Hyperparameters& model, std::span<const ModelTensor> tensors) : model_(model) {
    for (const ModelTensor& tensor : tensors) by_name_.emplace(tensor.name, &tensor);
  }

  std::vector<ContentPart> Build() && {
    for (const ExpectedTensor& expected : TensorLayout(model_)) Add(expected);
    // Not the one of std::ranges: clang 14 cannot read it.
    std::stable_partition(parts_.begin(), parts_.end(),
                          [](const ContentPart& part) { return part.is_vector(); });
    return std::move(parts_);
  }

 private:
  void Add(const ExpectedTensor& expected) {
    if (const auto found = by_name_.find(expected.name); found != by_name_.end()) {
      return Add(*found->second);
    }
    if (!expected.name.ends_with(kStackedExperts)) return;  // one it can do without
    const std::string stem = expected.name.substr(0, expected.name.size() - kStackedExperts.size());
    for (uint64_t expert = 0; expert < expected.dims[2]; ++expert) {
      const auto found = by_name_.find(Concat(stem, ".", expert, ".weight"));
      if (found != by_name_.end()) Add(*found->second);
    }
  }

  void Add(const ModelTensor& tensor) {
    if (tensor.name.find(kFusedAttention) != std::string::npos) {
      return AddPieces(tensor, FusedCounts(model_, tensor.name));
    }
    if (const uint64_t length = model_.feed_forward_length;
        tensor.name.ends_with(kUp) && tensor.row_count() == 2 * length) {
      return AddPieces(tensor, {length, length});  // a gate and what it gates
    }
    const bool of_heads = tensor.name.ends_with(kNorms) && tensor.dims.size() == 2;
    if (of_heads || tensor.name.ends_with(kExpertBiases)) {
      return AddPieces(tensor, std::vector<uint64_t>(tensor.dims[1], 1));
    }
    if (tensor.dims.size() == 3) {
      return AddPieces(tensor, std::vector<uint64_t>(tensor.dims[2], tensor.dims[1]));
    }
    AddPieces(tensor, {tensor.dims.size() == 1 ? tensor.dims[0] : tensor.row_count()});
  }

  void AddPieces(const ModelTensor& tensor, const std::vector<uint64_t>& counts) {
    uint64_t first = 0;
    for (const uint64_t count : counts) {
      parts_.push_back({&tensor, first, count});
      first += count;
    }
  }

  const Hyperparameters& model_;
  absl::flat_hash_map<std::string, const ModelTensor*> by_name_;
  std::vector<ContentPart> parts_;
};

uint64_t GroupCount(const ContentPart& part) {
  return part.is_vector() ? 1 : (part.count + kContentRows - 1) / kContentRows;
}

}  // namespace

std::vector<ContentPart> ContentParts(const Hyperparameters& model,
                                      std::span<const ModelTensor> tensors) {
  return PartList(model, tensors).Build();
}

ContentHasher::ContentHasher(const Hyperparameters& model, std::span<const ModelTensor> tensors)
    : parts_(ContentParts(model, tensors)), hashes_(parts_.size()) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    progress_.try_emplace(parts_[i].tensor->name, Progress{.part = i, .started = {}});
    hashes_[i].reserve(GroupCount(parts_[i]));
  }
}

absl::Status ContentHasher::Add(const ModelTensor& tensor, std::span<const std::byte> rows) {
  if (tensor.dims.size() == 1) {
    if (!CanDequantize(tensor.type)) {
      return Unimplemented("tensor ", tensor.name, " is ", Name(tensor.type),
                           ", which cannot be decoded");
    }
    std::vector<float> values(tensor.dims[0]);
    OUTRIDER_RETURN_IF_ERROR(Dequantize(tensor.type, rows, values));
    AddVector(tensor, values);
    return absl::OkStatus();
  }
  Progress& at = progress_.at(tensor.name);
  const uint64_t row_bytes = RowBytes(tensor.type, tensor.dims[0]);
  while (!rows.empty()) {
    const ContentPart& part = parts_[at.part];
    const uint64_t left = part.count - hashes_[at.part].size() * kContentRows;
    const uint64_t wanted = std::min(left, kContentRows) * row_bytes - at.started.size();
    const std::span<const std::byte> taken = rows.first(std::min<uint64_t>(rows.size(), wanted));
    at.started.insert(at.started.end(), taken.begin(), taken.end());
    rows = rows.subspan(taken.size());
    if (taken.size() < wanted) break;
    hashes_[at.part].push_back(HashBytes(at.started, 0));
    at.started.clear();
    if (hashes_[at.part].size() == GroupCount(part)) ++at.part;
  }
  return absl::OkStatus();
}

void ContentHasher::AddHashedRows(const ModelTensor& tensor, uint64_t first,
                                  std::span<const uint64_t> hashes) {
  size_t part = progress_.at(tensor.name).part;
  while (parts_[part].first < first) ++part;
  OUTRIDER_CHECK(parts_[part].first == first && hashes.size() == GroupCount(parts_[part]),
                 "a part is hashed as a whole");
  hashes_[part].assign(hashes.begin(), hashes.end());
}

void ContentHasher::AddVector(const ModelTensor& tensor, std::span<const float> values) {
  const uint64_t hash = HashBytes(std::as_bytes(values), 0);
  // All parts of a vector, of which there are several where it is a fused bias.
  for (size_t part = progress_.at(tensor.name).part;
       part < parts_.size() && parts_[part].tensor->name == tensor.name; ++part) {
    hashes_[part].assign(1, hash);
  }
}

uint64_t ContentHasher::value() const {
  ContentHash hash;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const ContentPart& part = parts_[i];
    OUTRIDER_CHECK(hashes_[i].size() == GroupCount(part), "every part has been added");
    const TensorType type = part.is_vector() ? TensorType::kF32 : part.tensor->type;
    hash.Add(part.tensor->name);
    hash.Add(static_cast<uint32_t>(type));
    for (const uint64_t dim : part.tensor->dims) hash.Add(dim);
    hash.Add(part.first);
    for (const uint64_t rows : hashes_[i]) hash.Add(rows);
  }
  return hash.value();
}

absl::StatusOr<uint64_t> HashContent(const ModelFile& model) {
  ContentHasher hasher(model.hyperparameters(), model.tensors());
  std::vector<std::byte> band;
  for (const ModelTensor& tensor : model.tensors()) {
    const uint64_t row_bytes = RowBytes(tensor.type, tensor.dims[0]);
    const uint64_t band_rows = std::max<uint64_t>(1, kBandBytes / row_bytes);
    for (uint64_t first = 0; first < tensor.row_count(); first += band_rows) {
      const uint64_t count = std::min(band_rows, tensor.row_count() - first);
      band.resize(count * row_bytes);
      OUTRIDER_RETURN_IF_ERROR(model.ReadRows(tensor, first, count, band));
      OUTRIDER_RETURN_IF_ERROR(hasher.Add(tensor, band));
    }
  }
  return hasher.value();
}

}  // namespace outrider
