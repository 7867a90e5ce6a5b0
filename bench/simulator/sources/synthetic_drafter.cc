#include "bench/simulator/sources/synthetic_drafter.h"

#include <algorithm>

namespace outrider {

absl::Status SyntheticDrafter::Propose(const TokenHistory& committed,
                                       std::span<const DraftedNode> nodes,
                                       std::span<const Context> contexts, Proposals& proposals,
                                       const Cancellation& /*cancellation*/) {
  size_t proposal_count = 0;
  for (const Context& context : contexts) proposal_count += context.child_count;
  proposals.Clear(contexts.size(), proposal_count);
  for (const Context& context : contexts) {
    FindPath(nodes, context.node);
    uint64_t hash = committed.hash();
    for (const TokenId token : path_) hash = TokenHistory::Extend(hash, token);
    drafts_.Propose({{committed, path_}, hash}, context.child_count, guesses_);
    list_.clear();
    for (const Guess& guess : guesses_) list_.push_back({guess.token, guess.probability});
    proposals.Add(list_);
  }
  return absl::OkStatus();
}

void SyntheticDrafter::FindPath(std::span<const DraftedNode> nodes, uint32_t node) {
  path_.clear();
  for (; node != DraftedNode::kRoot; node = nodes[node].parent) path_.push_back(nodes[node].token);
  std::reverse(path_.begin(), path_.end());
}

}  // namespace outrider
