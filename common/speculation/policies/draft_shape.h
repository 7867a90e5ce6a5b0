// Questions that several policies ask about the shape of a draft.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/speculation/costs/latency_profile.h"
#include "common/speculation/policies/tree_policy.h"

namespace outrider {

inline bool CanExpand(const DraftNode& node) {
  return node.children == DraftNode::Children::kUnknown;
}

// The end of the chain that goes down from `node`, each time by the child with the highest
// confidence, of equal ones the oldest.
uint32_t ChainTip(std::span<const DraftNode> nodes, uint32_t node);

// The candidate below `parent` with the highest confidence, of equal ones the oldest.
std::optional<uint32_t> BestCandidate(std::span<const DraftCandidate> candidates, uint32_t parent);

// For every node, 1 when it has no child among those that `belongs(index)` accepts, and belongs
// itself. The root always belongs.
template <typename Belongs>
void MarkLeaves(std::span<const DraftNode> nodes, const Belongs& belongs,
                std::vector<uint8_t>& is_leaf) {
  is_leaf.assign(nodes.size(), 0);
  is_leaf[0] = 1;
  for (uint32_t i = 1; i < nodes.size(); ++i) {  // children come after their parents
    if (!belongs(i)) continue;
    is_leaf[i] = 1;
    is_leaf[nodes[i].parent] = 0;
  }
}

// Of the tree that `belongs` describes; `is_leaf` is scratch.
template <typename Belongs>
PassShape ShapeOf(std::span<const DraftNode> nodes, const Belongs& belongs,
                  std::vector<uint8_t>& is_leaf) {
  MarkLeaves(nodes, belongs, is_leaf);
  PassShape shape = {0, 0};
  for (uint32_t i = 1; i < nodes.size(); ++i) {
    if (belongs(i)) ++shape.nodes;
    shape.leaves += is_leaf[i];
  }
  return shape;
}

}  // namespace outrider
