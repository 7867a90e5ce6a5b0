#include "common/tokens/token_history.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

TokenHistory Counting(size_t capacity = 100) {
  return TokenHistory({.vocabulary_size = 10, .capacity = capacity, .counts_tokens = true});
}

void Append(TokenHistory& history, const std::vector<TokenId>& tokens) {
  const absl::Status status = history.Append(tokens);
  ASSERT_TRUE(status.ok()) << status;
}

TEST(TokenHistory, KeepsTokensInOrderAndCountsThem) {
  TokenHistory history = Counting();
  Append(history, {3, 1, 3});
  history.StartReply();
  Append(history, {1, 4});
  EXPECT_THAT(history.tokens(), ElementsAre(3, 1, 3, 1, 4));
  EXPECT_THAT(history.reply(), ElementsAre(1, 4));
  EXPECT_THAT(history.distinct(), ElementsAre(3, 1, 4));
  EXPECT_EQ(history.CountOf(3), 2u);
  EXPECT_EQ(history.ReplyCountOf(3), 0u);
  EXPECT_EQ(history.CountOf(1), 2u);
  EXPECT_EQ(history.ReplyCountOf(1), 1u);
  EXPECT_EQ(history.CountOf(9), 0u);
}

TEST(TokenHistory, AReplyBecomesPromptWhenTheNextBegins) {
  TokenHistory history = Counting();
  Append(history, {1, 1, 2});
  EXPECT_EQ(history.ReplyCountOf(1), 2u);
  history.StartReply();
  EXPECT_EQ(history.ReplyCountOf(1), 0u);
  EXPECT_EQ(history.CountOf(1), 2u);
  EXPECT_EQ(history.reply_begin(), 3u);
}

// Whatever was done before, a history is what its tokens make it.
TEST(TokenHistory, AfterAnyTruncationItEqualsAFreshOne) {
  std::mt19937 random(1);
  TokenHistory history = Counting();
  std::vector<TokenId> tokens;
  size_t reply_begin = 0;
  for (int step = 0; step < 2000; ++step) {
    if (random() % 3 == 0) {
      tokens.resize(random() % (tokens.size() + 1));
      reply_begin = std::min(reply_begin, tokens.size());
      ASSERT_TRUE(history.Truncate(tokens.size()).ok());
    } else if (random() % 8 == 0) {
      reply_begin = tokens.size();
      history.StartReply();
    } else {
      std::vector<TokenId> more(std::min<size_t>(random() % 8, 100 - tokens.size()));
      for (TokenId& token : more) token = static_cast<TokenId>(random() % 10);
      tokens.insert(tokens.end(), more.begin(), more.end());
      Append(history, more);
    }
    TokenHistory fresh = Counting();
    Append(fresh, {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(reply_begin)});
    fresh.StartReply();
    Append(fresh, {tokens.begin() + static_cast<ptrdiff_t>(reply_begin), tokens.end()});
    ASSERT_THAT(history.tokens(), ElementsAreArray(tokens));
    ASSERT_EQ(history.hash(), fresh.hash());
    ASSERT_EQ(history.reply_begin(), fresh.reply_begin());
    ASSERT_THAT(history.distinct(), ElementsAreArray(fresh.distinct()));
    for (TokenId token = 0; token < 10; ++token) {
      ASSERT_EQ(history.CountOf(token), fresh.CountOf(token));
      ASSERT_EQ(history.ReplyCountOf(token), fresh.ReplyCountOf(token));
    }
  }
}

TEST(TokenHistory, TheHashOfAPrefixIsTheHashItHadThen) {
  TokenHistory history = Counting();
  std::vector<uint64_t> hashes = {history.hash()};
  for (const TokenId token : {5, 5, 0, 9, 0, 0}) {
    Append(history, {token});
    hashes.push_back(history.hash());
  }
  for (size_t length = 0; length < hashes.size(); ++length) {
    EXPECT_EQ(history.HashAt(length), hashes[length]);
  }
  EXPECT_EQ(std::set<uint64_t>(hashes.begin(), hashes.end()).size(), hashes.size());
}

// Client and server may be built years apart.
TEST(TokenHistory, TheHashIsTheOneTheHeaderDefines) {
  TokenHistory history = Counting();
  EXPECT_EQ(history.hash(), 0u);
  Append(history, {0});
  EXPECT_EQ(history.hash(), 0xe220a8397b1dcdafu);  // the first number of SplitMix64 from seed 0
  Append(history, {7, 9});
  EXPECT_EQ(history.hash(), 0x68a2f5281c2f1ad3u);
}

TEST(TokenHistory, HistoriesThatDifferHaveDifferentHashes) {
  absl::flat_hash_set<uint64_t> seen;
  TokenHistory history({.vocabulary_size = 100, .capacity = 3});
  for (TokenId a = 0; a < 100; ++a) {
    for (TokenId b = 0; b < 100; ++b) {
      Append(history, {a, b});
      EXPECT_TRUE(seen.insert(history.hash()).second) << a << ", " << b;
      Append(history, {0});
      EXPECT_TRUE(seen.insert(history.hash()).second) << a << ", " << b << ", 0";
      ASSERT_TRUE(history.Truncate(0).ok());
    }
  }
}

TEST(TokenHistory, AppendsAllOrNothing) {
  TokenHistory history = Counting(/*capacity=*/4);
  Append(history, {1, 2});
  const uint64_t hash = history.hash();
  for (const TokenId bad : {-1, 10, 2'147'483'647}) {
    const absl::Status status = history.Append(std::vector<TokenId>{3, bad});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Message(status), Concat("token ", bad, " is outside the vocabulary of 0 to 9"));
  }
  const absl::Status status = history.Append(std::vector<TokenId>{3, 4, 5});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(status), "a history of 2 tokens has no room for 3 more: its capacity is 4");
  EXPECT_THAT(history.tokens(), ElementsAre(1, 2));
  EXPECT_EQ(history.hash(), hash);
  EXPECT_EQ(history.CountOf(3), 0u);
  Append(history, {3, 4});
}

TEST(TokenHistory, CannotBeCutLonger) {
  TokenHistory history = Counting();
  Append(history, {1, 2});
  const absl::Status status = history.Truncate(3);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status), "a history of 2 tokens cannot be cut to 3");
  EXPECT_EQ(history.size(), 2u);
}

TEST(TokenHistory, AllocatesNothingOnceMade) {
  TokenHistory history = Counting(/*capacity=*/1000);
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0};
  const uint64_t before = AllocationCount();
  bool good = true;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 100; ++i) good &= history.Append(tokens).ok();
    history.StartReply();
    good &= history.Truncate(0).ok();
  }
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_TRUE(good);
}

}  // namespace
}  // namespace outrider
