#include "common/model/weights/streaming/expert_guesses.h"

#include <algorithm>

namespace outrider {

void ExpertGuesses::Judge(std::span<const WeightKey> chosen) {
  for (const ExpertKey& key : guessed_) {
    const bool is_right = std::ranges::find(chosen, WeightKey(key)) != chosen.end();
    ++(is_right ? stats_.right : stats_.wrong);
    float& share = share_right_[key.layer];
    ++judged_[key.layer];
    share += kStep * ((is_right ? 1.0f : 0.0f) - share);
  }
  guessed_.clear();
}

bool ExpertGuesses::IsWorthAsking(uint32_t layer) {
  if (judged_[layer] < kJudgedMin || IsWorthReading(layer)) return true;
  return ++times_[layer] % kAskedOnceIn == 0;
}

}  // namespace outrider
