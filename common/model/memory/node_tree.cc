#include "common/model/memory/node_tree.h"

#include <algorithm>

#include "common/base/check.h"

namespace outrider {

NodeTree::NodeTree(uint32_t node_count_max) : nodes_(node_count_max) {
  path_.reserve(node_count_max);
}

void NodeTree::Place(uint32_t slot, uint32_t parent, uint32_t index) {
  OUTRIDER_CHECK(slot < nodes_.size(), "nodes go to slots that there are");
  if (Has(slot)) {
    nodes_[slot].used = false;
    DropUnless([&](uint32_t other) { return nodes_[TopOf(other, slot)].parent != slot; });
  }
  OUTRIDER_CHECK(parent == kChain || (Has(parent) && nodes_[parent].index + 1 == index),
                 "a node hangs below one that is there");
  nodes_[slot] = {true, parent, index};
}

std::span<const uint32_t> NodeTree::PathTo(uint32_t slot) {
  path_.clear();
  for (; slot != kChain; slot = nodes_[slot].parent) {
    OUTRIDER_CHECK(Has(slot), "a path goes through nodes that are there");
    path_.push_back(slot);
  }
  std::ranges::reverse(path_);
  return path_;
}

// Indices tell a node that hangs below the end from one that hangs below where the chain ended
// before: both have the chain as their parent.
void NodeTree::MoveEnd(uint32_t end, uint32_t length) {
  DropUnless([&](uint32_t slot) {
    const uint32_t top = TopOf(slot, end);
    return nodes_[top].parent == end && nodes_[top].index == length;
  });
  for (Node& node : nodes_) {
    if (node.used && node.parent == end) node.parent = kChain;
  }
}

void NodeTree::DropFrom(uint32_t slot_end) {
  DropUnless([&](uint32_t slot) {
    for (; slot != kChain; slot = nodes_[slot].parent) {
      if (slot >= slot_end) return false;
    }
    return true;
  });
}

// The highest node on the way up that has not passed `above`.
uint32_t NodeTree::TopOf(uint32_t slot, uint32_t above) const {
  while (nodes_[slot].parent != above && nodes_[slot].parent != kChain) {
    slot = nodes_[slot].parent;
  }
  return slot;
}

// A way up may lead through nodes that are to go: they go when all have been asked.
template <typename Test>
void NodeTree::DropUnless(const Test& stays) {
  path_.clear();
  for (uint32_t slot = 0; slot < nodes_.size(); ++slot) {
    if (nodes_[slot].used && !stays(slot)) path_.push_back(slot);
  }
  for (const uint32_t slot : path_) nodes_[slot].used = false;
}

}  // namespace outrider
