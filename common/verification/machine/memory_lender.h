// The target's memory, as it is lent to sessions: pages, kept in a Ledger, and sequences.
//
//   none --Borrow()--> lent --Return(), or evicted for another--> none
//     \--Queue()--> queued --Borrow(), as the first of those who wait--> lent
//
// A session borrows pages for its whole length, and the nodes of a pass behind it, so that nothing
// it does later can want for memory. Where its text begins as that of another does, they hold the
// first pages together, and whoever is about to write there anew takes some of its own first
// (Own()). Who is idle may lose what it has to one that has something to write: of the account that
// has the most pages idle first whoever has been so for the longest time. So who opens session after
// session takes from himself before he takes from others. Who waits is served in order, before anybody new.
//
// Memory:  an entry and its pages' numbers for each session.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "common/base/monotonic_time.h"
#include "common/model/memory/ledger.h"

namespace outrider {

class MemoryLender {
 public:
  struct Stock {
    std::vector<PageGroup> groups;
    uint32_t sequence_count;
    uint32_t row_count_max;  // of a run: what a window keeps beside itself
  };
  // What a session is to have room for: its tokens and, behind them, the nodes of a pass.
  struct Need {
    uint32_t length;
    uint32_t node_count;
    uint64_t account = 0;  // whose it is
  };
  // The first pages of a session that has some, in every group.
  struct Prefix {
    uint64_t session;
    uint32_t page_count;
  };
  // Since when a session has had no use for its memory; none: it has.
  using IdleSince = absl::FunctionRef<std::optional<MonotonicTime>(uint64_t session)>;

  explicit MemoryLender(const Stock& stock);

  // Tokens of a session that takes all there is, beside a pass of so many nodes.
  uint64_t LengthMax(uint32_t node_count) const;

  // False: there is none to be had, or somebody else comes first. Adds to `evicted` the sessions
  // that have lost theirs. `prefix` is held together with whom it names, who may be among those.
  bool Borrow(uint64_t session, const Need& need, std::optional<Prefix> prefix,
              IdleSince idle_since, std::vector<uint64_t>& evicted);
  // From page `first` on it has pages that nobody else holds. False: there are too few, and it has
  // what it had.
  bool Own(uint64_t session, uint32_t first, IdleSince idle_since, std::vector<uint64_t>& evicted);
  void Return(uint64_t session);
  bool HasLent(uint64_t session) const { return loans_.contains(session); }

  // Waits, unless it has some or waits already. Whether it is new there, and the first.
  bool Queue(uint64_t session);
  void LeaveQueue(uint64_t session);
  std::optional<uint64_t> first_waiting() const;
  size_t waiting_count() const { return queue_.size(); }

  const Ledger& ledger() const { return ledger_; }
  // Of the pages, where the fewest are free: 0 to 1.
  double used() const;
  uint64_t eviction_count() const { return eviction_count_; }

  // For tests.
  void CheckInvariants() const;

 private:
  struct Loan {
    PageOwner owner;
    uint64_t account;
    std::vector<std::vector<uint32_t>>
        pages;  // by group: those of the text in its order come first
  };

  uint32_t PagesOf(uint32_t group, const Need& need) const;
  bool Reserve(PageOwner owner, bool has_sequence, IdleSince idle_since,
               std::vector<uint64_t>& evicted);
  bool IsRoom(bool has_sequence) const;
  bool CouldBeRoom(bool has_sequence, IdleSince idle_since) const;
  uint32_t HeldByIdle(uint32_t group, IdleSince idle_since) const;
  uint64_t MostIdleAccount(IdleSince idle_since) const;
  std::optional<uint64_t> LongestIdle(IdleSince idle_since) const;

  const Stock stock_;
  Ledger ledger_;
  std::map<uint64_t, Loan> loans_;  // each has a sequence too
  std::deque<uint64_t> queue_;
  absl::flat_hash_set<uint64_t> queued_;  // those of queue_
  uint64_t eviction_count_ = 0;
  // Working memory.
  std::vector<uint32_t> wanted_;                   // pages, by group
  mutable std::vector<uint32_t> idle_holders_;     // by page
  mutable std::map<uint64_t, size_t> idle_pages_;  // by account
};

}  // namespace outrider
