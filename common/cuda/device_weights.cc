#include "common/cuda/device_weights.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/cuda/kernels/product_choice.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {
namespace {

constexpr size_t kTensorAlignment = 256;

std::optional<gpu::PanelKind> KindOf(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return gpu::PanelKind::kF32;
    case TensorType::kF16:
      return gpu::PanelKind::kF16;
    case TensorType::kBF16:
      return gpu::PanelKind::kBf16;
    case TensorType::kQ8_0:
      return gpu::PanelKind::kQ8_0;
    case TensorType::kQ4_0:
      return gpu::PanelKind::kQ4_0;
    case TensorType::kQ4_K:
      return gpu::PanelKind::kQ4_K;
    case TensorType::kQ5_K:
      return gpu::PanelKind::kQ5_K;
    case TensorType::kQ6_K:
      return gpu::PanelKind::kQ6_K;
    default:
      return std::nullopt;
  }
}

absl::Status CheckMatrix(const ModelSpec& spec, const WeightMatrix& matrix) {
  if (!KindOf(matrix.type)) {
    return Unimplemented(spec.name, ": weights of type ", Info(matrix.type).name,
                         " have no kernel on a GPU yet; F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K "
                         "and Q6_K do (`outrider convert` makes them)");
  }
  if (matrix.inputs % 4 != 0) {
    return Unimplemented(spec.name, ": a matrix of ", matrix.inputs,
                         " inputs has no kernel on a GPU: they come in fours there");
  }
  return absl::OkStatus();
}

}  // namespace

// Goes over all weights twice: to count their bytes, and then to upload them.
class DeviceWeights::Packer {
 public:
  explicit Packer(const ModelSpec& spec) : spec_(spec) {}

  size_t size() const { return size_; }
  void StartOver(DeviceQueue& queue, std::byte* memory) {
    queue_ = &queue;
    memory_ = memory;
    size_ = 0;
  }

  absl::StatusOr<DeviceWeights> Pack(ResidentWeights& weights) {
    DeviceWeights made;
    OUTRIDER_ASSIGN_OR_RETURN(made.head_, Matrix(weights.head().matrix));
    made.head_norm_ = NormOf(weights.head().norm);
    const WeightMatrix& embeddings = weights.entry().embeddings;
    if (embeddings.data == weights.head().matrix.data) {
      made.embeddings_ = made.head_;
    } else {
      OUTRIDER_ASSIGN_OR_RETURN(made.embeddings_, Matrix(embeddings));
    }
    if (spec_.learned_positions) {
      OUTRIDER_ASSIGN_OR_RETURN(made.positions_, Matrix(weights.entry().positions));
    }
    for (uint32_t i = 0; i < spec_.layer_count(); ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(const Lease<LayerWeights> lease, weights.Acquire(LayerKey{i}));
      OUTRIDER_ASSIGN_OR_RETURN(DeviceLayer layer, Layer(*lease));
      if (spec_.layers[i].feed_forward.router) {
        OUTRIDER_ASSIGN_OR_RETURN(layer.experts, Experts(i, *lease, weights));
      }
      made.layers_.push_back(layer);
    }
    return made;
  }

 private:
  absl::StatusOr<DeviceLayer> Layer(const LayerWeights& weights) {
    DeviceLayer layer;
    layer.mixer_norms = NormsOf(weights.mixer_norms);
    layer.feed_forward_norms = NormsOf(weights.feed_forward_norms);
    layer.query_norm = HeadNormOf(weights.attention.query_norm);
    layer.key_norm = HeadNormOf(weights.attention.key_norm);
    const std::pair<const Linear&, DeviceLinear&> linears[] = {
        {weights.attention.query, layer.query},
        {weights.attention.key, layer.key},
        {weights.attention.value, layer.value},
        {weights.attention.output, layer.output}};
    for (const auto& [from, to] : linears) {
      OUTRIDER_ASSIGN_OR_RETURN(to, LinearOf(from));
    }
    OUTRIDER_ASSIGN_OR_RETURN(layer.feed_forward, FeedForward(weights.feed_forward));
    return layer;
  }

  absl::StatusOr<DeviceFeedForward> FeedForward(const FeedForwardWeights& weights) {
    DeviceFeedForward made;
    OUTRIDER_ASSIGN_OR_RETURN(made.gate, LinearOf(weights.gate));
    OUTRIDER_ASSIGN_OR_RETURN(made.up, LinearOf(weights.up));
    OUTRIDER_ASSIGN_OR_RETURN(made.down, LinearOf(weights.down));
    return made;
  }

