// One sequence's share of the cache: its committed positions, and scratch slots for drafted nodes.
//
//   positions   0 .. length()-1 hold keys and values, position p in slot p % kChunk of page
//               p / kChunk; after them there is room for what Reserve() asked for
//   scratch     slot i of drafted nodes, in pages of the same shape, in any order of positions
//
// Rows of a prompt and the root of a pass are written in place, since they are committed already;
// Advance() says so when they have been computed. Drafted nodes go to scratch, and CommitScratch()
// copies the one that was accepted to the next position.
//
// A fork shares all pages. Whoever is about to write into a shared page, which can only be the one
// that holds the next position, gets a copy of its own first (in Reserve()).
//
// Memory:  its lists are as long as they can get when it is made; nothing allocates afterwards.
// Threads: one at a time for all sequences of one cache.
// Errors:  ResourceExhausted when the cache has too few free pages; nothing has changed then.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/model/kv_cache.h"

namespace outrider {

// Where a row's keys and values lie.
struct KvSlot {
  uint16_t* page;
  uint32_t slot;
};

class KvSequence {
 public:
  // `cache` outlives it. It will hold so many positions and scratch slots at most.
  KvSequence(KvCache& cache, uint32_t position_count_max, uint32_t scratch_count_max);
  ~KvSequence() { Clear(); }
  KvSequence(const KvSequence&) = delete;
  KvSequence& operator=(const KvSequence&) = delete;

  uint32_t length() const { return length_; }

  // Room for positions length() .. length() + position_count - 1, and for scratch slots 0 ..
  // scratch_count - 1; those there were before keep what they hold.
  absl::Status Reserve(uint32_t position_count, uint32_t scratch_count);

  KvSlot AtPosition(uint32_t position) const;
  KvSlot AtScratch(uint32_t index) const;

  void Advance(uint32_t position_count);
  void CommitScratch(uint32_t index);
  void DropScratch();

  // Keeps the first `length` positions.
  void Truncate(uint32_t length);
  void Clear();

  // Becomes what `other` is, without its scratch. This one is empty, of the same cache.
  void ForkFrom(const KvSequence& other);

 private:
  KvCache& cache_;
  const uint32_t position_count_max_;
  const uint32_t scratch_count_max_;
  std::vector<uint32_t> pages_;  // of positions
  std::vector<uint32_t> scratch_;
  uint32_t length_ = 0;
};

}  // namespace outrider
