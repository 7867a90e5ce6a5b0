// One sequence's pages of one group: where its cells are, and its nodes.
//
//   cells   index i in slot i % kPageTokens of the page for i / kPageTokens; of a group with a
//           window, only the pages that rows to come can see
//   nodes   slot s in slot s % kPageTokens of node page s / kPageTokens
//
// A fork shares pages. The only shared page that anyone writes into is the one with the next cell:
// whoever is about to gets a copy of its own first.
//
// Memory:  its lists are as long as they can get when it is made.
// Threads: one at a time for all tables of one PageMemory.
#pragma once

#include <cstdint>
#include <vector>

#include "common/model/memory/ledger.h"
#include "common/model/memory/page_memory.h"

namespace outrider {

class CellTable {
 public:
  // `owner` is whom the pages are promised to.
  CellTable(PageMemory& memory, uint32_t group, PageOwner owner, const SequenceLimits& limits);

  // How many pages may still have to be taken before there are `cell_end` cells and slots for
  // `node_count` nodes, where there are `length` cells now, and DropNodes() has let go of others.
  // It may be more once the table has been forked.
  uint32_t PagesToTake(uint32_t length, uint32_t cell_end, uint32_t node_count) const;

  // From here on pages are taken as promised. Cells length .. end-1 can be written afterwards.
  void MakeRoom(uint32_t length, uint32_t end);
  void MakeNode(uint32_t slot);

  CellAt AtCell(uint32_t index) const;
  CellAt AtNode(uint32_t slot) const;

  // The node becomes the cell at `index`, the next one.
  void CommitNode(uint32_t slot, uint32_t index);
  // There are `length` cells now: pages that no row to come sees go back to the ledger. They pay for
  // the next ones, as PagesToTake() counts.
  void Advance(uint32_t length);

  // Whether the cells are there that rows at `length` and after it see.
  bool CanTruncate(uint32_t length) const;
  void Truncate(uint32_t length);
  void Clear() { Truncate(0); }
  // Lets go of the pages of slots from `node_count` on.
  void DropNodes(uint32_t node_count);

  // The `length` cells of `other`, without its nodes. This one is empty.
  void ForkFrom(const CellTable& other, uint32_t length);

 private:
  uint32_t end_page() const { return first_page_ + static_cast<uint32_t>(pages_.size()); }
  // Whether no row at `length` or after it sees any of the cells below.
  bool SeesNone(uint32_t length) const { return group_.FirstSeen(length) >= length; }
  bool SharesTail(uint32_t length) const;

  PageMemory& memory_;
  Ledger& ledger_;
  const uint32_t group_number_;
  const PageGroup& group_;
  const PageOwner owner_;
  const uint32_t held_max_;  // pages of cells at a time

  uint32_t first_page_ = 0;      // pages before it are gone
  std::vector<uint32_t> pages_;  // of cells, from first_page_ on
  std::vector<uint32_t> node_pages_;
};

}  // namespace outrider
