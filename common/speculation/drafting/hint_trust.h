// How probable a hinted outcome is, when the draft has its own opinion of it.
//
// An exit's probability is right on the average of all that it has named. But the draft, which has
// read the same text and knows the target's noise, has an opinion too, and most of what an early exit
// knows is in there already: by the exit's word alone the device would forget what it knew better.
// (Of the demonstration family, at temperature 0.8, in nats for a token: 1.19 by the draft alone; 1.40,
// 1.36, 1.29 and 1.00 by the four exits' word; 1.16, 1.14, 1.11 and 0.93 by both.) So both are weighed:
//
//   logit P = bias + a logit(draft's) + b logit(exit's)
//
// with weights for each exit, which every verdict corrects by a step against the gradient of its
// surprise.
//
// Threads: as a vector. No allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/speculation/drafting/live_hints.h"

namespace outrider {

class HintTrust {
 public:
  HintTrust();

  // Of a hint of the running pass, whose outcome the draft gives `prior`.
  double Believed(const LiveHint& hint, double prior);
  // The pass has had this outcome: of what was hinted for it, that much was right.
  void Learn(NodeId leaf, TokenId next);
  // The pass is of a past.
  void Forget() { count_ = 0; }

 private:
  static constexpr size_t kExits = 8;  // deeper ones are as the last of them
  static constexpr size_t kKept = 16;  // hints of a pass that are learned from

  // By what they weigh: 1, the draft's logit, the exit's.
  using Terms = std::array<double, 3>;

  struct Said {
    NodeId leaf;
    TokenId next;
    size_t exit;
    Terms terms;
    double believed;
  };

  std::array<Terms, kExits> weights_;
  std::array<Said, kKept> said_;  // the first count_
  size_t count_ = 0;
};

}  // namespace outrider
