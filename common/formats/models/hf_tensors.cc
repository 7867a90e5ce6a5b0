#include "common/formats/models/hf_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"
#include "common/formats/models/hf_tensor_names.h"
#include "common/formats/models/tensor_layout.h"
#include "common/formats/tensors/dequantize.h"

namespace outrider {
namespace {

constexpr char kEmbeddings[] = "token_embd.weight";
constexpr char kOutput[] = "output.weight";
constexpr uint64_t kBartFirstPosition = 2;

// Compared at a time.
constexpr uint64_t kComparedBytes = 1 << 20;

std::optional<TensorType> TypeFromDtype(std::string_view dtype) {
  if (dtype == "F32") return TensorType::kF32;
  if (dtype == "F16") return TensorType::kF16;
  if (dtype == "BF16") return TensorType::kBF16;
  return std::nullopt;
}

bool IsOfBlocks(HfTransform transform) {
  return transform == HfTransform::kTurnsBlocks || transform == HfTransform::kStackBlocks;
}

// The stored tensors that make one GGUF tensor (two for kGateAndUp).
struct Group {
  HfTransform transform;
  absl::btree_map<uint32_t, const SafetensorsTensor*> parts;  // by expert, by head; else only 0

  const SafetensorsTensor& first() const { return *parts.begin()->second; }
};

class Mapper {
 public:
  Mapper(const SafetensorsSet& files, const std::string& name, Hyperparameters& model)
      : files_(files), name_(name), model_(model) {}

  absl::StatusOr<std::vector<StoredTensor>> Map() && {
    for (const SafetensorsTensor& tensor : files_.tensors()) {
      OUTRIDER_RETURN_IF_ERROR(Sort(tensor));
    }
    OUTRIDER_RETURN_IF_ERROR(CheckScales());
    StandInCopies();
    OUTRIDER_RETURN_IF_ERROR(SettleOutput());
    for (const auto& [gguf_name, group] : groups_) {
      OUTRIDER_RETURN_IF_ERROR(Build(gguf_name, group));
    }
    MakeRopeFactors();
    OUTRIDER_RETURN_IF_ERROR(Check());
    OUTRIDER_RETURN_IF_ERROR(MakeFloats());  // all shapes are now the model's
    PutInOrder();
    return std::move(tensors_);
  }

 private:
  // Finds the group a stored tensor belongs to.
  absl::Status Sort(const SafetensorsTensor& tensor) {
    std::optional<HfTarget> target = FindHfTarget(model_.architecture, tensor.name);
    if (!target) {
      return Unimplemented(name_, ": tensor ", tensor.name, " is none of a ",
                           Name(model_.architecture), " model's");
    }
    if (target->transform == HfTransform::kIgnored) return absl::OkStatus();
    if (target->transform == HfTransform::kCopy) {
      copies_.emplace(std::move(target->name), &tensor);
      return absl::OkStatus();
    }
    if (target->transform == HfTransform::kScales) {
      const auto [scales, is_new] = scales_.try_emplace(target->name, &tensor);
      if (is_new) return absl::OkStatus();
      return InvalidArgument(name_, ": tensors ", scales->second->name, " and ", tensor.name,
                             " are both scales of ", target->name);
    }
    const bool is_blocks = IsOfBlocks(target->transform);
    if (is_blocks ? tensor.dtype != "U8" : !TypeFromDtype(tensor.dtype)) {
      return Unimplemented(
          name_, ": tensor ", tensor.name, " is of type ", tensor.dtype,
          is_blocks ? "; MXFP4's blocks are U8" : "; F32, F16 and BF16 can be read");
    }
    auto [group, is_new] = groups_.try_emplace(target->name, Group{target->transform, {}});
    auto [part, is_only] = group->second.parts.try_emplace(target->part, &tensor);
    if (!is_only || group->second.transform != target->transform) {
      return InvalidArgument(name_, ": tensors ", group->second.first().name, " and ", tensor.name,
                             " are both ", target->name);
    }
    return absl::OkStatus();
  }

