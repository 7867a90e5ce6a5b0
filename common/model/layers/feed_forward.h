// The half of a layer that a row passes through alone: out = down(gate(x)).
//
// Memory:  taken in Create(), for `row_count_max` rows. Nothing allocates afterwards.
// Threads: one call at a time; it shares its work out over the pool.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/model/layers/row_math.h"
#include "common/model/model_spec.h"
#include "common/model/weights/layer_weights.h"

namespace outrider {

// What gate and up [shape.length] come to, into up.
void Gate(const FeedForwardSpec& shape, const RowKernels& kernels, const float* gate, float* up);

class FeedForward {
 public:
  // All that is passed outlives it.
  static absl::StatusOr<std::unique_ptr<FeedForward>> Create(const ModelSpec& spec, RowMath& math,
                                                             uint32_t row_count_max);

  // x and out: [row_count, embedding_length]; out may be x.
  void Apply(const FeedForwardSpec& shape, const FeedForwardWeights& weights, const RowBlock& x,
             uint32_t row_count, const RowBlock& out);

  // out = g * (what the layer's shared expert makes of x), g between 0 and 1 by x and its gate.
  void ApplyShared(const FeedForwardSpec& shape, const SharedExpertWeights& weights,
                   const RowBlock& x, uint32_t row_count, const RowBlock& out);

 private:
  FeedForward(const ModelSpec& spec, RowMath& math) : spec_(spec), math_(math) {}

  const ModelSpec& spec_;
  RowMath& math_;
  PageBuffer memory_;  // what the rows below are pieces of
  RowBlock gate_, up_;
  RowBlock share_;  // [rows, 1]: g of the shared expert
};

}  // namespace outrider
