// Who has how much of the target's memory, by account, and who of those that wait for some comes
// first: an account that has less before one that has more, and of one account, or of two that have
// as much, whoever has waited for longer.
//
// A share is counted in parts of all there is, by whatever runs out first; pages that sessions hold
// together count for each of them, and those of sessions that have gone for as long as they are kept.
//
// Nobody is looked for: each change, and each question, is a step or two in a tree.
//
// Memory:  an entry for each who has some or waits, and for each account of those.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/base/check.h"
#include "common/base/monotonic_time.h"

namespace outrider {

class AccountShares {
 public:
  static constexpr uint64_t kAll = 1 << 20;

  // What a session was lent, and what it gives back.
  void Add(uint64_t account, uint64_t part) {
    Change(account, [&](Account& changed) { changed.part += part; });
  }
  void Remove(uint64_t account, uint64_t part) {
    Change(account, [&](Account& changed) {
      OUTRIDER_CHECK(changed.part >= part, "what is given back was lent");
      changed.part -= part;
    });
  }

  // Sessions of an account that has some, which may be asked to give way to one that has less: those
  // first that have had no use for theirs since an earlier time, and then the newest.
  struct Giver {
    MonotonicTime since;
    uint64_t session;

    bool operator<(const Giver& other) const {
      return since != other.since ? since < other.since : session > other.session;
    }
  };
  void AddGiver(uint64_t account, const Giver& giver) {
    accounts_.at(account).givers.insert(giver);
  }
  void RemoveGiver(uint64_t account, const Giver& giver) {
    accounts_.at(account).givers.erase(giver);
  }

  uint64_t PartOf(uint64_t account) const {
    const auto found = accounts_.find(account);
    return found == accounts_.end() ? 0 : found->second.part;
  }
  uint64_t largest() const { return by_part_.empty() ? 0 : by_part_.rbegin()->first; }

  // Visits the accounts that have more than `part`, whoever has the most first. Until the visitor says
  // that it has enough.
  template <typename Visitor>
  void VisitRicher(uint64_t part, Visitor has_enough) const {
    for (auto it = by_part_.rbegin(); it != by_part_.rend() && it->first > part; ++it) {
      if (has_enough(it->second)) return;
    }
  }
  // None: it has nobody who may be asked.
  std::optional<uint64_t> FirstGiver(uint64_t account) const {
    const std::set<Giver>& givers = accounts_.at(account).givers;
    if (givers.empty()) return std::nullopt;
    return givers.begin()->session;
  }

  // Waits, unless it waits already; then false.
  bool Wait(uint64_t session, uint64_t account) {
    if (waiting_.contains(session)) return false;
    const uint64_t drawn = ++last_drawn_;
    waiting_[session] = {account, drawn};
    Change(account, [&](Account& changed) { changed.line[drawn] = session; });
    return true;
  }
  void LeaveLine(uint64_t session) {
    const auto found = waiting_.find(session);
    if (found == waiting_.end()) return;
    const Place place = found->second;
    waiting_.erase(found);
    Change(place.account, [&](Account& changed) { changed.line.erase(place.drawn); });
  }
  bool Waits(uint64_t session) const { return waiting_.contains(session); }
  size_t waiting_count() const { return waiting_.size(); }
  // None: nobody waits.
  std::optional<uint64_t> first_waiting() const {
    if (lines_.empty()) return std::nullopt;
    return accounts_.at(lines_.begin()->account).line.begin()->second;
  }
  // Whether one who is new there comes before all who wait.
  bool ComesFirst(uint64_t account) const {
    return lines_.empty() || PartOf(account) < lines_.begin()->part;
  }

 private:
  struct Account {
    uint64_t part = 0;
    std::set<Giver> givers;
    std::map<uint64_t, uint64_t> line;  // by the number that each drew, who waits
  };
  struct Place {
    uint64_t account;
    uint64_t drawn;
  };
  struct Rank {
    uint64_t part;
    uint64_t drawn;
    uint64_t account;
    auto operator<=>(const Rank&) const = default;
  };

  static Rank RankOf(uint64_t number, const Account& account) {
    return {account.part, account.line.begin()->first, number};
  }

  template <typename Changer>
  void Change(uint64_t number, Changer change) {
    Account& account = accounts_[number];
    by_part_.erase({account.part, number});
    if (!account.line.empty()) lines_.erase(RankOf(number, account));
    change(account);
    if (!account.line.empty()) lines_.insert(RankOf(number, account));
    if (account.part > 0) by_part_.insert({account.part, number});
    if (account.line.empty() && account.part == 0) accounts_.erase(number);
  }

  std::map<uint64_t, Account> accounts_;             // each has something or waits for some
  std::set<std::pair<uint64_t, uint64_t>> by_part_;  // of those that have some
  std::set<Rank> lines_;                             // of those where somebody waits
  absl::flat_hash_map<uint64_t, Place> waiting_;
  uint64_t last_drawn_ = 0;
};

}  // namespace outrider
