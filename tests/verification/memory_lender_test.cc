// Who has the target's memory, who loses it and who waits for some.
#include "common/verification/machine/memory_lender.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/lending.h"

namespace outrider {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MemoryLender, LendsWhatThereIsAndNoMore) {
  Lending lending;
  EXPECT_TRUE(lending.Borrow(1, 6));
  EXPECT_FALSE(lending.Borrow(2, 5));
  EXPECT_TRUE(lending.Borrow(2, 4));
  EXPECT_FALSE(lending.Borrow(3, 1));
  lending.lender.Return(1);
  EXPECT_TRUE(lending.Borrow(3, 6));
}

TEST(MemoryLender, SequencesAreRationedToo) {
  Lending lending;
  for (uint64_t session = 1; session <= 4; ++session) {
    EXPECT_EQ(lending.Borrow(session, 1), session <= 3);
  }
}

TEST(MemoryLender, WhoHasBeenIdleForTheLongestTimeLosesItFirst) {
  Lending lending;
  for (uint64_t session = 1; session <= 3; ++session) ASSERT_TRUE(lending.Borrow(session, 3));
  lending.idle = {{1, Since(5)}, {3, Since(4)}};
  EXPECT_TRUE(lending.Borrow(4, 3));
  EXPECT_THAT(lending.evicted, ElementsAre(3));
  EXPECT_EQ(lending.lender.eviction_count(), 1u);
}

TEST(MemoryLender, OfTheAccountThatHasTheMostIdleSomebodyLosesItFirst) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 3, std::nullopt, /*account=*/1));
  ASSERT_TRUE(lending.Borrow(2, 2, std::nullopt, /*account=*/2));
  ASSERT_TRUE(lending.Borrow(3, 2, std::nullopt, /*account=*/2));
  lending.idle = {{1, Since(1)}, {2, Since(5)}, {3, Since(6)}};
  EXPECT_TRUE(lending.Borrow(4, 8));
  EXPECT_THAT(lending.evicted, ElementsAre(2, 1)) << "then the other one has the most";
}

TEST(MemoryLender, WhoIsIdleGivesWayWhenItsTimeHasCome) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 10));
  lending.idle = {{1, {.since = MonotonicTime(seconds(8)), .from = MonotonicTime(seconds(13))}}};
  EXPECT_FALSE(lending.Borrow(2, 1));
  lending.now = MonotonicTime(seconds(12));
  EXPECT_FALSE(lending.Borrow(2, 1));
  lending.now = MonotonicTime(seconds(13));
  EXPECT_TRUE(lending.Borrow(2, 1));
}

TEST(MemoryLender, WhoHasAUseForItAgainKeepsIt) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 5));
  ASSERT_TRUE(lending.Borrow(2, 5));
  lending.idle = {{1, Since(4)}, {2, Since(5)}};
  EXPECT_FALSE(lending.Borrow(3, 11)) << "both would not do, and are known to be idle";
  lending.idle.erase(1);
  EXPECT_TRUE(lending.Borrow(3, 5));
  EXPECT_THAT(lending.evicted, ElementsAre(2));
}

TEST(MemoryLender, NobodyIsEvictedForNothing) {
  Lending lending;
  for (uint64_t session = 1; session <= 2; ++session) ASSERT_TRUE(lending.Borrow(session, 5));
  lending.idle = {{1, Since(5)}};
  EXPECT_FALSE(lending.Borrow(3, 6));
  EXPECT_THAT(lending.evicted, IsEmpty());
}

// The first who waits is served before anybody else is.
TEST(MemoryLender, WhoWaitsIsServedInOrderAndBeforeWhoIsNew) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 10));
  lending.lender.Queue(2, 0);
  lending.lender.Queue(3, 0);
  lending.lender.Queue(2, 0);  // once is enough
  lending.lender.Return(1);
  EXPECT_FALSE(lending.Borrow(4, 1));
  EXPECT_FALSE(lending.Borrow(3, 1));
  EXPECT_EQ(lending.lender.first_waiting(), 2u);
  EXPECT_TRUE(lending.Borrow(2, 8));
  EXPECT_EQ(lending.lender.first_waiting(), 3u);
  EXPECT_TRUE(lending.Borrow(3, 1));
  EXPECT_EQ(lending.lender.first_waiting(), std::nullopt);
  EXPECT_TRUE(lending.Borrow(4, 1));
}

