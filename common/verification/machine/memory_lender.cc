#include "common/verification/machine/memory_lender.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace outrider {

// One owner more than sequences: a borrower asks before it is known whether it gets any.
MemoryLender::MemoryLender(const Stock& stock)
    : stock_(stock),
      ledger_(stock.groups, stock.sequence_count + 1),
      held_by_idle_(stock.groups.size()),
      wanted_(stock.groups.size()) {
  OUTRIDER_CHECK(!stock.groups.empty(), "a target keeps something of its sequences");
  OUTRIDER_CHECK(stock.sequence_count > 0, "a target holds a sequence");
  for (const PageGroup& group : stock.groups) idle_holders_.emplace_back(group.page_count);
}

uint32_t MemoryLender::PagesOf(uint32_t group, const Need& need) const {
  return static_cast<uint32_t>(
      stock_.groups[group].PagesOfSequence(need.length, stock_.row_count_max, need.node_count));
}

// Of what runs out first.
uint64_t MemoryLender::PartOf(const Need& need) const {
  uint64_t part = std::max<uint64_t>(1, AccountShares::kAll / stock_.sequence_count);
  for (uint32_t group = 0; group < ledger_.group_count(); ++group) {
    const uint64_t of_all = std::max(1u, stock_.groups[group].page_count);
    part = std::max(part, AccountShares::kAll * PagesOf(group, need) / of_all);
  }
  return part;
}

uint64_t MemoryLender::LengthMax(uint32_t node_count) const {
  uint64_t length_max = std::numeric_limits<uint32_t>::max();
  for (const PageGroup& group : stock_.groups) {
    const uint64_t most = group.PagesOfSequence(std::numeric_limits<uint32_t>::max(),
                                                stock_.row_count_max, node_count);
    if (most <= group.page_count) continue;
    const uint64_t beside = PagesFor(node_count);
    OUTRIDER_CHECK(group.pages_each == 0 && group.page_count > beside,
                   "a target has memory for a token and a pass");
    length_max = std::min(length_max, (group.page_count - beside) * kPageTokens);
  }
  return length_max;
}

// --- lending ---

bool MemoryLender::Borrow(uint64_t session, const Need& need, std::optional<Prefix> prefix,
                          MonotonicTime now, TellIdle tell_idle, std::vector<uint64_t>& evicted) {
  OUTRIDER_CHECK(!HasLent(session), "a session borrows once");
  if (first_waiting() != session && !shares_.ComesFirst(need.account)) return false;
  Loan loan = {ledger_.Open(), need.account, PartOf(need),
               std::vector<std::vector<uint32_t>>(ledger_.group_count())};
  for (uint32_t group = 0; group < ledger_.group_count(); ++group) {
    wanted_[group] = PagesOf(group, need);
    if (!prefix) continue;
    // Held before anybody is evicted, so that it stays whoever else loses it.
    const std::vector<uint32_t>& theirs = loans_.at(prefix->session).pages[group];
    for (uint32_t i = 0; i < prefix->page_count; ++i) {
      Recount(group, theirs[i], [&] { ledger_.Share(group, theirs[i]); });
      loan.pages[group].push_back(theirs[i]);
    }
    wanted_[group] -= prefix->page_count;
  }
  const Wanting wanting = {loan.owner, need.account, shares_.PartOf(need.account) + loan.part,
                           /*has_sequence=*/false};
  const bool has_room = Reserve(wanting, now, tell_idle, evicted);
  if (has_room) {
    for (uint32_t group = 0; group < ledger_.group_count(); ++group) {
      for (uint32_t i = 0; i < wanted_[group]; ++i) {
        loan.pages[group].push_back(ledger_.Take(loan.owner, group));
      }
    }
    LeaveQueue(session);
  }
  shares_.Add(need.account, loan.part);
  loans_.insert({session, std::move(loan)});
  if (!has_room) Return(session);
  return has_room;
}

bool MemoryLender::Own(uint64_t session, uint32_t first, MonotonicTime now, TellIdle tell_idle,
                       std::vector<uint64_t>& evicted) {
  Loan& loan = loans_.at(session);
  EndIdle(session, loan);
  const auto is_shared = [&](uint32_t group, size_t i) {
    return i >= first && ledger_.IsShared(group, loan.pages[group][i]);
  };
  bool needs_some = false;
  for (uint32_t group = 0; group < ledger_.group_count(); ++group) {
    wanted_[group] = 0;
    for (size_t i = 0; i < loan.pages[group].size(); ++i) wanted_[group] += is_shared(group, i);
    needs_some |= wanted_[group] > 0;
  }
  if (!needs_some) return true;
  const auto tell_of_others = [&] {
    tell_idle();
    EndIdle(session, loan);
  };
  const Wanting wanting = {loan.owner, loan.account, shares_.PartOf(loan.account),
                           /*has_sequence=*/true};
  if (!Reserve(wanting, now, tell_of_others, evicted)) return false;
  for (uint32_t group = 0; group < ledger_.group_count(); ++group) {
    for (size_t i = 0; i < loan.pages[group].size(); ++i) {
      if (!is_shared(group, i)) continue;  // or is no longer, since somebody was evicted
      const uint32_t shared = std::exchange(loan.pages[group][i], ledger_.Take(loan.owner, group));
      Recount(group, shared, [&] { ledger_.Drop(group, shared); });
    }
    wanted_[group] = 0;
  }
  OUTRIDER_CHECK(ledger_.Reserve(loan.owner, wanted_).ok(), "what is left over is given back");
  return true;
}

