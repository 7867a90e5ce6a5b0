// What exits say, kept for a test to look at.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "common/engine/engine.h"

namespace outrider {

class GuessKeeper final : public ExitSink {
 public:
  // `check`, if there is one, sees each while what it points to is there.
  explicit GuessKeeper(std::function<void(const ExitGuess&)> check = nullptr)
      : check_(std::move(check)) {
    guesses_.reserve(1000);
  }

  void OnGuess(const ExitGuess& guess) override {
    guesses_.push_back(guess);
    if (check_) check_(guess);
  }

  std::vector<ExitGuess>& guesses() { return guesses_; }

 private:
  const std::function<void(const ExitGuess&)> check_;
  std::vector<ExitGuess> guesses_;
};

}  // namespace outrider