TEST(MemoryLender, WhoHasLeftTheQueueIsNotServed) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 10));
  lending.lender.Queue(2, 0);
  lending.lender.LeaveQueue(2);
  EXPECT_EQ(lending.lender.first_waiting(), std::nullopt);
  for (const uint64_t session : {2, 3, 4}) lending.lender.Queue(session, 0);
  lending.lender.LeaveQueue(3);
  lending.lender.Queue(3, 0);
  lending.lender.LeaveQueue(2);
  EXPECT_EQ(lending.lender.first_waiting(), 4u) << "who comes again comes last";
}

// --- pages held together ---

TEST(MemoryLender, ABeginningIsHeldTogetherAndCountedOnce) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 6));
  EXPECT_FALSE(lending.Borrow(2, 8));
  EXPECT_EQ(lending.free_count(), 4u) << "a refusal leaves nothing behind";
  ASSERT_TRUE(lending.Borrow(2, 8, Lending::Prefix{1, 4}));
  EXPECT_EQ(lending.free_count(), 0u);
  lending.lender.Return(1);
  EXPECT_EQ(lending.free_count(), 2u) << "the beginning is the other one's still";
  lending.lender.Return(2);
  EXPECT_EQ(lending.free_count(), 10u);
}

TEST(MemoryLender, WhoWritesABeginningAnewTakesPagesOfItsOwn) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 4));
  ASSERT_TRUE(lending.Borrow(2, 4, Lending::Prefix{1, 3}));
  EXPECT_EQ(lending.free_count(), 5u);
  EXPECT_TRUE(lending.Own(1, 3)) << "shares none from there on";
  EXPECT_EQ(lending.free_count(), 5u);
  EXPECT_TRUE(lending.Own(1, 1));
  EXPECT_EQ(lending.free_count(), 3u);
  ASSERT_TRUE(lending.Borrow(3, 3));
  EXPECT_FALSE(lending.Own(2, 0)) << "one page, and none is left";
  lending.lender.Return(3);
  EXPECT_TRUE(lending.Own(2, 0));
  EXPECT_EQ(lending.free_count(), 2u);
}

TEST(MemoryLender, WhatIsHeldWithSomebodyAtWorkCannotBeHadByEviction) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 6));
  ASSERT_TRUE(lending.Borrow(2, 6, Lending::Prefix{1, 4}));
  lending.idle = {{1, Since(5)}};
  EXPECT_FALSE(lending.Borrow(3, 5));
  EXPECT_THAT(lending.evicted, IsEmpty());
  EXPECT_TRUE(lending.Borrow(3, 4));  // its own two, and two that were free
  EXPECT_THAT(lending.evicted, ElementsAre(1));
}

TEST(MemoryLender, AnEvictedOnesBeginningStaysWithWhoSharesIt) {
  Lending lending;
  ASSERT_TRUE(lending.Borrow(1, 8));
  lending.idle = {{1, Since(5)}};
  EXPECT_TRUE(lending.Borrow(2, 10, Lending::Prefix{1, 5}));
  EXPECT_THAT(lending.evicted, ElementsAre(1));
  EXPECT_EQ(lending.free_count(), 0u);
}

// --- many of them ---

// The rules as they are said, of one group of pages: everybody is looked at.
class PlainLender {
 public:
  struct Loan {
    uint64_t account;
    size_t size;  // in pages, shared ones too
    std::vector<uint64_t> pages;
  };

  PlainLender(size_t page_count, size_t sequence_count)
      : page_count_(page_count), sequence_count_(sequence_count) {}

  bool Borrow(uint64_t session, const Loan& as, std::vector<uint64_t>& evicted) {
    loans[session] = as;
    const size_t wanted = as.size - as.pages.size();
    if (!MakeRoom(session, wanted, /*has_sequence=*/false, evicted)) {
      loans.erase(session);
      return false;
    }
    while (loans[session].pages.size() < as.size) loans[session].pages.push_back(++last_page_);
    return true;
  }

