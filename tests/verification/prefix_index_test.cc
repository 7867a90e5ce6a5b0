// Whose text begins as another's.
#include "common/verification/machine/prefix_index.h"

#include <numeric>
#include <optional>

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

TEST(PrefixIndex, WhoeverLooksMayDisagree) {
  PrefixIndex index;
  index.Keep(7, kCaller, Text(500), 400);
  const auto shorter = [](const PrefixIndex::Found& found) { return found.page_count < 5; };
  EXPECT_EQ(index.Find(kCaller, Text(500), shorter)->page_count, 4u);
}

}  // namespace
}  // namespace outrider
