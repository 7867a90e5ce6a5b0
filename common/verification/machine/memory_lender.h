// The target's memory, as it is lent to sessions: pages of keys and values, and sequences.
//
//   none --Borrow()--> lent --Return(), or evicted for another--> none
//     \--Queue()--> queued --ServeQueue()--> lent
//
// A session borrows pages for its whole length, and the nodes of a pass behind it, so that nothing
// it does later can want for memory. Who is idle may lose what it has to one that has something to
// write: first whoever has been idle for the longest time. Who waits is served in order, before
// anybody new.
//
// Memory:  an entry for each session.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/monotonic_time.h"

namespace outrider {

class MemoryLender {
 public:
  struct Stock {
    uint32_t page_count;
    uint32_t page_tokens;
    uint32_t sequence_count;
  };
  // Since when a session has had no use for its memory; none: it has.
  using IdleSince = absl::FunctionRef<std::optional<MonotonicTime>(uint64_t session)>;

  explicit MemoryLender(const Stock& stock);

  uint32_t PagesFor(uint32_t tokens) const;
  // Tokens of a session that takes all there is, beside a pass of so many nodes.
  uint64_t LengthMax(uint32_t pass_nodes) const;

  // False: there is none to be had, or somebody waits for it. Adds to `evicted` the sessions that
  // have lost theirs.
  bool Borrow(uint64_t session, uint32_t pages, IdleSince idle_since,
              std::vector<uint64_t>& evicted);
  void Return(uint64_t session);
  bool HasLent(uint64_t session) const { return loans_.contains(session); }

  // Waits for so many pages, unless it has some or waits already.
  void Queue(uint64_t session, uint32_t pages);
  void LeaveQueue(uint64_t session);
  // Lends to those who wait, as far as there is something to be had.
  void ServeQueue(IdleSince idle_since, std::vector<uint64_t>& evicted);

  uint64_t eviction_count() const { return eviction_count_; }

  // For tests.
  void CheckInvariants() const;

 private:
  struct Waiting {
    uint64_t session;
    uint32_t pages;
  };

  bool MakeRoom(uint32_t pages, IdleSince idle_since, std::vector<uint64_t>& evicted);
  std::optional<uint64_t> LongestIdle(IdleSince idle_since) const;
  void Lend(uint64_t session, uint32_t pages);

  const Stock stock_;
  uint32_t free_pages_;
  std::map<uint64_t, uint32_t> loans_;  // pages by session; each has a sequence too
  std::deque<Waiting> queue_;
  uint64_t eviction_count_ = 0;
};

}  // namespace outrider