  bool Own(uint64_t session, size_t first, std::vector<uint64_t>& evicted) {
    std::vector<uint64_t>& pages = loans.at(session).pages;
    const auto shared = [&](size_t i) { return Holders(pages[i]).size() > 1; };
    size_t wanted = 0;
    for (size_t i = first; i < pages.size(); ++i) wanted += shared(i);
    if (wanted == 0) return true;
    if (!MakeRoom(session, wanted, /*has_sequence=*/true, evicted)) return false;
    for (size_t i = first; i < pages.size(); ++i) {
      if (shared(i)) pages[i] = ++last_page_;
    }
    return true;
  }

  size_t free_count() const { return page_count_ - Held().size(); }

  std::map<uint64_t, Loan> loans;
  std::map<uint64_t, MemoryLender::Idle> idle;
  MonotonicTime now{};

 private:
  std::set<uint64_t> Held() const {
    std::set<uint64_t> held;
    for (const auto& [session, loan] : loans) held.insert(loan.pages.begin(), loan.pages.end());
    return held;
  }
  std::vector<uint64_t> Holders(uint64_t page) const {
    std::vector<uint64_t> holders;
    for (const auto& [session, loan] : loans) {
      if (std::ranges::count(loan.pages, page) > 0) holders.push_back(session);
    }
    return holders;
  }
  // Whoever wants some gives none.
  bool GivesWay(uint64_t session, uint64_t wants) const {
    const auto found = idle.find(session);
    return session != wants && found != idle.end() &&
           (now >= found->second.from || asked_.contains(session));
  }

  bool MakeRoom(uint64_t wants, size_t wanted, bool has_sequence, std::vector<uint64_t>& evicted) {
    const auto is_room = [&] {
      return free_count() >= wanted && (has_sequence || loans.size() - 1 < sequence_count_);
    };
    if (is_room()) return true;
    const auto could_be = [&] {
      size_t idle_count = 0;
      for (const auto& [session, loan] : loans) idle_count += GivesWay(session, wants);
      size_t idle_pages = 0;
      for (const uint64_t page : Held()) {
        idle_pages += std::ranges::all_of(Holders(page),
                                          [&](uint64_t holder) { return GivesWay(holder, wants); });
      }
      return idle_count > 0 && free_count() + idle_pages >= wanted &&
             (has_sequence || loans.size() - 1 - idle_count < sequence_count_);
    };
    while (!could_be() && AskOne(wants)) continue;
    const bool is_enough = could_be();
    while (is_enough && !is_room()) {
      evicted.push_back(First(wants));
      loans.erase(evicted.back());
    }
    asked_.clear();
    stays_.clear();
    return is_enough;
  }

  // Of the account that has the most: it keeps as much as the one who wants some will have.
  bool AskOne(uint64_t wants) {
    std::map<uint64_t, uint64_t> before;  // by account
    std::map<uint64_t, uint64_t> left;
    for (const auto& [session, loan] : loans) {
      before[loan.account] += PartOf(loan);
      if (!asked_.contains(session)) left[loan.account] += PartOf(loan);
    }
    const uint64_t account = loans.at(wants).account;
    std::optional<uint64_t> best;
    const auto rank = [&](uint64_t session) {
      const uint64_t of = loans.at(session).account;
      return std::tuple(before[of], of, MonotonicTime::max() - idle.at(session).since, session);
    };
    for (const auto& [session, loan] : loans) {
      const bool can = idle.contains(session) && !GivesWay(session, wants) &&
                       loan.account != account && before[loan.account] > before[account] &&
                       !stays_.contains(loan.account);
      if (can && (!best || rank(session) > rank(*best))) best = session;
    }
    if (!best) return false;
    const Loan& loan = loans.at(*best);
    const bool keeps_as_much = left[loan.account] >= before[account] + PartOf(loan);
    (keeps_as_much ? asked_ : stays_).insert(keeps_as_much ? *best : loan.account);
    return true;
  }

