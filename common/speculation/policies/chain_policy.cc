#include "common/speculation/policies/chain_policy.h"

#include "common/base/check.h"
#include "common/speculation/policies/draft_shape.h"

namespace outrider {

ChainPolicy::ChainPolicy(uint32_t gamma) : gamma_(gamma) {
  OUTRIDER_CHECK(gamma > 0, "a chain has a token");
}

void ChainPolicy::Join(const DraftView& draft, std::vector<uint32_t>& candidates) {
  if (draft.pass_running || draft.room == 0) return;
  const uint32_t tip = ChainTip(draft.nodes, 0);
  if (draft.nodes[tip].depth == gamma_) return;
  if (const auto best = BestCandidate(draft.candidates, tip)) candidates.push_back(*best);
}

void ChainPolicy::Expand(const DraftView& draft, std::vector<Expansion>& batch) {
  if (draft.pass_running || draft.room == 0) return;
  const uint32_t tip = ChainTip(draft.nodes, 0);
  if (draft.nodes[tip].depth < gamma_ && CanExpand(draft.nodes[tip])) batch.push_back({tip, 1});
}

Sending ChainPolicy::Send(const DraftView& draft, bool drafting) {
  return draft.pass_running || drafting ? Sending::kHold : Sending::kGo;
}

}  // namespace outrider
