#include "bench/simulator/world/ahead_chain_policy.h"

#include <algorithm>

#include "common/speculation/policies/draft_shape.h"

namespace outrider {
namespace {

// Of every node: its most probable child, and where the text may leave the chain instead.
constexpr uint32_t kChildren = 2;

// The candidate that ends the most probable outcome. While there is no node for it, all are sent.
std::optional<uint32_t> BestOutcome(const DraftView& draft) {
  std::optional<uint32_t> best;
  double probability = 0;
  for (uint32_t i = 0; i < draft.candidates.size(); ++i) {
    const DraftCandidate& candidate = draft.candidates[i];
    const double here = draft.nodes[candidate.parent].path * candidate.confidence;
    if (here <= probability) continue;
    probability = here;
    best = i;
  }
  return best;
}

}  // namespace

// Where the chain begins that is being drafted: at the root, or, while a pass runs, at the outcome.
std::optional<uint32_t> AheadChainPolicy::Top(const DraftView& draft) const {
  if (!draft.pass_running) return 0;
  const auto held = std::ranges::find(draft.nodes, false, &DraftNode::sent);
  if (held == draft.nodes.end()) return std::nullopt;
  return static_cast<uint32_t>(held - draft.nodes.begin());
}

bool AheadChainPolicy::IsShort(const DraftView& draft, uint32_t top) const {
  return draft.nodes[ChainTip(draft.nodes, top)].depth - draft.nodes[top].depth < gamma_;
}

void AheadChainPolicy::Join(const DraftView& draft, std::vector<uint32_t>& candidates) {
  if (draft.room == 0) return;
  const std::optional<uint32_t> top = Top(draft);
  if (top) {
    const uint32_t tip = ChainTip(draft.nodes, *top);
    const auto best = BestCandidate(draft.candidates, tip);
    if (best && IsShort(draft, *top)) candidates.push_back(*best);
    return;
  }
  // An outcome is known to be the best when what comes after the whole chain is known.
  const uint32_t end = ChainTip(draft.nodes, 0);
  if (draft.nodes[end].children != DraftNode::Children::kDrafted) return;
  if (const auto best = BestOutcome(draft)) candidates.push_back(*best);
}

void AheadChainPolicy::Expand(const DraftView& draft, std::vector<Expansion>& batch) {
  if (draft.room == 0) return;
  const std::optional<uint32_t> top = Top(draft);
  const uint32_t tip = ChainTip(draft.nodes, top.value_or(0));
  const bool is_wanted = !top || IsShort(draft, *top);
  if (is_wanted && CanExpand(draft.nodes[tip])) batch.push_back({tip, kChildren});
}

Sending AheadChainPolicy::Send(const DraftView& draft, bool drafting) {
  if (draft.pass_running) return Sending::kHold;
  return drafting && IsShort(draft, 0) ? Sending::kHold : Sending::kGo;
}

}  // namespace outrider
