#include "common/model/memory/ledger.h"

#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr PageGroup kAll = {.page_count = 10};
constexpr PageGroup kWindowed = {.page_count = 4, .window = 40};

TEST(Ledger, APromiseBindsUntilItIsTakenOrGivenBack) {
  Ledger ledger(std::array{kAll}, 2);
  const PageOwner first = ledger.Open();
  const PageOwner second = ledger.Open();
  EXPECT_TRUE(ledger.Reserve(first, {{7}}).ok());
  EXPECT_EQ(ledger.free_count(0), 3u);
  const absl::Status refused = ledger.Reserve(second, {{4}});
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(Message(refused)), HasSubstr("has 3 of 10 pages free and 4 are needed"));
  EXPECT_EQ(ledger.free_count(0), 3u);

  const uint32_t page = ledger.Take(first, 0);
  EXPECT_EQ(ledger.promised_to(first, 0), 6u);
  EXPECT_EQ(ledger.held_count(0), 1u);
  EXPECT_EQ(ledger.free_count(0), 3u);
  EXPECT_TRUE(ledger.Reserve(first, {{2}}).ok()) << "less than before: the rest is free";
  EXPECT_EQ(ledger.free_count(0), 7u);
  EXPECT_TRUE(ledger.Reserve(first, {{9}}).ok()) << "its own promise does not stand in its way";
  ledger.Drop(0, page);
  ledger.Close(first);
  EXPECT_EQ(ledger.free_count(0), 10u);
}

TEST(Ledger, AllGroupsOrNone) {
  Ledger ledger(std::array{kAll, kWindowed}, 1);
  const PageOwner owner = ledger.Open();
  EXPECT_FALSE(ledger.Reserve(owner, {{10, 5}}).ok());
  EXPECT_EQ(ledger.promised_count(0), 0u);
  EXPECT_TRUE(ledger.Reserve(owner, {{10, 4}}).ok());
}

TEST(Ledger, ASharedPageIsFreeWhenItsLastHolderLetsGo) {
  Ledger ledger(std::array{kAll}, 1);
  const PageOwner owner = ledger.Open();
  ASSERT_TRUE(ledger.Reserve(owner, {{1}}).ok());
  const uint32_t page = ledger.Take(owner, 0);
  ledger.Share(0, page);
  ledger.Drop(0, page);
  EXPECT_EQ(ledger.held_count(0), 1u) << "the other one has it still";
  ledger.Drop(0, page);
  EXPECT_EQ(ledger.held_count(0), 0u);
  EXPECT_EQ(ledger.free_count(0), 10u);
}

TEST(Ledger, PagesAreCountedInOnePlace) {
  EXPECT_EQ(PagesFor(0), 0u);
  EXPECT_EQ(PagesFor(1), 1u);
  EXPECT_EQ(PagesFor(kPageTokens), 1u);
  EXPECT_EQ(PagesFor(kPageTokens + 1), 2u);
  EXPECT_EQ(kAll.PagesOfSequence(1000, 256, 33), 32u + 2u);
  // 39 cells before a row, from the last slot of a page on: 1, 32 and 7.
  EXPECT_EQ(kWindowed.PagesOfSequence(1000, 1, 0), 3u);
  EXPECT_EQ(kWindowed.PagesOfSequence(1000, 26, 0), 3u);
  EXPECT_EQ(kWindowed.PagesOfSequence(1000, 27, 0), 4u);
  EXPECT_EQ(kWindowed.PagesOfSequence(33, 256, 40), 2u + 2u) << "no more than there is";
  EXPECT_EQ(kAll.FirstSeen(500), 0u);
  EXPECT_EQ(kWindowed.FirstSeen(39), 0u);
  EXPECT_EQ(kWindowed.FirstSeen(40), 1u);
}

TEST(Ledger, LendingTakesNothingFromTheHeap) {
  Ledger ledger(std::array{kAll}, 2);
  const PageOwner owner = ledger.Open();
  const uint64_t before = AllocationCount();
  OUTRIDER_CHECK_OK(ledger.Reserve(owner, {{10}}));
  for (int i = 0; i < 10; ++i) ledger.Drop(0, ledger.Take(owner, 0));
  ledger.Close(owner);
  ledger.Open();
  ledger.Open();
  EXPECT_EQ(AllocationCount(), before);
}

