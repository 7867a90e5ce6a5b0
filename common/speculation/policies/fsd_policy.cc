#include "common/speculation/policies/fsd_policy.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/speculation/policies/draft_shape.h"

namespace outrider {

FsdPolicy::FsdPolicy(uint32_t gamma) : gamma_(gamma) {
  OUTRIDER_CHECK(gamma > 0, "a chain has a token");
}

void FsdPolicy::Join(const DraftView& draft, std::vector<uint32_t>& candidates) {
  const auto grow = [&](uint32_t top) {
    const uint32_t tip = ChainTip(draft.nodes, top);
    if (draft.nodes[tip].depth - draft.nodes[top].depth == gamma_) return;
    if (const auto best = BestCandidate(draft.candidates, tip)) candidates.push_back(*best);
  };
  if (draft.pass_running) {
    for (uint32_t i = 0; i < draft.candidates.size(); ++i) {
      if (draft.candidates[i].hint > 0) candidates.push_back(i);
    }
    for (uint32_t i = 1; i < draft.nodes.size(); ++i) {
      if (draft.nodes[i].hint > 0) grow(i);
    }
  } else {
    grow(0);
  }
  std::ranges::sort(candidates);
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  candidates.resize(std::min<size_t>(candidates.size(), draft.room));
}

void FsdPolicy::Expand(const DraftView& draft, std::vector<Expansion>& batch) {
  if (draft.room == 0) return;
  outcomes_.clear();
  if (draft.pass_running) {
    for (uint32_t i = 1; i < draft.nodes.size(); ++i) {
      if (draft.nodes[i].hint > 0) outcomes_.push_back(i);
    }
  } else {
    outcomes_.push_back(0);
  }
  std::ranges::sort(outcomes_, [&](uint32_t a, uint32_t b) {
    const DraftNode& x = draft.nodes[a];
    const DraftNode& y = draft.nodes[b];
    return x.hint != y.hint ? x.hint > y.hint : a < b;
  });
  for (const uint32_t outcome : outcomes_) {
    if (batch.size() == draft.batch_node_count_max) return;
    const uint32_t tip = ChainTip(draft.nodes, outcome);
    const bool long_enough = draft.nodes[tip].depth - draft.nodes[outcome].depth == gamma_;
    // An outcome may lie on the chain of another.
    const bool is_asked = std::ranges::find(batch, tip, &Expansion::node) != batch.end();
    if (!long_enough && !is_asked && CanExpand(draft.nodes[tip])) batch.push_back({tip, 1});
  }
}

// After a hit the chain goes up at once, whatever else the drafter is still busy with.
Sending FsdPolicy::Send(const DraftView& draft, bool drafting) {
  if (draft.pass_running) return Sending::kHold;
  const bool whole = draft.nodes[ChainTip(draft.nodes, 0)].depth >= gamma_;
  return whole || !drafting ? Sending::kGo : Sending::kHold;
}

}  // namespace outrider
