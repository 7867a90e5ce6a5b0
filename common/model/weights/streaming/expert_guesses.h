// How often a guess at the experts of the next layer comes true, layer by layer: whether to act on it.
//
// Only guesses at experts that are not in memory are counted: those are the ones that cost a read. A
// right one moves a read to where flash is idle. A wrong one takes a place from an expert, is one read
// more, and takes a core its packing: with half of them right it was 10 % slower than without any
// (bench/expert_flash, two cores), so three quarters have to be. Where fewer are, the router ahead is
// asked now and then only, since that takes time too.
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
  explicit ExpertGuesses(uint32_t layer_count)
      : share_right_(layer_count), judged_(layer_count), times_(layer_count) {}

  // Of those not in memory. What was guessed before and has not been judged is forgotten.
  void Begin() { guessed_.clear(); }
  void Add(ExpertKey key) { guessed_.push_back(key); }
  // What has been chosen, of one layer.
  void Judge(std::span<const WeightKey> chosen);

  // Whether to guess at a layer's experts at all, this time.
  bool IsWorthAsking(uint32_t layer);
  bool IsWorthReading(uint32_t layer) const { return share_right_[layer] >= kShareRightMin; }
  const ExpertGuessStats& stats() const { return stats_; }

 private:
  static constexpr float kShareRightMin = 0.75f;
  // A layer's guesses have to come true some forty times before one is acted upon.
  static constexpr float kStep = 1.0f / 32;
  static constexpr uint32_t kJudgedMin = 64;  // guesses, until it is known what they are worth
  static constexpr uint32_t kAskedOnceIn = 8;

  std::vector<ExpertKey> guessed_;
  std::vector<float> share_right_;  // by layer, of late
  std::vector<uint32_t> judged_;    // by layer: guesses
  std::vector<uint32_t> times_;     // by layer: that it has been asked whether to guess
  ExpertGuessStats stats_;
};

}  // namespace outrider
