#include "common/speculation/drafting/outcome_posterior.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr double kCertain = 1 - 1e-9;  // a prior beyond it leaves nothing to share out

uint32_t FindNode(std::span<const DraftNode> nodes, NodeId id) {
  const auto at = std::ranges::lower_bound(nodes, id, {}, &DraftNode::id);
  return at != nodes.end() && at->id == id ? static_cast<uint32_t>(at - nodes.begin()) : kNone;
}

uint32_t FindChild(std::span<const DraftNode> nodes, uint32_t parent, TokenId token) {
  for (uint32_t i = parent + 1; i < nodes.size(); ++i) {
    if (nodes[i].parent == parent && nodes[i].token == token) return i;
  }
  return kNone;
}

// The share of certainty that a node's confidence is, among siblings that claim too much.
double Share(const DraftNode& node, const DraftNode& parent) {
  return node.confidence / std::max(1.0, parent.claimed);
}

void SpreadPrior(std::span<DraftNode> nodes) {
  for (DraftNode& node : nodes) node.claimed = 0;
  for (size_t i = 1; i < nodes.size(); ++i) nodes[nodes[i].parent].claimed += nodes[i].confidence;
  nodes[0].path = 1;
  for (size_t i = 1; i < nodes.size(); ++i) {
    const DraftNode& parent = nodes[nodes[i].parent];
    nodes[i].path = parent.path * Share(nodes[i], parent);
  }
  for (DraftNode& node : nodes) node.reach = node.path;
}

}  // namespace

void OutcomePosterior::Spread(std::span<DraftNode> nodes) {
  SpreadPrior(nodes);
  if (hints_.empty()) return;
  const Hint& hint = hints_.first();
  const uint32_t leaf = FindNode(nodes, hint.leaf);
  if (leaf == kNone) return;

  on_way_.assign(nodes.size(), false);
  for (uint32_t i = leaf; i != 0; i = nodes[i].parent) on_way_[i] = true;
  on_way_[0] = true;

  const double q = hint.probability;
  const uint32_t next = FindChild(nodes, leaf, hint.next);
  const double prior = next == kNone ? 0 : std::min(nodes[next].path, kCertain);
  const double scale = (1 - q) / (1 - prior);
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    DraftNode& node = nodes[i];
    const DraftNode& parent = nodes[node.parent];
    if (on_way_[i]) {
      node.reach = q + (node.path - prior) * scale;
    } else if (i == next) {
      node.reach = q;
    } else if (on_way_[node.parent]) {
      node.reach = node.path * scale;
    } else {  // as the draft says, from the parent on
      node.reach = parent.reach * Share(node, parent);
    }
  }
}

double OutcomePosterior::Probability(std::span<const DraftNode> nodes, uint32_t leaf,
                                     TokenId next) {
  const uint32_t child = FindChild(nodes, leaf, next);
  return child == kNone || nodes[child].in_pass ? 0 : nodes[child].reach;
}

double OutcomePosterior::SomethingElse(std::span<const DraftNode> nodes, uint32_t leaf) {
  double rest = nodes[leaf].reach;
  for (uint32_t i = leaf + 1; i < nodes.size(); ++i) {
    if (nodes[i].parent == leaf) rest -= nodes[i].reach;
  }
  return std::max(0.0, rest);
}

}  // namespace outrider
