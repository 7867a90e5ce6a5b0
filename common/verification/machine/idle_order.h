// Who has no use for the memory that he was lent, in the order in which they lose it: of the account
// that has the most pages idle first whoever has been so for the longest time. So who opens session
// after session takes from himself before he takes from others.
//
// Nobody is looked for: each change, and each question, is a step or two in a tree.
//
// Memory:  an entry for each, and for each account.
// Threads: as a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/monotonic_time.h"

namespace outrider {

class IdleOrder {
 public:
  struct Entry {
    uint64_t session;
    uint64_t account;
    size_t page_count;
    MonotonicTime since;
  };

  // Each session once.
  void Add(const Entry& entry) {
    Account& account = accounts_[entry.account];
    if (!account.sessions.empty()) by_pages_.erase(RankOf(entry.account, account));
    account.page_count += entry.page_count;
    account.sessions.insert({entry.since, entry.session});
    by_pages_.insert(RankOf(entry.account, account));
    ++size_;
  }

  // One that was added, as it was.
  void Remove(const Entry& entry) {
    const auto found = accounts_.find(entry.account);
    OUTRIDER_CHECK(found != accounts_.end(), "who is taken out is there");
    Account& account = found->second;
    by_pages_.erase(RankOf(entry.account, account));
    const size_t erased = account.sessions.erase({entry.since, entry.session});
    OUTRIDER_CHECK(erased == 1, "who is taken out is there");
    account.page_count -= entry.page_count;
    --size_;
    if (account.sessions.empty()) {
      accounts_.erase(found);
    } else {
      by_pages_.insert(RankOf(entry.account, account));
    }
  }

  // None: nobody is idle.
  std::optional<uint64_t> First() const {
    if (by_pages_.empty()) return std::nullopt;
    return accounts_.at(by_pages_.begin()->account).sessions.begin()->second;
  }

  size_t size() const { return size_; }

 private:
  struct Account {
    size_t page_count = 0;                                  // of all its sessions
    std::set<std::pair<MonotonicTime, uint64_t>> sessions;  // the longest idle first
  };
  // Most pages come first, and of as many the older account.
  struct Rank {
    size_t page_count;
    uint64_t account;
    bool operator<(const Rank& other) const {
      return page_count != other.page_count ? page_count > other.page_count
                                            : account < other.account;
    }
  };

  static Rank RankOf(uint64_t number, const Account& account) {
    return {account.page_count, number};
  }

  std::map<uint64_t, Account> accounts_;  // each has a session
  std::set<Rank> by_pages_;
  size_t size_ = 0;
};

}  // namespace outrider
