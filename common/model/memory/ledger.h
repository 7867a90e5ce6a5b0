// Who holds which pages of sequence memory, and what has been promised: ids and counts. Nothing
// here knows an address or a model, so an engine, a scheduler and a planner can each keep one.
//
//   Ledger ledger({{.page_count = 300}, {.page_count = 40, .window = 512}}, 4);
//   const PageOwner owner = ledger.Open();
//   OUTRIDER_RETURN_IF_ERROR(ledger.Reserve(owner, {{12, 3}}));    // by group: all of it, or none
//   const uint32_t page = ledger.Take(owner, 0);                   // cannot fail now
//   ledger.Share(0, page);                                         // a second holder
//   ledger.Drop(0, page);                                          // free when the last has gone
//
// A page holds kPageTokens cells of all layers of one group: layers that keep the same cells of a
// sequence, all of them or those of the same window. A page is in one of three hands:
//
//   free --Reserve()--> promised to an owner --Take()--> held, by one or (forks) several
//
// A promise binds: what is promised to one owner is not free for another. An owner takes pages, but
// a page that it shares is any holder's: the ledger counts holders, it does not know them.
//
// Memory:  taken when it is made and in Open(); nothing allocates otherwise.
// Threads: one at a time.
// Errors:  ResourceExhausted, with both numbers, when there are too few free pages; whoever asked
//          gets none, and everybody else keeps theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/kernels/attention.h"

namespace outrider {

// The one size of a page: a key's slot is its index modulo the chunk that attention sums over.
inline constexpr uint32_t kPageTokens = kChunk;

constexpr uint64_t PagesFor(uint64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

// Layers that keep the same of a sequence.
struct PageGroup {
  static constexpr uint32_t kNoWindow = UINT32_MAX;

  uint32_t page_count = 0;
  uint32_t window = kNoWindow;  // a row sees so many cells, its own the last
  uint32_t pages_each = 0;      // not 0: a sequence has so many at most, however long it is

  // The most that one sequence holds at a time: of `length` cells at the end, with runs of up to
  // `row_count_max` rows of its chain, and `node_count` nodes beside them.
  uint64_t PagesOfSequence(uint64_t length, uint32_t row_count_max, uint32_t node_count) const;

  bool keeps_all() const { return window == kNoWindow && pages_each == 0; }

  // The first cell that a row at `index` sees.
  uint32_t FirstSeen(uint32_t index) const {
    return window != kNoWindow && index >= window ? index + 1 - window : 0;
  }
};

// A sequence, to those who lend it pages.
enum class PageOwner : uint32_t {};

class Ledger {
 public:
  Ledger(std::span<const PageGroup> groups, uint32_t owner_count_max);

  uint32_t group_count() const { return static_cast<uint32_t>(groups_.size()); }
  const PageGroup& group(uint32_t group) const { return groups_[group].shape; }

  // free + promised + held = the group's page_count.
  uint32_t free_count(uint32_t group) const;
  uint32_t promised_count(uint32_t group) const { return groups_[group].promised; }
  uint32_t held_count(uint32_t group) const;

  PageOwner Open();
  // Ends its promises. What it held has been dropped, or is held by others.
  void Close(PageOwner owner);

  // From now on `owner` may take so many pages of each group, instead of what it was promised
  // before.
  absl::Status Reserve(PageOwner owner, std::span<const uint32_t> counts);
  uint32_t promised_to(PageOwner owner, uint32_t group) const;

  // One of those promised to `owner`, which holds it.
  uint32_t Take(PageOwner owner, uint32_t group);
  void Share(uint32_t group, uint32_t page) { ++groups_[group].holders[page]; }
  bool IsShared(uint32_t group, uint32_t page) const { return holder_count(group, page) > 1; }
  uint32_t holder_count(uint32_t group, uint32_t page) const {
    return groups_[group].holders[page];
  }
  void Drop(uint32_t group, uint32_t page);

 private:
  struct Group {
    PageGroup shape;
    std::vector<uint32_t> holders;  // by page
    std::vector<uint32_t> unheld;   // a stack: pages used of late are in the processor's caches
    uint32_t promised = 0;          // of the unheld
  };

  uint32_t& Promise(PageOwner owner, uint32_t group);
  uint32_t Promise(PageOwner owner, uint32_t group) const;

  std::vector<Group> groups_;
  std::vector<uint32_t> promises_;  // [owner][group]
  std::vector<PageOwner> closed_;   // owners to be given again
};

}  // namespace outrider
