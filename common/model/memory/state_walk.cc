#include "common/model/memory/state_walk.h"

#include "common/base/check.h"

namespace outrider {

void StateWalks::Plan(const Batch& batch) {
  steps_.clear();
  part_steps_.clear();
  kept_count_max_ = 0;
  for (const Batch::Part& part : batch.parts()) {
    AddItems(batch, part);
    LinkChildren();
    Visit(0, 0);
    part_steps_.push_back(steps_.size());
  }
}

std::span<const StateStep> StateWalks::steps(uint32_t part) const {
  const size_t begin = part == 0 ? 0 : part_steps_[part - 1];
  return std::span(steps_).subspan(begin, part_steps_[part] - begin);
}

// The chain that is not committed, and of the nodes those of this run with what they hang below.
// Items come after those above them.
void StateWalks::AddItems(const Batch& batch, const Batch::Part& part) {
  SequenceMemory& memory = *part.memory;
  const NodeTree& nodes = memory.nodes();
  const uint32_t group = *memory.layout().input_group();
  items_.clear();
  item_of_slot_.assign(nodes.slot_count(), kNone);
  AddItem({}, Batch::kNoRow, kNone);
  for (uint32_t index = memory.length(); index < memory.chain_end(); ++index) {
    const uint32_t i = index - memory.length();
    AddItem(memory.AtCell(group, index), i < part.chain_count ? part.first_row + i : Batch::kNoRow,
            i);
  }
  const uint32_t chain_items = static_cast<uint32_t>(items_.size()) - 1;
  for (uint32_t row = part.first_row + part.chain_count; row < part.first_row + part.row_count;
       ++row) {
    for (const uint32_t slot : memory.PathTo(batch.rows()[row].node)) {
      if (item_of_slot_[slot] != kNone) continue;
      const uint32_t above = nodes.parent(slot);
      // A node below the chain is below its end now, or below the cells that were committed then.
      const uint32_t parent = above != NodeTree::kChain              ? item_of_slot_[above]
                              : nodes.index(slot) == memory.length() ? 0
                                                                     : chain_items;
      item_of_slot_[slot] = AddItem(memory.AtNode(group, slot), Batch::kNoRow, parent);
    }
    items_[item_of_slot_[batch.rows()[row].node]].row = row;
  }
}

uint32_t StateWalks::AddItem(const CellAt& cell, uint32_t row, uint32_t parent) {
  items_.push_back({.cell = cell, .row = row, .parent = parent});
  return static_cast<uint32_t>(items_.size()) - 1;
}

void StateWalks::LinkChildren() {
  for (auto item = static_cast<uint32_t>(items_.size()) - 1; item > 0; --item) {
    Item& parent = items_[items_[item].parent];
    parent.size += items_[item].size;
    const bool is_largest =
        parent.first_child == kNone || items_[item].size >= items_[parent.first_child].size;
    uint32_t& link = is_largest ? parent.first_child : items_[parent.first_child].next_sibling;
    items_[item].next_sibling = link;
    link = item;
  }
}

// Below a child that is not the largest lies no more than half of what is below its parent: so deep
// does it call itself.
void StateWalks::Visit(uint32_t item, uint32_t level) {
  while (item != kNone) {
    const Item& at = items_[item];
    if (item != 0) {
      steps_.push_back({.kind = StateStep::Kind::kAdvance, .cell = at.cell, .row = at.row});
    }
    const uint32_t largest = at.first_child;
    const uint32_t second = largest == kNone ? kNone : items_[largest].next_sibling;
    if (second != kNone) {
      steps_.push_back({.kind = StateStep::Kind::kKeep, .level = level});
      kept_count_max_ = std::max(kept_count_max_, level + 1);
    }
    for (uint32_t child = second; child != kNone; child = items_[child].next_sibling) {
      Visit(child, level + 1);
      steps_.push_back({.kind = StateStep::Kind::kReturn, .level = level});
    }
    item = largest;
  }
}

}  // namespace outrider
