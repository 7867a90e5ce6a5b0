#include "common/verification/machine/exit_worth.h"

#include <algorithm>
#include <cstdint>

namespace outrider {

void ExitWorth::Spent(std::span<const Duration> exit_time, size_t sessions) {
  const size_t count = std::min(exit_time.size(), exits_.size());
  for (size_t i = 0; i < count; ++i) {
    exits_[i].spent += exit_time[i] * static_cast<int64_t>(sessions);
    exits_[i].counts.time += exit_time[i];
  }
}

void ExitWorth::Judge(std::span<const HeardGuess> guesses, const Outcome& outcome,
                      MonotonicTime now) {
  bool is_first = true;
  for (const HeardGuess& guess : guesses) {
    Exit& exit = exits_[guess.exit];
    ++exit.counts.guesses;
    if (guess.outcome != outcome) continue;
    ++exit.counts.right;
    if (!is_first) continue;
    is_first = false;
    const Duration lead = now - guess.at;
    ++exit.counts.first_right;
    exit.counts.lead += lead;
    if (guess.was_grown) continue;
    ++exit.counts.news;
    exit.earned += lead;
  }
  for (Exit& exit : exits_) EndVerdict(exit);
}

void ExitWorth::EndVerdict(Exit& exit) {
  if (exit.rest > 0) {
    --exit.rest;
    return;
  }
  if (++exit.verdicts < kTrial) return;
  if (exit.earned < exit.spent) {
    exit.rest = exit.next_rest;
    exit.next_rest = std::min(2 * exit.next_rest, kRestMax);
  } else {
    exit.next_rest = kRest;
  }
  exit.verdicts = 0;
  exit.earned = exit.spent = Duration::zero();
}

}  // namespace outrider
