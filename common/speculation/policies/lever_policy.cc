#include "common/speculation/policies/lever_policy.h"

#include <algorithm>

#include "common/speculation/costs/cost_model.h"
#include "common/speculation/policies/draft_shape.h"

namespace outrider {
namespace {

// Work that seems to cost nothing costs something.
constexpr double kMsMin = 1e-6;

}  // namespace

// r: how often candidate sets held the target's token, over how often they claimed to.
double LeverPolicy::reliability() const {
  if (claimed_.empty() || claimed_.Value() <= 0) return 1;
  return std::min(1.0, found_.Value() / claimed_.Value());
}

// G(T) = 1 + sum of b(u), with b(v) = b(u) p(v|u) r from the root's b = 1 downwards.
LeverPolicy::Tree LeverPolicy::Measure(const DraftView& draft) {
  Tree tree;
  const double r = reliability();
  benefit_.assign(draft.nodes.size(), 1);
  MarkLeaves(
      draft.nodes, [](uint32_t) { return true; }, is_leaf_);
  for (size_t i = 0; i < draft.nodes.size(); ++i) {
    const DraftNode& node = draft.nodes[i];
    if (node.children != DraftNode::Children::kDrafted) ++tree.unexpanded;
    if (i == 0) continue;
    benefit_[i] = benefit_[node.parent] * node.confidence * r;
    tree.gain += benefit_[i];
    tree.leaves += is_leaf_[i];
    ++tree.nodes;
  }
  return tree;
}

// C_verify(T), to which a link and a queue belong where there are any.
double LeverPolicy::VerifyMs(const DraftView& draft, uint32_t nodes, uint32_t leaves) const {
  return draft.costs.round_trip_ms() + draft.costs.queue_ms() + draft.costs.PassMs({nodes, leaves});
}

uint32_t LeverPolicy::BatchNodes(const DraftView& draft, const Tree& tree) const {
  return std::clamp(tree.nodes / kNodesPerExpansion, 1U, draft.batch_node_count_max);
}

void LeverPolicy::Join(const DraftView& draft, std::vector<uint32_t>& candidates) {
  if (draft.pass_running) return;
  Tree tree = Measure(draft);
  const double r = reliability();
  const uint32_t batch = BatchNodes(draft, tree);
  const double draft_node_ms = draft.costs.DraftMs(batch) / batch;
  const uint32_t node_count_max =
      std::min(tree.nodes + draft.room, std::max(tree.nodes, draft.pass_node_count_max));
  joined_.assign(draft.candidates.size(), 0);

  while (tree.nodes < node_count_max && tree.unexpanded < batch) {
    const double verify_ms = VerifyMs(draft, tree.nodes, tree.leaves);
    std::optional<uint32_t> best;
    double best_rate = 0;
    uint32_t best_leaves = 0;
    for (uint32_t i = 0; i < draft.candidates.size(); ++i) {
      const DraftCandidate& candidate = draft.candidates[i];
      if (joined_[i] != 0) continue;
      const bool lengthens = candidate.parent != 0 && is_leaf_[candidate.parent] != 0;
      const uint32_t leaves = tree.leaves + (lengthens ? 0 : 1);
      // dC(v|T): one node more to verify, in a tree of this shape, and one more to draft.
      const double cost_ms = VerifyMs(draft, tree.nodes + 1, leaves) - verify_ms + draft_node_ms;
      const double rate =
          benefit_[candidate.parent] * candidate.confidence * r / std::max(cost_ms, kMsMin);
      if (rate <= best_rate) continue;
      best = i;
      best_rate = rate;
      best_leaves = leaves;
    }
    // Algorithm 1 stops here: the best b(v) / dC(v|T) does not exceed G(T) / C(T) any more.
    if (!best || best_rate <= tree.gain / (draft_ms_ + verify_ms)) break;
    const DraftCandidate& candidate = draft.candidates[*best];
    tree.gain += benefit_[candidate.parent] * candidate.confidence * r;
    tree.leaves = best_leaves;
    ++tree.nodes;
    ++tree.unexpanded;
    is_leaf_[candidate.parent] = 0;
    joined_[*best] = 1;
  }
  for (uint32_t i = 0; i < draft.candidates.size(); ++i) {
    if (joined_[i] != 0) candidates.push_back(i);
  }
}

void LeverPolicy::Expand(const DraftView& draft, std::vector<Expansion>& batch) {
  const bool full = draft.room == 0 || draft.nodes.size() > draft.pass_node_count_max;
  if (draft.pass_running || full) return;
  for (uint32_t i = 0; i < draft.nodes.size() && batch.size() < draft.batch_node_count_max; ++i) {
    if (CanExpand(draft.nodes[i])) batch.push_back({i, draft.child_count_max});
  }
  if (!batch.empty()) draft_ms_ += draft.costs.DraftMs(static_cast<uint32_t>(batch.size()));
}

Sending LeverPolicy::Send(const DraftView& draft, bool drafting) {
  return draft.pass_running || drafting ? Sending::kHold : Sending::kGo;
}

void LeverPolicy::Learn(const DraftView& draft, const DraftVerdict& verdict) {
  draft_ms_ = 0;
  TokenId chosen = verdict.next;
  for (uint32_t i = verdict.leaf;; i = draft.nodes[i].parent) {  // up the accepted way
    const DraftNode& node = draft.nodes[i];
    if (node.children == DraftNode::Children::kDrafted) {
      double claimed = node.claimed;
      bool found = false;
      for (uint32_t j = i + 1; j < draft.nodes.size(); ++j) {
        found = found || (draft.nodes[j].parent == i && draft.nodes[j].token == chosen);
      }
      for (const DraftCandidate& candidate : draft.candidates) {
        if (candidate.parent != i) continue;
        claimed += candidate.confidence;
        found = found || candidate.token == chosen;
      }
      found_.Add(found ? 1 : 0);
      claimed_.Add(std::min(claimed, 1.0));
    }
    if (i == 0) return;
    chosen = node.token;
  }
}

}  // namespace outrider
