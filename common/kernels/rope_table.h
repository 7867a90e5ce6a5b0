// The angles of rope: a model's frequencies, made once, and their cosines and sines at a position.
//
//   OUTRIDER_ASSIGN_OR_RETURN(RopeTable rope, RopeTable::Create(hyperparameters.rope, divisors));
//   rope.Turn(position, cos, sin);                                     // once per row of a pass
//   kernels.rows.rope_halves(head, cos, sin, rope.pair_count());       // every head and layer
//
// NUMERICS.md, section 6, is followed to the bit; Turn() runs in ScopedIeeeMode.
//
// Cost:   Turn() takes about 30 ns per pair, a microsecond for a head of 64, so nothing is kept per
//         position: a table for 131,072 of them would take 32 MiB.
// Memory: the frequencies, taken in Create(); Turn() allocates nothing.
// Errors: InvalidArgument for numbers that make no frequencies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/models/hyperparameters.h"

namespace outrider {

class RopeTable {
 public:
  // `divisors` are the model's rope_freqs.weight, one per frequency for kLlama3, or whichever of
  // longrope's two tensors it turns by; none otherwise.
  // A model without rope (RopeStyle::kNone) gets a table without pairs.
  static absl::StatusOr<RopeTable> Create(const Rope& rope, std::span<const float> divisors);

  uint32_t pair_count() const { return static_cast<uint32_t>(frequencies_.size()); }
  std::span<const float> frequencies() const { return frequencies_; }

  // cos, sin: [pair_count]. Both times the attention factor, as rope wants them.
  void Turn(uint32_t position, float* cos, float* sin) const;

 private:
  RopeTable(std::vector<float> frequencies, float attention_factor)
      : frequencies_(std::move(frequencies)), attention_factor_(attention_factor) {}

  std::vector<float> frequencies_;
  float attention_factor_;
};

}  // namespace outrider
