#include "common/tokens/truncation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

std::vector<TokenId> IdsOf(const std::vector<Candidate>& candidates) {
  std::vector<TokenId> ids;
  for (const Candidate& candidate : candidates) ids.push_back(candidate.token);
  return ids;
}

std::vector<TokenId> PlainTopK(const std::vector<float>& logits, size_t k) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] != kImpossible) ids.push_back(static_cast<TokenId>(i));
  }
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  ids.resize(std::min(ids.size(), k));
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(Truncation, TopKIsTheFirstKInAscendingId) {
  std::mt19937 random(1);
  for (const size_t size : {1, 31, 32, 33, 1000, 3000}) {
    for (int round = 0; round < 60; ++round) {
      std::vector<float> logits(size);
      const uint32_t values = 1 + static_cast<uint32_t>(random() % 2000);  // few: many ties
      for (float& z : logits) {
        z = random() % 9 == 0 ? kImpossible : static_cast<float>(random() % values);
      }
      const size_t k = 1 + random() % (round % 2 == 0 ? size : 1 + size / 40);
      std::vector<Candidate> candidates;
      candidates.reserve(size);
      KeepTopK(logits, k, static_cast<float>(values), 1, candidates);
      ASSERT_EQ(IdsOf(candidates), PlainTopK(logits, k)) << k << " of " << size;
    }
  }
}

// The definition says in which order the sums run, because it can matter: 1 and four times a little
// less than 2^-53 are 1 when the large one comes first, and 1 + 2^-51 when it comes last.
TEST(Truncation, TopPSumsInTheOrderItIsDefinedIn) {
  const double little = 0x1.fffffp-54;
  const double almost_all = 1 - 0x1p-53;
  std::vector<Candidate> large_last;
  for (TokenId token = 0; token < 4; ++token) large_last.push_back({token, -37, little});
  large_last.push_back({4, 0, 1});
  std::vector<Candidate> large_first = {{0, 0, 1}};
  for (TokenId token = 1; token < 5; ++token) large_first.push_back({token, -37, little});

  KeepTopP(almost_all, large_last);  // total 1 + 2^-51, and the growing sum stays at 1
  EXPECT_EQ(large_last.size(), 5u);
  KeepTopP(almost_all, large_first);  // total 1
  EXPECT_EQ(IdsOf(large_first), std::vector<TokenId>{0});
}

// Far more tokens than one chunk, all of equal weight: the lowest ids are kept, exactly the share
// asked for.
TEST(Truncation, TopPOfEqualTokensKeepsTheLowestIds) {
  for (const double top_p : {0.001, 0.25, 0.5, 0.999}) {
    std::vector<Candidate> candidates;
    for (TokenId token = 0; token < 8192; ++token) candidates.push_back({token, 1, 1});
    KeepTopP(top_p, candidates);
    std::vector<TokenId> ids = IdsOf(candidates);
    std::sort(ids.begin(), ids.end());
    const size_t expected = static_cast<size_t>(std::ceil(top_p * 8192));
    ASSERT_EQ(ids.size(), expected);
    EXPECT_EQ(ids.back(), static_cast<TokenId>(expected - 1));
  }
}

}  // namespace
}  // namespace outrider