// The law, against sets of pages by name: no page is lost, none is held that was not taken, none is
// given twice, and what is promised can always be taken.
TEST(Ledger, NoPageIsLostAndNoneIsGivenTwice) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::array groups = {PageGroup{.page_count = 12}, PageGroup{.page_count = 5},
                               PageGroup{.page_count = 1}};
    Ledger ledger(groups, 4);
    struct Owner {
      PageOwner id;
      std::array<uint32_t, 3> promised = {};
      std::array<std::set<uint32_t>, 3> held;
    };
    std::vector<Owner> owners;
    for (int i = 0; i < 4; ++i) owners.push_back({ledger.Open(), {}, {}});
    for (int step = 0; step < 2000; ++step) {
      Owner& owner = owners[random() % owners.size()];
      const uint32_t group = static_cast<uint32_t>(random()) % 3;
      std::set<uint32_t>& held = owner.held[group];
      const auto holders = [&](uint32_t page) {
        uint32_t count = 0;
        for (const Owner& other : owners) count += other.held[group].contains(page) ? 1 : 0;
        return count;
      };
      switch (random() % 5) {
        case 0: {
          std::array<uint32_t, 3> counts;
          bool fits = true;
          for (uint32_t g = 0; g < 3; ++g) {
            counts[g] = static_cast<uint32_t>(random()) % (groups[g].page_count / 2 + 1);
            std::set<uint32_t> in_use;
            uint32_t promised = 0;
            for (const Owner& other : owners) {
              in_use.insert(other.held[g].begin(), other.held[g].end());
              if (&other != &owner) promised += other.promised[g];
            }
            fits = fits && in_use.size() + promised + counts[g] <= groups[g].page_count;
          }
          const bool granted = ledger.Reserve(owner.id, counts).ok();
          ASSERT_EQ(granted, fits);
          if (granted) owner.promised = counts;
          break;
        }
        case 1:
          if (owner.promised[group] > 0) {
            const uint32_t page = ledger.Take(owner.id, group);
            ASSERT_LT(page, groups[group].page_count);
            ASSERT_EQ(holders(page), 0u);
            held.insert(page);
            --owner.promised[group];
          }
          break;
        case 2: {
          Owner& other = owners[random() % owners.size()];
          for (const uint32_t page : held) {
            if (other.held[group].contains(page)) continue;
            ledger.Share(group, page);
            other.held[group].insert(page);
            break;
          }
          break;
        }
        case 3:
          if (!held.empty()) {
            const uint32_t page = *held.begin();
            ASSERT_EQ(ledger.IsShared(group, page), holders(page) > 1);
            held.erase(page);
            ledger.Drop(group, page);
          }
          break;
        case 4:
          if (random() % 10 == 0) {
            for (uint32_t g = 0; g < 3; ++g) {
              for (const uint32_t page : owner.held[g]) ledger.Drop(g, page);
              owner.held[g].clear();
            }
            ledger.Close(owner.id);
            owner.promised = {};
            owner.id = ledger.Open();
          }
          break;
      }
      for (uint32_t g = 0; g < 3; ++g) {
        uint32_t promised = 0;
        for (const Owner& other : owners) {
          ASSERT_EQ(ledger.promised_to(other.id, g), other.promised[g]);
          promised += other.promised[g];
        }
        uint32_t in_use = 0;
        for (uint32_t page = 0; page < groups[g].page_count; ++page) {
          bool is_held = false;
          for (const Owner& other : owners) is_held = is_held || other.held[g].contains(page);
          in_use += is_held ? 1 : 0;
        }
        ASSERT_EQ(ledger.promised_count(g), promised);
        ASSERT_EQ(ledger.held_count(g), in_use);
        ASSERT_EQ(ledger.free_count(g), groups[g].page_count - promised - in_use);
      }
    }
  }
}

}  // namespace
}  // namespace outrider
