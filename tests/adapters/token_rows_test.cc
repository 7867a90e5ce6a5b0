#include "adapters/text/token_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using Documents = std::vector<std::vector<TokenId>>;

constexpr TokenId kBegin = 1;
constexpr TokenId kEnd = 2;

// Every token says which document it is from and where it stands there.
Documents RandomDocuments(uint32_t seed) {
  std::mt19937 random(seed);
  Documents documents(1 + random() % 20);
  TokenId next = 100;
  for (auto& document : documents) {
    document.resize(random() % 40);
    for (TokenId& token : document) token = next++;
    next += 1000;
  }
  return documents;
}

struct Row {
  std::vector<int64_t> tokens, targets, documents;
};

Row RowAt(TokenRows& rows, uint64_t index) {
  Row row;
  for (auto* part : {&row.tokens, &row.targets, &row.documents}) part->resize(rows.row_length());
  rows.Get(index, row.tokens, row.targets, row.documents);
  return row;
}

// What all documents ask to be learned: what follows what.
std::multiset<std::pair<int64_t, int64_t>> Lessons(const Documents& documents,
                                                   std::optional<TokenId> begin,
                                                   std::optional<TokenId> end) {
  std::multiset<std::pair<int64_t, int64_t>> lessons;
  for (const auto& document : documents) {
    std::vector<TokenId> all;
    if (begin) all.push_back(*begin);
    all.insert(all.end(), document.begin(), document.end());
    if (end && !all.empty()) all.push_back(*end);
    for (size_t i = 1; i < all.size(); ++i) lessons.emplace(all[i - 1], all[i]);
  }
  return lessons;
}

TEST(TokenRows, EveryTokenIsLearnedOnceAnEpochAndNothingElse) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Documents documents = RandomDocuments(seed);
    const std::optional<TokenId> begin = seed % 2 == 0 ? std::optional(kBegin) : std::nullopt;
    const std::optional<TokenId> end = seed % 3 != 0 ? std::optional(kEnd) : std::nullopt;
    TokenRows rows(documents, begin, end, 1 + seed % 17, seed);
    const auto expected = Lessons(documents, begin, end);
    EXPECT_EQ(rows.target_count(), expected.size()) << "seed " << seed;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::multiset<std::pair<int64_t, int64_t>> learned;
      for (uint64_t i = 0; i < rows.row_count(); ++i) {
        const Row row = RowAt(rows, epoch * rows.row_count() + i);
        for (size_t at = 0; at < row.tokens.size(); ++at) {
          if (row.targets[at] != TokenRows::kNoTarget) {
            learned.emplace(row.tokens[at], row.targets[at]);
          }
        }
      }
      EXPECT_EQ(learned, expected) << "seed " << seed << " epoch " << epoch;
    }
  }
}

TEST(TokenRows, DocumentsStandTogetherUnderTheirOwnNumbers) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Documents documents = RandomDocuments(seed);
    TokenRows rows(documents, kBegin, kEnd, 16, seed);
    for (uint64_t i = 0; i < rows.row_count(); ++i) {
      const Row row = RowAt(rows, i);
      std::set<int64_t> closed;
      for (size_t at = 0; at < row.tokens.size(); ++at) {
        if (at > 0 && row.documents[at] != row.documents[at - 1]) {
          EXPECT_TRUE(closed.insert(row.documents[at - 1]).second) << "seed " << seed;
        }
        if (row.documents[at] < 0) continue;  // the rest of the last row
        EXPECT_FALSE(closed.contains(row.documents[at])) << "seed " << seed;
        const auto& document = documents[static_cast<size_t>(row.documents[at])];
        EXPECT_TRUE(row.tokens[at] == kBegin || std::ranges::count(document, row.tokens[at]) == 1);
      }
    }
  }
}

TEST(TokenRows, TheSeedDecidesAndEpochsDiffer) {
  Documents documents = RandomDocuments(3);
  documents.resize(12, {3, 4, 5, 6, 7, 8, 9});
  TokenRows a(documents, kBegin, kEnd, 8, 5), b(documents, kBegin, kEnd, 8, 5);
  TokenRows other(documents, kBegin, kEnd, 8, 6);
  ASSERT_GT(a.row_count(), 10u);
  bool epochs_differ = false, seeds_differ = false;
  // What a row is does not depend on what was asked before.
  for (uint64_t i = 3 * a.row_count(); i-- > 0;) RowAt(b, i);
  for (uint64_t i = 0; i < a.row_count(); ++i) {
    EXPECT_EQ(RowAt(a, i).tokens, RowAt(b, i).tokens);
    epochs_differ |= RowAt(a, i).tokens != RowAt(a, i + a.row_count()).tokens;
    seeds_differ |= RowAt(a, i).tokens != RowAt(other, i % other.row_count()).tokens;
  }
  EXPECT_TRUE(epochs_differ);
  EXPECT_TRUE(seeds_differ);
}

TEST(TokenRows, NoTextIsNoRows) {
  TokenRows rows(Documents{}, kBegin, kEnd, 8, 0);
  EXPECT_EQ(rows.row_count(), 0u);
  EXPECT_EQ(rows.target_count(), 0u);
}

TEST(Shuffle, IsTheSameOnEveryMachine) {
  std::vector<uint32_t> numbers = {0, 1, 2, 3, 4, 5, 6, 7};
  Shuffle(numbers, 42);
  std::vector<uint32_t> sorted = numbers;
  std::ranges::sort(sorted);
  EXPECT_THAT(sorted, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  std::map<std::vector<uint32_t>, int> seen;  // of three: six orders, each about as often
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    std::vector<uint32_t> three = {0, 1, 2};
    Shuffle(three, seed);
    ++seen[three];
  }
  EXPECT_EQ(seen.size(), 6u);
  // A count of 1000 expected deviates by 29; five deviations are an accident of one in a million.
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace outrider
