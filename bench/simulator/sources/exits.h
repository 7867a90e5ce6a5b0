// Synthetic early exits: what they guess while a pass is running, and how sure they are.
//
//   SyntheticExits::Parse("0.5:0.4,0.75:0.7", ...)   half-way right about 40 % of outcomes, later
//                                                    about 70 %
//   SyntheticExits::Parse("lying:0.5,0.75", ...)     sure, and always wrong
//
// A match is about the whole outcome, leaf and next token. An exit that is right at one depth is
// right at every deeper one that matches as often. Wrong guesses are as plausible as can be: some
// node of the pass, and a token that is not its child. Probabilities are calibrated, but for liars.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/simulator/sources/sources.h"

namespace outrider {

class SyntheticExits final : public Exits {
 public:
  // "none" too. InvalidArgument unless depths rise between 0 and 1 and matches are probabilities.
  static absl::StatusOr<SyntheticExits> Parse(std::string_view text, uint64_t seed,
                                              int32_t vocabulary_size);

  std::span<const double> depths() const override { return depths_; }
  Hint Guess(size_t index, const Place& root, std::span<const DraftedNode> nodes,
             const Outcome& outcome) const override;

 private:
  SyntheticExits(uint64_t seed, int32_t vocabulary_size)
      : seed_(seed), vocabulary_size_(vocabulary_size) {}

  uint64_t seed_;
  int32_t vocabulary_size_;
  std::vector<double> depths_;
  std::vector<double> matches_;  // by exit, how often it guesses the outcome
  bool lies_ = false;
};

}  // namespace outrider
