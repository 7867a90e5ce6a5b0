// What policy auto costs over the best way in hindsight, over whole replies, from the first token on: what
// it takes to find out counts, and so do rows.
//
// (regret.h is about where it arrives: from 20 verdicts on, and after sudden changes.)
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "bench/simulator/cli/scenario_flags.h"

namespace outrider {

// Times of a token after those that came first, means of replies.
struct Hindsight {
  std::string best;  // of FixedWaysOf()
  double best_ms = 0;
  double auto_ms = 0;
  double error = 0;  // of regret(), by the chance of so many replies

  double regret() const { return auto_ms / best_ms - 1; }
};

// The best is chosen by so many replies, and compared over as many others: of so many ways one is always
// ahead by chance in those that it was chosen by. Where auto seems to be behind by more than `bound`, they
// are compared again, over four times as many.
absl::StatusOr<Hindsight> InHindsight(const ScenarioFlags& met, uint32_t reply_count, double bound);

}  // namespace outrider
