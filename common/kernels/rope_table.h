// How far rope turns each pair of a head at a position (NUMERICS.md, section 6).
//
//   const RopeTable rope(spec.rope, outer.rope_freqs);
//   rope.Turn(position, cosines, sines);                      // once a row, for all layers and
//   heads kernels.rows.rope_halves(head, cosines, sines, rope.pair_count());
//
// The frequencies are made once, from the base and by whatever scaling the model has: linear, yarn,
// or llama3's factors, which are a tensor of the model. A model without rope has no pairs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/formats/models/hyperparameters.h"

namespace outrider {

class RopeTable {
 public:
  // `factors` has one for each pair when the scaling is llama3's. Not for longrope.
  RopeTable(const Rope& rope, std::span<const float> factors);

  uint32_t pair_count() const { return static_cast<uint32_t>(frequencies_.size()); }
  std::span<const float> frequencies() const { return frequencies_; }

  // [pair_count] each.
  void Turn(uint32_t position, float* cosines, float* sines) const;

 private:
  std::vector<float> frequencies_;
  float attention_factor_;
};

}  // namespace outrider