  absl::StatusOr<DeviceExperts> Experts(uint32_t layer, const LayerWeights& of_layer,
                                        ResidentWeights& weights) {
    const uint32_t count = spec_.layers[layer].feed_forward.router->expert_count;
    std::vector<FeedForwardWeights> experts;
    for (uint32_t expert = 0; expert < count; ++expert) {
      OUTRIDER_ASSIGN_OR_RETURN(const Lease<FeedForwardWeights> lease,
                                weights.Acquire(ExpertKey{layer, expert}));
      experts.push_back(*lease);
    }
    DeviceExperts made;
    OUTRIDER_ASSIGN_OR_RETURN(made.router, LinearOf(of_layer.router));
    OUTRIDER_ASSIGN_OR_RETURN(made.each.gate, Row(experts, &FeedForwardWeights::gate));
    OUTRIDER_ASSIGN_OR_RETURN(made.each.up, Row(experts, &FeedForwardWeights::up));
    OUTRIDER_ASSIGN_OR_RETURN(made.each.down, Row(experts, &FeedForwardWeights::down));
    OUTRIDER_ASSIGN_OR_RETURN(made.shared, FeedForward(of_layer.shared.feed_forward));
    made.shared_gate = Floats(of_layer.shared.gate);
    return made;
  }

  // One of the matrices of every expert, one expert's after another's, and their biases.
  absl::StatusOr<DeviceLinear> Row(const std::vector<FeedForwardWeights>& experts,
                                   Linear FeedForwardWeights::*which) {
    const Linear& first = experts[0].*which;
    if (first.matrix.data == nullptr) return DeviceLinear{};
    DeviceLinear made;
    OUTRIDER_ASSIGN_OR_RETURN(made.matrix, ShapeOf(first.matrix));
    for (const FeedForwardWeights& expert : experts) {
      if ((expert.*which).matrix.type == first.matrix.type) continue;
      return Unimplemented(
          spec_.name, ": experts whose weights are of several types in one layer, ",
          Info(first.matrix.type).name, " and ", Info((expert.*which).matrix.type).name,
          ", have no kernel on a GPU; `outrider convert` makes them of one");
    }
    std::vector<std::span<const std::byte>> panels, biases;
    for (const FeedForwardWeights& expert : experts) {
      const Linear& linear = expert.*which;
      OUTRIDER_CHECK(linear.matrix.layout == WeightLayout::kPanels, "experts are packed");
      panels.push_back({linear.matrix.data, PanelsBytes(linear.matrix)});
      biases.push_back(std::as_bytes(linear.bias));
    }
    made.matrix.panels = PutRow(panels);
    if (!first.bias.empty()) made.bias = reinterpret_cast<const float*>(PutRow(biases));
    return made;
  }

  absl::StatusOr<DeviceLinear> LinearOf(const Linear& linear) {
    DeviceLinear made;
    OUTRIDER_ASSIGN_OR_RETURN(made.matrix, Matrix(linear.matrix));
    made.bias = Floats(linear.bias);
    return made;
  }

  DeviceNorm NormOf(const Norm& norm) { return {Floats(norm.weight), Floats(norm.bias)}; }
  DevicePartNorms NormsOf(const PartNorms& norms) {
    return {NormOf(norms.before), NormOf(norms.after), NormOf(norms.sum)};
  }
  DeviceHeadNorm HeadNormOf(std::span<const float> weight) {
    return {Floats(weight), static_cast<uint32_t>(weight.size())};
  }

  const float* Floats(std::span<const float> values) {
    if (values.empty()) return nullptr;
    return reinterpret_cast<const float*>(Put(std::as_bytes(values)));
  }

  absl::StatusOr<DeviceMatrix> Matrix(const WeightMatrix& matrix) {
    if (matrix.data == nullptr) return DeviceMatrix{};
    OUTRIDER_ASSIGN_OR_RETURN(DeviceMatrix made, ShapeOf(matrix));
    made.panels = matrix.layout == WeightLayout::kPanels ? Put({matrix.data, PanelsBytes(matrix)})
                                                         : PutPacked(matrix, made.panel_bytes);
    return made;
  }

  absl::StatusOr<DeviceMatrix> ShapeOf(const WeightMatrix& matrix) const {
    OUTRIDER_RETURN_IF_ERROR(CheckMatrix(spec_, matrix));
    return DeviceMatrix{.kind = *KindOf(matrix.type),
                        .form = FormFor(matrix.type),
                        .outputs = matrix.outputs,
                        .inputs = matrix.inputs,
                        .panel_bytes = PanelBytes(matrix.type, matrix.inputs)};
  }

  static uint64_t PanelsBytes(const WeightMatrix& matrix) {
    return PackedBytes(matrix.type, matrix.outputs, matrix.inputs);
  }