  // Scales are of blocks, and of nothing else.
  absl::Status CheckScales() const {
    for (const auto& [gguf_name, scales] : scales_) {
      const auto group = groups_.find(gguf_name);
      if (group == groups_.end()) {
        return NotFound(name_, ": has tensor ", scales->name, " but none of its blocks");
      }
      if (IsOfBlocks(group->second.transform)) continue;
      const SafetensorsTensor& first = group->second.first();
      return InvalidArgument(name_, ": tensor ", scales->name,
                             " holds scales of MXFP4's blocks, but ", first.name, " is ",
                             first.dtype);
    }
    return absl::OkStatus();
  }

  // Of tensors that share their memory, safetensors keeps one, and not always under the usual name.
  void StandInCopies() {
    for (const auto& [gguf_name, tensor] : copies_) {
      if (!groups_.contains(gguf_name) && TypeFromDtype(tensor->dtype)) {
        groups_.emplace(gguf_name, Group{HfTransform::kNone, {{0, tensor}}});
      }
    }
    const auto output = groups_.find(kOutput);
    if (model_.tied_embeddings && output != groups_.end() && !groups_.contains(kEmbeddings)) {
      Group group = std::move(output->second);
      groups_.erase(output);
      groups_.emplace(kEmbeddings, std::move(group));
    }
  }

