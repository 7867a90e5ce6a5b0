#include "common/model/memory/cell_table.h"

#include <algorithm>

#include "common/base/check.h"

namespace outrider {

CellTable::CellTable(PageMemory& memory, uint32_t group, PageOwner owner,
                     const SequenceLimits& limits)
    : memory_(memory),
      ledger_(memory.ledger()),
      group_number_(group),
      group_(memory.layout().group(group)),
      owner_(owner),
      held_max_(static_cast<uint32_t>(
          group_.PagesOfSequence(limits.length_max, limits.row_count_max, 0))) {
  pages_.reserve(held_max_ + 1);
  node_pages_.reserve(PagesFor(limits.node_count_max));
}

// With a window, pages that are passed pay for the next ones, unless a fork has them too: so what
// it holds alone and what it is promised come to all that it can hold at a time.
uint32_t CellTable::PagesToTake(uint32_t length, uint32_t cell_end, uint32_t node_count) const {
  uint32_t cells = 0;
  if (cell_end > length) {
    const auto wanted = static_cast<uint32_t>(PagesFor(cell_end));
    cells = (wanted > end_page() ? wanted - end_page() : 0) + (SharesTail(length) ? 1 : 0);
  }
  if (group_.window != PageGroup::kNoWindow) {
    const auto alone = static_cast<uint32_t>(std::ranges::count_if(
        pages_, [&](uint32_t page) { return !ledger_.IsShared(group_number_, page); }));
    cells = std::min(cells, held_max_ > alone ? held_max_ - alone : 0);
  }
  const auto held = static_cast<uint32_t>(node_pages_.size());
  const auto wanted = static_cast<uint32_t>(PagesFor(node_count)) + cells;
  return wanted > held ? wanted - held : 0;
}

bool CellTable::SharesTail(uint32_t length) const {
  return length % kPageTokens > 0 && length / kPageTokens < end_page() &&
         ledger_.IsShared(group_number_, pages_[length / kPageTokens - first_page_]);
}

void CellTable::MakeRoom(uint32_t length, uint32_t end) {
  if (end <= length) return;
  if (SharesTail(length)) {
    uint32_t& tail = pages_[length / kPageTokens - first_page_];
    const uint32_t own = ledger_.Take(owner_, group_number_);
    memory_.CopySlots(group_number_, tail, own, length % kPageTokens);
    ledger_.Drop(group_number_, tail);
    tail = own;
  }
  while (end_page() < PagesFor(end)) pages_.push_back(ledger_.Take(owner_, group_number_));
}

void CellTable::MakeNode(uint32_t slot) {
  while (node_pages_.size() <= slot / kPageTokens) {
    node_pages_.push_back(ledger_.Take(owner_, group_number_));
  }
}

CellAt CellTable::AtCell(uint32_t index) const {
  const uint32_t page = index / kPageTokens;
  OUTRIDER_CHECK(first_page_ <= page && page < end_page(), "cells are looked at while they last");
  return {memory_.Page(group_number_, pages_[page - first_page_]), index % kPageTokens};
}

CellAt CellTable::AtNode(uint32_t slot) const {
  return {memory_.Page(group_number_, node_pages_[slot / kPageTokens]), slot % kPageTokens};
}

void CellTable::CommitNode(uint32_t slot, uint32_t index) {
  if (group_.window == 1) return;  // nobody sees it any longer
  MakeRoom(index, index + 1);
  memory_.CopySlot(group_number_, AtNode(slot), AtCell(index));
}

void CellTable::Advance(uint32_t length) {
  const uint32_t first = group_.FirstSeen(length) / kPageTokens;
  const auto passed = static_cast<ptrdiff_t>(
      std::min<size_t>(pages_.size(), first > first_page_ ? first - first_page_ : 0));
  for (ptrdiff_t i = 0; i < passed; ++i) ledger_.Drop(group_number_, pages_[i]);
  pages_.erase(pages_.begin(), pages_.begin() + passed);
  first_page_ = std::max(first_page_, first);
}

bool CellTable::CanTruncate(uint32_t length) const {
  return SeesNone(length) || first_page_ <= group_.FirstSeen(length) / kPageTokens;
}

void CellTable::Truncate(uint32_t length) {
  OUTRIDER_CHECK(CanTruncate(length), "whoever takes cells back asks first which are there");
  const auto wanted = static_cast<uint32_t>(SeesNone(length) ? 0 : PagesFor(length));
  while (!pages_.empty() && end_page() > wanted) {
    ledger_.Drop(group_number_, pages_.back());
    pages_.pop_back();
  }
  if (pages_.empty()) first_page_ = group_.FirstSeen(length) / kPageTokens;
  DropNodes(0);
}

void CellTable::DropNodes(uint32_t node_count) {
  while (node_pages_.size() > PagesFor(node_count)) {
    ledger_.Drop(group_number_, node_pages_.back());
    node_pages_.pop_back();
  }
}

void CellTable::ForkFrom(const CellTable& other, uint32_t length) {
  OUTRIDER_CHECK(pages_.empty() && node_pages_.empty(), "a fork starts empty");
  first_page_ = SeesNone(length) ? length / kPageTokens : other.first_page_;
  if (SeesNone(length)) return;
  for (uint32_t page = first_page_; page < PagesFor(length); ++page) {
    pages_.push_back(other.pages_[page - first_page_]);
    ledger_.Share(group_number_, pages_.back());
  }
}

}  // namespace outrider
