// Choosing from few logits of a row. A chooser is asked what it wants to know of one; whoever holds
// the logits (a GPU) finds that, and a list of some hundred bytes goes to the host instead of a
// vocabulary of floats. What is chosen is what Chooser says of all logits, to the bit:
//
//   largest    greedily, or with top-k, nothing but so many of the largest logits matters
//   a race     of a sampler that truncates nothing, any token may win. Its score in the race,
//              logit / temperature - log E, is computed roughly where the logits are; the list has
//              the best of those and how well the last of them did. Here the list races exactly,
//              and if who wins is ahead of that last one by more than roughly means, then nobody
//              who was left out could have won. Otherwise it says so, and all logits are asked for.
//
// Penalties and biases move logits by tokens' history, and top-p without top-k wants all of them:
// such choosers want everything.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tokens/chooser.h"
#include "common/tokens/token_history.h"

namespace outrider {

inline constexpr uint32_t kShortlistMax = 128;

// What is to be known of one row.
struct Wish {
  uint32_t count;  // 1..kShortlistMax tokens, or all if there are fewer
  bool races;      // by score in the race, otherwise by logit
  // Of a race; E is that of noise.h.
  double temperature;
  uint64_t seed;
  uint32_t sample;
  uint32_t index;  // of the token to be chosen
};

// The `count` first of a row, of equal ones the lowest ids.
struct Shortlist {
  std::span<const TokenId> tokens;  // rising
  std::span<const float> logits;
  Ranked largest;  // of all logits; its score is the logit
  // Of a race: the score of the list's last, less that of the largest logit without noise. Minus
  // infinity: nobody was left out.
  float last_score;
};

// To know the first `count` of the chooser's order; none: it wants all logits.
std::optional<Wish> WishOf(const Chooser& chooser, uint32_t vocabulary_size, size_t count,
                           uint32_t index);

// Chooser::Rank() by what was wished for. False: the list does not tell.
absl::StatusOr<bool> RankByList(const Chooser& chooser, const Wish& wish, const Shortlist& list,
                                const NodeHistory& history, size_t count, ChooserScratch& scratch,
                                std::vector<Ranked>& ranked);

}  // namespace outrider
