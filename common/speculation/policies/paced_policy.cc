#include "common/speculation/policies/paced_policy.h"

#include <algorithm>

#include "common/speculation/policies/draft_shape.h"

namespace outrider {

// T_c: the cumulative confidence C_i of the best branch, each of which ends in a leaf.
double PacedPolicy::TreeConfidence(const DraftView& draft) {
  MarkLeaves(
      draft.nodes, [](uint32_t) { return true; }, is_leaf_);
  double most = 0;
  for (size_t i = 0; i < draft.nodes.size(); ++i) {
    if (is_leaf_[i] != 0) most = std::max(most, draft.nodes[i].path);
  }
  return most;
}

// "After each token generation": a tree without a token is not verified.
bool PacedPolicy::Due(const DraftView& draft) {
  if (draft.nodes.size() == 1) return false;
  return draft.nodes.size() > draft.pass_node_count_max || fallback_.Due(TreeConfidence(draft));
}

void PacedPolicy::Join(const DraftView& draft, std::vector<uint32_t>& candidates) {
  for (uint32_t i = 0; i < draft.candidates.size() && candidates.size() < draft.room; ++i) {
    const DraftCandidate& candidate = draft.candidates[i];
    const bool drafted = draft.nodes[candidate.parent].children == DraftNode::Children::kDrafted;
    if (!drafted) continue;  // a hint's
    if (candidate.rank == 0 || candidate.confidence > kBranchConfidence) candidates.push_back(i);
  }
}

void PacedPolicy::Expand(const DraftView& draft, std::vector<Expansion>& batch) {
  if (draft.room == 0 || (!draft.pass_running && Due(draft))) return;
  MarkLeaves(
      draft.nodes, [](uint32_t) { return true; }, is_leaf_);
  double confidence_sum = 0;
  for (size_t i = 0; i < draft.nodes.size(); ++i) {
    if (is_leaf_[i] != 0) confidence_sum += draft.nodes[i].path;
  }
  // M, then max_i M C_x / sum(C) - len (LLMCad) or M C_i - T_i (EdgeLLM), C being a leaf's path.
  const auto tokens = static_cast<uint32_t>(draft.nodes.size() - 1);
  double most = 0;
  for (uint32_t i = 0; i < draft.nodes.size(); ++i) {
    const DraftNode& node = draft.nodes[i];
    if (is_leaf_[i] == 0 || !CanExpand(node)) continue;
    const double shortfall = Shortfall(tokens, node.path, confidence_sum, node.depth);
    if (!batch.empty() && shortfall <= most) continue;
    most = shortfall;
    batch.assign(1, {i, draft.child_count_max});
  }
}

Sending PacedPolicy::Send(const DraftView& draft, bool drafting) {
  if (draft.pass_running) return Sending::kHold;
  return Due(draft) || !drafting ? Sending::kGo : Sending::kHold;
}

// The best matching branch is the one that shares most with what the target wrote: through the leaf
// of the verdict, and where the pass goes on below it, on by the most confident branch.
void PacedPolicy::Learn(const DraftView& draft, const DraftVerdict& verdict) {
  MarkLeaves(
      draft.nodes, [&](uint32_t i) { return draft.nodes[i].in_pass; }, is_leaf_);
  double tree_confidence = 0;
  double match_confidence = 0;
  uint32_t match = 0;
  for (uint32_t i = 1; i < draft.nodes.size(); ++i) {
    if (is_leaf_[i] == 0) continue;
    tree_confidence = std::max(tree_confidence, draft.nodes[i].path);
    // Up this branch, to as deep as the verdict's leaf: is it on the way?
    uint32_t above = i;
    while (draft.nodes[above].depth > draft.nodes[verdict.leaf].depth) {
      above = draft.nodes[above].parent;
    }
    if (above == verdict.leaf && draft.nodes[i].path > match_confidence) {
      match_confidence = draft.nodes[i].path;
      match = i;
    }
  }
  if (match == 0) return;  // the target was alone
  // N_all and N_correct of the best matching branch.
  fallback_.Verified(tree_confidence, draft.nodes[match].depth, draft.nodes[verdict.leaf].depth);
}

}  // namespace outrider
