// How often a guess at the experts of the next layer comes true, layer by layer: whether to act on it.
//
// Only guesses at experts that are not in memory are counted: those are the ones that cost a read. A
// right one moves a read to where flash is idle, a wrong one takes a place from an expert and is one
// read more; it pays from about one half.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/model/weights/weight_store.h"

namespace outrider {

struct ExpertGuessStats {
  uint64_t right = 0;
  uint64_t wrong = 0;
};

class ExpertGuesses {
 public:
  explicit ExpertGuesses(uint32_t layer_count) : share_right_(layer_count) {}

  // Of those not in memory. What was guessed before and has not been judged is forgotten.
  void Begin() { guessed_.clear(); }
  void Add(ExpertKey key) { guessed_.push_back(key); }
  // What has been chosen, of one layer.
  void Judge(std::span<const WeightKey> chosen);

  bool IsWorthReading(uint32_t layer) const { return share_right_[layer] >= kShareRightMin; }
  const ExpertGuessStats& stats() const { return stats_; }

 private:
  static constexpr float kShareRightMin = 0.5f;
  // A layer's guesses have to come true some twenty times before one is acted upon.
  static constexpr float kStep = 1.0f / 32;

  std::vector<ExpertKey> guessed_;
  std::vector<float> share_right_;  // by layer, of late
  ExpertGuessStats stats_;
};

}  // namespace outrider