  std::byte* Take(size_t bytes) {
    // While bytes are only counted, any address that is not null will do.
    std::byte* const at = memory_ == nullptr ? &counted_ : memory_ + size_;
    size_ += (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
    return at;
  }

  std::byte* Put(std::span<const std::byte> bytes) {
    std::byte* const at = Take(bytes.size());
    if (memory_ != nullptr) queue_->Upload(at, bytes.data(), bytes.size());
    return at;
  }

  // Pieces that are alike in size, without a gap.
  std::byte* PutRow(std::span<const std::span<const std::byte>> pieces) {
    const size_t bytes = pieces[0].size();
    std::byte* const at = Take(pieces.size() * bytes);
    for (size_t i = 0; memory_ != nullptr && i < pieces.size(); ++i) {
      queue_->Upload(at + i * bytes, pieces[i].data(), bytes);
    }
    return at;
  }

  // A matrix in rows, panel after panel.
  std::byte* PutPacked(const WeightMatrix& matrix, size_t panel_bytes) {
    std::byte* const at = Take(PanelCount(matrix.outputs) * panel_bytes);
    if (memory_ == nullptr) return at;
    const size_t row_bytes = RowBytes(matrix.type, matrix.inputs);
    std::vector<std::byte> panel(panel_bytes);
    for (uint32_t i = 0; i < PanelCount(matrix.outputs); ++i) {
      const uint32_t first = i * kPanelOutputs;
      const uint32_t count = std::min(kPanelOutputs, matrix.outputs - first);
      std::ranges::fill(panel, std::byte{0});
      PackPanel(matrix.type, matrix.inputs, {matrix.data + first * row_bytes, count * row_bytes},
                panel);
      queue_->Upload(at + i * panel_bytes, panel.data(), panel_bytes);
    }
    return at;
  }

  const ModelSpec& spec_;
  DeviceQueue* queue_ = nullptr;
  std::byte* memory_ = nullptr;  // null: bytes are only counted
  size_t size_ = 0;
  std::byte counted_ = {};
};

namespace {

// What of a model has no kernels on a GPU; null: nothing.
const char* LackingOf(const LayerSpec& layer) {
  if (layer.attention() == nullptr) return "layers that are no attention";
  if (layer.attention()->soft_cap) return "soft caps of scores";
  if (layer.attention()->query_growth) return "queries that grow with their position";
  if (layer.attention()->head_norms == HeadNorms::kLayerEach) return "layer norms of heads";
  if (layer.attention()->rope.scaling == RopeScaling::kLongRope) return "turns by longrope";
  if (layer.cross_attention) return "layers that hear an encoder";
  if (layer.feed_forward.gate == GateKind::kClampedSiluGated) return "clamped gates";
  if (layer.is_parallel) return "attention and feed-forward part side by side";
  return nullptr;
}

const char* LackingOf(const ModelSpec& spec) {
  if (spec.embedding_scale != 1.0f || spec.residual_scale != 1.0f || spec.logit_scale != 1.0f) {
    return "scales of embeddings, residuals or logits";
  }
  if (spec.logit_soft_cap) return "soft caps of logits";
  for (const LayerSpec& layer : spec.layers) {
    if (const char* const lacking = LackingOf(layer); lacking != nullptr) return lacking;
  }
  return nullptr;
}

}  // namespace

absl::Status DeviceWeights::Check(const ModelSpec& spec) {
  const char* const lacking = LackingOf(spec);
  if (lacking == nullptr) return absl::OkStatus();
  return Unimplemented(spec.name, ": ", lacking,
                       " have no kernels on a GPU yet; `--device cpu` computes them");
}

bool DeviceWeights::HaveOwnBits() const {
  const auto has_own_bits = [](const DeviceLinear& linear) {
    return linear.matrix.panels != nullptr && gpu::HasOwnBits(linear.matrix.kind);
  };
  const auto feeds_such = [&](const DeviceFeedForward& weights) {
    return has_own_bits(weights.gate) || has_own_bits(weights.up) || has_own_bits(weights.down);
  };
  const auto is_of_such = [&](const DeviceLayer& layer) {
    const DeviceLinear linears[] = {layer.query, layer.key, layer.value, layer.output,
                                    layer.experts.router};
    return std::ranges::any_of(linears, has_own_bits) || feeds_such(layer.feed_forward) ||
           feeds_such(layer.experts.each) || feeds_such(layer.experts.shared);
  };
  return gpu::HasOwnBits(head_.kind) || std::ranges::any_of(layers_, is_of_such);
}

absl::StatusOr<DeviceWeights> DeviceWeights::Upload(const ModelSpec& spec, ResidentWeights& weights,
                                                    DeviceQueue& queue) {
  OUTRIDER_RETURN_IF_ERROR(Check(spec));
  Packer packer(spec);
  OUTRIDER_RETURN_IF_ERROR(packer.Pack(weights).status());
  OUTRIDER_ASSIGN_OR_RETURN(
      DeviceBuffer memory,
      DeviceBuffer::Create(queue, packer.size(), Concat("the weights of ", spec.name)));
  packer.StartOver(queue, memory.data());
  OUTRIDER_ASSIGN_OR_RETURN(DeviceWeights made, packer.Pack(weights));
  OUTRIDER_RETURN_IF_ERROR(queue.Wait());
  made.memory_ = std::move(memory);
  return made;
}

}  // namespace outrider