  uint64_t PartOf(const Loan& loan) const {
    return AccountShares::kAll * std::max(1.0 / sequence_count_, 1.0 * loan.size / page_count_);
  }

  uint64_t First(uint64_t wants) const {
    std::map<uint64_t, size_t> pages;  // by account
    for (const auto& [session, loan] : loans) {
      if (GivesWay(session, wants)) pages[loan.account] += loan.pages.size();
    }
    const auto most = std::ranges::max_element(pages, {}, [](const auto& of) { return of.second; });
    uint64_t first = 0;
    for (const auto& [session, loan] : loans) {
      if (loan.account != most->first || !GivesWay(session, wants)) continue;
      if (first == 0 || idle.at(session).since < idle.at(first).since) first = session;
    }
    return first;
  }

  const size_t page_count_;
  const size_t sequence_count_;
  uint64_t last_page_ = 0;
  std::set<uint64_t> asked_;  // sessions
  std::set<uint64_t> stays_;  // accounts of which nobody more is asked
};

TEST(MemoryLender, WhoLosesItIsWhomTheRulesSay) {
  constexpr uint32_t kPages = 40;
  constexpr uint32_t kSequences = 6;
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t count) { return random() % count; };
    MemoryLender lender(
        {.groups = {{.page_count = kPages}}, .sequence_count = kSequences, .row_count_max = 1});
    PlainLender plain(kPages, kSequences);
    std::set<uint64_t> changed;
    const auto tell = [&] {
      for (const uint64_t session : changed) {
        const auto found = plain.idle.find(session);
        lender.SetIdle(session,
                       found == plain.idle.end() ? std::nullopt : std::optional(found->second));
      }
      changed.clear();
    };
    size_t evictions = 0;
    ptrdiff_t asked = 0;  // of those
    size_t refusals = 0;
    for (int step = 0; step < 5000; ++step) {
      SCOPED_TRACE(step);
      plain.now += std::chrono::milliseconds(below(300));
      const uint64_t session = 1 + below(12);
      std::vector<uint64_t> evicted;
      std::vector<uint64_t> expected;
      bool has_room = true;
      bool should_have = true;
      if (below(2) == 0) {
        changed.insert(session);
        plain.idle.erase(session);
        if (below(2) == 0) {
          plain.idle[session] = {plain.now, plain.now + std::chrono::milliseconds(below(2) * 2000)};
        } else if (below(3) > 0) {
          plain.idle[session] = MemoryLender::kAtWork;
        }
      } else if (!plain.loans.contains(session)) {
        const uint64_t account = session < 8 ? 1 : 1 + session % 3;  // of the first one most
        const auto pages = static_cast<uint32_t>(1 + below(12));
        std::optional<MemoryLender::Prefix> prefix;
        PlainLender::Loan as = {account, pages, {}};
        const auto other = plain.loans.lower_bound(1 + below(12));
        if (below(2) == 0 && other != plain.loans.end()) {
          const std::vector<uint64_t>& theirs = other->second.pages;
          const auto count = static_cast<uint32_t>(std::min<size_t>(pages, theirs.size()));
          prefix = {other->first, count};
          as.pages.assign(theirs.begin(), theirs.begin() + count);
        }
        has_room = lender.Borrow(
            session, {.length = pages * kPageTokens, .node_count = 0, .account = account}, prefix,
            plain.now, tell, evicted);
        should_have = plain.Borrow(session, as, expected);
        changed.insert(session);
      } else if (below(3) > 0) {
        const uint64_t first = below(plain.loans.at(session).pages.size() + 1);
        has_room = lender.Own(session, static_cast<uint32_t>(first), plain.now, tell, evicted);
        should_have = plain.Own(session, first, expected);
        changed.insert(session);
      } else {
        lender.Return(session);
        plain.loans.erase(session);
      }
      lender.CheckInvariants();
      ASSERT_EQ(has_room, should_have);
      ASSERT_EQ(evicted, expected);
      ASSERT_EQ(lender.ledger().free_count(0), plain.free_count());
      evictions += evicted.size();
      asked += std::ranges::count_if(
          evicted, [&](uint64_t who) { return plain.idle.at(who).from > plain.now; });
      refusals += !has_room;
    }
    EXPECT_GT(evictions, 100u);
    EXPECT_GT(asked, 20);
    EXPECT_GT(refusals, 20u);
  }
}

