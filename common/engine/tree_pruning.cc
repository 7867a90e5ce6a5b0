#include "common/engine/tree_pruning.h"

#include <algorithm>

#include "common/base/check.h"

namespace outrider {

TreePruning::TreePruning(const Options& options, uint32_t node_count_max)
    : options_(options), paths_(node_count_max), stays_(std::make_unique<bool[]>(node_count_max)) {}

std::span<const bool> TreePruning::Choose(std::span<const DraftedNode> nodes,
                                          std::span<const std::optional<float>> chances) {
  OUTRIDER_CHECK(nodes.size() <= paths_.size() && chances.size() == nodes.size(),
                 "every node of a pass has a chance, or none");
  nodes_ = nodes;
  chances_ = chances;
  std::fill_n(stays_.get(), nodes.size(), false);
  kept_count_ = 0;
  KeepBackbone();
  KeepLikely();
  KeepLeast();
  return {stays_.get(), nodes.size()};
}

bool TreePruning::HasKeptParent(uint32_t node) const {
  const uint32_t parent = nodes_[node].parent;
  return parent == DraftedNode::kRoot || stays_[parent];
}

void TreePruning::KeepBackbone() {
  uint32_t node = DraftedNode::kRoot;
  for (;;) {
    std::optional<uint32_t> best;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].parent != node || !chances_[i]) continue;
      if (!best || *chances_[i] > *chances_[*best]) best = i;
    }
    if (!best) return;
    stays_[*best] = true;
    ++kept_count_;
    node = *best;
  }
}

// Parents come before their children.
void TreePruning::KeepLikely() {
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    const uint32_t parent = nodes_[i].parent;
    const float above = parent == DraftedNode::kRoot ? 1 : paths_[parent];
    paths_[i] = above * chances_[i].value_or(0);
    const bool is_likely = chances_[i] && *chances_[i] >= options_.threshold && HasKeptParent(i);
    if (stays_[i] || !is_likely) continue;
    stays_[i] = true;
    ++kept_count_;
  }
}

// One after the other, each below one that stays already.
void TreePruning::KeepLeast() {
  while (kept_count_ < options_.node_count_min) {
    std::optional<uint32_t> best;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (stays_[i] || !chances_[i] || !HasKeptParent(i)) continue;
      if (!best || paths_[i] > paths_[*best]) best = i;
    }
    if (!best) return;
    stays_[*best] = true;
    ++kept_count_;
  }
}

}  // namespace outrider