  absl::Status SettleOutput() {
    const auto output = groups_.find(kOutput);
    if (output == groups_.end()) return absl::OkStatus();  // if it had to be, the layout says so
    const auto embeddings = groups_.find(kEmbeddings);
    bool are_same = false;
    if (model_.tied_embeddings && embeddings != groups_.end()) {
      OUTRIDER_ASSIGN_OR_RETURN(are_same,
                                AreSame(output->second.first(), embeddings->second.first()));
    }
    if (are_same) {
      groups_.erase(output);
    } else {
      model_.tied_embeddings = false;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> AreSame(const SafetensorsTensor& one, const SafetensorsTensor& other) const {
    if (one.bytes != other.bytes) return false;
    std::vector<std::byte> bytes(std::min(one.bytes, kComparedBytes));
    std::vector<std::byte> others(bytes.size());
    for (uint64_t at = 0; at < one.bytes; at += bytes.size()) {
      bytes.resize(std::min<uint64_t>(bytes.size(), one.bytes - at));
      others.resize(bytes.size());
      OUTRIDER_RETURN_IF_ERROR(ReadPart(one, at, bytes));
      OUTRIDER_RETURN_IF_ERROR(ReadPart(other, at, others));
      if (bytes != others) return false;
    }
    return true;
  }

  absl::Status ReadPart(const SafetensorsTensor& tensor, uint64_t skip,
                        std::span<std::byte> out) const {
    return files_.ReadAt(tensor.shard, tensor.offset + skip, out, Concat("tensor ", tensor.name));
  }

  static FilePart PartOf(const SafetensorsTensor& tensor) {
    return {tensor.shard, tensor.offset, tensor.bytes};
  }

  absl::Status Build(const std::string& gguf_name, const Group& group) {
    const SafetensorsTensor& first = group.first();
    const FilePart whole = PartOf(first);
    std::vector<uint64_t> dims(first.shape.rbegin(), first.shape.rend());
    RowSource source;
    source.pieces = {whole};
    switch (group.transform) {
      case HfTransform::kNone:
      case HfTransform::kStacked:
        break;
      case HfTransform::kPairHalves:
        source.order = RowSource::Order::kPairHalves;
        source.head_length = model_.key_length;
        break;
      case HfTransform::kTransposed:
        if (dims.size() != 2) return WrongRank(first, 2);
        source.order = RowSource::Order::kTransposed;
        std::swap(dims[0], dims[1]);
        break;
      case HfTransform::kSkipTwoRows:
        if (dims.size() != 2) return WrongRank(first, 2);
        if (dims[1] <= kBartFirstPosition) {
          return InvalidArgument(name_, ": tensor ", first.name, " has ", dims[1],
                                 " rows, no more than the two that are not used");
        }
        source.pieces = {whole.From(whole.bytes / dims[1] * kBartFirstPosition)};
        dims[1] -= kBartFirstPosition;
        break;
      case HfTransform::kVector:
        if (dims.size() != 2 || dims[1] != 1) return WrongRank(first, 1);
        dims.pop_back();
        break;
      case HfTransform::kExpert:
        return BuildExperts(gguf_name, group);
      case HfTransform::kNormOfHead:
        return BuildNormsOfHeads(gguf_name, group);
      case HfTransform::kGateAndUp:
        return BuildGateAndUp(gguf_name, first);
      case HfTransform::kTurns:
      case HfTransform::kFloats:
        return BuildFloats(gguf_name, first, group.transform);
      case HfTransform::kTurnsTransposed:
      case HfTransform::kStackTransposed:
        return BuildTransposedStack(gguf_name, first, group.transform);
      case HfTransform::kTurnsBlocks:
      case HfTransform::kStackBlocks:
        return BuildBlocks(gguf_name, first, group.transform);
      case HfTransform::kPlusOne:
        return BuildPlusOne(gguf_name, first);
      case HfTransform::kCopy:
      case HfTransform::kScales:
      case HfTransform::kIgnored:
        return absl::OkStatus();  // never grouped
    }
    return Add(gguf_name, first, std::move(dims), std::move(source));
  }

  // Parts of a stack are alike, and none between them is missing. `whose`: an expert's, a head's.
  absl::Status CheckStack(const std::string& gguf_name, const Group& group, size_t rank,
                          std::string_view whose) const {
    const SafetensorsTensor& first = group.first();
    if (first.shape.size() != rank) return WrongRank(first, rank);
    uint32_t next = 0;
    for (const auto& [part, tensor] : group.parts) {
      if (part != next) {
        return NotFound(name_, ": has tensor ", tensor->name, " but none of ", whose, " ", next,
                        " for ", gguf_name);
      }
      if (tensor->shape != first.shape || tensor->dtype != first.dtype) {
        return InvalidArgument(name_, ": tensor ", tensor->name, " is ", tensor->dtype, " ",
                               FormatDims(tensor->shape), ", ", whose, " 0's is ", first.dtype, " ",
                               FormatDims(first.shape));
      }
      ++next;
    }
    return absl::OkStatus();
  }

  absl::Status BuildExperts(const std::string& gguf_name, const Group& group) {
    OUTRIDER_RETURN_IF_ERROR(CheckStack(gguf_name, group, 2, "expert"));
    const SafetensorsTensor& first = group.first();
    RowSource source;
    for (const auto& [expert, tensor] : group.parts) source.pieces.push_back(PartOf(*tensor));
    std::vector<uint64_t> dims = {first.shape[1], first.shape[0], source.pieces.size()};
    return Add(gguf_name, first, std::move(dims), std::move(source));
  }

  // One row for each head, as floats: so GGUF has them.
  absl::Status BuildNormsOfHeads(const std::string& gguf_name, const Group& group) {
    OUTRIDER_RETURN_IF_ERROR(CheckStack(gguf_name, group, 1, "head"));
    Floats floats;
    for (const auto& [head, tensor] : group.parts) floats.from.push_back(tensor);
    std::vector<uint64_t> dims = {group.first().shape[0], floats.from.size()};
    AddFloats(gguf_name, std::move(dims), std::move(floats));
    return absl::OkStatus();
  }

  // Each expert is a piece, and of few bytes, or of none, a file may say to have any number.
  absl::Status CheckExpertCount(const SafetensorsTensor& tensor) const {
    if (tensor.shape[0] == model_.experts.count && tensor.shape[0] > 0) return absl::OkStatus();
    return InvalidArgument(name_, ": tensor ", tensor.name, " is ", FormatDims(tensor.shape),
                           ", but the model has ", model_.experts.count, " experts");
  }

  // Each expert's matrix is its gate's rows and then as many of its up projection's.
  absl::Status BuildGateAndUp(const std::string& gguf_name, const SafetensorsTensor& tensor) {
    if (tensor.shape.size() != 3) return WrongRank(tensor, 3);
    OUTRIDER_RETURN_IF_ERROR(CheckExpertCount(tensor));
    const uint64_t experts = tensor.shape[0];
    const uint64_t rows = tensor.shape[1];
    const FilePart whole = PartOf(tensor);
    if (rows % 2 != 0) return NotByTurns(tensor);
    const uint64_t half = whole.bytes / experts / 2;
    RowSource gate;
    RowSource up;
    for (uint64_t expert = 0; expert < experts; ++expert) {
      gate.pieces.push_back(whole.Sub(2 * expert * half, half));
      up.pieces.push_back(whole.Sub((2 * expert + 1) * half, half));
    }
    const std::vector<uint64_t> dims = {tensor.shape[2], rows / 2, experts};
    OUTRIDER_RETURN_IF_ERROR(Add(PartOfFused(gguf_name, "gate"), tensor, dims, std::move(gate)));
    return Add(PartOfFused(gguf_name, "up"), tensor, dims, std::move(up));
  }

  // "blk.0.ffn_gate_up_exps.weight" -> "blk.0.ffn_up_exps.weight"
  static std::string PartOfFused(std::string gguf_name, std::string_view part) {
    constexpr std::string_view kFused = "gate_up";
    return gguf_name.replace(gguf_name.find(kFused), kFused.size(), part);
  }

  // Adds what `source` makes of a tensor: of gate and up by turns both of them, else itself.
  absl::Status AddTurns(const std::string& gguf_name, const SafetensorsTensor& tensor, bool turns,
                        const std::vector<uint64_t>& dims, RowSource source) {
    if (!turns) return Add(gguf_name, tensor, dims, std::move(source));
    if (dims[1] % 2 != 0) return NotByTurns(tensor);
    const std::vector<uint64_t> half = {dims[0], dims[1] / 2, dims[2]};
    source.row_step = 2;
    OUTRIDER_RETURN_IF_ERROR(Add(PartOfFused(gguf_name, "gate"), tensor, half, source));
    source.row_first = 1;
    return Add(PartOfFused(gguf_name, "up"), tensor, half, std::move(source));
  }

  // Of each expert a matrix with rows and columns exchanged.
  absl::Status BuildTransposedStack(const std::string& gguf_name, const SafetensorsTensor& tensor,
                                    HfTransform transform) {
    if (tensor.shape.size() != 3) return WrongRank(tensor, 3);
    OUTRIDER_RETURN_IF_ERROR(CheckExpertCount(tensor));
    const FilePart whole = PartOf(tensor);
    const uint64_t experts = tensor.shape[0];
    const uint64_t length = whole.bytes / experts;
    RowSource source;
    source.order = RowSource::Order::kTransposed;
    for (uint64_t expert = 0; expert < experts; ++expert) {
      source.pieces.push_back(whole.Sub(expert * length, length));
    }
    return AddTurns(gguf_name, tensor, transform == HfTransform::kTurnsTransposed,
                    {tensor.shape[1], tensor.shape[2], experts}, std::move(source));
  }

  // MXFP4: blocks [experts, rows, blocks of a row, 16], scales [experts, rows, blocks of a row].
  absl::Status BuildBlocks(const std::string& gguf_name, const SafetensorsTensor& blocks,
                           HfTransform transform) {
    if (blocks.shape.size() != 4) return WrongRank(blocks, 4);
    const auto found = scales_.find(gguf_name);
    if (found == scales_.end()) {
      return NotFound(name_, ": has tensor ", blocks.name, " but none of its scales");
    }
    const SafetensorsTensor& scales = *found->second;
    const bool fits = std::ranges::equal(scales.shape, std::span(blocks.shape).first(3));
    if (blocks.shape[3] != 16 || scales.dtype != "U8" || !fits) {
      return InvalidArgument(name_, ": tensor ", blocks.name, " is ", FormatDims(blocks.shape),
                             ", and ", scales.name, " ", scales.dtype, " ",
                             FormatDims(scales.shape),
                             ", which are no blocks of 16 bytes and a scale each");
    }
    RowSource source;
    source.order = RowSource::Order::kScalesApart;
    source.pieces = {PartOf(blocks)};
    source.scales = PartOf(scales);
    const uint64_t columns = blocks.shape[2] * Info(TensorType::kMXFP4).block_elements;
    return AddTurns(gguf_name, blocks, transform == HfTransform::kTurnsBlocks,
                    {columns, blocks.shape[1], blocks.shape[0]}, std::move(source));
  }

  // Biases of all experts, as floats: so GGUF has them.
  absl::Status BuildFloats(const std::string& gguf_name, const SafetensorsTensor& tensor,
                           HfTransform transform) {
    if (tensor.shape.size() != 2) return WrongRank(tensor, 2);
    if (transform == HfTransform::kFloats) {
      AddFloats(gguf_name, {tensor.shape[1], tensor.shape[0]}, {.from = {&tensor}});
      return absl::OkStatus();
    }
    if (tensor.shape[1] % 2 != 0) return NotByTurns(tensor);
    const std::vector<uint64_t> dims = {tensor.shape[1] / 2, tensor.shape[0]};
    AddFloats(PartOfFused(gguf_name, "gate"), dims, {.from = {&tensor}, .step = 2});
    AddFloats(PartOfFused(gguf_name, "up"), dims, {.from = {&tensor}, .first = 1, .step = 2});
    return absl::OkStatus();
  }

  absl::Status NotByTurns(const SafetensorsTensor& tensor) const {
    return InvalidArgument(name_, ": tensor ", tensor.name, " is ", FormatDims(tensor.shape),
                           ", its rows are no gate's and as many of an up projection's");
  }

  absl::Status Add(std::string gguf_name, const SafetensorsTensor& tensor,
                   std::vector<uint64_t> dims, RowSource source) {
    StoredTensor stored;
    stored.stored_name = tensor.name;
    const bool is_mxfp4 = source.order == RowSource::Order::kScalesApart;
    stored.tensor.type = is_mxfp4 ? TensorType::kMXFP4 : *TypeFromDtype(tensor.dtype);
    absl::StatusOr<uint64_t> bytes = TensorBytes(stored.tensor.type, dims);
    if (!bytes.ok()) {
      return Annotate(bytes.status(), Concat(name_, ": tensor ", tensor.name));
    }
    if (source.is_plain()) {
      stored.tensor.place = {source.pieces[0].file, source.pieces[0].offset};
    }
    stored.tensor.name = std::move(gguf_name);
    stored.tensor.dims = std::move(dims);
    stored.tensor.bytes = *bytes;
    stored.source = std::move(source);
    tensors_.push_back(std::move(stored));
    return absl::OkStatus();
  }

  // One added to each element, as a float: so GGUF has them.
  absl::Status BuildPlusOne(const std::string& gguf_name, const SafetensorsTensor& tensor) {
    if (tensor.shape.size() != 1) return WrongRank(tensor, 1);
    AddFloats(gguf_name, {tensor.shape[0]}, {.from = {&tensor}, .more = 1.0f});
    return absl::OkStatus();
  }

  // How floats are made of those that tensors hold: of each first, first + step, ..., each with so
  // much added.
  struct Floats {
    std::vector<const SafetensorsTensor*> from = {};
    uint64_t first = 0;
    uint64_t step = 1;
    float more = 0.0f;
    size_t index = 0;  // of what is made, in tensors_
  };

  // To be made when their shape is known to be the model's: a file may say to have any number.
  void AddFloats(std::string gguf_name, std::vector<uint64_t> dims, Floats floats) {
    StoredTensor stored;
    stored.stored_name = floats.from[0]->name;
    stored.tensor.name = std::move(gguf_name);
    stored.tensor.type = TensorType::kF32;
    stored.tensor.dims = std::move(dims);
    floats.index = tensors_.size();
    floats_.push_back(std::move(floats));
    tensors_.push_back(std::move(stored));
  }

  absl::Status MakeFloats() {
    for (const Floats& floats : floats_) {
      std::vector<float> values;
      for (const SafetensorsTensor* const from : floats.from) {
        OUTRIDER_ASSIGN_OR_RETURN(const std::vector<float> all, ReadFloats(*from));
        for (size_t i = floats.first; i < all.size(); i += floats.step) values.push_back(all[i]);
      }
      if (floats.more != 0) {  // a zero added would cost the sign of another
        for (float& value : values) value += floats.more;
      }
      Keep(values, tensors_[floats.index]);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<float>> ReadFloats(const SafetensorsTensor& tensor) const {
    const TensorType type = *TypeFromDtype(tensor.dtype);
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, files_.ReadBytes(tensor));
    std::vector<float> values(bytes.size() / RowBytes(type, 1));
    OUTRIDER_RETURN_IF_ERROR(Dequantize(type, bytes, values));
    return values;
  }

  void MakeRopeFactors() {
    constexpr char kFrom[] = "rope_scaling";
    if (model_.rope.scaling == RopeScaling::kLlama3) {
      const std::vector<float> factors = Llama3RopeFactors(model_.rope);
      AddMade("rope_freqs.weight", kFrom, {factors.size()}, factors);
    }
    if (model_.rope.scaling == RopeScaling::kLongRope) {
      const std::vector<uint64_t> dims = {model_.rope.long_factors.size()};
      AddMade("rope_factors_long.weight", kFrom, dims, model_.rope.long_factors);
      AddMade("rope_factors_short.weight", kFrom, dims, model_.rope.short_factors);
    }
  }

  // Numbers that no file holds as they are, of what is called `stored_name` there.
  void AddMade(std::string gguf_name, std::string stored_name, std::vector<uint64_t> dims,
               std::span<const float> values) {
    StoredTensor stored;
    stored.stored_name = std::move(stored_name);
    stored.tensor.name = std::move(gguf_name);
    stored.tensor.type = TensorType::kF32;
    stored.tensor.dims = std::move(dims);
    Keep(values, stored);
    tensors_.push_back(std::move(stored));
  }

  static void Keep(std::span<const float> values, StoredTensor& stored) {
    stored.made.resize(values.size_bytes());
    std::memcpy(stored.made.data(), values.data(), stored.made.size());
    stored.tensor.bytes = stored.made.size();
  }

  absl::Status Check() const {
    std::vector<FoundTensor> found;
    absl::flat_hash_map<std::string_view, const StoredTensor*> by_name;
    for (const StoredTensor& stored : tensors_) {
      // An expert's own gate, say, beside one of all experts' gates and ups.
      const auto [other, is_new] = by_name.try_emplace(stored.tensor.name, &stored);
      if (!is_new) {
        return InvalidArgument(name_, ": tensors ", other->second->stored_name, " and ",
                               stored.stored_name, " are both ", stored.tensor.name);
      }
      found.push_back({stored.tensor.name, stored.tensor.dims, stored.stored_name});
    }
    return CheckTensors(model_, found, name_, [this](std::string_view gguf_name) {
      return UsualHfName(model_.architecture, gguf_name, /*packed=*/!scales_.empty());
    });
  }

  void PutInOrder() {
    absl::flat_hash_map<std::string, size_t> order;
    for (const ExpectedTensor& expected : TensorLayout(model_)) {
      order.emplace(expected.name, order.size());
    }
    std::ranges::sort(tensors_, {},
                      [&](const StoredTensor& stored) { return order.at(stored.tensor.name); });
  }

  absl::Status WrongRank(const SafetensorsTensor& tensor, size_t rank) const {
    return InvalidArgument(name_, ": tensor ", tensor.name, " has shape ", FormatDims(tensor.shape),
                           ", expected ", rank, " dimension", rank == 1 ? "" : "s");
  }

  const SafetensorsSet& files_;
  const std::string& name_;
  Hyperparameters& model_;
  absl::btree_map<std::string, Group> groups_;
  absl::btree_map<std::string, const SafetensorsTensor*> copies_;
  absl::btree_map<std::string, const SafetensorsTensor*> scales_;  // by the tensor they are of
  std::vector<StoredTensor> tensors_;
  std::vector<Floats> floats_;  // for those of them that are yet to be made
};

}  // namespace

absl::StatusOr<std::vector<StoredTensor>> MapHfTensors(const SafetensorsSet& files,
                                                       const std::string& name,
                                                       Hyperparameters& hyperparameters) {
  return Mapper(files, name, hyperparameters).Map();
}

std::vector<float> Llama3RopeFactors(const Rope& rope) {
  const double context = rope.original_context_length;
  const double low = rope.low_frequency_factor;
  const double high = rope.high_frequency_factor;
  std::vector<float> factors;
  for (uint32_t i = 0; i < rope.dimension_count; i += 2) {
    const double exponent = static_cast<double>(i) / rope.dimension_count;
    const double wavelength = 2 * std::numbers::pi * std::pow(double{rope.base}, exponent);
    const double turns = context / wavelength;
    if (turns > high) {
      factors.push_back(1.0f);
    } else if (turns < low) {
      factors.push_back(rope.factor);
    } else {
      const double smooth = (turns - low) / (high - low);
      factors.push_back(static_cast<float>(1 / ((1 - smooth) / rope.factor + smooth)));
    }
  }
  return factors;
}

}  // namespace outrider
