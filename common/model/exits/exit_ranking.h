// What somebody who takes the largest logit needs to know of a row that an exit has scored: so much,
// and no logits, come from where rows are scored and ranked far from the host
// (cuda/kernels/exit_kernels.h).
#pragma once

#include <cstdint>

namespace outrider {

// Which of a row's scored logits are candidates of its walk: the first ones, of the frequent tokens,
// and those whose columns are its own.
struct ExitCandidates {
  uint32_t frequent_count;
  uint32_t own_first;  // in a list of columns, whose tokens rise
  uint32_t own_count;
  bool are_ranked;  // else the walk's choices take more than the largest: its logits are wanted
};

struct ExitRanking {
  static constexpr uint32_t kMax = 32;

  uint32_t count;         // 0: some logit is no number, or no token is possible
  float largest_softmax;  // as ExitEvidence has it
  uint32_t tokens[kMax];  // the largest logits', of equal ones the lowest ids first
  float scores[kMax];     // these, less the largest
};

}  // namespace outrider
