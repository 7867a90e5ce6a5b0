// Whose text begins as another's.
#include "common/verification/machine/prefix_index.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>

#include "common/base/check.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using Found = std::optional<PrefixIndex::Found>;

// Tokens that count up, but for the one at `other`.
TokenHistory Text(size_t length, size_t other = SIZE_MAX) {
  std::vector<TokenId> tokens(length);
  std::iota(tokens.begin(), tokens.end(), 0);
  if (other < length) tokens[other] = 999;
  TokenHistory history({.vocabulary_size = 1000, .capacity = 1000});
  OUTRIDER_CHECK_OK(history.Append(tokens));
  return history;
}

constexpr uint32_t kCaller = 1, kOther = 2;

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// "session pages", or nothing.
std::string Find(const PrefixIndex& index, const TokenHistory& text, uint64_t caller = kCaller) {
  const Found found = index.Find(caller, text, [](const PrefixIndex::Found&) { return true; });
  return found ? std::to_string(found->session) + " " + std::to_string(found->page_count) : "";
}

TEST(PrefixIndex, FindsTheLongestBeginningOfWholePagesAndATokenMore) {
  PrefixIndex index;
  index.Keep(7, kCaller, Text(500), 3 * kPageTokens + 1);
  EXPECT_EQ(Find(index, Text(500)), "7 3");
  EXPECT_EQ(Find(index, Text(500, 3 * kPageTokens)), "7 2") << "the token after the page differs";
  EXPECT_EQ(Find(index, Text(500, kPageTokens + 1)), "7 1");
  EXPECT_EQ(Find(index, Text(500, kPageTokens - 1)), "");
  index.Keep(8, kCaller, Text(500), 4 * kPageTokens);
  EXPECT_EQ(Find(index, Text(500)), "8 3") << "a page too few for four";
}

TEST(PrefixIndex, LeavesATokenToBeRead) {
  PrefixIndex index;
  index.Keep(7, kCaller, Text(500), 400);
  EXPECT_EQ(Find(index, Text(2 * kPageTokens + 2)), "7 2");
  EXPECT_EQ(Find(index, Text(2 * kPageTokens + 1)), "7 1");
  EXPECT_EQ(Find(index, Text(0)), "");
}

TEST(PrefixIndex, CallersDoNotMeet) {
  PrefixIndex index;
  index.Keep(7, kCaller, Text(500), 400);
  EXPECT_EQ(Find(index, Text(500), kOther), "");
}

TEST(PrefixIndex, WhatIsCutOrForgottenIsNotFoundAndOthersAre) {
  PrefixIndex index;
  index.Keep(7, kCaller, Text(500), 400);
  index.Keep(8, kCaller, Text(500), 100);
  index.Keep(7, kCaller, Text(500), kPageTokens + 5);
  EXPECT_EQ(Find(index, Text(500)), "8 3");
  index.Forget(8);
  EXPECT_EQ(Find(index, Text(500)), "7 1");
  index.Keep(7, kCaller, Text(500), kPageTokens);
  EXPECT_EQ(Find(index, Text(500)), "");
  EXPECT_TRUE(index.empty());
}

// Whatever order they come and go in: the longest beginning that somebody has is found, at somebody
// who has it.
TEST(PrefixIndex, FindsWhatIsThereWhoeverHasLeft) {
  PrefixIndex index;
  std::map<uint64_t, uint32_t> pages;  // by session
  std::mt19937 random(1);
  const TokenHistory text = Text(500);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t session = random() % 12;
    const uint32_t count = random() % 6;
    index.Keep(session, kCaller, text, PrefixIndex::TokensOf(count));
    pages[session] = count;
    uint32_t most = 0;
    for (const auto& [number, kept] : pages) most = std::max(most, kept);
    const Found found = index.Find(kCaller, text, [](const PrefixIndex::Found&) { return true; });
    ASSERT_EQ(found ? found->page_count : 0, most) << i;
    if (found) {
      ASSERT_EQ(pages.at(found->session), most) << i;
    }
  }
  for (const auto& [session, kept] : pages) index.Forget(session);
  EXPECT_TRUE(index.empty());
}

// Seconds of this thread to forget a session among so many that begin alike.
double SecondsToForget(uint64_t session_count) {
  const TokenHistory text = Text(1000);
  double least = HUGE_VAL;
  for (int attempt = 0; attempt < 3; ++attempt) {
    PrefixIndex index;
    for (uint64_t i = 0; i < session_count; ++i) index.Keep(i, kCaller, text, 1000);
    const double begin = ThreadSeconds();
    for (uint64_t i = 0; i < session_count; ++i) index.Forget(i);
    least = std::min(least, (ThreadSeconds() - begin) / static_cast<double>(session_count));
  }
  return least;
}

TEST(PrefixIndex, ToForgetOneCostsItsPagesWhoeverBeginsAlike) {
  EXPECT_LT(SecondsToForget(8192), 4 * SecondsToForget(256));
}

TEST(PrefixIndex, WhoeverLooksMayDisagree) {
  PrefixIndex index;
  index.Keep(7, kCaller, Text(500), 400);
  const auto shorter = [](const PrefixIndex::Found& found) { return found.page_count < 5; };
  EXPECT_EQ(index.Find(kCaller, Text(500), shorter)->page_count, 4u);
}

}  // namespace
}  // namespace outrider
