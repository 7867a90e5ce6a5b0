// The memory behind a ledger's pages: what its page numbers are addresses of.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint32_t> page_counts,
//                             DividePages(layout, limits, sequence_count_max, kv_bytes));
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<PageMemory> memory,
//                             PageMemory::Create(layout, page_counts, sequence_count_max));
//
// Addresses stay inside the engine that made it. They are of this machine's memory, unless the
// engine says where else (PagePlace), and then nobody but that place looks at what is there.
//
// Memory:  page_count * page_bytes of every group, taken once; this machine's is resident only as
//          far as pages have been used.
// Threads: one at a time. Reading and writing what pages hold is the forward pass's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/memory/ledger.h"
#include "common/model/memory/memory_layout.h"

namespace outrider {

// How much one sequence may have, and one run of it.
struct SequenceLimits {
  uint32_t length_max;
  uint32_t node_count_max;
  uint32_t row_count_max;
};

// Groups of pages, and how large a page of each is: of a layout, or of an engine with pages of its
// own.
struct SizedGroup {
  PageGroup shape;
  uint64_t page_bytes;
};

// How many pages each group gets of `kv_bytes`; of 0, enough for `sequence_count` sequences at
// their longest. Every group gets pages in proportion to what a sequence at its longest needs of
// it, and no fewer than a pass below a single token needs. InvalidArgument, naming the least that
// would work, when it does not come to that.
absl::StatusOr<std::vector<uint32_t>> DividePages(std::span<const SizedGroup> groups,
                                                  const SequenceLimits& limits,
                                                  uint32_t sequence_count, uint64_t kv_bytes);
absl::StatusOr<std::vector<uint32_t>> DividePages(const MemoryLayout& layout,
                                                  const SequenceLimits& limits,
                                                  uint32_t sequence_count, uint64_t kv_bytes);

// A slot of a page.
struct CellAt {
  std::byte* page;
  uint32_t slot;

  // `at` is where slot 0 begins (memory_layout.h), `length` how long a slot is.
  template <typename T>
  T* As(size_t at, uint32_t length) const {
    return reinterpret_cast<T*>(page) + at + size_t{slot} * length;
  }
};

// Where pages are.
class PagePlace {
 public:
  virtual ~PagePlace() = default;

  // All pages of a group, kept for as long as this lives.
  virtual absl::StatusOr<std::byte*> Take(size_t bytes) = 0;
  // `count` slots of a page from one on to those of another, piece by piece.
  virtual void Copy(std::span<const MemoryLayout::Piece> pieces, const CellAt& from,
                    const CellAt& to, uint32_t count) = 0;
};

class PageMemory {
 public:
  // ResourceExhausted when the machine, or the place, does not have the memory.
  static absl::StatusOr<std::unique_ptr<PageMemory>> Create(MemoryLayout layout,
                                                            std::span<const uint32_t> page_counts,
                                                            uint32_t sequence_count_max);
  static absl::StatusOr<std::unique_ptr<PageMemory>> Create(MemoryLayout layout,
                                                            std::span<const uint32_t> page_counts,
                                                            uint32_t sequence_count_max,
                                                            std::unique_ptr<PagePlace> place);

  const MemoryLayout& layout() const { return layout_; }
  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

  std::byte* Page(uint32_t group, uint32_t page) {
    return pages_[group] + page * layout_.page_bytes(group);
  }

  // The first `count` slots of one page to another, and one slot of any page to one of another.
  void CopySlots(uint32_t group, uint32_t from, uint32_t to, uint32_t count);
  void CopySlot(uint32_t group, const CellAt& from, const CellAt& to);

 private:
  PageMemory(MemoryLayout layout, std::span<const PageGroup> groups, uint32_t sequence_count_max,
             std::unique_ptr<PagePlace> place, std::vector<std::byte*> pages);

  const MemoryLayout layout_;
  Ledger ledger_;
  const std::unique_ptr<PagePlace> place_;
  const std::vector<std::byte*> pages_;  // by group
};

}  // namespace outrider
