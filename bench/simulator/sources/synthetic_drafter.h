// A Drafter that asks Drafts (sources.h) instead of a model.
//
// Memory: a history of `length_max` tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/simulator/sources/sources.h"
#include "common/speculation/drafting/drafter.h"

namespace outrider {

class SyntheticDrafter final : public Drafter {
 public:
  // `drafts` outlive it.
  explicit SyntheticDrafter(const Drafts& drafts) : drafts_(drafts) {}

  absl::Status Propose(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                       std::span<const Context> contexts, Proposals& proposals,
                       const Cancellation& cancellation = Cancellation::Never()) override;

 private:
  void FindPath(std::span<const DraftedNode> nodes, uint32_t node);

  const Drafts& drafts_;
  // Working memory.
  std::vector<TokenId> path_;
  std::vector<Guess> guesses_;
  std::vector<Proposal> list_;
};

}  // namespace outrider
