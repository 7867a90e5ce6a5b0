// Which of a sequence's node slots hold a node, and below what it hangs.
//
//   tree.Place(4, NodeTree::kChain, 100);       // below the chain's last cell, at index 100
//   tree.Place(0, 4, 101);
//   tree.MoveEnd(4, 101);                        // 4 has been committed: 0 hangs below the chain
//
// Slots are the caller's choice, and so is the order they come in; a node's index is one more than
// that of what it hangs below.
//
// Memory:  for `node_count_max` slots, taken when it is made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace outrider {

class NodeTree {
 public:
  static constexpr uint32_t kChain = UINT32_MAX;  // as a parent: the last cell of the chain

  explicit NodeTree(uint32_t node_count_max);

  uint32_t slot_count() const { return static_cast<uint32_t>(nodes_.size()); }
  bool Has(uint32_t slot) const { return slot < nodes_.size() && nodes_[slot].used; }
  uint32_t parent(uint32_t slot) const { return nodes_[slot].parent; }
  uint32_t index(uint32_t slot) const { return nodes_[slot].index; }

  // What was in the slot is gone, and what hung below that.
  void Place(uint32_t slot, uint32_t parent, uint32_t index);

  // The slots from below the chain down to `slot`, or none for kChain. They are good until the next
  // call.
  std::span<const uint32_t> PathTo(uint32_t slot);

  // The chain now ends with what `end` was (kChain: with a cell of its own), and the next index is
  // `length`. What hangs below that end stays; the rest is dropped.
  void MoveEnd(uint32_t end, uint32_t length);
  // Nodes in slots from `slot_end` on, and what hangs below them.
  void DropFrom(uint32_t slot_end);
  void Clear() { DropFrom(0); }

 private:
  struct Node {
    bool used = false;
    uint32_t parent;
    uint32_t index;
  };

  uint32_t TopOf(uint32_t slot, uint32_t above) const;
  template <typename Test>
  void DropUnless(const Test& stays);

  std::vector<Node> nodes_;     // by slot
  std::vector<uint32_t> path_;  // what PathTo() gives
};

}  // namespace outrider
