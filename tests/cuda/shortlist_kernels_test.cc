// Few logits of rows, found thread after thread: the noise is the contract's, scores are about what
// a race says, and lists are the first of a row in its own order.
#include "common/cuda/kernels/shortlist_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "common/cuda/block/emulated_block.h"
#include "common/tokens/noise.h"
#include "gtest/gtest.h"
#include "tests/cuda/rows_and_bits.h"

namespace outrider::gpu {
namespace {

RowWish RaceOf(float temperature, uint64_t seed, uint32_t count) {
  return {.count = count,
          .races = 1,
          .temperature = temperature,
          .key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
          .sample = 3,
          .index = 77};
}

TEST(ShortlistKernels, NoiseIsTheChoosers) {
  const uint64_t seed = 0x123456789abcdef0;
  const Noise noise(seed, 3, 77);
  for (uint32_t block = 0; block < 1000; ++block) {
    const NoiseWords words = NoiseWords::Of(RaceOf(1.0f, seed, 1), block);
    EXPECT_TRUE(std::ranges::equal(words.at, noise.Words(block))) << block;
  }
}

// Over all sizes of noise, the smallest ones too, which win.
TEST(ShortlistKernels, ScoresAreRoughlyThoseOfTheRace) {
  constexpr uint32_t kLength = 40001;
  const std::vector<float> logits = Outlying(kLength, 5);
  const float largest = *std::ranges::max_element(logits);
  const BestLogit best = {largest, 0, true};
  for (const float temperature : {0.3f, 1.0f, 20.0f}) {
    const RowWish wish = RaceOf(temperature, 11, 1);
    std::vector<float> scores(kLength, 1.0f);
    const RaceRows body = {logits.data(), &best, &wish, scores.data(), kLength};
    Emulate(body, 1, body.grid_y());
    const Noise noise(11, 3, 77);
    for (uint32_t i = 0; i < kLength; ++i) {
      const double expected =
          (static_cast<double>(logits[i]) - static_cast<double>(largest)) / double{temperature} -
          std::log(noise.ExponentialOf(static_cast<TokenId>(i)));
      ASSERT_NEAR(scores[i], expected, 1e-6 * (10 + std::fabs(expected))) << i;
    }
  }
}

TEST(ShortlistKernels, ARowThatDoesNotRaceHasNoScores) {
  const std::vector<float> logits(8, 1.0f);
  const BestLogit best = {1.0f, 0, true};
  const RowWish wish = {.count = 2};
  std::vector<float> scores(8, -7.0f);
  const RaceRows body = {logits.data(), &best, &wish, scores.data(), 8};
  Emulate(body, 1, body.grid_y());
  EXPECT_EQ(scores, std::vector<float>(8, -7.0f));
}

struct List {
  std::vector<uint32_t> tokens;
  std::vector<float> logits;
  float last_score;
};

constexpr uint32_t kListLength = 70;

List ListOf(const std::vector<float>& logits, const std::vector<float>& scores,
            const RowWish& wish) {
  std::vector<ListedLogit> listed(kListLength, {UINT32_MAX, 0.0f});
  List list = {};
  Emulate(ShortlistRows{.logits = logits.data(),
                        .scores = scores.data(),
                        .wishes = &wish,
                        .listed = listed.data(),
                        .last_scores = &list.last_score,
                        .length = static_cast<uint32_t>(logits.size()),
                        .list_length = kListLength},
          1, 1);
  for (const ListedLogit& one : listed) {
    if (one.token == UINT32_MAX) break;
    list.tokens.push_back(one.token);
    list.logits.push_back(one.logit);
  }
  return list;
}

// Of equal ones the lowest ids; both zeros are equal.
List Expected(const std::vector<float>& logits, const std::vector<float>& values, uint32_t count) {
  std::vector<uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0u);
  std::ranges::stable_sort(ids, [&](uint32_t a, uint32_t b) { return values[a] > values[b]; });
  List list = {{}, {}, -Infinity()};
  if (count < ids.size()) list.last_score = values[ids[count - 1]];
  ids.resize(std::min<size_t>(count, ids.size()));
  std::ranges::sort(ids);
  for (const uint32_t id : ids) list.logits.push_back(logits[id]);
  list.tokens = ids;
  return list;
}

TEST(ShortlistKernels, ListsAreTheFirstOfARow) {
  for (const uint32_t length : {1u, 6u, 64u, 1023u, 1024u, 1025u, 5000u}) {
    for (const uint32_t count : {1u, 2u, 40u, 70u}) {
      for (int kind = 0; kind < 4; ++kind) {
        std::vector<float> logits = Numbers(length + count).Gaussians(length, 2.0f);
        if (kind == 1) std::ranges::fill(logits, -1.5f);
        for (uint32_t i = 0; i < length; ++i) {
          if (kind == 2) logits[i] = i % 2 == 0 ? 0.0f : -0.0f;
          if (kind == 3) logits[i] = i % 50 == 7 ? static_cast<float>(i % 3) : -Infinity();
        }
        const std::vector<float> scores = Numbers(length).Gaussians(length, 5.0f);
        for (const bool races : {false, true}) {
          const RowWish wish = {.count = count, .races = races ? 1u : 0u};
          const List actual = ListOf(logits, scores, wish);
          const List expected = Expected(logits, races ? scores : logits, count);
          const std::string what = std::to_string(count) + " of " + std::to_string(length) +
                                   ", kind " + std::to_string(kind);
          ASSERT_EQ(actual.tokens, expected.tokens) << what;
          ASSERT_EQ(actual.logits, expected.logits) << what;
          ASSERT_EQ(actual.last_score, expected.last_score) << what;
        }
      }
    }
  }
}

}  // namespace
}  // namespace outrider::gpu