// What making room for one takes where so many have a page each: the least of many.
double SecondsOf(uint32_t session_count, bool are_idle) {
  MemoryLender lender({.groups = {{.page_count = session_count}},
                       .sequence_count = session_count,
                       .row_count_max = 1});
  constexpr MemoryLender::Need kNeed = {.length = kPageTokens, .node_count = 0};
  MonotonicTime now{};
  uint64_t newest = 0;
  std::vector<uint64_t> evicted;
  const auto come = [&] {
    now += std::chrono::milliseconds(1);
    const bool is_let_in = lender.Borrow(
        ++newest, kNeed, std::nullopt, now, [] {}, evicted);
    if (are_idle) lender.SetIdle(newest, MemoryLender::Idle{now, now});
    return is_let_in;
  };
  while (newest < session_count) EXPECT_TRUE(come());
  double least = 1;
  for (int i = 0; i < 2000; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(come(), are_idle);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    least = std::min(least, time.count());
  }
  EXPECT_EQ(evicted.size(), are_idle ? 2000u : 0u);
  return least;
}

// A factor that no linear cost of a thousand times as many stays below.
constexpr double kAboutAsMuch = 20;

// Nobody is looked for.
TEST(MemoryLender, MakingRoomCostsTheSameHoweverManyHaveSome) {
  for (const bool are_idle : {true, false}) {
    EXPECT_LT(SecondsOf(10'000, are_idle), kAboutAsMuch * SecondsOf(10, are_idle)) << are_idle;
  }
}

TEST(MemoryLender, LeavingTheQueueCostsTheSameHoweverManyWait) {
  const auto seconds_of = [](uint64_t session_count) {
    MemoryLender lender({.groups = {{.page_count = 1}}, .sequence_count = 1, .row_count_max = 1});
    uint64_t newest = 0;
    while (newest < session_count) lender.Queue(++newest, 0);
    double least = 1;
    for (int i = 0; i < 2000; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      lender.Queue(++newest, 0);
      lender.LeaveQueue(newest);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      least = std::min(least, time.count());
    }
    EXPECT_EQ(lender.waiting_count(), session_count);
    EXPECT_EQ(lender.first_waiting(), 1u);
    return least;
  };
  EXPECT_LT(seconds_of(10'000), kAboutAsMuch * seconds_of(10));
}

// A window keeps little of a text, a state one page: both bound who is let in, as the cells do.
TEST(MemoryLender, NoGroupIsOverdrawn) {
  const PageGroup cells = {.page_count = 100}, window = {.page_count = 9, .window = 33},
                  state = {.page_count = 2, .pages_each = 1};
  const auto lent = [](std::vector<PageGroup> groups) {
    MemoryLender lender({.groups = groups, .sequence_count = 9, .row_count_max = 64});
    std::vector<uint64_t> evicted;
    uint64_t count = 0;
    while (lender.Borrow(
        count + 1, {320, 32}, std::nullopt, {}, [] {}, evicted))
      ++count;
    return count;
  };
  EXPECT_EQ(lent({cells}), 9u);
  EXPECT_EQ(lent({cells, window}), 1u) << "4 pages of cells and one of nodes each";
  EXPECT_EQ(lent({cells, state}), 2u);
  const auto length_max = [](std::vector<PageGroup> groups) {
    return MemoryLender({.groups = groups, .sequence_count = 9, .row_count_max = 64}).LengthMax(32);
  };
  EXPECT_EQ(length_max({cells}), 99u * kPageTokens);
  EXPECT_EQ(length_max({window, state}), UINT32_MAX);
  EXPECT_EQ(length_max({cells, {.page_count = 4, .window = 33}}), 3u * kPageTokens);
}

}  // namespace
}  // namespace outrider