void MemoryLender::Return(uint64_t session) {
  const auto loan = loans_.find(session);
  if (loan == loans_.end()) return;
  EndIdle(session, loan->second);
  for (uint32_t group = 0; group < ledger_.group_count(); ++group) {
    for (const uint32_t page : loan->second.pages[group]) {
      Recount(group, page, [&] { ledger_.Drop(group, page); });
    }
  }
  ledger_.Close(loan->second.owner);
  shares_.Remove(loan->second.account, loan->second.part);
  loans_.erase(loan);
}

// --- making room ---

// What is wanted is promised to who wants it. Evicts nobody unless that is enough.
bool MemoryLender::Reserve(const Wanting& wanting, MonotonicTime now, TellIdle tell_idle,
                           std::vector<uint64_t>& evicted) {
  if (!IsRoom(wanting.has_sequence)) {
    tell_idle();
    while (const std::optional<uint64_t> session = to_give_way_.TakeDue(now)) {
      BeginToGiveWay(*session, loans_.at(*session));
    }
    AskRicher(wanting);
    const bool could_be = CouldBeRoom(wanting.has_sequence);
    while (could_be && !IsRoom(wanting.has_sequence)) {
      const std::optional<uint64_t> first = idle_.First();
      OUTRIDER_CHECK(first.has_value(), "room is made where there is some to be had");
      Return(*first);
      evicted.push_back(*first);
      ++eviction_count_;
    }
    EndAsking();
    if (!could_be) return false;
  }
  OUTRIDER_CHECK(ledger_.Reserve(wanting.owner, wanted_).ok(), "room has been made");
  return true;
}

// Until that would do.
void MemoryLender::AskRicher(const Wanting& wanting) {
  if (CouldBeRoom(wanting.has_sequence)) return;
  shares_.VisitRicher(wanting.part, [&](uint64_t account) {
    return account != wanting.account && AskAccount(account, wanting);
  });
}

// Whether that is enough: it keeps as much as who wants some will have. Where the first to give would
// leave it less, the rest of it is less.
bool MemoryLender::AskAccount(uint64_t account, const Wanting& wanting) {
  uint64_t left = shares_.PartOf(account);
  while (const std::optional<uint64_t> session = shares_.FirstGiver(account)) {
    Loan& loan = loans_.at(*session);
    if (left < wanting.part + loan.part) return false;
    left -= loan.part;
    to_give_way_.Remove(*session);
    BeginToGiveWay(*session, loan);
    asked_.push_back(*session);
    if (CouldBeRoom(wanting.has_sequence)) return true;
  }
  return false;
}

// Those who have been asked, and were not needed.
void MemoryLender::EndAsking() {
  for (const uint64_t session : asked_) {
    const auto loan = loans_.find(session);
    if (loan == loans_.end()) continue;
    const Idle idle = *loan->second.idle;
    EndIdle(session, loan->second);
    BeginIdle(session, loan->second, idle);
  }
  asked_.clear();
}

bool MemoryLender::IsRoom(bool has_sequence) const {
  if (!has_sequence && loans_.size() >= stock_.sequence_count) return false;
  for (uint32_t group = 0; group < ledger_.group_count(); ++group) {
    if (ledger_.free_count(group) < wanted_[group]) return false;
  }
  return true;
}

bool MemoryLender::CouldBeRoom(bool has_sequence) const {
  if (idle_.size() == 0) return false;
  if (!has_sequence && loans_.size() - idle_.size() >= stock_.sequence_count) return false;
  for (uint32_t group = 0; group < ledger_.group_count(); ++group) {
    if (ledger_.free_count(group) + held_by_idle_[group] < wanted_[group]) return false;
  }
  return true;
}

// --- who is idle ---

void MemoryLender::SetIdle(uint64_t session, std::optional<Idle> idle) {
  const auto found = loans_.find(session);
  if (found == loans_.end() || found->second.idle == idle) return;
  EndIdle(session, found->second);
  if (idle) BeginIdle(session, found->second, *idle);
}

