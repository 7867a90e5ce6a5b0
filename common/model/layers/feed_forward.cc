#include "common/model/layers/feed_forward.h"

#include <algorithm>

#include "common/base/status.h"

namespace outrider {

void Gate(const FeedForwardSpec& shape, const RowKernels& kernels, const float* gate, float* up) {
  switch (shape.gate) {
    case GateKind::kSiluGated:
      return kernels.silu_gate(gate, up, shape.length, up);
    case GateKind::kGeluTanhGated:
      return kernels.gelu_tanh_gate(gate, up, shape.length, up);
    case GateKind::kClampedSiluGated:
      return kernels.clamped_silu_gate(gate, up, shape.length, up);
    case GateKind::kGeluTanh:
      return kernels.gelu_tanh(up, shape.length, up);
  }
}

absl::StatusOr<std::unique_ptr<FeedForward>> FeedForward::Create(const ModelSpec& spec,
                                                                 RowMath& math,
                                                                 uint32_t row_count_max) {
  uint32_t length = 0;
  for (const LayerSpec& layer : spec.layers) {
    length =
        std::max({length, layer.feed_forward.length, layer.feed_forward.shared_length.value_or(0)});
  }
  std::unique_ptr<FeedForward> made(new FeedForward(spec, math));
  OUTRIDER_ASSIGN_OR_RETURN(made->memory_, AllocateRows({{made->gate_, row_count_max, length},
                                                         {made->up_, row_count_max, length},
                                                         {made->share_, row_count_max, 1}}));
  return made;
}

void FeedForward::Apply(const FeedForwardSpec& shape, const FeedForwardWeights& weights,
                        const RowBlock& x, uint32_t row_count, const RowBlock& out) {
  if (shape.gate == GateKind::kGeluTanh) {
    math_.Multiply(x, row_count, spec_.embedding_length, {{weights.up, up_}});
  } else {
    math_.Multiply(x, row_count, spec_.embedding_length,
                   {{weights.gate, gate_}, {weights.up, up_}});
  }
  math_.ForEachRow(row_count,
                   [&](size_t i) { Gate(shape, math_.kernels(), gate_.row(i), up_.row(i)); });
  math_.Multiply(up_, row_count, shape.length, {{weights.down, out}});
}

// NUMERICS.md, section 7.
void FeedForward::ApplyShared(const FeedForwardSpec& shape, const SharedExpertWeights& weights,
                              const RowBlock& x, uint32_t row_count, const RowBlock& out) {
  const WeightMatrix gate = {.type = TensorType::kF32,
                             .layout = WeightLayout::kRows,
                             .outputs = 1,
                             .inputs = spec_.embedding_length,
                             .data = std::as_bytes(weights.gate).data()};
  math_.Multiply(x, row_count, gate, share_);
  Apply({.gate = shape.gate, .length = *shape.shared_length, .router = std::nullopt},
        weights.feed_forward, x, row_count, out);
  const RowKernels& kernels = math_.kernels();
  math_.ForEachRow(row_count, [&](size_t i) {
    float& share = *share_.row(i);
    share = -share;
    kernels.exp(&share, 1, &share);
    const WeightedRow scaled = {out.row(i), 1.0f / (1.0f + share)};
    kernels.weighted_sum(&scaled, 1, spec_.embedding_length, out.row(i));
  });
}

}  // namespace outrider
