// The target's memory, as it is lent to sessions: pages, kept in a Ledger, and sequences.
//
//   none --Borrow()--> lent --Return(), or evicted for another--> none
//     \--Queue()--> queued --Borrow(), as the first of those who wait--> lent
//
// A session borrows pages for its whole length, and the nodes of a pass behind it, so that nothing
// it does later can want for memory. Where its text begins as that of another does, they hold the
// first pages together, and whoever is about to write there anew takes some of its own first
// (Own()). Who is idle may lose what it has to one that has something to write (idle_order.h). Where
// that is not enough, accounts that have more give way to one that has less, as long as they keep as
// much as it will have then: what their sessions have not used for the longest time first, and then
// of those at work the newest. So nobody keeps strangers out, and whoever has one session keeps it.
// Who waits is served before who is new, an account that has less first (account_shares.h).
//
// Who is idle is told (SetIdle()), by the time of those for whom it has changed: where memory is short
// nobody else is looked at, however many have some, unless they are to give way to who has less.
//
// Memory:  an entry and its pages' numbers for each session, and a count for each page.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/monotonic_time.h"
#include "common/model/memory/ledger.h"
#include "common/verification/machine/account_shares.h"
#include "common/verification/machine/deadlines.h"
#include "common/verification/machine/idle_order.h"

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
  // Since when a session has had no use for its memory, and from when on others may have it.
  struct Idle {
    MonotonicTime since;
    MonotonicTime from;

    bool operator==(const Idle&) const = default;
  };
  // Of one that has a use for it.
  static constexpr Idle kAtWork = {MonotonicTime::max(), MonotonicTime::max()};
  // Called where memory is short, before anybody is to give way: SetIdle() for all to whom something
  // has happened since.
  using TellIdle = absl::FunctionRef<void()>;

  explicit MemoryLender(const Stock& stock);

  // Tokens of a session that takes all there is, beside a pass of so many nodes.
  uint64_t LengthMax(uint32_t node_count) const;

  // False: there is none to be had, or somebody else comes first. Adds to `evicted` the sessions
  // that have lost theirs. `prefix` is held together with whom it names, who may be among those.
  // It is not idle, until that is said.
  bool Borrow(uint64_t session, const Need& need, std::optional<Prefix> prefix, MonotonicTime now,
              TellIdle tell_idle, std::vector<uint64_t>& evicted);
  // From page `first` on it has pages that nobody else holds. False: there are too few, and it has
  // what it had. Afterwards it is not idle, until that is said.
  bool Own(uint64_t session, uint32_t first, MonotonicTime now, TellIdle tell_idle,
           std::vector<uint64_t>& evicted);
  void Return(uint64_t session);
  bool HasLent(uint64_t session) const { return loans_.contains(session); }

  // None: nobody may take its memory now. Nothing is remembered of one that has none.
  void SetIdle(uint64_t session, std::optional<Idle> idle);

  // Whether others have so much more that one of this account is to wait for some, and not to be refused.
  bool MayWait(const Need& need) const {
    return shares_.largest() > shares_.PartOf(need.account) + PartOf(need);
  }
  // Waits, unless it has some or waits already. Whether it is new there, and the first.
  bool Queue(uint64_t session, uint64_t account);
  void LeaveQueue(uint64_t session) { shares_.LeaveLine(session); }
  std::optional<uint64_t> first_waiting() const { return shares_.first_waiting(); }
  size_t waiting_count() const { return shares_.waiting_count(); }

  const Ledger& ledger() const { return ledger_; }
  // Of the pages, where the fewest are free: 0 to 1.
  double used() const;
  uint64_t eviction_count() const { return eviction_count_; }

  // For tests. Of one that has some: what was told of it last.
  std::optional<Idle> IdleOf(uint64_t session) const { return loans_.at(session).idle; }
  void CheckInvariants() const;

 private:
  struct Loan {
    PageOwner owner;
    uint64_t account;
    uint64_t part;  // AccountShares
    std::vector<std::vector<uint32_t>>
        pages;  // by group: those of the text in its order come first
    std::optional<Idle> idle = {};
    bool gives_way = false;  // its time has come, or it is asked to
  };

  // Who wants memory, as what it has to become.
  struct Wanting {
    PageOwner owner;
    uint64_t account;
    uint64_t part;      // that the account has when it has got it
    bool has_sequence;  // and wants no other
  };

  uint32_t PagesOf(uint32_t group, const Need& need) const;
  uint64_t PartOf(const Need& need) const;
  bool Reserve(const Wanting& wanting, MonotonicTime now, TellIdle tell_idle,
               std::vector<uint64_t>& evicted);
  bool IsRoom(bool has_sequence) const;
  bool CouldBeRoom(bool has_sequence) const;

  void AskRicher(const Wanting& wanting);
  bool AskAccount(uint64_t account, const Wanting& wanting);
  void EndAsking();
  void BeginToGiveWay(uint64_t session, Loan& loan);
  void BeginIdle(uint64_t session, Loan& loan, const Idle& idle);
  void EndIdle(uint64_t session, Loan& loan);
  static IdleOrder::Entry EntryOf(uint64_t session, const Loan& loan);
  bool IsHeldByIdle(uint32_t group, uint32_t page) const;
  // What changes of a page is who holds it, or who of them is idle.
  template <typename Change>
  void Recount(uint32_t group, uint32_t page, Change change);

  const Stock stock_;
  Ledger ledger_;
  std::map<uint64_t, Loan> loans_;  // each has a sequence too
  AccountShares shares_;
  uint64_t eviction_count_ = 0;
  Deadlines to_give_way_;  // those that are idle, and do not give way yet
  IdleOrder idle_;         // those that do
  // Of those: by group and page, how many hold it; by group, how many pages nobody else holds.
  std::vector<std::vector<uint32_t>> idle_holders_;
  std::vector<uint32_t> held_by_idle_;
  std::vector<uint32_t> wanted_;  // working memory: pages, by group
  std::vector<uint64_t> asked_;   // of those that give way, whose time has not come
};

}  // namespace outrider