void MemoryLender::BeginIdle(uint64_t session, Loan& loan, const Idle& idle) {
  loan.idle = idle;
  to_give_way_.SetNoLater(session, idle.from);
  shares_.AddGiver(loan.account, {idle.since, session});
}

void MemoryLender::BeginToGiveWay(uint64_t session, Loan& loan) {
  shares_.RemoveGiver(loan.account, {loan.idle->since, session});
  loan.gives_way = true;
  idle_.Add(EntryOf(session, loan));
  for (uint32_t group = 0; group < ledger_.group_count(); ++group) {
    for (const uint32_t page : loan.pages[group]) {
      Recount(group, page, [&] { ++idle_holders_[group][page]; });
    }
  }
}

void MemoryLender::EndIdle(uint64_t session, Loan& loan) {
  if (loan.gives_way) {
    idle_.Remove(EntryOf(session, loan));
    for (uint32_t group = 0; group < ledger_.group_count(); ++group) {
      for (const uint32_t page : loan.pages[group]) {
        Recount(group, page, [&] { --idle_holders_[group][page]; });
      }
    }
  } else if (loan.idle) {
    to_give_way_.Remove(session);
    shares_.RemoveGiver(loan.account, {loan.idle->since, session});
  }
  loan.gives_way = false;
  loan.idle.reset();
}

IdleOrder::Entry MemoryLender::EntryOf(uint64_t session, const Loan& loan) {
  size_t page_count = 0;
  for (const std::vector<uint32_t>& of_group : loan.pages) page_count += of_group.size();
  return {session, loan.account, page_count, loan.idle->since};
}

bool MemoryLender::IsHeldByIdle(uint32_t group, uint32_t page) const {
  const uint32_t idle = idle_holders_[group][page];
  return idle > 0 && idle == ledger_.holder_count(group, page);
}

template <typename Change>
void MemoryLender::Recount(uint32_t group, uint32_t page, Change change) {
  if (IsHeldByIdle(group, page)) --held_by_idle_[group];
  change();
  if (IsHeldByIdle(group, page)) ++held_by_idle_[group];
}

// --- those who wait ---

bool MemoryLender::Queue(uint64_t session, uint64_t account) {
  return !HasLent(session) && shares_.Wait(session, account) && first_waiting() == session;
}

double MemoryLender::used() const {
  double used = 0;
  for (uint32_t group = 0; group < ledger_.group_count(); ++group) {
    const double page_count = ledger_.group(group).page_count;
    if (page_count > 0) used = std::max(used, 1 - ledger_.free_count(group) / page_count);
  }
  return used;
}

void MemoryLender::CheckInvariants() const {
  for (uint32_t group = 0; group < ledger_.group_count(); ++group) {
    std::vector<uint32_t> holders(ledger_.group(group).page_count);
    std::vector<uint32_t> idle_holders(holders.size());
    for (const auto& [session, loan] : loans_) {
      for (const uint32_t page : loan.pages[group]) {
        ++holders[page];
        if (loan.gives_way) ++idle_holders[page];
      }
    }
    uint32_t held_by_idle = 0;
    for (uint32_t page = 0; page < holders.size(); ++page) {
      OUTRIDER_CHECK(holders[page] == ledger_.holder_count(group, page),
                     "a page is held by those it is lent to");
      if (idle_holders[page] > 0 && idle_holders[page] == holders[page]) ++held_by_idle;
    }
    OUTRIDER_CHECK(idle_holders == idle_holders_[group] && held_by_idle == held_by_idle_[group],
                   "what those hold who give way is known");
    OUTRIDER_CHECK(ledger_.promised_count(group) == 0, "what is promised is taken at once");
  }
  size_t giving_way = 0;
  for (const auto& [session, loan] : loans_) {
    if (loan.gives_way) ++giving_way;
    OUTRIDER_CHECK(to_give_way_.Has(session) == (loan.idle && !loan.gives_way),
                   "who is idle gives way, or will");
  }
  OUTRIDER_CHECK(giving_way == idle_.size() && to_give_way_.size() + giving_way <= loans_.size(),
                 "who has nothing cannot give way");
  OUTRIDER_CHECK(loans_.size() <= stock_.sequence_count, "sequences are rationed");
  std::map<uint64_t, uint64_t> parts;  // by account
  for (const auto& [session, loan] : loans_) {
    OUTRIDER_CHECK(!shares_.Waits(session), "who waits for memory has none");
    parts[loan.account] += loan.part;
  }
  for (const auto& [account, part] : parts) {
    OUTRIDER_CHECK(shares_.PartOf(account) == part, "what an account has is known");
  }
  OUTRIDER_CHECK(asked_.empty(), "who has been asked is asked no longer");
}

}  // namespace outrider
